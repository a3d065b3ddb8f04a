// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The native core decides what the plain text of the rules decides, whatever comes. */
class NaiveSchedulingProperties {
  private static final int CASES = 4_000;

  @ParameterizedTest
  @EnumSource
  void bothStagesAreTheRules(PolicySet set) {
    compare(set, Seeds.seed("NaiveSchedulingProperties " + set), CASES);
  }

  @Tag("deep")
  @Test
  void bothStagesAreTheRulesForLong() {
    long seed = Seeds.seed("NaiveSchedulingProperties deep");
    for (PolicySet set : PolicySet.values()) {
      compare(set, seed * 31, 60 * CASES);
    }
  }

  private static void compare(PolicySet set, long seed, int cases) {
    RandomTables tables = new RandomTables(Seeds.generator(seed));
    for (int i = 0; i < cases; i++) {
      RandomTables.Case random = tables.next(set);
      String name = "%s, seed %d, case %d".formatted(set, seed, i);
      try (SchedulingTable table = random.table()) {
        both(random, table, name); // nobody waited yet
        capacityAlone(random, table, name);
        batchAlone(random, table, name);
        both(random, table, name);
      }
    }
  }

  private static List<Integer> rows(List<Naive.Req> requests) {
    return requests.stream().map(r -> r.row).toList();
  }

  private static void capacityAlone(RandomTables.Case random, SchedulingTable table, String name) {
    CapacityScheduler scheduler = CapacityScheduler.of(table, random.capacity());
    Naive.Plan expected;
    try {
      expected =
          Naive.capacity(
              random.requests(),
              random.pools(),
              random.adapterPages(),
              random.capacity(),
              Optional.empty());
    } catch (Naive.Refused refused) {
      assertThatThrownBy(scheduler::schedule).as(name).isInstanceOf(BerthException.class);
      return;
    }
    assertPlan(table, scheduler.schedule(), expected, name);
  }

  private static void assertPlan(
      SchedulingTable table, CapacityPlan plan, Naive.Plan expected, String name) {
    assertThat(Lines.ids(table, plan.fitting(), plan::fitting))
        .as(name)
        .isEqualTo(rows(expected.fitting()));
    assertThat(Lines.ids(table, plan.receiving(), plan::receiving))
        .as(name)
        .isEqualTo(rows(expected.receiving()));
    assertThat(Lines.ids(table, plan.paused(), plan::paused))
        .as(name)
        .isEqualTo(rows(expected.paused()));
  }

  private static void batchAlone(RandomTables.Case random, SchedulingTable table, String name) {
    MicroBatchScheduler scheduler = MicroBatchScheduler.of(table, random.batch());
    Naive.Batch expected;
    try {
      expected = Naive.batch(random.requests(), random.batch());
    } catch (Naive.Refused refused) {
      assertThatThrownBy(scheduler::schedule).as(name).isInstanceOf(BerthException.class);
      return;
    }
    assertBatch(table, scheduler.schedule(), expected, name);
  }

  private static void assertBatch(
      SchedulingTable table, MicroBatch batch, Naive.Batch expected, String name) {
    assertThat(Lines.ids(table, batch.encoders(), batch::encoder))
        .as(name)
        .isEqualTo(rows(expected.encoders()));
    assertThat(Lines.ids(table, batch.generations(), batch::generation))
        .as(name)
        .isEqualTo(rows(expected.generations()));
    List<List<Integer>> contexts = new ArrayList<>();
    for (int i = 0; i < batch.contexts(); i++) {
      contexts.add(List.of(batch.contextRow(i), batch.contextTokens(i), batch.contextDrafts(i)));
    }
    assertThat(contexts)
        .as(name)
        .isEqualTo(
            expected.contexts().stream()
                .map(c -> List.of(c.req().row, c.tokens(), c.drafts()))
                .toList());
    assertThat(batch.tokens()).as(name).isEqualTo(expected.tokens());
  }

  private static void both(RandomTables.Case random, SchedulingTable table, String name) {
    TwoStageScheduler scheduler = TwoStageScheduler.of(table, random.capacity(), random.batch());
    Naive.Plan plan;
    Naive.Batch batch;
    try {
      plan =
          Naive.capacity(
              random.requests(),
              random.pools(),
              random.adapterPages(),
              random.capacity(),
              Optional.of(random.batch()));
      batch = Naive.batch(plan.fitting(), random.batch());
    } catch (Naive.Refused refused) {
      assertThatThrownBy(scheduler::schedule).as(name).isInstanceOf(BerthException.class);
      return;
    }
    assertBatch(table, scheduler.schedule(), batch, name);
    assertPlan(table, scheduler.capacity(), plan, name);
    everyRowHasItsReason(random, table, scheduler, batch, name);
  }

  /** The same decisions from Java, through the interface that users have. */
  @ParameterizedTest
  @EnumSource
  void aPolicyOfOnesOwnThatDecidesAlikeGivesTheSameIteration(PolicySet set) {
    long seed = Seeds.seed("NaiveSchedulingProperties own " + set);
    RandomTables tables = new RandomTables(Seeds.generator(seed));
    for (int i = 0; i < CASES; i++) {
      RandomTables.Case random = tables.next(set);
      String name = "%s, seed %d, case %d".formatted(set, seed, i);
      Naive.Plan plan;
      Naive.Batch batch;
      try {
        plan =
            Naive.capacity(
                random.requests(),
                random.pools(),
                random.adapterPages(),
                random.capacity(),
                Optional.of(random.batch()));
        batch = Naive.batch(plan.fitting(), random.batch());
      } catch (Naive.Refused refused) {
        continue;
      }
      if (plan.fitting().stream().anyMatch(r -> !r.encoder() && !r.context() && !r.generation())) {
        assertThat(set).as(name).isEqualTo(PolicySet.TRTLLM_2026_09); // D8; ours may not
        continue;
      }
      CapacityPolicy own =
          (view, selection) -> {
            plan.fitting().forEach(r -> selection.fit(r.row));
            plan.receiving().forEach(r -> selection.receive(r.row));
            plan.paused().forEach(r -> selection.pause(r.row));
          };
      try (SchedulingTable table = random.table()) {
        CapacityScheduler alone = CapacityScheduler.of(table, random.capacity(), own);
        assertPlan(table, alone.schedule(), plan, name);
        TwoStageScheduler both =
            TwoStageScheduler.of(table, random.capacity(), random.batch(), own);
        assertBatch(table, both.schedule(), batch, name);
        assertPlan(table, both.capacity(), plan, name);
      }
    }
  }

  /** Who runs has none; who doesn't has one, unless its life is over; all are counted. */
  private static void everyRowHasItsReason(
      RandomTables.Case random,
      SchedulingTable table,
      TwoStageScheduler scheduler,
      Naive.Batch batch,
      String name) {
    List<Naive.Req> running = new ArrayList<>(batch.encoders());
    batch.contexts().forEach(c -> running.add(c.req()));
    running.addAll(batch.generations());
    for (int i = 0; i < scheduler.capacity().receiving(); i++) {
      running.add(random.requests().get(scheduler.capacity().receiving(i)));
    }
    int[] counts = new int[WaitReason.values().length];
    for (Naive.Req request : random.requests()) {
      WaitReason reason = table.waitReason(request.row);
      counts[reason.ordinal()]++;
      boolean over =
          request.state == RequestState.COMPLETE
              || request.state == RequestState.UNKNOWN
              || request.state == RequestState.TRANSFER_ERROR;
      if (running.contains(request)) {
        assertThat(reason).as("%s row %d", name, request.row).isEqualTo(WaitReason.NONE);
      } else if (!over) {
        assertThat(reason)
            .as("%s row %d in state %s", name, request.row, request.state)
            .isNotEqualTo(WaitReason.NONE);
      }
    }
    for (WaitReason reason : WaitReason.values()) {
      if (reason != WaitReason.NONE) {
        assertThat(scheduler.capacity().deferred(reason))
            .as("%s %s", name, reason)
            .isEqualTo(counts[reason.ordinal()]);
      }
    }
  }
}
