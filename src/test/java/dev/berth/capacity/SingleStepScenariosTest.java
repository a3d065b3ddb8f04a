// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.RequestState;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Spec 02, table E: one call each, with page needs that are simply given, under the parity set. */
class SingleStepScenariosTest {
  private static void request(SchedulingTable table, int row, RequestState state, int pages) {
    table.begin(row, row, state, 10, 10);
    if (state.value() >= RequestState.GENERATION_TRANSFER_COMPLETE.value()) {
      table.context(row, 10, 0);
    }
    for (int pool = 0; pool < table.shape().pools().size(); pool++) {
      table.demand(row, pool, pages, pages, pages, 0);
    }
    table.markDirty(row);
    table.enter(row);
  }

  private static CapacityRules rules(CapacityRule rule, int cap) {
    return CapacityRules.parity(rule, cap);
  }

  private static List<Integer> fitting(SchedulingTable table, CapacityPlan plan) {
    return Lines.ids(table, plan.fitting(), plan::fitting);
  }

  private static SchedulingTable onePool(int rows, long free) {
    SchedulingTable table = new SchedulingTable(TableShape.of(rows, Pool.self(100, Pool.UNKNOWN)));
    table.freePages(0, free);
    return table;
  }

  @Test
  void twoFirstChunksWithoutPagesPauseNobody() {
    try (SchedulingTable table = onePool(2, 3)) {
      request(table, 0, RequestState.CONTEXT_INIT, 5);
      request(table, 1, RequestState.CONTEXT_INIT, 5);
      CapacityPlan plan =
          CapacityScheduler.of(table, rules(CapacityRule.MAX_UTILIZATION, 4)).schedule();
      assertThat(plan.fitting()).isZero();
      assertThat(plan.paused()).isZero();
    }
  }

  @Test
  void aStaticBatchAdmitsNobodyBesideAGeneration() {
    try (SchedulingTable table = onePool(2, 100)) {
      request(table, 0, RequestState.GENERATION, 1);
      request(table, 1, RequestState.CONTEXT_INIT, 1);
      CapacityPlan plan =
          CapacityScheduler.of(table, rules(CapacityRule.STATIC_BATCH, 4)).schedule();
      assertThat(fitting(table, plan)).containsExactly(0);
    }
  }

  @Test
  void whatIsReceivedIsReturnedApart() {
    try (SchedulingTable table = onePool(3, 100)) {
      request(table, 0, RequestState.CONTEXT_INIT, 1);
      request(table, 1, RequestState.GENERATION_INIT, 1);
      request(table, 2, RequestState.GENERATION, 1);
      CapacityPlan plan =
          CapacityScheduler.of(table, rules(CapacityRule.GUARANTEED_NO_EVICT, 4)).schedule();
      assertThat(Set.copyOf(fitting(table, plan))).containsExactlyInAnyOrder(0, 2);
      assertThat(Lines.ids(table, plan.receiving(), plan::receiving)).containsExactly(1);
    }
  }

  @Test
  void withoutPoolsStatesAloneDecide() {
    try (SchedulingTable table = new SchedulingTable(TableShape.of(3))) {
      request(table, 0, RequestState.UNKNOWN, 0);
      request(table, 1, RequestState.COMPLETE, 0);
      request(table, 2, RequestState.RETIRING, 0);
      CapacityPlan plan =
          CapacityScheduler.of(table, rules(CapacityRule.GUARANTEED_NO_EVICT, 4)).schedule();
      assertThat(fitting(table, plan)).containsExactly(2);
    }
  }

  @ParameterizedTest
  @CsvSource({"0, 0, 100, 2", "0, 1, 15, 1"})
  void anAdapterIsChargedOnce(int first, int second, int pages, int fitting) {
    try (SchedulingTable table =
        new SchedulingTable(TableShape.of(2, Pool.self(100, Pool.UNKNOWN)).withAdapters(2))) {
      table.freePages(0, 100);
      table.adapterPages(0, 10);
      table.adapterPages(1, 10);
      int[] adapters = {first, second};
      for (int row = 0; row < 2; row++) {
        request(table, row, RequestState.CONTEXT_INIT, 1);
        table.adapter(row, adapters[row]);
        table.markDirty(row);
      }
      CapacityRules rules =
          rules(CapacityRule.GUARANTEED_NO_EVICT, 4).withAdapterPages(pages);
      assertThat(CapacityScheduler.of(table, rules).schedule().fitting()).isEqualTo(fitting);
    }
  }

  @Test
  void theStagesCountDifferently() {
    try (SchedulingTable table = onePool(3, 100)) {
      request(table, 0, RequestState.CONTEXT_INIT, 1);
      request(table, 1, RequestState.CONTEXT_INIT, 1);
      request(table, 2, RequestState.GENERATION, 1);
      TwoStageScheduler scheduler =
          TwoStageScheduler.of(
              table,
              rules(CapacityRule.GUARANTEED_NO_EVICT, 4),
              BatchRules.parity(4, 15));
      assertThat(scheduler.schedule().size()).isLessThanOrEqualTo(2);
      assertThat(scheduler.capacity().fitting()).isEqualTo(3);
    }
  }

  @Test
  void theCrossPoolHasToFitToo() {
    try (SchedulingTable table =
        new SchedulingTable(
            TableShape.of(
                2, Pool.self(100, Pool.UNKNOWN), Pool.cross(100, Pool.UNKNOWN)))) {
      table.freePages(0, 100);
      table.freePages(1, 1);
      request(table, 0, RequestState.CONTEXT_INIT, 1);
      request(table, 1, RequestState.CONTEXT_INIT, 1);
      CapacityPlan plan =
          CapacityScheduler.of(table, rules(CapacityRule.GUARANTEED_NO_EVICT, 4)).schedule();
      assertThat(fitting(table, plan)).containsExactly(0);
      assertThat(plan.shortOf(1)).isEqualTo(1);
      assertThat(table.waitPool(1)).isEqualTo(1);
    }
  }
}
