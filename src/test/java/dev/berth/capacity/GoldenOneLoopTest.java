// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.test.GoldenLines;
import dev.berth.test.GoldenLines.Line;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** One-loop vectors, all of them, under the parity set. */
class GoldenOneLoopTest {
  @Test
  void everyLineComesOut() {
    for (Line line : GoldenLines.read("capacity_v2.jsonl")) {
      try (SchedulingTable table = table(line)) {
        OneLoopScheduler scheduler = OneLoopScheduler.of(table, rules(line));
        Line expected = line.object("expected");
        String name = "case " + line.integer("case");
        if (!Lines.isNull(expected, "error")) {
          assertThatThrownBy(scheduler::schedule).as(name).isInstanceOf(BerthException.class);
          continue;
        }
        LoopPlan plan = scheduler.schedule();
        MicroBatch batch = plan.batch();
        assertThat(Lines.ids(table, batch.encoders(), batch::encoder))
            .as(name)
            .isEqualTo(expected.integers("encoder"));
        assertThat(contexts(line, table, batch))
            .as(name)
            .isEqualTo(expected.values().get("context"));
        assertThat(Lines.ids(table, batch.generations(), batch::generation))
            .as(name)
            .isEqualTo(expected.integers("generation"));
        assertThat(Lines.ids(table, plan.suspended(), plan::suspended))
            .as(name)
            .isEqualTo(expected.integers("paused"));
        assertThat(Lines.ids(table, plan.recomputed(), plan::recomputed))
            .as(name)
            .isEqualTo(expected.integers("recompute_paused"));
        assertThat(Lines.ids(table, plan.receiving(), plan::receiving))
            .as(name)
            .isEqualTo(expected.integers("disagg_gen_init"));
        assertThat(batch.size()).as(name).isEqualTo(expected.integer("num_fitting_requests"));
        assertThat(batch.tokens()).as(name).isEqualTo(expected.number("budget_tokens"));
        assertThat(plan.stalled() ? 1 : 0)
            .as(name)
            .isEqualTo(expected.integer("stalled_schedules"));
        assertThat(caches(table)).as(name).isEqualTo(expected.object("caches_after").values());
      }
    }
  }

  private static SchedulingTable table(Line line) {
    List<Map<String, Object>> requests = line.maps("requests");
    Pool self = Pool.self(1 << 20, Pool.UNKNOWN);
    boolean cross = line.integer("no_schedule_until_state") == CapacityRules.ENCODER_INIT;
    TableShape shape =
        cross
            ? Lines.shape(line, self, Pool.cross(1 << 20, Pool.UNKNOWN))
            : Lines.shape(line, self);
    SchedulingTable table =
        new SchedulingTable(shape);
    Lines.adapters(table, line);
    for (int row = 0; row < requests.size(); row++) {
      Map<String, Object> request = requests.get(row);
      Lines.begin(table, row, request);
      table.prepareTokens(row, Lines.integer(request, "reuse_on_prepare", 0));
      Object cache = request.get("cache");
      if (cache != null) {
        table.cache(
            row,
            Lines.integer(Lines.object(cache), "capacity", 0),
            Boolean.TRUE.equals(Lines.object(cache).get("active"))
                ? SchedulingTable.Residency.RESIDENT
                : SchedulingTable.Residency.SUSPENDED);
      }
      table.markDirty(row);
      table.enter(row);
    }
    Lines.inFlight(table, line);
    return table;
  }

  private static LoopRules rules(Line line) {
    Line kv = line.object("kv");
    LoopRules.Reuse reuse =
        !kv.bool("block_reuse")
            ? LoopRules.Reuse.OFF
            : kv.text("block_reuse_policy").equals("ALL_REUSABLE")
                ? LoopRules.Reuse.AT_ONCE
                : LoopRules.Reuse.LATE;
    return new LoopRules(
        Lines.batchRules(line, Lines.orZero(line, "max_num_tokens"), CapacityRules.RETIRING),
        line.bool("enable_prefix_aware_scheduling") ? PrefixSharing.ON : PrefixSharing.OFF,
        reuse,
        Lines.adapterPages(line),
        line.bool("enable_recompute_pause") ? LoopRules.Recompute.ON : LoopRules.Recompute.OFF,
        kv.bool("tier_below_gpu") ? LoopRules.Tier.BELOW : LoopRules.Tier.NONE,
        kv.integer("tokens_per_block"),
        kv.integer("gpu_pages"),
        kv.integer("index_slots"));
  }

  private static List<List<@Nullable Object>> contexts(
      Line line, SchedulingTable table, MicroBatch batch) {
    List<List<@Nullable Object>> contexts = new ArrayList<>();
    for (int i = 0; i < batch.contexts(); i++) {
      List<@Nullable Object> context = new ArrayList<>();
      context.add((int) table.id(batch.contextRow(i)));
      context.add(batch.contextPosition(i));
      context.add(Lines.isNull(line, "chunking") ? null : batch.contextTokens(i));
      contexts.add(context);
    }
    return contexts;
  }

  private static Map<String, Object> caches(SchedulingTable table) {
    Map<String, Object> caches = new LinkedHashMap<>();
    for (int place = 0; place < table.size(); place++) {
      int row = table.row(place);
      if (table.cacheTokens(row) >= 0) {
        caches.put(
            String.valueOf(table.id(row)),
            List.of(
                table.cacheTokens(row),
                table.residency(row) == SchedulingTable.Residency.RESIDENT));
      }
    }
    return caches;
  }
}
