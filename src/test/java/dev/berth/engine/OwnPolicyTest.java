// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityPolicy;
import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.CapacityRules;
import dev.berth.capacity.CapacityScheduler;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.capacity.SchedulingTable;
import dev.berth.capacity.Selection;
import dev.berth.engine.log.LogWriter;
import dev.berth.exchange.FrameBoard;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import dev.berth.test.FleetProbe;
import dev.berth.test.NaiveFleet;
import dev.berth.test.NoEvictPolicy;
import dev.berth.test.TestConfig;
import java.io.ByteArrayOutputStream;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * A capacity policy of the user's own in an engine: it decides, and the engine keeps its limits.
 */
class OwnPolicyTest {
  private static final long SEED = Long.getLong("berth.seed", 20261130);

  private static RandomGenerator random(long seed) {
    return RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
  }

  private static int between(RandomGenerator random, int lowest, int highest) {
    return random.nextInt(lowest, highest + 1);
  }

  // ------------------------------------------------------------------------------ the same

  /** Some worker with so many counted pages, -1 for no limit. */
  static EngineConfig anyConfig(RandomGenerator random, WorkerRole role, long pages) {
    var shape =
        WorkerShape.builder(between(random, 1, 6))
            .ranks(between(random, 1, 4))
            .pipelineSize(random.nextInt(4) == 0 ? between(random, 2, 3) : 1)
            .draftTokens(random.nextInt(4) == 0 ? between(random, 1, 3) : 0)
            .tokensPerBlock(between(random, 1, 8));
    if (random.nextBoolean()) {
      shape.maxNumTokens(between(random, 4, 60));
    }
    if (random.nextInt(4) > 0) {
      shape.with(Trait.ATTENTION_DP);
    }
    if (random.nextInt(3) > 0) {
      shape.with(Trait.OVERLAP);
    }
    if (role == WorkerRole.GENERATION) {
      shape.transferBackend("NIXL");
    }
    return EngineConfig.builder(SeatPlan.of(shape.build(), SeatPolicy.UNIFIED).orThrow(), role)
        .chunkedContext(Chunking.values()[random.nextInt(2)])
        .kv(KvSetup.counted(pages))
        .build();
  }

  @ParameterizedTest
  @EnumSource
  void oneThatDecidesAsGuaranteedNoEvictGivesTheSameIterations(WorkerRole role) {
    System.out.println("OwnPolicyTest: -Dberth.seed=" + SEED);
    int pageWaits = 0;
    for (int run = 0; run < 250; run++) {
      RandomGenerator random = random(SEED + run);
      long pages = random.nextInt(3) == 0 ? -1 : between(random, 4, 60);
      EngineConfig config = anyConfig(random, role, pages);
      EngineConfig own = config.withPolicy(new NoEvictPolicy(config.rangeEnd()));
      try (var left = new LockstepGroup(config);
          var right = new LockstepGroup(own)) {
        var probes = List.of(new FleetProbe(left), new FleetProbe(right));
        boolean live = true;
        for (int step = 0, id = 0; live || id < 40; step++) {
          assertThat(step).as("seed %d stands still", SEED + run).isLessThan(5000);
          for (int n = between(random, 0, 4); n > 0 && id < 40; n--, id++) {
            Request request = Request.of(id, between(random, 1, 30), between(random, 1, 9));
            assertThat(right.offer(request)).isEqualTo(left.offer(request));
          }
          transfers(random, left, right);
          probes.forEach(FleetProbe::gather);
          live = left.step(probes.getFirst());
          assertThat(right.step(probes.getLast())).isEqualTo(live);
          if (!live) {
            continue;
          }
          NaiveFleet.Iteration expected = probes.getFirst().read();
          assertThat(withoutReasons(probes.getLast().read()))
              .as("seed %d, step %d, %s", SEED + run, step, config)
              .isEqualTo(withoutReasons(expected));
          for (int rank = 0; rank < config.ranks(); rank++) {
            assertThat(right.engine(rank).decisionHash())
                .isEqualTo(left.engine(rank).decisionHash());
            assertThat(waiting(right.engine(rank))).isEqualTo(waiting(left.engine(rank)));
            right.engine(rank).checkPages();
            pageWaits += right.engine(rank).deferred(WaitReason.PAGES);
          }
        }
      }
    }
    assertThat(pageWaits).as("somebody lacked pages").isPositive();
  }

  /** What the policy says of those that it leaves out is its own affair. */
  private static NaiveFleet.Iteration withoutReasons(NaiveFleet.Iteration i) {
    return new NaiveFleet.Iteration(
        i.states(),
        i.tokensIn(),
        i.charged(),
        i.budget(),
        i.expected(),
        i.assigned(),
        i.padded(),
        i.resident(),
        i.scheduled(),
        i.contexts(),
        i.batchTokens(),
        List.of(),
        i.paused(),
        i.held(),
        i.canQueue(),
        i.contextsHeld(),
        i.encodes(),
        i.tokensOut(),
        i.done(),
        i.seats(),
        i.leases(),
        i.pages());
  }

  private static int waiting(RankEngine engine) {
    int all = 0;
    for (WaitReason reason : WaitReason.values()) {
      all += reason == WaitReason.NONE ? 0 : engine.deferred(reason);
    }
    return all;
  }

  private static void transfers(RandomGenerator random, LockstepGroup left, LockstepGroup right) {
    EngineConfig config = left.config();
    for (int rank = 0; rank < config.ranks(); rank++) {
      var table = left.engine(rank).table();
      for (int row = 0; row < table.rows() - 1; row++) {
        if (table.state(row) == RequestState.GENERATION_TRANSFER && random.nextInt(3) == 0) {
          for (int stage = 0; stage < config.stages(); stage++) {
            left.engine(rank, stage).transferArrived(row, table.id(row));
            right.engine(rank, stage).transferArrived(row, table.id(row));
          }
        }
      }
    }
  }

  // ------------------------------------------------------------------------------ one's own

  private static final CapacityPolicy EVERYBODY =
      (table, selection) -> {
        for (int place = 0; place < table.size(); place++) {
          int row = table.row(place);
          RequestState state = table.state(row);
          if (state == RequestState.GENERATION_INIT) {
            selection.receive(row);
          } else if (state.value() >= 10 && state.value() < EngineConfig.RANGE_END) {
            selection.fit(row);
          }
        }
      };

  /** Whatever it selects: seats, leases, pages, places and tokens are the engine's to give. */
  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  void oneThatLetsEverybodyInExceedsNothing(CapacityRule rule) {
    System.out.println("OwnPolicyTest: -Dberth.seed=" + SEED);
    for (int run = 0; run < 200; run++) {
      RandomGenerator random = random(SEED + run);
      int pages = between(random, 6, 40);
      EngineConfig config =
          anyConfig(random, WorkerRole.values()[random.nextInt(3)], pages)
              .withPolicies(PolicySet.values()[random.nextInt(2)], rule)
              .withPolicy(EVERYBODY);
      int tokens = config.plan().shape().maxNumTokens();
      try (var group = new LockstepGroup(config)) {
        for (int id = 0; id < 30; id++) {
          group.offer(Request.of(id, between(random, 1, 20), between(random, 1, 9)));
        }
        for (int step = 0; step < 200; step++) {
          group.step(LockstepGroup.NO_DEVICE);
          transfers(random, group);
          for (int rank = 0; rank < config.ranks(); rank++) {
            RankEngine engine = group.engine(rank);
            engine.checkPages();
            assertThat(engine.shortOfPages()).isZero();
            assertThat(engine.pagesUsed()).isLessThanOrEqualTo(pages);
            assertThat(engine.seatsUsed()).isLessThanOrEqualTo(config.plan().seats().count());
            assertThat(engine.leasesUsed()).isLessThanOrEqualTo(config.plan().leases().count());
            assertThat(engine.real()).isLessThanOrEqualTo(config.plan().batchPositions().count());
            if (tokens > 0) {
              assertThat(engine.batchTokens()).isLessThanOrEqualTo(tokens);
            }
          }
        }
      }
    }
  }

  /** Some transfers end. Returns how many. */
  static int transfers(RandomGenerator random, LockstepGroup group) {
    int ended = 0;
    for (int rank = 0; rank < group.config().ranks(); rank++) {
      var table = group.engine(rank).table();
      for (int row = 0; row < table.rows() - 1; row++) {
        if (table.state(row) == RequestState.GENERATION_TRANSFER && random.nextBoolean()) {
          ended++;
          for (int stage = 0; stage < group.config().stages(); stage++) {
            group.engine(rank, stage).transferArrived(row, table.id(row));
          }
        }
      }
    }
    return ended;
  }

  /** One request at a time, the last first. */
  @Test
  void itsDecisionsAreCarriedOutInItsOrder() {
    CapacityPolicy lastFirst =
        (table, selection) -> {
          if (table.size() > 0) {
            selection.fit(table.row(table.size() - 1));
          }
        };
    EngineConfig config = TestConfig.oneGroup(4).build().withPolicy(lastFirst);
    try (var group = new LockstepGroup(config)) {
      for (int id = 1; id <= 3; id++) {
        group.offer(Request.of(id, 4, 2));
      }
      List<Long> ended = new ArrayList<>();
      while (group.step(LockstepGroup.NO_DEVICE)) {
        RankEngine engine = group.engine(0);
        assertThat(engine.batch()).isEqualTo(1);
        assertThat(engine.deferred(WaitReason.GATE)).isEqualTo(engine.resident() - 1);
        for (int i = 0; i < engine.ended(); i++) {
          ended.add(engine.endedId(i));
        }
      }
      assertThat(ended).containsExactly(3L, 2L, 1L);
    }
  }

  @Test
  void itCanSayWhatThoseWaitForThatItLeavesOut() {
    CapacityPolicy reasons =
        (table, selection) -> {
          selection.fit(table.row(0));
          selection.defer(table.row(1), WaitReason.ADAPTER);
          selection.deferForPages(table.row(2), 0);
        };
    EngineConfig config = TestConfig.oneGroup(4).pages(100).build().withPolicy(reasons);
    try (var group = new LockstepGroup(config)) {
      for (int id = 1; id <= 4; id++) {
        group.offer(Request.of(id, 4, 2));
      }
      group.step(LockstepGroup.NO_DEVICE);
      RankEngine engine = group.engine(0);
      assertThat(engine.deferred(WaitReason.ADAPTER)).isEqualTo(1);
      assertThat(engine.deferred(WaitReason.PAGES)).isEqualTo(1);
      assertThat(engine.deferred(WaitReason.GATE)).isEqualTo(1);
      assertThat(engine.table().waitReason(2)).isEqualTo(WaitReason.PAGES);
    }
  }

  @Test
  void itCanMakeOneGiveWay() {
    boolean[] once = {false};
    CapacityPolicy pauses =
        (table, selection) -> {
          for (int place = 0; place < table.size(); place++) {
            int row = table.row(place);
            if (row == 1 && !once[0] && table.generatedTokens(row) == 2) {
              assertThat(table.mayPause(row)).isTrue();
              selection.pause(row);
              once[0] = true;
            } else {
              selection.fit(row);
            }
          }
        };
    EngineConfig config =
        TestConfig.oneGroup(4)
            .pages(100)
            .build()
            .withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_UTILIZATION)
            .withPolicy(pauses);
    try (var group = new LockstepGroup(config)) {
      group.offer(Request.of(1, 4, 6));
      group.offer(Request.of(2, 4, 6));
      int paused = 0;
      int tokens = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        RankEngine engine = group.engine(0);
        paused += engine.paused();
        for (int i = 0; i < engine.ended(); i++) {
          tokens += engine.endedTokens(i);
        }
        if (engine.paused() == 1) {
          assertThat(engine.leasesUsed()).isEqualTo(1);
          assertThat(engine.table().pausedTokens(1)).isEqualTo(2);
        }
      }
      assertThat(paused).isEqualTo(1);
      assertThat(tokens).isEqualTo(12);
    }
  }

  // ------------------------------------------------------------------------------ what fails

  /** A mistake that is made in the third iteration, and what becomes of it. */
  private enum Mistake {
    THROWS {
      @Override
      void make(SchedulingTable table, Selection selection) {
        throw new IllegalStateException("no idea");
      }
    },
    THROWS_AN_ERROR {
      @Override
      void make(SchedulingTable table, Selection selection) {
        throw new AssertionError("no idea");
      }
    },
    ROW_OUTSIDE_THE_TABLE {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.fit(1_000_000);
      }
    },
    NEGATIVE_ROW {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.fit(-1);
      }
    },
    ROW_OF_NOBODY {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.fit(table.shape().rows() - 2);
      }
    },
    ROW_OF_THE_DUMMY {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.fit(table.shape().rows() - 1);
      }
    },
    TWICE {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.fit(table.row(0));
        selection.fit(table.row(0));
      }
    },
    BOTH_RUNS_AND_GIVES_WAY {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.fit(table.row(0));
        selection.pause(table.row(0));
      }
    },
    RECEIVES_WHAT_IS_HERE {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.receive(table.row(0));
      }
    },
    PAUSES_WHO_HOLDS_NOTHING {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.pause(table.row(table.size() - 1));
      }
    },
    PAUSES_WHO_IS_PROMISED_ITS_PAGES {
      @Override
      void make(SchedulingTable table, Selection selection) {
        assertThat(table.mayPause(table.row(0))).isFalse();
        selection.pause(table.row(0));
      }
    },
    WAITS_FOR_NOTHING {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.defer(table.row(0), WaitReason.NONE);
      }
    },
    WAITS_FOR_NO_POOL {
      @Override
      void make(SchedulingTable table, Selection selection) {
        selection.deferForPages(table.row(0), table.shape().pools().size());
      }
    },
    WRITES_A_ROW {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.state(table.row(0), RequestState.COMPLETE);
      }
    },
    WRITES_A_DEMAND {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.demand(table.row(0), 0, 0, 0, 0, 0);
      }
    },
    BEGINS_A_ROW {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.begin(table.shape().rows() - 2, 77, RequestState.CONTEXT_INIT, 4, 4);
      }
    },
    ENTERS_A_ROW {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.enter(table.row(0));
      }
    },
    ENDS_A_ROW {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.leave(table.row(0));
      }
    },
    MARKS_A_ROW {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.markDirty(table.row(0));
      }
    },
    PUTS_A_ROW_BACK {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.pause(table.row(0), 100);
      }
    },
    SCHEDULES_BY_ITSELF {
      @Override
      void make(SchedulingTable table, Selection selection) {
        CapacityScheduler.of(table, CapacityRules.of(CapacityRule.MAX_REQUESTS, 1)).schedule();
      }
    },
    CLOSES_THE_TABLE {
      @Override
      void make(SchedulingTable table, Selection selection) {
        table.close();
      }
    };

    abstract void make(SchedulingTable table, Selection selection);
  }

  /** The step is whole, its rank let nobody in, and the next one goes on as if nothing had been. */
  @ParameterizedTest
  @EnumSource
  void aMistakeFailsItsIterationAndNothingElse(Mistake mistake) {
    int[] calls = {0};
    CapacityPolicy fails =
        (table, selection) -> {
          if (++calls[0] == 3) {
            mistake.make(table, selection);
          } else {
            EVERYBODY.select(table, selection);
          }
        };
    EngineConfig config =
        TestConfig.oneGroup(2).pages(100).tokensPerBlock(4).build().withPolicy(fails);
    try (var group = new LockstepGroup(config)) {
      for (int id = 1; id <= 5; id++) {
        group.offer(Request.of(id, 4, 3));
      }
      List<String> ended = new ArrayList<>();
      int failures = 0;
      boolean live = true;
      for (int step = 1; live; step++) {
        assertThat(step).isLessThan(100);
        RankEngine engine = group.engine(0);
        int held = engine.leasesUsed();
        try {
          live = group.step(LockstepGroup.NO_DEVICE);
        } catch (BerthException e) {
          failures++;
          assertThat(step).isEqualTo(3);
          assertThat(e.code()).isEqualTo(Code.POLICY);
          assertThat(e).hasCauseInstanceOf(Throwable.class).hasMessageContaining("capacity policy");
          assertThat(engine.batch()).isZero();
          assertThat(engine.launched()).isFalse();
          assertThat(engine.leasesUsed()).isEqualTo(held);
          assertThat(engine.deferred(WaitReason.GATE)).isEqualTo(engine.resident());
        }
        engine.checkPages();
        for (int i = 0; live && i < engine.ended(); i++) {
          ended.add(engine.endedId(i) + ":" + engine.endedTokens(i));
        }
      }
      assertThat(failures).isEqualTo(1);
      assertThat(ended).containsExactlyInAnyOrder("1:3", "2:3", "3:3", "4:3", "5:3");
      assertThat(group.engine(0).pagesUsed()).isZero();
    }
  }

  /** Peers of a rank whose policy failed aren't left waiting: it is padded and they go on. */
  @Test
  void peersGoOn() {
    int[] calls = {0};
    CapacityPolicy fails =
        (table, selection) -> {
          if (++calls[0] == 6) {
            throw new IllegalStateException("no idea");
          }
          EVERYBODY.select(table, selection);
        };
    EngineConfig config = TestConfig.overlap(2, 2).build().withPolicy(fails);
    try (var group = new LockstepGroup(config)) {
      for (int id = 1; id <= 4; id++) {
        group.offer(Request.of(id, 4, 8));
      }
      group.step(LockstepGroup.NO_DEVICE);
      group.step(LockstepGroup.NO_DEVICE);
      assertThatThrownBy(() -> group.step(LockstepGroup.NO_DEVICE))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.POLICY));
      assertThat(group.engine(0).real()).isEqualTo(2);
      assertThat(group.engine(1).real()).isZero();
      int steps = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        steps++;
      }
      assertThat(steps).isPositive();
      assertThat(group.engine(0).leasesUsed() + group.engine(1).leasesUsed()).isZero();
    }
  }

  @Test
  void aSelectionIsOfNoUseOutsideOfTheCall() {
    List<Selection> kept = new ArrayList<>();
    CapacityPolicy keeps =
        (table, selection) -> {
          kept.add(selection);
          EVERYBODY.select(table, selection);
        };
    EngineConfig config = TestConfig.oneGroup(2).build().withPolicy(keeps);
    try (var group = new LockstepGroup(config)) {
      group.offer(Request.of(1, 4, 3));
      group.step(LockstepGroup.NO_DEVICE);
      assertThatThrownBy(() -> kept.getFirst().defer(0, WaitReason.GATE))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.STATE));
    }
  }

  @Test
  void anEngineThatIsAdvancedByItsPolicyRefuses() {
    List<LockstepGroup> groups = new ArrayList<>();
    var board = new FrameBoard(FrameBoard.Op.GATHER, 1, Payload.GATHER_WORDS);
    List<CapacityPolicy> policies =
        List.of(
            (table, selection) -> groups.getLast().engine(0).advance(new Event.Gathered(board)),
            (table, selection) -> groups.getLast().step(LockstepGroup.NO_DEVICE));
    for (CapacityPolicy policy : policies) {
      EngineConfig config = TestConfig.oneGroup(2).build().withPolicy(policy);
      try (var group = new LockstepGroup(config)) {
        groups.add(group);
        group.offer(Request.of(1, 4, 3));
        assertThatThrownBy(() -> group.step(LockstepGroup.NO_DEVICE))
            .isInstanceOfSatisfying(
                BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.POLICY))
            .rootCause()
            .isInstanceOfSatisfying(
                BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.STATE));
      }
    }
  }

  /** Three calls an iteration, and one more for such a policy. */
  @Test
  void onlyAnOwnPolicyCostsAnotherNativeCall() {
    EngineConfig config = TestConfig.oneGroup(2).build();
    assertThat(callsOf(config.withPolicy(EVERYBODY))).isEqualTo(callsOf(config) + 1);
  }

  private static long callsOf(EngineConfig config) {
    try (var group = new LockstepGroup(config)) {
      group.offer(Request.of(1, 4, 30));
      group.step(LockstepGroup.NO_DEVICE);
      long before = group.engine(0).nativeCalls();
      group.step(LockstepGroup.NO_DEVICE);
      return group.engine(0).nativeCalls() - before;
    }
  }

  @Test
  void aDecisionLogHoldsNoSuchEngine() {
    EngineConfig config = TestConfig.oneGroup(2).build().withPolicy(EVERYBODY);
    var bytes = Channels.newChannel(new ByteArrayOutputStream());
    try (var group = new LockstepGroup(config);
        var log = new LogWriter(bytes, "own")) {
      assertThatThrownBy(() -> group.listen(log))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
          .hasMessageContaining("policies");
    }
  }

  @Test
  void theOneLoopTakesNone() {
    EngineConfig loop = TestConfig.oneGroup(2).build().withScheduler(SchedulerKind.ONE_LOOP);
    assertThatThrownBy(() -> loop.withPolicy(EVERYBODY))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("TWO_STAGE");
  }
}
