// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;

/** A client that keeps a number of requests in the system until all are sent. */
abstract class ClosedArrivals implements Arrivals {
  private final int concurrency;
  private final int total;
  private int sent;

  /**
   * Nothing sent yet.
   *
   * @param concurrency most requests in the system at once, 1 or more
   * @param total requests to send, 1 or more
   */
  ClosedArrivals(int concurrency, int total) {
    if (concurrency < 1 || total < 1) {
      throw new IllegalArgumentException("concurrency " + concurrency + ", requests " + total);
    }
    this.concurrency = concurrency;
    this.total = total;
  }

  /** The request with that number, 0 to total - 1; asked for once each, in order. */
  abstract Request request(int number);

  @Override
  public final int total() {
    return total;
  }

  @Override
  public final int sent() {
    return sent;
  }

  @Override
  public int due(long gather, double nowMicros, long ended) {
    return (int) Math.max(0, Math.min(total - sent, concurrency - (sent - ended)));
  }

  @Override
  public final Request next() {
    return request(sent++);
  }

  @Override
  public double nextAtMicros(long gather) {
    return Double.POSITIVE_INFINITY;
  }
}
