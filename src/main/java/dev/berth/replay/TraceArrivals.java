// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;

/**
 * A trace's requests at the trace's times. More requests than the trace has: it is sent again and
 * again, each time later by its span and one mean gap, so that the rate stays what it was.
 */
public final class TraceArrivals implements TimedArrivals {
  private final Trace trace;
  private final double speedup;
  private final int total;
  private final double periodMicros;
  private int sent;
  private int visible;

  /**
   * Nothing sent yet.
   *
   * @param speedup how many times faster than the trace requests arrive, above 0
   * @param total requests to send, 1 or more
   */
  public TraceArrivals(Trace trace, double speedup, int total) {
    if (!(speedup > 0) || speedup == Double.POSITIVE_INFINITY || total < 1) {
      throw new IllegalArgumentException("speedup " + speedup + ", requests " + total);
    }
    this.trace = trace;
    this.speedup = speedup;
    this.total = total;
    int gaps = trace.requests() - 1;
    this.periodMicros = gaps == 0 ? 0 : trace.spanMicros() * (gaps + 1) / gaps;
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
    while (visible < total && arrivedAt(visible) <= nowMicros) {
      visible++;
    }
    return visible - sent;
  }

  @Override
  public Request next() {
    Request request = request(trace, sent);
    sent++;
    visible = Math.max(visible, sent);
    return request;
  }

  /** Request {@code tag} of a trace that is repeated without end. */
  static Request request(Trace trace, int tag) {
    int index = tag % trace.requests();
    return Request.of(tag, trace.promptTokens(index), trace.outputTokens(index)).withTag(tag);
  }

  @Override
  public double arrivedAt(int tag) {
    int cycle = tag / trace.requests();
    return (cycle * periodMicros + trace.arrivalMicros(tag % trace.requests())) / speedup;
  }

  @Override
  public double nextAtMicros(long gather) {
    return sent < total ? arrivedAt(sent) : Double.POSITIVE_INFINITY;
  }
}
