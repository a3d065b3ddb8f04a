// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.random.RandomGenerator;

/**
 * One random routing call: mostly within budget, sometimes over it, with ties in every key. Ids of
 * requests go on from call to call.
 */
record RandomCall(
    int[] active,
    long[] tokens,
    int[] retiring,
    Set<Integer> closed,
    List<Request> requests,
    Map<Long, int[]> matches,
    int cap) {
  private static final Relax[] RELAX = Relax.values();

  static RandomCall random(RandomGenerator random, long firstId, int ranks) {
    int cap = 1 + random.nextInt(12);
    int spread = 1 + random.nextInt(200);
    int[] active = new int[ranks];
    long[] tokens = new long[ranks];
    int[] retiring = new int[ranks];
    var closed = new TreeSet<Integer>();
    boolean closing = random.nextInt(4) == 0;
    boolean idle = random.nextInt(6) == 0;
    int room = 0;
    for (int rank = 0; rank < ranks; rank++) {
      if (!idle) {
        active[rank] = random.nextInt(cap + 1) + (random.nextInt(10) == 0 ? 3 : 0);
        tokens[rank] = random.nextInt(4) == 0 ? 0 : random.nextInt(spread * 3);
      }
      retiring[rank] = random.nextInt(3) == 0 ? random.nextInt(cap + 1) : 0;
      if (closing && random.nextInt(3) == 0) {
        closed.add(rank);
      } else {
        room += cap - active[rank];
      }
    }
    boolean over = random.nextInt(6) == 0;
    int count = over ? random.nextInt(ranks * cap + 5) : random.nextInt(Math.max(room, 0) + 1);
    int targeted = random.nextInt(4);
    int prefixes = 1 + random.nextInt(4);
    int conversations = 1 + random.nextInt(12);
    boolean matching = random.nextBoolean();
    var requests = new ArrayList<Request>();
    var matches = new HashMap<Long, int[]>();
    for (int i = 0; i < count; i++) {
      int size = random.nextInt(spread);
      Request plain =
          Request.of(firstId + i, size, 1).withRoute(key(random, size, prefixes, conversations));
      requests.add(
          switch (random.nextInt(4)) {
            case 0 -> plain;
            case 1 -> plain.withScheduling(SchedulingParams.untargeted(relax(random)));
            default ->
                random.nextInt(3) < targeted
                    ? plain.withScheduling(
                        SchedulingParams.target(random.nextInt(ranks), relax(random)))
                    : plain;
          });
      int[] row = new int[ranks];
      for (int rank = 0; matching && rank < ranks; rank++) {
        row[rank] = random.nextInt(3) == 0 ? random.nextInt(size + 3) / 4 * 4 : 0;
      }
      matches.put(firstId + i, row);
    }
    return new RandomCall(active, tokens, retiring, closed, requests, matches, cap);
  }

  /** Prompts begin with one of a few prefixes, go on for a while, and differ at some place. */
  private static RouteKey key(RandomGenerator random, int size, int prefixes, int conversations) {
    int[] head = new int[Math.min(size, RouteKey.HEAD_TOKENS + random.nextInt(3))];
    Arrays.fill(head, 100 * random.nextInt(prefixes));
    if (head.length > 0 && random.nextBoolean()) {
      head[random.nextInt(head.length)] =
          random.nextInt(9) == 0 ? Integer.MAX_VALUE : random.nextInt(500);
    }
    RouteKey key = random.nextInt(8) == 0 ? RouteKey.NONE : RouteKey.prompt(head);
    if (random.nextInt(4) > 0) {
      key = key.withConversation("c" + random.nextInt(conversations));
    }
    return random.nextInt(5) == 0 ? key.withSubagent("s" + random.nextInt(conversations)) : key;
  }

  private static Relax relax(RandomGenerator random) {
    return RELAX[random.nextInt(RELAX.length)];
  }

  int match(Request request, int rank) {
    return Objects.requireNonNull(matches.get(request.id()))[rank];
  }

  RankLoads loads() {
    var states = new ArrayList<RankState>();
    for (int rank = 0; rank < active.length; rank++) {
      states.add(RankState.of(rank, active[rank], tokens[rank], retiring[rank]));
    }
    RankLoads loads = RankLoads.of(states);
    closed.forEach(loads::close);
    return loads;
  }

  RequestBatch batch() {
    var batch = new RequestBatch();
    requests.forEach(batch::add);
    return batch;
  }

  PrefixMatches table() {
    var table = new PrefixMatches();
    table.begin(requests.size(), active.length);
    for (int item = 0; item < requests.size(); item++) {
      for (int rank = 0; rank < active.length; rank++) {
        table.set(item, rank, match(requests.get(item), rank));
      }
    }
    return table;
  }

  Routed by(AdpRouter router) {
    return Routed.by(router, loads(), requests, table(), cap);
  }

  @Override
  public String toString() {
    return "active %s, tokens %s, retiring %s, closed %s, cap %d, requests %s"
        .formatted(
            Arrays.toString(active),
            Arrays.toString(tokens),
            Arrays.toString(retiring),
            closed,
            cap,
            requests);
  }
}
