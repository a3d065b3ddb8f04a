// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

/**
 * How many requests each attention-DP rank holds, as gathered. The admission view: retiring
 * requests are not in it where they are excluded (spec 01 §2.1).
 */
public interface RankOccupancy {
  /** Number of ranks, 1 or more. */
  int ranks();

  /**
   * Routable active requests of a rank, 0 or more.
   *
   * @param rank 0 .. {@code ranks() - 1}
   */
  int activeRequests(int rank);
}
