// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.RequestBatch;

/**
 * Gives the matches of a batch that is about to be routed, for routers that use them. In an engine
 * every rank must be given the same: gathered probes, or an index that all ranks keep alike.
 */
@FunctionalInterface
public interface MatchSource {
  /** Nothing is known of any cache. */
  MatchSource NONE = (batch, ranks) -> PrefixMatches.NONE;

  /** The matches of a batch's requests on that many ranks; lent until the next call. */
  PrefixMatches of(RequestBatch batch, int ranks);
}
