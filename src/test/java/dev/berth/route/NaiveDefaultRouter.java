// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;

/** The default router once more, as spec 01 §4.1 and §4.2 tell it, in plain collections. */
final class NaiveDefaultRouter {
  private record Load(long tokens, int requests, int rank) {
    static final Comparator<Load> LEAST =
        Comparator.comparingLong(Load::tokens)
            .thenComparingInt(Load::requests)
            .thenComparingInt(Load::rank);
  }

  private NaiveDefaultRouter() {}

  static Routed route(
      int[] before, long[] tokens, List<Request> arrived, int cap, RankCap rankCap) {
    long limit = rankCap == RankCap.HARD ? cap : Long.MAX_VALUE;
    int[] active = before.clone();
    List<List<Long>> ranks = new ArrayList<>();
    for (int rank = 0; rank < active.length; rank++) {
      ranks.add(new ArrayList<>());
    }

    List<Request> byRelax = new ArrayList<>(arrived);
    byRelax.sort(Comparator.comparing(NaiveDefaultRouter::mayGoElsewhere));
    List<Request> remainder = new ArrayList<>();
    for (Request request : byRelax) {
      int target = request.scheduling().targetRank();
      if (target != SchedulingParams.NO_RANK && active[target] < limit) {
        ranks.get(target).add(request.id());
        active[target]++;
      } else {
        remainder.add(request);
      }
    }

    long total = 0;
    long highest = 0;
    for (int count : active) {
      total += count;
      highest = Math.max(highest, count);
    }
    long share = (total + remainder.size() + active.length - 1) / active.length;
    long expected = Math.min(Math.max(share, highest), limit);

    PriorityQueue<Load> heap = new PriorityQueue<>(Load.LEAST);
    for (int rank = 0; rank < active.length; rank++) {
      if (active[rank] < expected) {
        heap.add(new Load(tokens[rank], active[rank], rank));
      }
    }
    remainder.sort(Comparator.comparingInt(Request::promptTokens).reversed());
    List<Request> left = new ArrayList<>();
    for (Request request : remainder) {
      Load least = heap.poll();
      if (least == null) {
        left.add(request);
        continue;
      }
      ranks.get(least.rank()).add(request.id());
      if (least.requests() + 1 < expected) {
        heap.add(
            new Load(least.tokens() + request.promptTokens(), least.requests() + 1, least.rank()));
      }
    }
    List<Long> unassigned = arrived.stream().filter(left::contains).map(Request::id).toList();
    return new Routed(ranks, unassigned, (int) expected);
  }

  private static boolean mayGoElsewhere(Request request) {
    SchedulingParams wishes = request.scheduling();
    return !wishes.present()
        || wishes.targetRank() == SchedulingParams.NO_RANK
        || wishes.relax() != Relax.STRICT;
  }
}
