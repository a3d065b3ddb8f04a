// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.FillRules.FailFast;
import dev.berth.engine.FillRules.Ramp;
import dev.berth.exchange.FrameBoard;
import dev.berth.exchange.FrameBoard.Op;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.test.TestConfig;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** How a fill goes on, and how it ends when it can't (spec 01 §8, spec 06 BC-03 and BC-06). */
class FillRulesTest {
  private static final FillRules RULES = FillRules.of(PolicySet.BERTH_1);

  private static EngineConfig filling(int ranks, int batch, long target, FillRules rules) {
    return TestConfig.nonOverlap(ranks, batch)
        .role(WorkerRole.GENERATION)
        .gate(new FillGate(FillGate.Kind.STATE, target))
        .build()
        .toBuilder()
        .fill(rules)
        .build();
  }

  private static void step(LockstepGroup group) {
    assertThat(group.step(LockstepGroup.NO_DEVICE)).isTrue();
  }

  private static void offer(LockstepGroup group, int first, int count, int prompt, int output) {
    for (int id = first; id < first + count; id++) {
      assertThat(group.offer(Request.of(id, prompt, output))).isEqualTo(Outcome.QUEUED);
    }
  }

  private static void landAll(LockstepGroup group) {
    for (int rank = 0; rank < group.config().ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      for (int i = 0; i < engine.receives(); i++) {
        engine.transferArrived(engine.receiveRow(i), engine.table().id(engine.receiveRow(i)));
      }
    }
  }

  // ------------------------------------------------------------------------------ fail-fast

  /** Both tables, each mode's. */
  @ParameterizedTest(name = "fill {0}, warm-up {1}, all fetched {2}, stuck {3}: {4} / {5}")
  @CsvSource({
    "true,  false, true,  true,  false, true",
    "false, false, true,  true,  true,  false",
    "true,  true,  true,  true,  true,  false",
    "false, true,  true,  true,  true,  false",
    "true,  false, false, true,  false, false",
    "true,  false, true,  false, false, false",
    "false, false, true,  false, false, false",
  })
  void theModesHaveTheirTruthTables(
      boolean fill,
      boolean warmUp,
      boolean fetched,
      boolean stuck,
      boolean suppressed,
      boolean fillOnly) {
    boolean held = fill && !warmUp;
    assertThat(RULES.with(FailFast.SUPPRESS_DURING_FILL).fails(held, fetched, stuck))
        .isEqualTo(suppressed);
    assertThat(RULES.with(FailFast.FILL_ONLY_VOTE).fails(held, fetched, stuck)).isEqualTo(fillOnly);
    assertThat(RULES.with(FailFast.OFF).fails(held, fetched, stuck)).isFalse();
  }

  @Test
  void parityVotesDuringTheFillAndBerthOneHasItsStallBound() {
    assertThat(FillRules.of(PolicySet.TRTLLM_2026_09).failFast())
        .isEqualTo(FailFast.FILL_ONLY_VOTE);
    assertThat(FillRules.of(PolicySet.BERTH_1).failFast()).isEqualTo(FailFast.OFF);
    assertThat(RULES.ramp()).isEqualTo(Ramp.DOUBLING);
    assertThat(RULES.stallMicros()).isEqualTo(600_000_000);
  }

  /** Rank 1 has pages for one of its two requests, and the gate holds the one that came. */
  @ParameterizedTest
  @EnumSource(FailFast.class)
  void aFillWithoutRoomForAllFailsEveryRankInOneModeOnly(FailFast mode) {
    SeatPlan plan =
        SeatPlan.of(
                WorkerShape.builder(4)
                    .ranks(2)
                    .tokensPerBlock(4)
                    .with(Trait.ATTENTION_DP)
                    .transferBackend("NIXL")
                    .build(),
                SeatPolicy.UNIFIED)
            .orThrow();
    var config =
        EngineConfig.builder(plan, WorkerRole.GENERATION)
            .kv(KvSetup.counted(4))
            .gate(new FillGate(FillGate.Kind.STATE, 3))
            .fill(RULES.with(mode))
            .build();
    try (var group = new LockstepGroup(config)) {
      for (int id = 0; id < 3; id++) {
        group.offer(
            Request.of(id, 7, 4)
                .withScheduling(SchedulingParams.target(id == 0 ? 0 : 1, Relax.STRICT)));
      }
      step(group);
      step(group);
      landAll(group); // nothing: the outbox is the last step's
      assertThat(group.admission().fetched()).isEqualTo(3);
      for (int rank = 0; rank < 2; rank++) {
        RankEngine engine = group.engine(rank);
        for (int row = 0; row < engine.table().rows() - 1; row++) {
          if (engine.table().lease(row) >= 0) {
            engine.transferArrived(row, engine.table().id(row));
          }
        }
      }
      if (mode == FailFast.FILL_ONLY_VOTE) {
        assertThatThrownBy(() -> group.step(LockstepGroup.NO_DEVICE))
            .isInstanceOfSatisfying(
                BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.STALLED))
            .hasMessageContaining("nothing will make room: rank 1");
      } else {
        step(group);
        step(group);
        assertThat(group.admission().held()).isTrue();
      }
    }
  }

  @Test
  void duringAWarmUpTheGateHoldsNothingAndCountsNothing() {
    try (var group = new LockstepGroup(filling(2, 4, 2, RULES))) {
      group.warmUp(FillWarmUp.ON);
      group.step(LockstepGroup.NO_DEVICE); // frames made before the warm-up began
      offer(group, 0, 4, 8, 2);
      step(group);
      landAll(group);
      step(group);
      assertThat(group.admission().held()).isFalse();
      assertThat(group.admission().gateOpen()).isFalse();
      assertThat(group.admission().fetched()).isZero();
      assertThat(group.launched()).isTrue();
      group.warmUp(FillWarmUp.OFF);
      while (group.step(LockstepGroup.NO_DEVICE)) {
        assertThat(group.engine(0).resident()).isLessThan(3);
      }
      offer(group, 4, 1, 8, 2);
      step(group);
      assertThat(group.admission().held()).isTrue();
      assertThat(group.admission().fetched()).isEqualTo(1);
    }
  }

  // ------------------------------------------------------------------------------ ramp

  /** Spec 06 BC-06: 4, 8, 16, 32, 32. */
  @ParameterizedTest
  @CsvSource({"DOUBLING, '4, 8, 16, 32, 32'", "CONSTANT, '4, 4, 4, 4, 4'"})
  void theCapsOfConsecutiveIterations(Ramp ramp, String caps) {
    var found = new ArrayList<String>();
    long last = 0;
    for (int i = 0; i < 5; i++) {
      last = FleetRules.ramp(ramp, last, 4, 32);
      found.add(String.valueOf(last));
    }
    assertThat(String.join(", ", found)).isEqualTo(caps);
  }

  @Test
  void aConstantRampAdmitsARequestARankInEveryIteration() {
    try (var group = new LockstepGroup(filling(4, 8, 32, RULES.with(Ramp.CONSTANT)))) {
      offer(group, 0, 32, 8, 4);
      for (int i = 0; i < 8; i++) {
        step(group);
        assertThat(group.admission().admitted()).as("one fetch an iteration").isEqualTo(4);
      }
    }
  }

  // ------------------------------------------------------------------------------ stall

  @Test
  void aStalledFillSaysWhoWaitsForWhat() {
    try (var group = new LockstepGroup(filling(2, 4, 3, RULES.withStall(500_000)))) {
      offer(group, 0, 2, 8, 4);
      step(group);
      for (int i = 0; i < 5; i++) {
        step(group);
        assertThat(group.pauseMicros()).isEqualTo(FillGate.PAUSE_MICROS);
      }
      assertThatThrownBy(() -> group.step(LockstepGroup.NO_DEVICE))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.STALLED))
          .hasMessage(
              "no KV arrived for 500 ms: the state gate waits for 3, fetched 2, waiting 0; rank 0: 0 in"
                  + " GENERATION_INIT, 1 in transfer, 0 here; rank 1: 0 in GENERATION_INIT, 1 in"
                  + " transfer, 0 here");
    }
  }

  @Test
  void anArrivalClearsTheClockAndZeroIsNoBound() {
    try (var group = new LockstepGroup(filling(2, 4, 3, RULES.withStall(300_000)))) {
      offer(group, 0, 2, 8, 4);
      step(group);
      step(group);
      step(group);
      landAll(group);
      RankEngine engine = group.engine(0);
      engine.transferArrived(0, engine.table().id(0));
      for (int i = 0; i < 4; i++) {
        step(group);
      }
      assertThatThrownBy(() -> group.step(LockstepGroup.NO_DEVICE)).hasMessageContaining("300 ms");
    }
    try (var group = new LockstepGroup(filling(2, 4, 3, RULES.withStall(0)))) {
      offer(group, 0, 2, 8, 4);
      for (int i = 0; i < 100; i++) {
        step(group);
      }
    }
  }

  // ------------------------------------------------------------------------------ refusals

  @Test
  void aTargetAboveTheFleetIsRefusedWithEveryReason() {
    var config = TestConfig.overlap(4, 8).maxNumTokens(6).role(WorkerRole.GENERATION);
    assertThatThrownBy(() -> config.gate(new FillGate(FillGate.Kind.STATE, 65)).build())
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
        .hasMessage(
            "the fill gate waits for 65 requests, the fleet admits 24: 4 ranks of 6; the fill gate"
                + " waits for 65 requests, the ranks have 64 leases: 4 of 16");
    assertThat(config.gate(new FillGate(FillGate.Kind.STATE, 24)).build().gate().target())
        .isEqualTo(24);
    var few = TestConfig.overlap(4, 8).role(WorkerRole.GENERATION).leases(5).seats(5);
    assertThatThrownBy(() -> few.gate(new FillGate(FillGate.Kind.STATE, 24)).build())
        .hasMessageContaining("the ranks have 20 leases: 4 of 5");
    few.whatIf(WhatIf.Switch.VALIDATOR_OVERRIDDEN).build();
  }

  // ------------------------------------------------------------------------------ agreement

  /** Each rank with its own copy: a rank that thinks otherwise about the fill doesn't run. */
  @Test
  void theFillFlagIsAgreedAcrossRanks() {
    EngineConfig config = filling(2, 4, 2, RULES);
    var admissions = List.of(new Admission(config, 0), new Admission(config, 0));
    var engines = new ArrayList<RankEngine>();
    for (int rank = 0; rank < 2; rank++) {
      engines.add(new RankEngine(config, rank, 0, admissions.get(rank)));
    }
    engines.get(1).warmUp(FillWarmUp.ON);
    FrameBoard board = gather(engines);
    for (RankEngine engine : engines) {
      engine.advance(new Event.Gathered(board));
    }
    assertThat(admissions).as("for all as for one").noneMatch(Admission::held);
    assertThat(admissions).noneMatch(Admission::gateOpen);
    engines.forEach(RankEngine::close);

    engines.clear();
    EngineConfig other = config.toBuilder().gate(FillGate.NONE).build();
    engines.add(new RankEngine(config, 0, 0, new Admission(config, 0)));
    engines.add(new RankEngine(other, 1, 0, new Admission(other, 0)));
    FrameBoard split = gather(engines);
    for (RankEngine engine : engines) {
      assertThatThrownBy(() -> engine.advance(new Event.Gathered(split)))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.DIVERGED));
    }
    engines.forEach(RankEngine::close);
  }

  private static FrameBoard gather(List<RankEngine> engines) {
    var board = new FrameBoard(Op.GATHER, engines.size(), Payload.GATHER_WORDS);
    for (int rank = 0; rank < engines.size(); rank++) {
      board.put(rank, ((Effect.NeedGather) engines.get(rank).start()).frame());
    }
    board.verify(0, 0);
    return board;
  }
}
