// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import dev.berth.route.AllocatedBytes;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.random.RandomGenerator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Rows, their checks, their order, and what a table refuses. */
class SchedulingTableTest {
  private static SchedulingTable table(int rows) {
    SchedulingTable table =
        new SchedulingTable(
            TableShape.of(rows, Pool.self(64, 100).withPageIds(8))
                .withAdapters(2)
                .withHeldPages(4)
                .withSnapshotPoints(3));
    table.freePages(0, 100);
    return table;
  }

  private static void context(SchedulingTable table, int row) {
    table.begin(row, 1000 + row, RequestState.CONTEXT_INIT, 10, 5);
  }

  @Test
  void aRowThatWasWrittenAndNotMarkedIsNotScheduled() {
    try (SchedulingTable table = table(2)) {
      CapacityScheduler scheduler =
          CapacityScheduler.of(table, CapacityRules.of(CapacityRule.GUARANTEED_NO_EVICT, 4));
      context(table, 0);
      table.markDirty(0);
      table.enter(0);
      assertThat(scheduler.schedule().fitting()).isEqualTo(1);
      table.draftTokens(0, 2);
      assertThatThrownBy(scheduler::schedule)
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("row 0 (request 1000)")
          .hasMessageContaining("marked dirty");
      table.markDirty(0);
      assertThat(scheduler.schedule().fitting()).isEqualTo(1);
    }
  }

  @Test
  void aRowThatWasNeverBegunCannotEnter() {
    try (SchedulingTable table = table(2)) {
      assertThatThrownBy(() -> table.enter(1)).hasMessageContaining("never begun");
      assertThatThrownBy(() -> table.markDirty(1)).hasMessageContaining("never initialised");
      assertThatThrownBy(() -> table.leave(1)).hasMessageContaining("isn't in use");
      assertThatThrownBy(() -> table.markDirty(2)).isInstanceOf(IndexOutOfBoundsException.class);
      assertThatThrownBy(() -> context(table, -1)).isInstanceOf(IndexOutOfBoundsException.class);
    }
  }

  private static Arguments bad(String field, BiConsumer<SchedulingTable, Integer> write) {
    return Arguments.of(field, write);
  }

  private static Stream<Arguments> badRows() {
    return Stream.of(
        bad("context cursor", (t, r) -> t.context(r, 10, 0)),
        bad("context cursor", (t, r) -> t.context(r, -1, 0)),
        bad("context cursor", (t, r) -> t.context(r, 2, 3)),
        bad("cached tokens", (t, r) -> t.context(r, 0, -1)),
        bad("context chunk", (t, r) -> t.contextChunk(r, 11)),
        bad("context chunk", (t, r) -> t.contextChunk(r, -1)),
        bad("generated tokens", (t, r) -> t.generatedTokens(r, -1)),
        bad("draft tokens", (t, r) -> t.draftTokens(r, -1)),
        bad("draft tokens", (t, r) -> t.draftTokens(r, 1 << 20)),
        bad("beam width", (t, r) -> t.beamWidth(r, 0)),
        bad("adapter", (t, r) -> t.adapter(r, 2)),
        bad("adapter", (t, r) -> t.adapter(r, -2)),
        bad("launches in flight", (t, r) -> t.inFlight(r, -1)),
        bad("encoder tokens", (t, r) -> t.encoderTokens(r, -1)),
        bad("encoder tokens", (t, r) -> t.state(r, RequestState.ENCODER_INIT)),
        bad("reusable tokens", (t, r) -> t.reusableTokens(r, -1)),
        bad("priority", (t, r) -> t.priority(r, Double.NaN)),
        bad("snapshot points", (t, r) -> t.snapshotPoints(r, 4, 4)),
        bad("snapshot points", (t, r) -> t.snapshotPoints(r, 0)),
        bad("page demand", (t, r) -> t.demand(r, 0, -1, 0, 0, 0)),
        bad("page demand", (t, r) -> t.demand(r, 0, 0, 0, 0, -1)),
        bad("held pages", (t, r) -> t.held(r, 0, -1)),
        bad("held pages", (t, r) -> t.held(r, 0, new int[] {8}, 1)),
        bad("cache", (t, r) -> t.cache(r, -2, SchedulingTable.Residency.RESIDENT)),
        bad("cache", (t, r) -> t.prepareTokens(r, 10)));
  }

  @ParameterizedTest
  @MethodSource("badRows")
  void aBadRowIsRefusedByRowAndField(String field, BiConsumer<SchedulingTable, Integer> write) {
    try (SchedulingTable table = table(4)) {
      context(table, 3);
      write.accept(table, 3);
      assertThatThrownBy(() -> table.markDirty(3))
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("row 3 (request 1003)")
          .hasMessageContaining(field);
      table.enter(3);
      assertThatThrownBy(
              CapacityScheduler.of(table, CapacityRules.of(CapacityRule.MAX_UTILIZATION, 4))
                  ::schedule)
          .hasMessageContaining("row 3");
    }
  }

  @Test
  void aBadPromptIsRefused() {
    try (SchedulingTable table = table(1)) {
      table.begin(0, 7, RequestState.CONTEXT_INIT, 0, 5);
      assertThatThrownBy(() -> table.markDirty(0)).hasMessageContaining("prompt tokens");
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = RequestState.class,
      names = {"UNKNOWN", "ENCODER_INIT", "GENERATION_INIT", "GENERATION_TRANSFER", "COMPLETE"})
  void aRowInAWrongStateIsNotPaused(RequestState state) {
    try (SchedulingTable table = table(4)) {
      table.begin(2, 1002, state, 10, 5);
      table.encoderTokens(2, 8);
      table.markDirty(2);
      assertThatThrownBy(() -> table.pause(2, 100))
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("row 2 (request 1002)")
          .hasMessageContaining("state");
      assertThat(table.state(2)).isEqualTo(state);
    }
  }

  @Test
  void theFirstBadRowOfManyIsNamed() {
    try (SchedulingTable table = table(4)) {
      for (int row = 0; row < 4; row++) {
        context(table, row);
      }
      table.beamWidth(2, 0);
      table.beamWidth(3, 0);
      assertThatThrownBy(() -> table.markDirty(new int[] {0, 1, 2, 3}, 4))
          .hasMessageContaining("row 2");
    }
  }

  @Test
  void impossibleShapesAreRefused() {
    assertThatThrownBy(() -> Pool.self(0, 1)).hasMessageContaining("window");
    assertThatThrownBy(() -> new SchedulingTable(TableShape.of(0)))
        .isInstanceOf(BerthException.class);
    assertThatThrownBy(
            () -> new SchedulingTable(TableShape.of(1, Pool.cross(8, 1), Pool.self(8, 1))))
        .isInstanceOf(BerthException.class);
  }

  @Test
  void impossibleRulesAreNamed() {
    try (SchedulingTable table = table(1)) {
      assertThatThrownBy(
              () -> CapacityScheduler.of(table, CapacityRules.of(CapacityRule.STATIC_BATCH, 0)))
          .hasMessageContaining("max requests");
      assertThatThrownBy(() -> MicroBatchScheduler.of(table, BatchRules.of(0, 8)))
          .hasMessageContaining("max batch size");
      assertThatThrownBy(() -> MicroBatchScheduler.of(table, BatchRules.of(1, -1)))
          .hasMessageContaining("max number of tokens");
      BatchRules unit = BatchRules.of(4, 8).withChunking(Chunking.EQUAL_PROGRESS, 9);
      assertThatThrownBy(() -> MicroBatchScheduler.of(table, unit))
          .hasMessageContaining("chunk unit");
      MicroBatchScheduler.of(table, unit.withSet(PolicySet.TRTLLM_2026_09));
      assertThatThrownBy(() ->
              TwoStageScheduler.of(
                  table, CapacityRules.of(CapacityRule.STATIC_BATCH, 1), BatchRules.parity(1, 1)))
          .hasMessageContaining("disagree");
    }
  }

  @Test
  void everyPolicyHasItsNameAndNoOther() {
    for (CapacityRule rule : CapacityRule.values()) {
      assertThat(CapacityRule.byName(rule.name())).contains(rule);
    }
    for (Chunking chunking : Chunking.values()) {
      assertThat(Chunking.byName(chunking.name())).contains(chunking);
    }
    for (PolicySet set : PolicySet.values()) {
      assertThat(PolicySet.byId(set.toString())).contains(set);
    }
    for (String other : List.of("", "max_utilization", "GUARANTEED", "NO_EVICT ")) {
      assertThat(CapacityRule.byName(other)).isEmpty();
      assertThat(Chunking.byName(other)).isEmpty();
      assertThat(PolicySet.byId(other)).isEmpty();
    }
  }

  @Test
  void aClosedTableSaysSo() {
    SchedulingTable table = table(1);
    CapacityScheduler scheduler =
        CapacityScheduler.of(table, CapacityRules.of(CapacityRule.MAX_UTILIZATION, 4));
    table.close();
    table.close();
    assertThatThrownBy(scheduler::schedule).isInstanceOf(RuntimeException.class);
  }

  @Test
  void aUsedRowCannotBeBegunAgain() {
    try (SchedulingTable table = table(1)) {
      context(table, 0);
      assertThatThrownBy(() -> context(table, 0)).hasMessageContaining("in use by request 1000");
    }
  }

  /** A list of (priority, arrival) beside it, for thousands of random steps. */
  @Test
  void theOrderIsByPriorityThenEntryWhateverLeaves() {
    long seed = Seeds.seed("SchedulingTableTest order");
    RandomGenerator random = Seeds.generator(seed);
    try (SchedulingTable table = table(64)) {
      List<Integer> expected = new ArrayList<>();
      double[] priority = new double[64];
      for (int step = 0; step < 20_000; step++) {
        int row = random.nextInt(64);
        if (expected.contains(row)) {
          table.leave(row);
          expected.remove((Integer) row);
        } else {
          context(table, row);
          priority[row] = random.nextInt(4) / 4.0;
          table.priority(row, priority[row]);
          table.markDirty(row);
          table.enter(row);
          int at = 0;
          while (at < expected.size() && priority[expected.get(at)] >= priority[row]) {
            at++;
          }
          expected.add(at, row);
        }
        if (random.nextInt(5) == 0) {
          List<Integer> order = new ArrayList<>();
          for (int place = 0; place < table.size(); place++) {
            order.add(table.row(place));
          }
          assertThat(order).as("seed %d, step %d", seed, step).isEqualTo(expected);
        }
      }
    }
  }

  @Test
  void aPauseKeepsTheTokensOfOneBeamAndLosesThoseOfMore() {
    try (SchedulingTable table = table(2)) {
      for (int row = 0; row < 2; row++) {
        table.begin(row, row, RequestState.GENERATION, 10, 80);
        table.context(row, 10, 0);
        table.generatedTokens(row, 41);
        table.beamWidth(row, 1 + row);
        table.markDirty(row);
        table.pause(row, 1000);
        assertThat(table.state(row)).isEqualTo(RequestState.CONTEXT_INIT);
        assertThat(table.cursor(row)).isZero();
      }
      assertThat(table.promptTokens(0)).isEqualTo(51);
      assertThat(table.maxNewTokens(0)).isEqualTo(39);
      assertThat(table.promptTokens(1)).isEqualTo(10);
      assertThat(table.maxNewTokens(1)).isEqualTo(80);
    }
  }

  @Test
  void aPolicyOfOnesOwnReplacesTheNativeOne() {
    try (SchedulingTable table = table(3)) {
      for (int row = 0; row < 3; row++) {
        context(table, row);
        table.markDirty(row);
        table.enter(row);
      }
      CapacityPolicy lastFirst =
          (view, selection) -> {
            for (int place = view.size() - 1; place >= 1; place--) {
              selection.fit(view.row(place));
            }
          };
      TwoStageScheduler scheduler =
          TwoStageScheduler.of(
              table,
              CapacityRules.of(CapacityRule.MAX_UTILIZATION, 2),
              BatchRules.of(1, 64),
              lastFirst);
      MicroBatch batch = scheduler.schedule();
      assertThat(scheduler.capacity().fitting()).isEqualTo(2);
      assertThat(batch.contexts()).isEqualTo(1);
      assertThat(batch.contextRow(0)).isEqualTo(2);
      assertThat(table.waitReason(0)).isEqualTo(WaitReason.GATE);
      assertThat(table.waitReason(1)).isEqualTo(WaitReason.BATCH);
    }
  }

  @Test
  void aPolicyThatSelectsWhatItMustNotIsStopped() {
    try (SchedulingTable table = table(3)) {
      for (int row = 0; row < 2; row++) {
        context(table, row);
        table.markDirty(row);
        table.enter(row);
      }
      List<CapacityPolicy> wrong =
          List.of(
              (view, selection) -> selection.receive(0),
              (view, selection) -> selection.fit(2),
              (view, selection) -> {
                selection.fit(0);
                selection.fit(0);
              },
              (view, selection) -> {
                selection.fit(0);
                selection.fit(1);
              });
      for (CapacityPolicy policy : wrong) {
        CapacityScheduler scheduler =
            CapacityScheduler.of(table, CapacityRules.of(CapacityRule.MAX_UTILIZATION, 1), policy);
        assertThatThrownBy(scheduler::schedule).isInstanceOf(BerthException.class);
      }
    }
  }

  @Test
  void aCallAllocatesNothing() {
    try (SchedulingTable table = table(64)) {
      for (int row = 0; row < 64; row++) {
        context(table, row);
        table.markDirty(row);
        table.enter(row);
      }
      TwoStageScheduler scheduler =
          TwoStageScheduler.of(
              table, CapacityRules.of(CapacityRule.MAX_UTILIZATION, 64), BatchRules.of(64, 4096));
      for (int i = 0; i < 20_000; i++) {
        scheduler.schedule();
      }
      assertThat(
              AllocatedBytes.by(() -> {
                for (int i = 0; i < 1_000; i++) {
                  scheduler.schedule();
                }
              }))
          .isLessThan(1_000);
    }
  }
}
