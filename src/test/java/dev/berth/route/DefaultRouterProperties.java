// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.SchedulingParams;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The router against its naive model on random calls, and what holds for every call. */
class DefaultRouterProperties {
  private static final Relax[] RELAX = Relax.values();

  /** One random call: mostly within budget, sometimes over it, with ties in every key. */
  private record Call(int[] active, long[] tokens, List<Request> requests, int cap) {

    static Call random(RandomGenerator random) {
      int ranks = 1 + random.nextInt(random.nextInt(8) == 0 ? 40 : 9);
      int cap = 1 + random.nextInt(12);
      int spread = 1 + random.nextInt(200);
      int[] active = new int[ranks];
      long[] tokens = new long[ranks];
      int room = ranks * cap;
      for (int rank = 0; rank < ranks; rank++) {
        active[rank] = random.nextInt(cap + 1) + (random.nextInt(10) == 0 ? 3 : 0);
        tokens[rank] = random.nextInt(4) == 0 ? 0 : random.nextInt(spread * 3);
        room -= active[rank];
      }
      boolean over = random.nextInt(6) == 0;
      int count = over ? random.nextInt(ranks * cap + 5) : random.nextInt(Math.max(room, 0) + 1);
      int targeted = random.nextInt(4);
      int longest = random.nextInt(20) == 0 ? Integer.MAX_VALUE : spread;
      var requests = new ArrayList<Request>();
      for (int i = 0; i < count; i++) {
        Request plain = Request.of(1000 + i, random.nextInt(longest), 1);
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
      }
      return new Call(active, tokens, requests, cap);
    }

    private static Relax relax(RandomGenerator random) {
      return RELAX[random.nextInt(RELAX.length)];
    }

    int budget() {
      int routable = 0;
      for (int count : active) {
        routable += count;
      }
      return active.length * cap - routable;
    }

    Routed by(AdpRouter router) {
      return Routed.by(router, Routed.loads(active, tokens), requests, cap);
    }
  }

  @Test
  void routesAsTheNaiveModelOnTwentyFiveThousandCalls() {
    compare(25_000);
  }

  @Test
  @Tag("deep")
  void routesAsTheNaiveModelOnAMillionCalls() {
    compare(1_000_000);
  }

  /** Both routers live through all calls, so that memory of an earlier call would show. */
  private static void compare(int calls) {
    RandomGenerator random = Seeds.generator(Seeds.seed("DefaultRouterProperties"));
    var capped = new DefaultRouter();
    var open = new DefaultRouter(RankCap.OFF);
    int exhausted = 0;
    int beyondSmallSort = 0;
    for (int i = 0; i < calls; i++) {
      Call call = Call.random(random);
      Routed routed = call.by(capped);
      assertThat(routed).as("call %d: %s", i, call).isEqualTo(naive(call, RankCap.HARD));
      assertThat(call.by(open)).as("call %d: %s", i, call).isEqualTo(naive(call, RankCap.OFF));
      assertHolds(call, routed);
      exhausted += routed.unassigned().isEmpty() ? 0 : 1;
      beyondSmallSort += call.requests().size() > 100 ? 1 : 0;
    }
    assertThat(exhausted).as("calls over budget").isGreaterThan(calls / 100);
    assertThat(beyondSmallSort).as("calls that sort by radix").isGreaterThan(calls / 100);
  }

  private static Routed naive(Call call, RankCap cap) {
    return NaiveDefaultRouter.route(call.active(), call.tokens(), call.requests(), call.cap(), cap);
  }

  private static void assertHolds(Call call, Routed routed) {
    var seen = new HashSet<Long>(routed.unassigned());
    int placed = routed.unassigned().size();
    for (int rank = 0; rank < call.active().length; rank++) {
      List<Long> given = routed.ranks().get(rank);
      seen.addAll(given);
      placed += given.size();
      if (!given.isEmpty()) {
        assertThat(call.active()[rank] + given.size())
            .as("never past the cap")
            .isLessThanOrEqualTo(call.cap());
      }
    }
    assertThat(seen).as("each request once").hasSize(call.requests().size());
    assertThat(placed).as("each request once").isEqualTo(call.requests().size());
    assertThat(routed.expectedActive()).isLessThanOrEqualTo(call.cap());
    if (call.requests().size() <= call.budget()) {
      assertThat(routed.unassigned()).as("within budget everything finds a rank").isEmpty();
    }
  }

  @Test
  void routesAsTheNaiveModelOnALargeBatch() {
    RandomGenerator random = Seeds.generator(Seeds.seed("DefaultRouterProperties.large"));
    int[] active = new int[512];
    long[] tokens = new long[512];
    for (int rank = 0; rank < active.length; rank++) {
      active[rank] = random.nextInt(64);
      tokens[rank] = random.nextInt(262_144);
    }
    var requests = new ArrayList<Request>();
    for (int id = 0; id < 4096; id++) {
      requests.add(Request.of(id, 128 + random.nextInt(8065), 1));
    }
    var call = new Call(active, tokens, requests, 144);

    assertThat(call.by(new DefaultRouter())).isEqualTo(naive(call, RankCap.HARD));
  }

  @Test
  void theGreatestLoadsAndPromptsDoNotOverflow() {
    var requests = new ArrayList<Request>();
    for (int id = 0; id < 200; id++) {
      requests.add(Request.of(id, Integer.MAX_VALUE - id % 3, 1));
    }
    long most = RankState.MAX_TOKENS;
    var call = new Call(new int[3], new long[] {most, most - 1, most}, requests, 100);

    assertThat(call.by(new DefaultRouter())).isEqualTo(naive(call, RankCap.HARD));
  }

  @Test
  void routingAllocatesNothingOnceItHasGrown() {
    RandomGenerator random = Seeds.generator(Seeds.seed("DefaultRouterProperties.allocation"));
    var calls = new ArrayList<Call>();
    for (int i = 0; i < 200; i++) {
      calls.add(Call.random(random));
    }
    var loads = calls.stream().map(call -> Routed.loads(call.active(), call.tokens())).toList();
    var router = new DefaultRouter();
    var batch = new RequestBatch();
    var out = new Assignment();
    for (int round = 0; round < 2; round++) {
      routeAll(calls, loads, router, batch, out);
    }

    assertThat(AllocatedBytes.by(() -> routeAll(calls, loads, router, batch, out))).isZero();
  }

  private static void routeAll(
      List<Call> calls,
      List<RankLoads> loads,
      AdpRouter router,
      RequestBatch batch,
      Assignment out) {
    for (int i = 0; i < loads.size(); i++) {
      Call call = calls.get(i);
      batch.clear();
      for (int r = 0; r < call.requests().size(); r++) {
        batch.add(call.requests().get(r));
      }
      router.route(loads.get(i), batch, call.cap(), out);
    }
  }
}
