// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import dev.berth.route.Seeds;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The one loop decides, and leaves behind, what the plain text of its rules does. */
class NaiveLoopProperties {
  private static final int CASES = 6_000;

  @ParameterizedTest
  @EnumSource
  void theLoopIsTheRules(PolicySet set) {
    compare(set, Seeds.seed("NaiveLoopProperties " + set), CASES);
  }

  @Tag("deep")
  @Test
  void theLoopIsTheRulesForLong() {
    long seed = Seeds.seed("NaiveLoopProperties deep");
    for (PolicySet set : PolicySet.values()) {
      compare(set, seed * 31, 60 * CASES);
    }
  }

  private static void compare(PolicySet set, long seed, int cases) {
    RandomTables tables = new RandomTables(Seeds.generator(seed));
    for (int i = 0; i < cases; i++) {
      RandomTables.LoopCase random = tables.nextLoop(set);
      String name = "%s, seed %d, case %d: %s".formatted(set, seed, i, RandomTables.text(random));
      try (SchedulingTable table = random.table()) {
        compare(random, table, name);
      }
    }
  }

  private static List<Integer> rows(Collection<NaiveLoop.Cached> requests) {
    return requests.stream().map(r -> r.req.row).toList();
  }

  private static void compare(RandomTables.LoopCase random, SchedulingTable table, String name) {
    OneLoopScheduler scheduler = OneLoopScheduler.of(table, random.rules());
    boolean lost =
        !random.cross()
            && random.rules().batch().rangeBegin() == CapacityRules.ENCODER_INIT
            && random.requests().stream().anyMatch(r -> r.req.encoder());
    if (lost) { // an encoder without a cross cache: nothing is touched
      assertThatThrownBy(scheduler::schedule).as(name).isInstanceOf(BerthException.class);
      assertCaches(random, table, name);
      return;
    }
    NaiveLoop expected =
        NaiveLoop.run(random.requests(), random.rules(), random.adapterPages(), random.cross());
    LoopPlan plan = scheduler.schedule();
    MicroBatch batch = plan.batch();
    assertThat(Lines.ids(table, batch.encoders(), batch::encoder))
        .as(name)
        .isEqualTo(rows(expected.encoders));
    assertThat(Lines.ids(table, batch.generations(), batch::generation))
        .as(name)
        .isEqualTo(rows(expected.generations));
    assertThat(Lines.ids(table, plan.receiving(), plan::receiving))
        .as(name)
        .isEqualTo(rows(expected.receiving));
    assertThat(Lines.ids(table, plan.suspended(), plan::suspended))
        .as(name)
        .isEqualTo(rows(expected.suspended));
    assertThat(Lines.ids(table, plan.recomputed(), plan::recomputed))
        .as(name)
        .isEqualTo(rows(expected.recomputed));
    assertThat(batch.contexts()).as(name).isEqualTo(expected.contexts.size());
    for (int i = 0; i < batch.contexts(); i++) {
      NaiveLoop.Context context = expected.contexts.get(i);
      assertThat(batch.contextRow(i)).as(name).isEqualTo(context.request().req.row);
      assertThat(batch.contextPosition(i)).as(name).isEqualTo(context.position());
      assertThat(batch.contextTokens(i)).as(name).isEqualTo(context.tokens());
      assertThat(batch.contextDrafts(i)).as(name).isEqualTo(context.request().req.drafts);
    }
    assertThat(batch.tokens()).as(name).isEqualTo(expected.budget);
    assertThat(plan.stalled()).as(name).isEqualTo(expected.stalled);
    assertCaches(random, table, name);
    everyRowHasItsReason(random, table, plan, expected, name);
  }

  private static void assertCaches(
      RandomTables.LoopCase random, SchedulingTable table, String name) {
    for (NaiveLoop.Cached r : random.requests()) {
      int row = r.req.row;
      assertThat(table.cacheTokens(row)).as("%s row %d", name, row).isEqualTo(r.tokens);
      if (r.tokens >= 0) {
        assertThat(table.residency(row) == SchedulingTable.Residency.RESIDENT)
            .as("%s row %d", name, row)
            .isEqualTo(r.resident);
      }
      assertThat(table.cursor(row)).as("%s row %d", name, row).isEqualTo(r.req.cursor);
      assertThat(table.cachedTokens(row)).as("%s row %d", name, row).isEqualTo(r.req.cached);
    }
  }

  /** Who runs has none; who doesn't has one, unless its life is over; all are counted. */
  private static void everyRowHasItsReason(
      RandomTables.LoopCase random,
      SchedulingTable table,
      LoopPlan plan,
      NaiveLoop expected,
      String name) {
    Set<NaiveLoop.Cached> running = new HashSet<>(expected.encoders);
    expected.contexts.forEach(c -> running.add(c.request()));
    running.addAll(expected.generations);
    running.addAll(expected.receiving);
    int[] counts = new int[WaitReason.values().length];
    for (NaiveLoop.Cached request : random.requests()) {
      int row = request.req.row;
      WaitReason reason = table.waitReason(row);
      counts[reason.ordinal()]++;
      RequestState state = request.req.state;
      boolean over =
          state == RequestState.COMPLETE
              || state == RequestState.UNKNOWN
              || state == RequestState.TRANSFER_ERROR;
      if (running.contains(request)) {
        assertThat(reason).as("%s row %d", name, row).isEqualTo(WaitReason.NONE);
      } else if (!over) {
        assertThat(reason)
            .as("%s row %d in state %s", name, row, state)
            .isNotEqualTo(WaitReason.NONE);
      }
    }
    for (WaitReason reason : WaitReason.values()) {
      if (reason != WaitReason.NONE) {
        assertThat(plan.deferred(reason))
            .as("%s %s", name, reason)
            .isEqualTo(counts[reason.ordinal()]);
      }
    }
  }
}
