// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.RequestBatch;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Every router against its naive model on long random sequences of calls, and what always holds.
 */
class RouterProperties {
  private static final RankCap[] CAPS = RankCap.values();
  private static final PlacementView[] VIEWS = PlacementView.values();
  private static final int CALLS_A_ROUTER = 40;

  /** Beside scalar code for few ranks, vectors are compared for many. */
  @BeforeAll
  static void useVectors() {
    RouteKernels.preload();
  }

  @ParameterizedTest
  @EnumSource
  void theDefaultRouterIsItsNaiveModelInEveryView(PlacementView view) {
    RandomGenerator random = Seeds.generator(Seeds.seed("RouterProperties.default." + view));
    var router = new DefaultRouter(RankCap.HARD, view, TieRule.LOWEST_RANK);
    for (int i = 0; i < 8_000; i++) {
      RandomCall call = RandomCall.random(random, 0, 1 + random.nextInt(9));
      Routed routed = call.by(router);
      assertThat(routed)
          .as("call %d: %s", i, call)
          .isEqualTo(NaiveRouters.byDefault(call, RankCap.HARD, view));
      assertHolds(call, routed);
    }
  }

  @Test
  void rotatingTiesGoOnBehindTheRankChosenLast() {
    RandomGenerator random = Seeds.generator(Seeds.seed("RouterProperties.rotating"));
    var router = new DefaultRouter(RankCap.HARD, PlacementView.ADMISSION, TieRule.ROTATING);
    var naive = new NaiveRouters.Rotating();
    for (int i = 0; i < 4_000; i++) {
      RandomCall call = RandomCall.random(random, 0, 5);
      assertThat(call.by(router)).as("call %d: %s", i, call).isEqualTo(naive.route(call));
    }
  }

  @Test
  void theKvAwareRouterIsItsNaiveModel() {
    compareKvAware(800);
  }

  @Test
  @Tag("deep")
  void theKvAwareRouterIsItsNaiveModelOnAMillionCalls() {
    compareKvAware(25_000);
  }

  private static void compareKvAware(int routers) {
    RandomGenerator random = Seeds.generator(Seeds.seed("RouterProperties.kv"));
    int exhausted = 0;
    int large = 0;
    for (int n = 0; n < routers; n++) {
      KvAwareRouter.Options options = kvAware(random);
      var router = new KvAwareRouter(options);
      var naive = new NaiveRouters.KvAware(options);
      int ranks = 1 + random.nextInt(random.nextInt(8) == 0 ? 40 : 9);
      for (int i = 0; i < CALLS_A_ROUTER; i++) {
        RandomCall call = RandomCall.random(random, random.nextInt(50), ranks);
        Routed routed = call.by(router);
        assertThat(routed).as("%d/%d %s: %s", n, i, options, call).isEqualTo(naive.route(call));
        assertThat(router.pendingWarmUp())
            .isEqualTo(naive.waiting.stream().mapToInt(rank -> rank).toArray());
        if (options.rankCap() == RankCap.HARD) {
          assertHolds(call, routed);
        }
        exhausted += routed.unassigned().isEmpty() ? 0 : 1;
        large += call.requests().size() > 60 ? 1 : 0;
        ranks += random.nextInt(20) == 0 ? 1 : 0;
      }
    }
    assertThat(exhausted).as("calls over budget").isGreaterThan(routers);
    assertThat(large).as("calls that sort by radix").isGreaterThan(routers);
  }

  private static KvAwareRouter.Options kvAware(RandomGenerator random) {
    return KvAwareRouter.Options.DEFAULTS
        .withWeights(
            new double[] {0, 0.1, 0.5, 1, 2, 10}[random.nextInt(6)],
            new double[] {0, 0.1, 0.5, 2}[random.nextInt(4)],
            new double[] {0.5, 1, 1.5, 2, 4}[random.nextInt(5)])
        .with(
            random.nextBoolean()
                ? KvAwareRouter.ColdStart.ONE_EACH
                : KvAwareRouter.ColdStart.SCORED)
        .with(VIEWS[random.nextInt(VIEWS.length)])
        .with(random.nextInt(8) == 0 ? RankCap.OFF : RankCap.HARD);
  }

  @Test
  void theConversationRouterIsItsNaiveModel() {
    compareConversation(800);
  }

  @Test
  @Tag("deep")
  void theConversationRouterIsItsNaiveModelOnAMillionCalls() {
    compareConversation(25_000);
  }

  private static void compareConversation(int routers) {
    RandomGenerator random = Seeds.generator(Seeds.seed("RouterProperties.conversation"));
    int forgotten = 0;
    int exhausted = 0;
    for (int n = 0; n < routers; n++) {
      ConversationRouter.Options options = conversation(random);
      var router = new ConversationRouter(options);
      var naive = new NaiveRouters.Conversation(options);
      int ranks = 1 + random.nextInt(random.nextInt(16) == 0 ? 70 : 9);
      for (int i = 0; i < CALLS_A_ROUTER; i++) {
        RandomCall call = RandomCall.random(random, 0, ranks);
        Routed routed = call.by(router);
        assertThat(routed).as("%d/%d %s: %s", n, i, options, call).isEqualTo(naive.route(call));
        assertThat(router.bindings()).isEqualTo(List.copyOf(naive.homes.entrySet()));
        assertThat(router.conversations()).isEqualTo(naive.homes.size());
        assertThat(router.cursor()).isEqualTo(naive.cursor);
        naive.homes.forEach((key, rank) -> assertThat(router.home(key)).hasValue(rank));
        if (options.rankCap() == RankCap.HARD) {
          assertHolds(call, routed);
        }
        forgotten += naive.homes.size() == options.maxSessions() ? 1 : 0;
        exhausted += routed.unassigned().isEmpty() ? 0 : 1;
        ranks = Math.max(1, ranks + (random.nextInt(10) == 0 ? random.nextInt(3) - 1 : 0));
      }
    }
    assertThat(forgotten).as("calls with a full memory").isGreaterThan(routers);
    assertThat(exhausted).as("calls over budget").isGreaterThan(routers);
  }

  private static ConversationRouter.Options conversation(RandomGenerator random) {
    NewConversation[] rules = NewConversation.values();
    return ConversationRouter.Options.DEFAULTS
        .withMaxSessions(new int[] {1, 2, 5, 17, 65_536}[random.nextInt(5)])
        .withMultiplier(new double[] {0.5, 1, 1.5, 2}[random.nextInt(4)])
        .with(rules[random.nextInt(rules.length)])
        .with(VIEWS[random.nextInt(VIEWS.length)])
        .with(CAPS[random.nextInt(8) == 0 ? 1 : 0]);
  }

  /** Thousands of conversations over a memory of 1,000: every path of the table is taken. */
  @Test
  void homesAreFoundWhateverComesAndGoes() {
    RandomGenerator random = Seeds.generator(Seeds.seed("RouterProperties.homes"));
    var homes = new ConversationHomes(1_000);
    var naive =
        new NaiveRouters.Conversation(ConversationRouter.Options.DEFAULTS.withMaxSessions(1_000));
    for (int i = 0; i < 200_000; i++) {
      String key = "conversation " + random.nextInt(1_500);
      int entry = homes.find(key);
      assertThat(entry == ConversationHomes.NONE).isEqualTo(!naive.homes.containsKey(key));
      if (entry == ConversationHomes.NONE) {
        homes.bind(key, i);
      } else {
        assertThat(homes.rank(entry)).isEqualTo(naive.homes.get(key));
        homes.rebind(entry, i);
      }
      naive.bind(key, i);
    }
    assertThat(homes.inOrderOfUse()).isEqualTo(List.copyOf(naive.homes.entrySet()));
  }

  private static void assertHolds(RandomCall call, Routed routed) {
    var seen = new HashSet<Long>(routed.unassigned());
    int placed = routed.unassigned().size();
    for (int rank = 0; rank < call.active().length; rank++) {
      List<Long> given = routed.ranks().get(rank);
      seen.addAll(given);
      placed += given.size();
      if (call.closed().contains(rank)) {
        assertThat(given).as("nothing on a closed rank").isEmpty();
      }
      if (!given.isEmpty()) {
        assertThat(call.active()[rank] + given.size())
            .as("never past the cap")
            .isLessThanOrEqualTo(call.cap());
      }
    }
    assertThat(seen).as("each request once").hasSize(call.requests().size());
    assertThat(placed).as("each request once").isEqualTo(call.requests().size());
  }

  @Test
  void routingAllocatesNothingOnceItHasGrown() {
    RandomGenerator random = Seeds.generator(Seeds.seed("RouterProperties.allocation"));
    var calls = new ArrayList<RandomCall>();
    for (int i = 0; i < 100; i++) {
      calls.add(RandomCall.random(random, 1_000L * i, 7));
    }
    List<RankLoads> loads = calls.stream().map(RandomCall::loads).toList();
    List<RequestBatch> batches = calls.stream().map(RandomCall::batch).toList();
    List<PrefixMatches> tables = calls.stream().map(RandomCall::table).toList();
    var out = new Assignment();
    for (AdpRouter router :
        List.of(
            new DefaultRouter(RankCap.HARD, PlacementView.RESIDENT, TieRule.ROTATING),
            new KvAwareRouter(),
            new KvAwareRouter(
                KvAwareRouter.Options.DEFAULTS.with(KvAwareRouter.ColdStart.ONE_EACH)),
            conversation(NewConversation.ROUND_ROBIN),
            conversation(NewConversation.LEAST_QUEUED),
            conversation(NewConversation.LEAST_TOKENS))) {
      Runnable round =
          () -> {
            for (int i = 0; i < calls.size(); i++) {
              router.route(loads.get(i), batches.get(i), tables.get(i), calls.get(i).cap(), out);
            }
          };
      round.run();
      round.run();

      assertThat(AllocatedBytes.by(round)).as(router.name()).isZero();
    }
  }

  private static AdpRouter conversation(NewConversation rule) {
    return new ConversationRouter(
        ConversationRouter.Options.DEFAULTS.withMaxSessions(5).with(rule));
  }
}
