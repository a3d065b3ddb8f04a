// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.Arrays;

/** Virtual times of every request, by tag. */
public final class RequestTimes {
  private final double[] arrived;
  private final double[] first;
  private final double[] ended;
  private final int[] tokens;

  RequestTimes(int requests) {
    arrived = new double[requests];
    first = new double[requests];
    ended = new double[requests];
    tokens = new int[requests];
    Arrays.fill(first, Double.NaN);
    Arrays.fill(ended, Double.NaN);
  }

  void arrived(int tag, double at) {
    arrived[tag] = at;
  }

  void firstToken(int tag, double at) {
    if (Double.isNaN(first[tag])) {
      first[tag] = at;
    }
  }

  void ended(int tag, double at, int outputTokens) {
    ended[tag] = at;
    tokens[tag] = outputTokens;
  }

  /** When a request arrived. */
  public double arrivedAt(int tag) {
    return arrived[tag];
  }

  /** When its first token was there, NaN if it never was. */
  public double firstTokenAt(int tag) {
    return first[tag];
  }

  /** When it ended, NaN if it never did. */
  public double endedAt(int tag) {
    return ended[tag];
  }

  /** Time to first token of all requests that got one, µs, ascending. */
  public double[] timeToFirstToken() {
    return sorted((tag) -> first[tag] - arrived[tag]);
  }

  /** Time per output token after the first, of all requests with two tokens or more, µs, ascending. */
  public double[] timePerOutputToken() {
    return sorted((tag) -> tokens[tag] > 1 ? (ended[tag] - first[tag]) / (tokens[tag] - 1) : Double.NaN);
  }

  /** Time from arrival to end, µs, ascending. */
  public double[] endToEnd() {
    return sorted((tag) -> ended[tag] - arrived[tag]);
  }

  private double[] sorted(java.util.function.IntToDoubleFunction value) {
    double[] all = new double[arrived.length];
    int n = 0;
    for (int tag = 0; tag < all.length; tag++) {
      double v = value.applyAsDouble(tag);
      if (!Double.isNaN(v)) {
        all[n++] = v;
      }
    }
    double[] kept = Arrays.copyOf(all, n);
    Arrays.sort(kept);
    return kept;
  }

  /** Nearest-rank percentile of ascending values, NaN if there are none. */
  public static double percentile(double[] ascending, double percent) {
    if (ascending.length == 0) {
      return Double.NaN;
    }
    int rank = (int) Math.ceil(percent / 100 * ascending.length);
    return ascending[Math.clamp(rank - 1, 0, ascending.length - 1)];
  }
}
