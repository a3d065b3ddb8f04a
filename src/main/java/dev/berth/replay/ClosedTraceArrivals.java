// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;

/**
 * A trace's lengths without its times: a client keeps a number of requests in the system until all
 * are sent. The trace is repeated where more are asked for.
 */
public final class ClosedTraceArrivals extends ClosedArrivals {
  private final Trace trace;

  /**
   * Nothing sent yet.
   *
   * @param concurrency most requests in the system at once, 1 or more
   * @param total requests to send, 1 or more
   */
  public ClosedTraceArrivals(Trace trace, int concurrency, int total) {
    super(concurrency, total);
    this.trace = trace;
  }

  @Override
  Request request(int number) {
    return trace.request(number);
  }
}
