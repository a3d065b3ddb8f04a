// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.test.GoldenLines;
import dev.berth.test.GoldenLines.Line;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Batch vectors, all of them, under the parity set. */
class GoldenMicroBatchTest {
  @ParameterizedTest
  @ValueSource(strings = {"no_chunking", "equal_progress", "fcfs", "force_chunk"})
  void everyLineComesOut(String chunking) {
    for (Line line : GoldenLines.read("microbatch_" + chunking + ".jsonl")) {
      try (SchedulingTable table = table(line)) {
        BatchRules rules =
            Lines.batchRules(
                line,
                Lines.orZero(line, "max_context_length"),
                line.integer("no_schedule_after_state"));
        MicroBatchScheduler scheduler = MicroBatchScheduler.of(table, rules);
        Line expected = line.object("expected");
        String name = chunking + " case " + line.integer("case");
        if (!Lines.isNull(expected, "error")) {
          refuses(scheduler::schedule, expected.text("error"), name);
          continue;
        }
        MicroBatch batch = scheduler.schedule();
        assertBatch(line, table, batch, name);
        assertThat(drafts(line, table, batch))
            .as(name)
            .isEqualTo(expected.object("draft_tokens_after").values());
        assertThat(batch.tokens()).as(name).isEqualTo(expected.number("batch_num_tokens"));
      }
    }
  }

  @Test
  void everyLineOfBothStagesComesOut() {
    for (Line line : GoldenLines.read("microbatch_unified.jsonl")) {
      try (SchedulingTable table = Lines.capacity(line)) {
        Lines.inFlight(table, line);
        int cap =
            Lines.isNull(line, "scheduler_capacity")
                ? line.integer("max_batch_size")
                : line.integer("scheduler_capacity");
        TwoStageScheduler scheduler =
            TwoStageScheduler.of(
                table,
                Lines.capacityRules(line, cap),
                Lines.batchRules(
                    line, Lines.orZero(line, "max_num_tokens"), CapacityRules.RETIRING));
        Line expected = line.object("expected");
        String name = "case " + line.integer("case");
        if (!Lines.isNull(expected, "error")) {
          refuses(scheduler::schedule, expected.text("error"), name);
          continue;
        }
        MicroBatch batch = scheduler.schedule();
        CapacityPlan plan = scheduler.capacity();
        assertBatch(line, table, batch, name);
        assertThat(Lines.ids(table, plan.paused(), plan::paused))
            .as(name)
            .isEqualTo(expected.integers("paused"));
        assertThat(Lines.ids(table, plan.receiving(), plan::receiving))
            .as(name)
            .isEqualTo(expected.integers("fitting_disagg_gen_init"));
        assertThat(plan.fitting()).as(name).isEqualTo(expected.integer("num_fitting_requests"));
      }
    }
  }

  private static SchedulingTable table(Line line) {
    List<Map<String, Object>> requests = line.maps("requests");
    SchedulingTable table =
        new SchedulingTable(Lines.shape(line));
    for (int row = 0; row < requests.size(); row++) {
      Lines.begin(table, row, requests.get(row));
      table.markDirty(row);
      table.enter(row);
    }
    Lines.inFlight(table, line);
    return table;
  }

  private static void refuses(ThrowingCallable call, String error, String name) {
    // A request that is too long is named; a unit that is too long is a rule.
    String message = error.equals("AssertionError") ? "tokens" : "argument";
    assertThatThrownBy(call)
        .as(name)
        .isInstanceOf(BerthException.class)
        .hasMessageContaining(message);
  }

  private static void assertBatch(
      Line line, SchedulingTable table, MicroBatch batch, String name) {
    Line expected = line.object("expected");
    boolean chunks = !Lines.isNull(line, "chunking");
    assertThat(Lines.ids(table, batch.encoders(), batch::encoder))
        .as(name)
        .isEqualTo(expected.integers("encoder"));
    assertThat(Lines.ids(table, batch.generations(), batch::generation))
        .as(name)
        .isEqualTo(expected.integers("generation"));
    assertThat(Lines.contexts(table, batch, chunks))
        .as(name)
        .isEqualTo(expected.values().get("context"));
  }

  private static Map<String, Object> drafts(Line line, SchedulingTable table, MicroBatch batch) {
    Map<String, Object> drafts = new LinkedHashMap<>();
    for (Map<String, Object> request : line.maps("requests")) {
      drafts.put(String.valueOf(request.get("id")), request.get("draft_tokens"));
    }
    for (int i = 0; i < batch.contexts(); i++) {
      drafts.put(String.valueOf(table.id(batch.contextRow(i))), batch.contextDrafts(i));
    }
    return drafts;
  }
}
