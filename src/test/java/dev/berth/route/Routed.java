// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import java.util.ArrayList;
import java.util.List;

/** One routing call and its result in plain lists of request ids. */
record Routed(List<List<Long>> ranks, List<Long> unassigned, int expectedActive) {

  static Routed by(AdpRouter router, RankLoads loads, List<Request> requests, int cap) {
    return by(router, loads, requests, PrefixMatches.NONE, cap);
  }

  static Routed by(
      AdpRouter router, RankLoads loads, List<Request> requests, PrefixMatches matches, int cap) {
    var batch = new RequestBatch();
    requests.forEach(batch::add);
    var out = new Assignment();
    router.route(loads, batch, matches, cap, out);
    return of(out, batch);
  }

  static Routed of(Assignment out, RequestBatch batch) {
    var ranks = new ArrayList<List<Long>>();
    for (int rank = 0; rank < out.ranks(); rank++) {
      var ids = new ArrayList<Long>();
      for (int position = 0; position < out.size(rank); position++) {
        ids.add(batch.get(out.get(rank, position)).id());
      }
      ranks.add(ids);
    }
    var unassigned = new ArrayList<Long>();
    for (int position = 0; position < out.unassignedSize(); position++) {
      unassigned.add(batch.get(out.unassigned(position)).id());
    }
    return new Routed(ranks, unassigned, out.expectedActive());
  }

  static RankLoads loads(int[] active, long[] tokens) {
    var states = new ArrayList<RankState>();
    for (int rank = 0; rank < active.length; rank++) {
      states.add(RankState.of(rank, active[rank], tokens[rank], 0));
    }
    return RankLoads.of(states);
  }
}
