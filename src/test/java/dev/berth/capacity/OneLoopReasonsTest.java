// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Why a request waits under the one loop: each of the closed set that it can give. */
class OneLoopReasonsTest {
  private static final int TOKENS_PER_PAGE = 10;

  private final SchedulingTable table =
      new SchedulingTable(TableShape.of(4, Pool.self(90, Pool.UNKNOWN)).withAdapters(2));

  private int next;

  private void generation(int adapter) {
    int row = next++;
    table.begin(row, row, RequestState.GENERATION, 9, 50);
    table.context(row, 9, 0);
    table.generatedTokens(row, 1);
    table.adapter(row, adapter);
    table.cache(row, 10, SchedulingTable.Residency.RESIDENT);
    enter(row);
  }

  private int context() {
    int row = next++;
    table.begin(row, row, RequestState.CONTEXT_INIT, 20, 50);
    enter(row);
    return row;
  }

  private void enter(int row) {
    table.markDirty(row);
    table.enter(row);
  }

  private LoopPlan schedule(int places, int tokens, int pages, int slots) {
    LoopRules rules =
        new LoopRules(
            BatchRules.of(places, tokens),
            PrefixSharing.ON,
            LoopRules.Reuse.AT_ONCE,
            3,
            LoopRules.Recompute.OFF,
            LoopRules.Tier.BELOW,
            TOKENS_PER_PAGE,
            pages,
            slots);
    return OneLoopScheduler.of(table, rules).schedule();
  }

  private void reasons(WaitReason... expected) {
    List<WaitReason> reasons =
        java.util.stream.IntStream.range(0, next).mapToObj(table::waitReason).toList();
    assertThat(reasons).isEqualTo(Arrays.asList(expected));
  }

  @Test
  void whoComesBehindAFullBatchWaitsForAPlace() {
    for (int i = 0; i < 3; i++) {
      generation(-1);
    }
    context();
    LoopPlan plan = schedule(2, 100, 100, 9);
    reasons(WaitReason.NONE, WaitReason.NONE, WaitReason.BATCH, WaitReason.BATCH);
    assertThat(plan.deferred(WaitReason.BATCH)).isEqualTo(2);
    assertThat(plan.deferred(WaitReason.PAGES)).isZero();
  }

  @Test
  void whoComesBehindASpentBudgetWaitsForTokens() {
    for (int i = 0; i < 3; i++) {
      generation(-1);
    }
    schedule(9, 1, 100, 9);
    reasons(WaitReason.NONE, WaitReason.TOKENS, WaitReason.TOKENS);
  }

  @Test
  void whoComesBehindAnAdapterThatDoesNotFitWaitsForIt() {
    table.adapterPages(0, 2);
    table.adapterPages(1, 2);
    generation(0);
    generation(1);
    generation(0);
    schedule(9, 100, 100, 9);
    reasons(WaitReason.NONE, WaitReason.ADAPTER, WaitReason.ADAPTER);
  }

  @Test
  void whoFindsNoRoomWaitsForPagesAndSoDoesWhoMadeRoom() {
    for (int i = 0; i < 4; i++) {
      generation(-1);
    }
    LoopPlan plan = schedule(9, 100, 4, 9);
    reasons(WaitReason.NONE, WaitReason.NONE, WaitReason.PAGES, WaitReason.PAGES);
    assertThat(plan.suspended()).isEqualTo(2);
    assertThat(plan.shortOf(0)).isEqualTo(2);
  }

  @Test
  void aContextWithoutACacheSlotWaitsForALease() {
    generation(-1);
    context();
    schedule(9, 100, 100, 1);
    reasons(WaitReason.NONE, WaitReason.LEASE);
  }

  @Test
  void aContextWhosePrefixIsBeingComputedWaitsForIt() {
    int first = context();
    int second = context();
    for (int row : new int[] {first, second}) {
      table.firstBlock(row, 77);
      table.markDirty(row);
    }
    schedule(9, 100, 100, 9);
    reasons(WaitReason.NONE, WaitReason.PREFIX);
  }

  @Test
  void whatIsOutsideTheRangeSaysWhatItWaitsFor() {
    int transfer = context();
    int retiring = context();
    int encoder = context();
    int flying = context();
    table.state(transfer, RequestState.GENERATION_TRANSFER);
    table.state(retiring, RequestState.RETIRING);
    table.context(retiring, 20, 0);
    table.awaitEncoder(encoder);
    table.inFlight(flying, 1);
    for (int row = 0; row < next; row++) {
      table.markDirty(row);
    }
    schedule(9, 100, 100, 9);
    reasons(WaitReason.TRANSFER, WaitReason.RETIRING, WaitReason.ENCODER, WaitReason.IN_FLIGHT);
  }
}
