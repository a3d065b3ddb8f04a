// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.plan.PlanOutcome.Planned;
import dev.berth.plan.PlanOutcome.Refused;
import dev.berth.plan.WhatIf.Switch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SeatPlanTest {
  private static WorkerShape shape(int b, int pp, String adp, String overlap, String disagg) {
    var builder = WorkerShape.builder(b).pipelineSize(pp);
    if (adp.equals("y")) {
      builder.with(Trait.ATTENTION_DP).ranks(4);
    }
    if (overlap.equals("on")) {
      builder.with(Trait.OVERLAP);
    }
    if (disagg.equals("y")) {
      builder.transferBackend("NIXL");
    }
    return builder.build();
  }

  private static SeatPlan split(WorkerShape shape) {
    return SeatPlan.of(shape, SeatPolicy.SPLIT).orThrow();
  }

  private static SeatPlan unified(WorkerShape shape) {
    return SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
  }

  /** Spec 01 §6.3, with pp = 4 for the rows of pp above 1, in units of B = 8. */
  @ParameterizedTest
  @CsvSource({
    "1, n, off, n, 1, 1, charged",
    "1, n, off, y, 1, 2, charged",
    "1, n, on, n, 1, 2, charged",
    "1, n, on, y, 1, 2, charged",
    "1, y, off, n, 1, 1, charged",
    "1, y, off, y, 1, 2, charged",
    "1, y, on, n, 2, 2, excluded",
    "1, y, on, y, 2, 2, excluded",
    "4, n, off, n, 4, 4, charged",
    "4, n, on, n, 4, 4, charged",
    "4, y, off, n, 4, 4, charged",
    "4, y, on, n, 4, 4, charged",
    "4, n, off, y, 4, 8, charged",
    "4, n, on, y, 4, 8, charged",
    "4, y, off, y, 4, 8, charged",
    "4, y, on, y, 4, 8, charged",
  })
  void splitFollowsThePublishedCoefficients(
      int pp, String adp, String overlap, String disagg, int seats, int leases, String retiring) {
    var plan = split(shape(8, pp, adp, overlap, disagg));
    assertThat(plan.seats().count()).isEqualTo(8 * seats);
    assertThat(plan.leases().count()).isEqualTo(8 * leases);
    assertThat(plan.excludesRetiring()).isEqualTo(retiring.equals("excluded"));
  }

  /** Spec 06 BC-10. */
  @ParameterizedTest
  @CsvSource({
    "1, n, off, n, 8, 8",
    "1, n, on, n, 8, 16",
    "1, y, off, y, 8, 16",
    "1, y, on, n, 16, 16",
    "1, y, on, y, 16, 16",
    "4, y, on, n, 32, 32",
    "4, y, on, y, 32, 64",
  })
  void splitFollowsTheRowsOfTheHeadroomReport(
      int pp, String adp, String overlap, String disagg, int seats, int leases) {
    var plan = split(shape(8, pp, adp, overlap, disagg));
    assertThat(plan.seats().count()).isEqualTo(seats);
    assertThat(plan.leases().count()).isEqualTo(leases);
  }

  @ParameterizedTest
  @CsvSource({
    "1, n, off, n, 8",
    "1, n, on, n, 8",
    "1, y, off, n, 8",
    "1, y, on, n, 16",
    "1, n, off, y, 16",
    "1, y, on, y, 16",
    "4, y, on, n, 32",
    "4, y, on, y, 64",
  })
  void unifiedHasAsManyLeasesAsSeatsAndWidensBothForTransfers(
      int pp, String adp, String overlap, String disagg, int seats) {
    var plan = unified(shape(8, pp, adp, overlap, disagg));
    assertThat(plan.seats().count()).isEqualTo(seats);
    assertThat(plan.leases().count()).isEqualTo(seats);
    assertThat(plan.transferAllowance()).isZero();
    assertThat(plan.overlapAllowance()).isZero();
  }

  @Test
  void theGateNamesEveryInputThatKeepsItClosed() {
    var closed =
        WorkerShape.builder(8)
            .pipelineSize(2)
            .beamWidth(2)
            .with(Trait.HYBRID, Trait.MROPE_DELTA)
            .build();
    assertThat(split(closed).headroom().closedBy()).containsExactly(HeadroomInput.values());
    var open = shape(8, 1, "y", "on", "y");
    assertThat(split(open).headroom().toString()).isEqualTo("open");
    assertThat(unified(open.toBuilder().without(Trait.OVERLAP).build()).headroom().toString())
        .isEqualTo("closed: overlap is off");
  }

  @ParameterizedTest
  @CsvSource({"HYBRID, unified-hybrid", "MROPE_DELTA, unified-mrope-delta"})
  void unifiedSeatsAreRefusedForModelsWhoseRowsEndAtBTimesPp(Trait trait, String rule) {
    var shape = WorkerShape.builder(8).pipelineSize(2).with(trait).build();
    assertThat(SeatPlan.of(shape, SeatPolicy.UNIFIED))
        .isInstanceOfSatisfying(
            Refused.class,
            refused ->
                assertThat(refused.reasons())
                    .singleElement()
                    .satisfies(reason -> assertThat(reason.rule()).isEqualTo(rule))
                    .satisfies(reason ->
                        assertThat(reason.message()).contains("B x pp = 16").contains("split")));
    assertThat(SeatPlan.of(shape, SeatPolicy.SPLIT)).isInstanceOf(Planned.class);
  }

  @Test
  void batchPositionsStayAtBWhateverElseGrows() {
    var plan = split(shape(8, 4, "y", "on", "y").toBuilder().with(Trait.HYBRID).build());
    assertThat(plan.batchPositions().count()).isEqualTo(8);
    assertThat(plan.stateRows()).isEqualTo(32);
    assertThat(plan.stateIndexRows()).isEqualTo(9);
  }

  /** Spec 01 §12.6: B = 2 with headroom has a mapper of 5, pp 2 with B = 4 one of 9. */
  @Test
  void indexCapacityIsLeasesAndTheReservedOnes() {
    assertThat(unified(shape(2, 1, "y", "on", "n")).indexCapacity()).isEqualTo(5);
    assertThat(unified(shape(2, 1, "y", "off", "n")).indexCapacity()).isEqualTo(3);
    assertThat(unified(shape(4, 2, "y", "on", "n")).indexCapacity()).isEqualTo(9);
    assertThat(unified(shape(4, 2, "y", "on", "n")).draftIndexCapacity()).isEqualTo(8);
    var pair = shape(4, 2, "y", "on", "n").toBuilder().with(Trait.CONFIDENCE_SCHEDULING);
    assertThat(unified(pair.build()).indexCapacity()).isEqualTo(10);
    assertThat(SeatPlan.of(pair.paddingLeases(1).build(), SeatPolicy.UNIFIED))
        .isInstanceOfSatisfying(
            Refused.class,
            refused ->
                assertThat(refused.reasons())
                    .extracting(Reason::message)
                    .containsExactly("padding needs 2 reserved leases, configured are 1"));
  }

  /** Spec 06 BC-12. */
  @Test
  void theStepsTokensCapARankAndSaySo() {
    var shape = WorkerShape.builder(64).draftTokens(3).ranks(8).with(Trait.ATTENTION_DP);
    var capped = unified(shape.maxNumTokens(128).build());
    assertThat(capped.admissionCap()).isEqualTo(32);
    assertThat(capped.fleetCapacity()).isEqualTo(256);
    assertThat(capped.advice())
        .singleElement()
        .satisfies(a -> assertThat(a.message()).endsWith(">= 256"));
    var full = unified(shape.maxNumTokens(256).build());
    assertThat(full.admissionCap()).isEqualTo(64);
    assertThat(full.advice()).isEmpty();
    assertThat(unified(shape.maxNumTokens(0).build()).admissionCap()).isEqualTo(64);
    assertThat(SeatPlan.of(shape.maxNumTokens(3).build(), SeatPolicy.UNIFIED))
        .isInstanceOfSatisfying(
            Refused.class,
            refused ->
                assertThat(refused.reasons())
                    .extracting(Reason::rule)
                    .containsExactly("step-tokens"));
  }

  /** Spec 06 BC-40: the batch size is a rank's own. */
  @Test
  void fleetCapacityIsRanksTimesTheCapOfOneRank() {
    var dp = WorkerShape.builder(64).ranks(8).with(Trait.ATTENTION_DP).build();
    assertThat(unified(dp).admissionCap()).isEqualTo(64);
    assertThat(unified(dp).fleetCapacity()).isEqualTo(512);
    var tp = WorkerShape.builder(64).ranks(8).build();
    assertThat(unified(tp).fleetCapacity()).isEqualTo(64);
  }

  @Test
  void theCapCountsPipelineStagesButNoSeats() {
    assertThat(unified(shape(8, 4, "n", "on", "n")).admissionCap()).isEqualTo(32);
    assertThat(unified(shape(8, 1, "y", "on", "y")).admissionCap()).isEqualTo(8);
  }

  /** Spec 01 §6.5. */
  @Test
  void aSingleSlotBecomesTwoUnderAttentionDp() {
    assertThat(unified(shape(1, 1, "y", "off", "n")).residentRequests()).isEqualTo(2);
    assertThat(unified(shape(1, 1, "y", "off", "n")).batchBudget()).isEqualTo(2);
    assertThat(unified(shape(1, 1, "n", "off", "n")).residentRequests()).isEqualTo(1);
    assertThat(unified(shape(1, 4, "y", "off", "n")).residentRequests()).isEqualTo(4);
    assertThat(unified(shape(8, 4, "y", "off", "n")).batchBudget()).isEqualTo(8);
  }

  /** Spec 01 §6.1: B = 64 with 64 tokens has rows 0 to 64, the last one reserved. */
  @Test
  void mropeRowsEndBesideTheReservedOne() {
    var shape = WorkerShape.builder(64).maxNumTokens(64).with(Trait.MROPE_DELTA);
    assertThat(split(shape.build()).mropeRows()).hasValue(65);
    assertThat(split(shape.build()).seats().count()).isEqualTo(64);
    assertThat(SeatPlan.of(shape.maxNumTokens(63).build(), SeatPolicy.SPLIT))
        .isInstanceOfSatisfying(
            Refused.class,
            refused ->
                assertThat(refused.reasons())
                    .extracting(Reason::message)
                    .containsExactly(
                        "the MRoPE delta cache has 63 rows beside its reserved one, but there are"
                            + " 64 seats"));
  }

  @Test
  void everyReasonIsGivenAtOnce() {
    var shape =
        WorkerShape.builder(64)
            .maxNumTokens(1)
            .draftTokens(3)
            .paddingLeases(0)
            .with(Trait.HYBRID, Trait.MROPE_DELTA, Trait.ATTENTION_DP)
            .build();
    var outcome = SeatPlan.of(shape, SeatPolicy.UNIFIED);
    assertThat(((Refused) outcome).reasons())
        .extracting(Reason::rule)
        .containsExactly(
            "unified-hybrid", "unified-mrope-delta", "padding-leases", "step-tokens", "mrope-rows");
    assertThatThrownBy(outcome::orThrow)
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("hybrid")
        .hasMessageContaining("padding needs 1");
  }

  @Test
  void sizesBeyondIntAreRefusedNotWrapped() {
    var shape =
        WorkerShape.builder(WorkerShape.MAX_BATCH_SIZE)
            .pipelineSize(WorkerShape.MAX_PIPELINE_SIZE)
            .ranks(WorkerShape.MAX_RANKS)
            .transferBackend("UCX")
            .with(Trait.ATTENTION_DP)
            .build();
    assertThat(((Refused) SeatPlan.of(shape, SeatPolicy.UNIFIED)).reasons())
        .extracting(Reason::message)
        .containsExactly(
            "leases with the reserved ones would be 2147483649; the most allowed is 2147483647",
            "fleet capacity would be 70368744177664; the most allowed is 2147483647");
  }

  /** Spec 01 §12.6: no transfer configuration, none, a back end. */
  @Test
  void disaggregatedMeansATransferEngineThatIsNotCalledNone() {
    assertThat(WorkerShape.builder(1).build().disaggregated()).isFalse();
    assertThat(WorkerShape.builder(1).transferBackend("none").build().disaggregated()).isFalse();
    assertThat(WorkerShape.builder(1).transferBackend("NIXL").build().disaggregated()).isTrue();
  }

  @Test
  void departuresAreListedAndChangeOnlyWhatTheyName() {
    var plan = unified(shape(2, 1, "y", "on", "n"));
    var changed =
        plan.withWhatIf(
            WhatIf.builder()
                .leases(2)
                .with(Switch.RESERVED_SPENDABLE, Switch.CHARGE_RETIRING)
                .build());
    assertThat(changed.seats().count()).isEqualTo(4);
    assertThat(changed.leases().count()).isEqualTo(2);
    assertThat(changed.indexCapacity()).isEqualTo(3);
    assertThat(changed.spendableLeases()).isEqualTo(3);
    assertThat(changed.excludesRetiring()).isFalse();
    assertThat(changed.describe())
        .endsWith(
            "[what if: leases = 2; ordinary requests may take the reserved leases; retiring"
                + " requests are charged]");
    assertThat(plan.spendableLeases()).isEqualTo(4);
    assertThat(plan.describe()).doesNotContain("what if");
    assertThat(changed.effective()).isNotEqualTo(plan.effective());
    assertThat(changed.withWhatIf(WhatIf.NONE).effective()).isEqualTo(plan.effective());
  }

  /** Evidence E3: B = 4, pp = 2: 8 and 8 of 9, against 12 and 12 of 13. */
  @Test
  void headroomUnderPipelineIsOneBatchMoreThanTheStages() {
    var plan = unified(shape(4, 2, "y", "on", "n"));
    assertThat(plan.describe())
        .isEqualTo(
            "B 4, seats 8, leases 8 + 1 reserved, H closed, overlap on, K 8, A 32, retiring"
                + " charged");
    var wide = plan.withWhatIf(WhatIf.builder().with(Switch.HEADROOM_UNDER_PIPELINE).build());
    assertThat(wide.seats().count()).isEqualTo(12);
    assertThat(wide.leases().count()).isEqualTo(12);
    assertThat(wide.indexCapacity()).isEqualTo(13);
    assertThat(wide.excludesRetiring()).isTrue();
  }

  @Test
  void aDepartureOutOfRangeIsMisuse() {
    assertThatThrownBy(() -> WhatIf.builder().seats(0).build()).isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> WorkerShape.builder(0).build())
        .hasMessage("maxBatchSize must be from 1 to 1048576, got 0");
  }
}
