// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.plan.StartupValidator.Disagreement;
import java.util.List;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class StartupValidatorTest {
  private static final WorkerShape HEADROOM =
      WorkerShape.builder(8).ranks(2).with(Trait.ATTENTION_DP, Trait.OVERLAP).build();

  private static SeatPlan plan(WorkerShape shape, SeatPolicy policy) {
    return SeatPlan.of(shape, policy).orThrow();
  }

  @Test
  void everyDisagreementIsFoundAtOnceWithBothNumbersAndThePool() {
    var verdict =
        StartupValidator.check(
            plan(HEADROOM, SeatPolicy.UNIFIED),
            List.of(
                RegisteredPool.of("sampler", KeyedBy.SEAT, 8),
                RegisteredPool.of("target leases", KeyedBy.LEASE, 32),
                RegisteredPool.of("guided decoder", KeyedBy.SEAT, 16),
                RegisteredPool.of("state index", KeyedBy.BATCH_POSITION, 16),
                RegisteredPool.unbounded("legacy manager", KeyedBy.LEASE)));
    assertThat(verdict.disagreements())
        .extracting(Disagreement::message)
        .containsExactly(
            "sampler has 8 rows, but the plan has 16 seats",
            "target leases has 32 rows, but the plan has 16 leases",
            "state index has 16 rows, but the plan has 8 batch positions");
    assertThat(verdict.checked())
        .containsExactly("sampler", "target leases", "guided decoder", "state index");
    assertThat(verdict.skipped()).containsExactly("legacy manager");
    assertThatThrownBy(verdict::orThrow)
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("sampler has 8")
        .hasMessageContaining("state index has 16");
  }

  /** Evidence E2: leases 2 beside seats 4 are refused with both numbers. */
  @Test
  void leasesBelowSeatsAreRefusedWithBothNumbers() {
    var shape = HEADROOM.toBuilder().build();
    var plan =
        plan(WorkerShape.builder(2).ranks(2).with(shape.traits()).build(), SeatPolicy.UNIFIED)
            .withWhatIf(WhatIf.builder().leases(2).build());
    assertThat(StartupValidator.check(plan, List.of()).disagreements())
        .containsExactly(
            new Disagreement(
                "plan",
                4,
                2,
                "there are 4 seats and 2 leases: unified seats need as many leases as seats"));
  }

  /** Spec 01 §12.6, made two-sided: (seats, leases) of a plan with 16 seats. */
  @ParameterizedTest
  @CsvSource({"16, 0", "8, 1", "32, 1", "15, 1", "17, 1"})
  void unifiedIsTwoSided(int leases, int disagreements) {
    var plan =
        plan(HEADROOM, SeatPolicy.UNIFIED).withWhatIf(WhatIf.builder().leases(leases).build());
    assertThat(StartupValidator.check(plan, List.of()).disagreements()).hasSize(disagreements);
  }

  @Test
  void underSplitTheSurplusIsTheDeclaredAllowancesNeitherMoreNorLess() {
    var disagg = WorkerShape.builder(8).pipelineSize(4).transferBackend("UCX").build();
    var plan = plan(disagg, SeatPolicy.SPLIT);
    assertThat(plan.seats().count()).isEqualTo(32);
    assertThat(plan.leases().count()).isEqualTo(64);
    assertThat(StartupValidator.check(plan, List.of()).agrees()).isTrue();
    for (int leases : new int[] {32, 63, 65}) {
      var changed = plan.withWhatIf(WhatIf.builder().leases(leases).build());
      assertThat(StartupValidator.check(changed, List.of()).disagreements())
          .extracting(Disagreement::message)
          .containsExactly(
              "there are 32 seats and "
                  + leases
                  + " leases: the surplus of leases must be the declared allowances, 32 for"
                  + " transfers and 0 for overlap");
    }
  }

  @Test
  void underSplitOverlapWithoutHeadroomDeclaresItsOwnSurplus() {
    var plan = plan(WorkerShape.builder(8).with(Trait.OVERLAP).build(), SeatPolicy.SPLIT);
    assertThat(plan.transferAllowance()).isZero();
    assertThat(plan.overlapAllowance()).isEqualTo(8);
    assertThat(StartupValidator.check(plan, List.of()).agrees()).isTrue();
  }

  @Test
  void everyReasonOfAPlanReachesTheExceptionOnce() {
    var plan = plan(HEADROOM, SeatPolicy.UNIFIED);
    StartupValidator.check(plan, List.of(RegisteredPool.of("sampler", KeyedBy.SEAT, 16))).orThrow();
    assertThat(StartupValidator.check(plan, List.of()).checked()).isEmpty();
  }

  /** Spec 01 §12.6: R = 8 with a pool of 16 has 17, 16, longest sequence + 1 and 17 rows. */
  @Test
  void speculativePoolsFollowTheSeats() {
    var seats = plan(HEADROOM, SeatPolicy.UNIFIED).seats();
    assertThat(SpeculativePool.MTP.rows(seats, OptionalInt.empty())).isEqualTo(17);
    assertThat(SpeculativePool.SUFFIX_AUTOMATON.rows(seats, OptionalInt.empty())).isEqualTo(16);
    assertThat(SpeculativePool.TREE.rows(seats, OptionalInt.empty())).isEqualTo(17);
    assertThat(SpeculativePool.EAGLE3.rows(seats, OptionalInt.of(4096))).isEqualTo(4097);
    assertThat(SpeculativePool.EAGLE3.rows(seats, OptionalInt.of(10))).isEqualTo(17);
  }
}
