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
   * Routes one batch. Allocates nothing once the working memory has grown to the largest call.
   *
   * @param loads the gathered states, not changed
   * @param batch new requests in arrival order, not changed
   * @param cap K of spec 01 §3.1: most requests on one rank, 1 or more
   * @param out overwritten with the result; left alone if the call throws
   * @throws dev.berth.BerthException {@code ARGUMENT} if there are no ranks, {@code cap} is below
   *     1, or a request names a target rank that doesn't exist
   */
  void route(RankLoads loads, RequestBatch batch, int cap, Assignment out);

  /** Stable name of the policy, as scenarios and decision logs spell it. */
  String name();
}
