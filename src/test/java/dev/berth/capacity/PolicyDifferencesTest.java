// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.TestFiles;
import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** docs/policies.md, D1 to D14: for each difference the input that shows it, under both sets. */
class PolicyDifferencesTest {
  /** One pool of 100 pages of which so many are free; requests are added in order. */
  private static final class Input implements AutoCloseable {
    private final SchedulingTable table =
        new SchedulingTable(TableShape.of(8, Pool.self(64, 100)).withAdapters(3));
    private int next;

    Input(int free) {
      table.freePages(0, free);
      table.adapterPages(0, 2);
      table.adapterPages(1, 2);
      table.adapterPages(2, 0);
    }

    private Input add(RequestState state, int pages, Consumer<Integer> more) {
      int row = next++;
      table.begin(row, row, state, 10, 10);
      if (state.value() >= RequestState.GENERATION_TRANSFER_COMPLETE.value()
          && state.value() <= RequestState.RETIRING.value()) {
        table.context(row, 10, 0);
      }
      table.demand(row, 0, pages, pages, pages, 0);
      more.accept(row);
      table.markDirty(row);
      table.enter(row);
      return this;
    }

    Input generation(int pages, int held) {
      return add(RequestState.GENERATION, pages, row -> table.held(row, 0, held));
    }

    Input generation(int pages, int held, int adapter) {
      return add(
          RequestState.GENERATION,
          pages,
          row -> {
            table.held(row, 0, held);
            table.adapter(row, adapter);
          });
    }

    Input context(int pages) {
      return add(RequestState.CONTEXT_INIT, pages, row -> {});
    }

    Input context(int pages, Consumer<Integer> more) {
      return add(RequestState.CONTEXT_INIT, pages, more);
    }

    Input in(RequestState state, int pages, Consumer<Integer> more) {
      return add(state, pages, more);
    }

    CapacityPlan plan(PolicySet set, CapacityRule rule, int cap, int adapterPages) {
      CapacityRules rules =
          set == PolicySet.BERTH_1 ? CapacityRules.of(rule, cap) : CapacityRules.parity(rule, cap);
      return CapacityScheduler.of(table, rules.withAdapterPages(adapterPages)).schedule();
    }

    List<Integer> fitting(PolicySet set, CapacityRule rule, int cap) {
      return fitting(set, rule, cap, CapacityRules.NO_ADAPTERS);
    }

    List<Integer> fitting(PolicySet set, CapacityRule rule, int cap, int adapterPages) {
      CapacityPlan plan = plan(set, rule, cap, adapterPages);
      return Lines.ids(table, plan.fitting(), plan::fitting);
    }

    List<Integer> paused(PolicySet set, CapacityRule rule, int cap) {
      CapacityPlan plan = plan(set, rule, cap, CapacityRules.NO_ADAPTERS);
      return Lines.ids(table, plan.paused(), plan::paused);
    }

    WaitReason reason(int row) {
      return table.waitReason(row);
    }

    @Override
    public void close() {
      table.close();
    }
  }

  private static final PolicySet PARITY = PolicySet.TRTLLM_2026_09;
  private static final PolicySet OWN = PolicySet.BERTH_1;
  private static final CapacityRule MAX = CapacityRule.MAX_UTILIZATION;
  private static final CapacityRule NO_EVICT = CapacityRule.GUARANTEED_NO_EVICT;

  /** The page promises an input for each of its numbers; the tests here are those inputs. */
  @Test
  void everyNumberedDifferenceOfThePageHasItsInputHere() {
    Set<String> described =
        Pattern.compile("(?m)^\\| D(\\d+) \\|")
            .matcher(TestFiles.text("docs/policies.md"))
            .results()
            .map(m -> m.group(1))
            .collect(Collectors.toCollection(TreeSet::new));
    Set<String> shown =
        Arrays.stream(PolicyDifferencesTest.class.getDeclaredMethods())
            .filter(m -> m.isAnnotationPresent(Test.class))
            .map(m -> Pattern.compile("d(\\d+)[A-Z].*").matcher(m.getName()))
            .filter(Matcher::matches)
            .map(m -> m.group(1))
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(described).hasSize(14);
    assertThat(shown).isEqualTo(described);
  }

  @Test
  void d1TheRequestCapPausesNobody() {
    try (Input input = new Input(100)) {
      input.generation(0, 5).generation(0, 5).generation(0, 5).generation(0, 5);
      assertThat(input.paused(PARITY, MAX, 2)).containsExactly(3, 2);
      assertThat(input.paused(OWN, MAX, 2)).isEmpty();
      assertThat(input.fitting(OWN, MAX, 2)).containsExactly(0, 1);
      assertThat(input.reason(3)).isEqualTo(WaitReason.BATCH);
    }
  }

  @Test
  void d1AnAdapterThatDoesNotFitPausesNobody() {
    try (Input input = new Input(100)) {
      input.generation(0, 5, 0).generation(0, 5, 1).generation(0, 5, 0);
      assertThat(input.plan(PARITY, MAX, 8, 3).paused()).isEqualTo(2);
      assertThat(input.plan(OWN, MAX, 8, 3).paused()).isZero();
      assertThat(input.fitting(OWN, MAX, 8, 3)).containsExactly(0, 2);
      assertThat(input.reason(1)).isEqualTo(WaitReason.ADAPTER);
    }
  }

  @Test
  void d2WhoNeedsAPauseRunsInThatIteration() {
    try (Input input = new Input(1)) {
      input.context(3, row -> input.table.firstBlock(row, 77)).generation(0, 5);
      assertThat(input.paused(PARITY, MAX, 8)).containsExactly(1);
      assertThat(input.fitting(PARITY, MAX, 8)).isEmpty();
      assertThat(input.paused(OWN, MAX, 8)).containsExactly(1);
      assertThat(input.fitting(OWN, MAX, 8)).containsExactly(0);
    }
  }

  @Test
  void d3WhoFailsDefersNobody() {
    try (Input input = new Input(100)) {
      input
          .context(
              3,
              row -> {
                input.table.firstBlock(row, 77);
                input.table.adapter(row, 0);
              })
          .context(3, row -> input.table.firstBlock(row, 77));
      assertThat(input.fitting(PARITY, NO_EVICT, 8, 1)).isEmpty();
      assertThat(input.fitting(OWN, NO_EVICT, 8, 1)).containsExactly(1);
    }
  }

  @Test
  void d4WhoNeedsNothingFitsWhateverIsMissing() {
    try (Input input = new Input(1)) {
      input.generation(3, 5).context(0);
      assertThat(input.fitting(PARITY, NO_EVICT, 8)).containsExactly(0);
      assertThat(input.fitting(OWN, NO_EVICT, 8)).containsExactly(0, 1);
    }
  }

  @Test
  void d4WhoseAdapterCostsNothingFitsWhateverIsClaimed() {
    try (Input input = new Input(100)) {
      input.generation(0, 5, 0).context(1, row -> input.table.adapter(row, 2));
      assertThat(input.fitting(PARITY, NO_EVICT, 8, 1)).containsExactly(0);
      assertThat(input.fitting(OWN, NO_EVICT, 8, 1)).containsExactly(0, 1);
    }
  }

  @Test
  void d5WhoCanNeverFitBlocksNobody() {
    try (Input input = new Input(50)) {
      input.context(101).context(1);
      assertThat(input.fitting(PARITY, NO_EVICT, 8)).isEmpty();
      assertThat(input.fitting(OWN, NO_EVICT, 8)).containsExactly(1);
      assertThat(input.reason(0)).isEqualTo(WaitReason.PAGES);
    }
  }

  @Test
  void d5WhoCanNeverFitPausesNobody() {
    try (Input input = new Input(50)) {
      input.context(101).generation(1, 40);
      assertThat(input.paused(PARITY, MAX, 8)).containsExactly(1);
      assertThat(input.paused(OWN, MAX, 8)).isEmpty();
      assertThat(input.fitting(OWN, MAX, 8)).containsExactly(1);
    }
  }

  @Test
  void d5AContextLongerThanABatchBlocksNobody() {
    try (Input input = new Input(50)) {
      input.context(1).generation(1, 1);
      MicroBatchScheduler parity =
          MicroBatchScheduler.of(
              input.table, BatchRules.parity(8, 9).withMaxContextTokens(BatchRules.NO_LIMIT));
      assertThat(parity.schedule().size()).isZero();
      MicroBatchScheduler limited = MicroBatchScheduler.of(input.table, BatchRules.parity(8, 9));
      assertThatThrownBy(limited::schedule).isInstanceOf(BerthException.class);
      MicroBatch own = MicroBatchScheduler.of(input.table, BatchRules.of(8, 9)).schedule();
      assertThat(own.generations()).isEqualTo(1);
      assertThat(input.reason(0)).isEqualTo(WaitReason.TOKENS);
    }
  }

  @Test
  void d6WhoIsInFlightIsNoVictim() {
    try (Input input = new Input(0)) {
      input
          .generation(1, 5)
          .generation(0, 5)
          .in(
              RequestState.GENERATION,
              0,
              row -> {
                input.table.held(row, 0, 5);
                input.table.inFlight(row, 1);
              });
      assertThat(input.paused(PARITY, MAX, 8)).containsExactly(2);
      assertThat(input.paused(OWN, MAX, 8)).containsExactly(1);
    }
  }

  @Test
  void d7AContextThatTransfersIsAContext() {
    try (Input input = new Input(100)) {
      input.in(RequestState.CONTEXT_INIT_AND_TRANSFER, 1, row -> {});
      assertThat(
              MicroBatchScheduler.of(input.table, BatchRules.parity(8, 64))
                  .schedule()
                  .generations())
          .isEqualTo(1);
      assertThat(MicroBatchScheduler.of(input.table, BatchRules.of(8, 64)).schedule().contexts())
          .isEqualTo(1);
    }
  }

  @Test
  void d8WhatIsOnTheWayHasItsPages() {
    try (Input input = new Input(10)) {
      input.in(RequestState.GENERATION_TRANSFER, 8, row -> {}).context(5);
      assertThat(input.fitting(PARITY, NO_EVICT, 8)).containsExactly(1);
      assertThat(input.fitting(OWN, NO_EVICT, 8)).isEmpty();
      assertThat(input.reason(0)).isEqualTo(WaitReason.TRANSFER);
      assertThat(input.fitting(OWN, CapacityRule.STATIC_BATCH, 8)).isEmpty();
    }
  }

  @Test
  void d8WhatIsOnTheWayIsNoWorkWhereEncodersWidenTheRange() {
    try (Input input = new Input(10)) {
      input.in(RequestState.GENERATION_TRANSFER, 8, row -> {}).context(5);
      for (CapacityRule rule : List.of(NO_EVICT, MAX)) {
        CapacityRules own =
            CapacityRules.of(rule, 8).withRange(CapacityRules.ENCODER_INIT, CapacityRules.RETIRING);
        CapacityPlan plan = CapacityScheduler.of(input.table, own).schedule();
        assertThat(Lines.ids(input.table, plan.fitting(), plan::fitting)).doesNotContain(0);
        assertThat(input.reason(0)).isEqualTo(WaitReason.TRANSFER);
      }
      CapacityRules parity =
          CapacityRules.parity(MAX, 8)
              .withRange(CapacityRules.ENCODER_INIT, CapacityRules.COMPLETE);
      CapacityPlan plan = CapacityScheduler.of(input.table, parity).schedule();
      assertThat(Lines.ids(input.table, plan.fitting(), plan::fitting)).containsExactly(0);
    }
  }

  @Test
  void d9WhoRetiresKeepsItsAdapter() {
    try (Input input = new Input(100)) {
      input
          .in(RequestState.RETIRING, 0, row -> input.table.adapter(row, 0))
          .context(1, row -> input.table.adapter(row, 1));
      CapacityRules range14 =
          CapacityRules.parity(NO_EVICT, 8)
              .withRange(CapacityRules.CONTEXT_INIT, CapacityRules.RETIRING)
              .withAdapterPages(3);
      CapacityPlan parity = CapacityScheduler.of(input.table, range14).schedule();
      assertThat(parity.fitting()).isEqualTo(1); // forgets who retires
      assertThat(input.fitting(OWN, NO_EVICT, 8, 3)).isEmpty();
      assertThat(input.reason(0)).isEqualTo(WaitReason.RETIRING);
      assertThat(input.reason(1)).isEqualTo(WaitReason.ADAPTER);
      assertThat(input.fitting(OWN, MAX, 8, 3)).isEmpty();
    }
  }

  @Test
  void d10AContextThatStartedIsNotHeldUp() {
    try (Input input = new Input(10)) {
      input
          .context(20)
          .context(
              5,
              row -> {
                input.table.context(row, 5, 0);
                input.table.held(row, 0, 60);
              });
      assertThat(input.fitting(PARITY, NO_EVICT, 8)).isEmpty();
      assertThat(input.fitting(OWN, NO_EVICT, 8)).containsExactly(1);
    }
  }

  @Test
  void d11AUnitThatFitsInNoBatchIsRefused() {
    try (Input input = new Input(10)) {
      BatchRules rules = BatchRules.of(8, 10).withChunking(Chunking.EQUAL_PROGRESS, 20);
      assertThatThrownBy(() -> MicroBatchScheduler.of(input.table, rules))
          .isInstanceOf(BerthException.class);
      assertThatCode(() -> MicroBatchScheduler.of(input.table, rules.withSet(PARITY)))
          .doesNotThrowAnyException();
    }
  }

  @Test
  void d12WhoGetsNoTokenTakesNoPlace() {
    try (Input input = new Input(10)) {
      input.context(1).context(1).generation(1, 1);
      BatchRules rules = BatchRules.of(2, 8).withChunking(Chunking.FIRST_COME_FIRST_SERVED, 1);
      MicroBatch own = MicroBatchScheduler.of(input.table, rules).schedule();
      assertThat(own.generations()).isEqualTo(1);
      assertThat(own.contexts()).isEqualTo(1);
      assertThat(own.contextTokens(0)).isEqualTo(7);
      assertThat(input.reason(1)).isEqualTo(WaitReason.TOKENS);
      MicroBatch parity = MicroBatchScheduler.of(input.table, rules.withSet(PARITY)).schedule();
      assertThat(parity.generations()).isZero();
    }
  }

  @Test
  void d13AGenerationTooLargeForTheRestEndsNoBatch() {
    try (Input input = new Input(10)) {
      input.generation(1, 1).generation(1, 1).generation(1, 1);
      input.table.draftTokens(1, 3);
      input.table.markDirty(1);
      MicroBatch parity = MicroBatchScheduler.of(input.table, BatchRules.parity(8, 4)).schedule();
      assertThat(Lines.ids(input.table, parity.generations(), parity::generation))
          .containsExactly(0);
      MicroBatch own = MicroBatchScheduler.of(input.table, BatchRules.of(8, 4)).schedule();
      assertThat(Lines.ids(input.table, own.generations(), own::generation)).containsExactly(0, 2);
      assertThat(input.reason(1)).isEqualTo(WaitReason.TOKENS);
    }
  }

  @Test
  void d14WhoReceivesKvWaitsForNoPlace() {
    d14(BatchRules.of(1, 8), BatchRules.parity(1, 8), WaitReason.BATCH);
    d14(BatchRules.of(8, 1), BatchRules.parity(8, 1), WaitReason.TOKENS);
  }

  private static void d14(BatchRules own, BatchRules parity, WaitReason reason) {
    try (Input input = new Input(100)) {
      for (int row = 0; row < 2; row++) {
        input.generation(1, 1);
        input.table.cache(row, 10, SchedulingTable.Residency.RESIDENT);
        input.table.markDirty(row);
      }
      input.in(RequestState.GENERATION_INIT, 1, row -> {}).generation(1, 1);
      BatchRules to14 = parity.withRange(CapacityRules.CONTEXT_INIT, CapacityRules.RETIRING);
      assertThat(OneLoopScheduler.of(input.table, loop(to14)).schedule().receiving()).isZero();
      assertThat(input.reason(2)).isEqualTo(reason);
      LoopPlan plan = OneLoopScheduler.of(input.table, loop(own)).schedule();
      assertThat(plan.receiving()).isEqualTo(1);
      assertThat(plan.batch().generations()).isEqualTo(1);
      assertThat(input.reason(2)).isEqualTo(WaitReason.NONE);
      assertThat(input.reason(3)).isEqualTo(reason);
    }
  }

  private static LoopRules loop(BatchRules batch) {
    return new LoopRules(
        batch,
        PrefixSharing.OFF,
        LoopRules.Reuse.OFF,
        CapacityRules.NO_ADAPTERS,
        LoopRules.Recompute.OFF,
        LoopRules.Tier.NONE,
        10,
        100,
        8);
  }
}
