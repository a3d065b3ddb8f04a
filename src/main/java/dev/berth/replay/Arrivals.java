// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;

/** Where requests come from, on virtual time. Request tags count from 0 in the order of sending. */
public interface Arrivals {
  /** Requests in all. */
  int total();

  /** Requests sent so far. */
  int sent();

  /**
   * How many of the next requests are visible now.
   *
   * @param gather gathers so far
   * @param nowMicros virtual time
   * @param ended requests that ended so far, refused ones included
   */
  int due(long gather, double nowMicros, long ended);

  /** The next request. */
  Request next();

  /**
   * When the next request becomes visible if nothing ends before: virtual µs, negative infinity for
   * "at a gather to come", positive infinity for "never".
   */
  double nextAtMicros(long gather);
}
