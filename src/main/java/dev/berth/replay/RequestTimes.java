// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.Arrays;

/** Virtual times of every request, by tag. */
public final class RequestTimes {
  /** Java heap that a replay takes for a request: its times, and its place while it waits. */
  private static final int BYTES_PER_REQUEST = 64;

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

  /** Most requests that this Java heap has room for. */
  public static int mostRequests() {
    return Math.clamp(
        Runtime.getRuntime().maxMemory() / BYTES_PER_REQUEST, 1, Integer.MAX_VALUE - 8);
  }

  /**
   * Times of requests that went through two stages.
   *
   * @param before first tokens, and ends of requests that stay out of the second stage
   * @param after ends in the second stage
   * @param sent tags of the requests that went on
   */
  static RequestTimes chained(RequestTimes before, RequestTimes after, int[] sent) {
    var times = new RequestTimes(before.arrived.length);
    System.arraycopy(before.arrived, 0, times.arrived, 0, before.arrived.length);
    System.arraycopy(before.first, 0, times.first, 0, before.first.length);
    System.arraycopy(before.ended, 0, times.ended, 0, before.ended.length);
    System.arraycopy(before.tokens, 0, times.tokens, 0, before.tokens.length);
    for (int tag : sent) {
      times.ended[tag] = after.ended[tag];
      times.tokens[tag] = after.tokens[tag];
    }
    return times;
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

  /** Output tokens of all requests that ended. */
  public long outputTokens() {
    long sum = 0;
    for (int tag = 0; tag < tokens.length; tag++) {
      sum += Double.isNaN(ended[tag]) ? 0 : tokens[tag];
    }
    return sum;
  }

  /** Time to first token of all requests that got one, µs, ascending. */
  public double[] timeToFirstToken() {
    return sorted(tag -> first[tag] - arrived[tag]);
  }

  /**
   * Time per output token after the first, of all requests with two tokens or more, µs, ascending.
   */
  public double[] timePerOutputToken() {
    return sorted(
        tag -> tokens[tag] > 1 ? (ended[tag] - first[tag]) / (tokens[tag] - 1) : Double.NaN);
  }

  /** Time from arrival to end, µs, ascending. */
  public double[] endToEnd() {
    return sorted(tag -> ended[tag] - arrived[tag]);
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
