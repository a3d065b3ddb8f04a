// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;

/**
 * A trace's lengths without its times: a client keeps {@code concurrency} requests in the system
 * until all are sent. The trace is repeated where more are asked for.
 */
public final class ClosedTraceArrivals implements Arrivals {
  private final Trace trace;
  private final int concurrency;
  private final int total;
  private int sent;

  /**
   * Nothing sent yet.
   *
   * @param concurrency most requests in the system at once, 1 or more
   * @param total requests to send, 1 or more
   */
  public ClosedTraceArrivals(Trace trace, int concurrency, int total) {
    if (concurrency < 1 || total < 1) {
      throw new IllegalArgumentException("concurrency " + concurrency + ", requests " + total);
    }
    this.trace = trace;
    this.concurrency = concurrency;
    this.total = total;
  }

  @Override
  public int total() {
    return total;
  }

  @Override
  public int sent() {
    return sent;
  }

  @Override
  public int due(long gather, double nowMicros, long ended) {
    return (int) Math.max(0, Math.min(total - sent, concurrency - (sent - ended)));
  }

  @Override
  public Request next() {
    return TraceArrivals.request(trace, sent++);
  }

  @Override
  public double nextAtMicros(long gather) {
    return Double.POSITIVE_INFINITY;
  }
}
