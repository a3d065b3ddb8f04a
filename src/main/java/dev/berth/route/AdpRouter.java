// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.RequestBatch;

/**
 * Places a batch of new requests on attention-DP ranks. Every rank runs the router locally on the
 * same input, so the result is a function of the arguments (and, for routers with memory, of the
 * earlier calls) and of nothing else.
 *
 * <p>Routers read neither priorities nor children: a request is one, whatever it costs in admission
 * budget (spec 01 §4.1). Instances keep working memory between calls and aren't thread-safe.
 */
public interface AdpRouter {
  /**
   * Routes one batch. Allocates nothing once the working memory has grown to the largest call. A
   * call that throws changes nothing.
   *
   * @param loads the gathered states, not changed
   * @param batch new requests in arrival order, not changed
   * @param matches what each rank's cache holds of each prompt, not changed; {@link
   *     PrefixMatches#NONE} where it wasn't gathered. Most routers don't look at it
   * @param cap K of spec 01 §3.1: most requests on one rank, 1 or more
   * @param out overwritten with the result; left alone if the call throws
   * @throws dev.berth.BerthException {@code ARGUMENT} if there are no ranks, {@code cap} is below
   *     1, a request names a target rank that doesn't exist, or the matches are those of other
   *     requests or ranks
   */
  void route(RankLoads loads, RequestBatch batch, PrefixMatches matches, int cap, Assignment out);

  /** Routes one batch without matches. */
  default void route(RankLoads loads, RequestBatch batch, int cap, Assignment out) {
    route(loads, batch, PrefixMatches.NONE, cap, out);
  }

  /** Whether matches are worth gathering for a batch that isn't empty (spec 01 §4.3). */
  default boolean usesMatches() {
    return false;
  }

  /** Stable name of the policy, as scenarios and decision logs spell it. */
  String name();
}
