// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;

/**
 * A trace's requests at the trace's times. More requests than the trace has: it is sent again and
 * again, each time later by its span and one mean gap, so that the rate stays what it was.
 */
public final class TraceArrivals extends ScheduledArrivals {
  private final Trace trace;
  private final double speedup;
  private final double periodMicros;

  /**
   * Nothing sent yet.
   *
   * @param speedup how many times faster than the trace requests arrive, above 0
   * @param total requests to send, 1 or more
   */
  public TraceArrivals(Trace trace, double speedup, int total) {
    super(total);
    if (!(speedup > 0) || speedup == Double.POSITIVE_INFINITY || total < 1) {
      throw new IllegalArgumentException("speedup " + speedup + ", requests " + total);
    }
    this.trace = trace;
    this.speedup = speedup;
    int gaps = trace.requests() - 1;
    this.periodMicros = gaps == 0 ? 0 : trace.spanMicros() * (gaps + 1) / gaps;
  }

  @Override
  Request request(int number) {
    return trace.request(number);
  }

  @Override
  double at(int number) {
    int cycle = number / trace.requests();
    return (cycle * periodMicros + trace.arrivalMicros(number % trace.requests())) / speedup;
  }

  /** Requests are sent in the order of their tags. */
  @Override
  public double arrivedAt(int tag) {
    return at(tag);
  }
}
