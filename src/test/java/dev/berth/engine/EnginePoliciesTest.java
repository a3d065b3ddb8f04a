// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.capacity.CapacityRule;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.WorkerShape;
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
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"})
  void everyPolicyThatLooksAtPagesMakesAnEngine(CapacityRule rule) {
    EngineConfig config = config().withPolicies(PolicySet.BERTH_1, rule);
    try (RankEngine engine = new RankEngine(config, 0, 0, new Admission(config, 0))) {
      assertThat(engine.pagesUsed()).isZero();
    }
  }

  @Test
  void aPolicyThatCountsNoPagesIsRefused() {
    EngineConfig config = config();
    assertThatThrownBy(() -> config.withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_REQUESTS))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("MAX_REQUESTS")
        .hasMessageContaining("GUARANTEED_NO_EVICT");
  }
}
