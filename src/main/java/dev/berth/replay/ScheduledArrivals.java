// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;

/** Arrivals at times that are known in advance, in order. */
abstract class ScheduledArrivals implements TimedArrivals {
  private final int total;
  private int sent;
  private int visible;

  /** Nothing sent yet. */
  ScheduledArrivals(int total) {
    this.total = total;
  }

  /** The request with that number, 0 to total - 1; asked for once each, in order. */
  abstract Request request(int number);

  /** When it arrives, virtual µs; never before the one ahead of it. */
  abstract double at(int number);

  @Override
  public final int total() {
    return total;
  }

  @Override
  public final int sent() {
    return sent;
  }

  @Override
  public final int due(long gather, double nowMicros, long ended) {
    while (visible < total && at(visible) <= nowMicros) {
      visible++;
    }
    return visible - sent;
  }

  @Override
  public final Request next() {
    Request request = request(sent);
    sent++;
    visible = Math.max(visible, sent);
    return request;
  }

  @Override
  public final double nextAtMicros(long gather) {
    return sent < total ? at(sent) : Double.POSITIVE_INFINITY;
  }
}
