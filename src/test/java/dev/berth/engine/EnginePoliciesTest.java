// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitReason;
import dev.berth.route.RankCap;
import dev.berth.test.TestConfig;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Which scheduling policies an engine takes. */
class EnginePoliciesTest {
  private static EngineConfig config() {
    PlanOutcome outcome = SeatPlan.of(WorkerShape.builder(4).build(), SeatPolicy.UNIFIED);
    assertThat(outcome).isInstanceOf(PlanOutcome.Planned.class);
    return EngineConfig.of(((PlanOutcome.Planned) outcome).plan(), WorkerRole.AGGREGATED);
  }

  @Test
  void theDefaultPromisesPagesToTheEndByOurOwnRules() {
    assertThat(config().capacity()).isEqualTo(CapacityRule.GUARANTEED_NO_EVICT);
    assertThat(config().policies()).isEqualTo(PolicySet.BERTH_1);
  }

  @ParameterizedTest
  @EnumSource
  void bothSetsMakeAnEngine(PolicySet set) {
    EngineConfig config = config().withPolicies(set, CapacityRule.STATIC_BATCH);
    try (RankEngine engine = new RankEngine(config, 0, 0, new Admission(config, 0))) {
      assertThat(engine.batch()).isZero();
    }
  }

  @ParameterizedTest
  @EnumSource
  void everyPolicyMakesAnEngine(CapacityRule rule) {
    EngineConfig config = config().withPolicies(PolicySet.BERTH_1, rule);
    try (RankEngine engine = new RankEngine(config, 0, 0, new Admission(config, 0))) {
      assertThat(engine.pagesUsed()).isZero();
    }
  }

  @ParameterizedTest
  @EnumSource
  void bothDesignsMakeAnEngine(SchedulerKind kind) {
    EngineConfig config = config().withScheduler(kind);
    try (RankEngine engine = new RankEngine(config, 0, 0, new Admission(config, 0))) {
      assertThat(engine.pagesUsed()).isZero();
    }
  }

  @Test
  void theOneLoopBringsTheOnlyPolicyThatItKnows() {
    EngineConfig loop = config().withScheduler(SchedulerKind.ONE_LOOP);
    assertThat(loop.capacity()).isEqualTo(CapacityRule.MAX_UTILIZATION);
    assertThatThrownBy(() -> loop.withPolicies(PolicySet.BERTH_1, CapacityRule.STATIC_BATCH))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("STATIC_BATCH")
        .hasMessageContaining("MAX_UTILIZATION");
  }

  @Test
  void whoLooksAtTheNumberOnlyStartsNoTransfers() {
    var shape = WorkerShape.builder(4).transferBackend("NIXL").build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    var builder = EngineConfig.builder(plan, WorkerRole.GENERATION);
    assertThatThrownBy(() -> builder.capacity(CapacityRule.MAX_REQUESTS).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("MAX_REQUESTS")
        .hasMessageContaining("transfer");
  }

  /** Two places: the third and the fourth aren't looked at, though the second has no tokens. */
  @Test
  void maxRequestsLooksAtAsManyAsABatchHasPlaces() {
    EngineConfig config =
        TestConfig.overlap(2, 2)
            .cap(RankCap.OFF)
            .maxNumTokens(10)
            .build()
            .withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_REQUESTS);
    try (var group = new LockstepGroup(config)) {
      for (int id = 1; id <= 4; id++) {
        group.offer(
            Request.of(id, id <= 2 ? 8 : 1, 3)
                .withScheduling(SchedulingParams.target(0, Relax.RELAXED)));
      }
      group.step(LockstepGroup.NO_DEVICE);
      RankEngine engine = group.engine(0);
      assertThat(engine.resident()).isEqualTo(4);
      assertThat(engine.real()).isEqualTo(1);
      assertThat(engine.deferred(WaitReason.TOKENS)).isEqualTo(1);
      assertThat(engine.deferred(WaitReason.BATCH)).isEqualTo(2);
    }
  }

  /**
   * Its tokens might not fit a batch again: it keeps its pages, and the one before it gives way.
   */
  @Test
  void inTheOneLoopWhoCouldntComeBackDoesntGiveWay() {
    EngineConfig config =
        TestConfig.oneGroup(4)
            .maxNumTokens(10)
            .tokensPerBlock(1)
            .pages(17)
            .build()
            .withScheduler(SchedulerKind.ONE_LOOP);
    try (var group = new LockstepGroup(config)) {
      group.offer(Request.of(1, 4, 4));
      group.offer(Request.of(2, 3, 10));
      RankEngine engine = group.engine(0);
      int first = 0;
      int second = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        first = Math.max(first, engine.table().pauses(0));
        second = Math.max(second, engine.table().pauses(1));
        engine.checkPages();
      }
      assertThat(first).isPositive();
      assertThat(second).isZero();
    }
  }

  /** A fill would never end: the first to hold a place keeps all others from receiving theirs. */
  @Test
  void aStaticBatchAndAFillGateExcludeEachOther() {
    var shape = WorkerShape.builder(4).transferBackend("NIXL").build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    for (FillGate.Kind kind : List.of(FillGate.Kind.COUNT, FillGate.Kind.STATE)) {
      var builder =
          EngineConfig.builder(plan, WorkerRole.GENERATION)
              .gate(new FillGate(kind, 2))
              .capacity(CapacityRule.STATIC_BATCH);
      assertThatThrownBy(builder::build)
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
          .hasMessageContaining("a fill gate and a static batch exclude each other");
      assertThat(builder.gate(FillGate.NONE).build().gate().active()).isFalse();
    }
  }
}
