// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.capacity.Chunking;
import dev.berth.journey.PagedDevice;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.kv.KvStatus;
import dev.berth.kv.KvTables;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitReason;
import dev.berth.test.TestConfig;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Dummies, held contexts and encoder work in whole fleets (spec 01 §7, §9). */
class PaddingAndHoldsTest {
  private static void to(LockstepGroup group, long id, int rank, int prompt, int output) {
    Request request =
        Request.of(id, prompt, output).withScheduling(SchedulingParams.target(rank, Relax.STRICT));
    assertThat(group.offer(request)).isEqualTo(Outcome.QUEUED);
  }

  private static void step(LockstepGroup group) {
    assertThat(group.step(LockstepGroup.NO_DEVICE)).isTrue();
  }

  private static List<Integer> batches(LockstepGroup group) {
    return IntStream.range(0, group.config().ranks())
        .mapToObj(r -> group.engine(r).batch())
        .toList();
  }

  private static List<Integer> contexts(LockstepGroup group) {
    return IntStream.range(0, group.config().ranks())
        .mapToObj(r -> group.engine(r).contexts())
        .toList();
  }

  private static List<Integer> rankTokens(LockstepGroup group) {
    return IntStream.range(0, group.config().ranks())
        .mapToObj(r -> group.admission().rankTokens().getAtIndex(ValueLayout.JAVA_INT, r))
        .toList();
  }

  /** Spec 06 BC-05. */
  @Test
  void aRefusedDummyLeavesTheBatchEmptyAndTheFleetTriesAgain() {
    var config =
        TestConfig.nonOverlap(2, 4).role(WorkerRole.GENERATION).tokensPerBlock(4).pages(13);
    try (var group = new LockstepGroup(config.build())) {
      for (int id = 0; id < 3; id++) {
        to(group, id, 0, 7, 8);
      }
      to(group, 3, 1, 44, 8); // all 13 pages
      step(group);
      int late = group.engine(1).receiveRow(0);
      assertThat(batches(group)).as("rank 0 is padded while its KV comes").containsExactly(1, 0);
      for (int i = 0; i < 3; i++) {
        RankEngine engine = group.engine(0);
        engine.transferArrived(engine.receiveRow(i), engine.table().id(engine.receiveRow(i)));
      }
      long pages = group.engine(0).pagesUsed();
      step(group);
      assertThat(batches(group)).containsExactly(3, 0);
      assertThat(group.engine(1).padRefused()).isTrue();
      assertThat(group.launched()).isFalse();
      assertThat(group.engine(0).pagesUsed()).isEqualTo(pages);
      assertThat(group.engine(0).seatsUsed()).isZero();

      group.engine(1).transferFailed(late, 3);
      to(group, 4, 1, 40, 8); // one page less
      step(group);
      assertThat(batches(group)).containsExactly(3, 1);
      assertThat(group.engine(1).padRefused()).isFalse();
      assertThat(group.launched()).isTrue();
      step(group);
      assertThat(group.engine(1).batch()).as("never two").isEqualTo(1);
    }
  }

  @ParameterizedTest
  @EnumSource(WorkerRole.class)
  void theDummyDoesWhatItsFleetDoes(WorkerRole role) {
    var shape = WorkerShape.builder(2).ranks(2).with(Trait.ATTENTION_DP).transferBackend("NIXL");
    SeatPlan plan = SeatPlan.of(shape.build(), SeatPolicy.UNIFIED).orThrow();
    try (var group = new LockstepGroup(EngineConfig.builder(plan, role).build())) {
      to(group, 0, 0, 8, 2);
      step(group);
      assertThat(group.engine(1).padded()).isTrue();
      assertThat(group.engine(1).dummyRole())
          .isEqualTo(role == WorkerRole.CONTEXT ? DummyRole.CONTEXT : DummyRole.GENERATION);
    }
  }

  @Test
  void withoutTransferEngineADummyIsAGeneration() {
    try (var group =
        new LockstepGroup(TestConfig.nonOverlap(2, 2).role(WorkerRole.CONTEXT).build())) {
      to(group, 0, 0, 8, 2);
      step(group);
      assertThat(group.engine(1).padded()).isTrue();
      assertThat(group.engine(1).dummyRole()).isEqualTo(DummyRole.GENERATION);
    }
  }

  /** Where there are pages a dummy's are real ones: what it computes has a place of its own. */
  @Test
  void aDummyHasPagesInTheTablesOfItsBatch() {
    var layout = KvLayout.plan(4, PagedDevice.buffers(List.of(KvReach.FULL), 4));
    var shape =
        WorkerShape.builder(2).ranks(2).tokensPerBlock(4).maxSeqLen(32).with(Trait.ATTENTION_DP);
    SeatPlan plan = SeatPlan.of(shape.build(), SeatPolicy.UNIFIED).orThrow();
    var config =
        EngineConfig.builder(plan, WorkerRole.AGGREGATED)
            .chunkedContext(Chunking.NONE)
            .kv(KvSetup.paged(layout, KvSizes.device(9)))
            .build();
    try (var group = new LockstepGroup(config)) {
      to(group, 0, 0, 8, 2);
      var mapped = new ArrayList<Integer>();
      group.step(
          new LockstepGroup.Device() {
            @Override
            public void launch(RankEngine engine, Batch batch) {
              if (engine.rank() == 1) {
                assertThat(batch.kind(0)).isEqualTo(Batch.Kind.DUMMY);
                var kv = engine.kv().orElseThrow();
                KvTables tables = kv.newTables(new KvTables.Shape(3, 16, 0));
                assertThat(kv.prepare(tables, KvTables.Padding.CLEARED)).isEqualTo(KvStatus.OK);
                mapped.add(tables.keyPage(0, 0, 0));
              }
            }
          });
      assertThat(mapped).hasSize(1).allMatch(page -> page >= 0);
      assertThat(group.engine(1).pagesUsed()).isZero();
    }
  }

  @ParameterizedTest
  @CsvSource({"8, false", "9, true"})
  void aDummyTakesNoPagesThatArePromised(int pages, boolean padded) {
    var layout = KvLayout.plan(4, PagedDevice.buffers(List.of(KvReach.FULL), 4));
    var shape =
        WorkerShape.builder(2)
            .ranks(2)
            .tokensPerBlock(4)
            .maxSeqLen(32)
            .with(Trait.ATTENTION_DP)
            .transferBackend("NIXL");
    SeatPlan plan = SeatPlan.of(shape.build(), SeatPolicy.UNIFIED).orThrow();
    var config =
        EngineConfig.builder(plan, WorkerRole.GENERATION)
            .kv(KvSetup.paged(layout, KvSizes.device(pages)))
            .build();
    try (var group = new LockstepGroup(config)) {
      to(group, 0, 1, 4, 28); // a page now, seven later
      step(group);
      assertThat(group.engine(1).receives()).isEqualTo(1);
      assertThat(group.engine(1).padded()).isEqualTo(padded);
      assertThat(group.engine(1).padRefused()).isNotEqualTo(padded);
    }
  }

  /** Spec 06 BC-09: the minimum over ranks leaves the dummy out. */
  @Test
  void aRankWithOnlyADummyIsLowOccupancy() {
    var gate = new BalanceGate(new BalanceGate.Rules(50, 0, 1, 5), 8);
    int held = 0;
    for (int i = 0; i < 50; i++) {
      gate.begin();
      gate.rank(1, 1, 0);
      for (int g = 5; g < 8; g++) {
        gate.rank(0, g, g);
      }
      if (gate.decide() == BalanceGate.Decision.RUN) {
        break;
      }
      held++;
    }
    assertThat(held).isEqualTo(4);
  }

  @Test
  void aContextOfOneRankWaitsUntilTheOtherHasOneToo() {
    var config = holding(2, 4, 50);
    try (var group = new LockstepGroup(config)) {
      to(group, 0, 0, 8, 40);
      to(group, 1, 1, 8, 40);
      step(group);
      assertThat(contexts(group)).as("nobody generates yet").containsExactly(1, 1);
      to(group, 2, 0, 8, 40);
      for (int i = 0; i < 5; i++) {
        step(group);
        assertThat(group.admission().contextsHeld()).isTrue();
        assertThat(contexts(group)).containsExactly(0, 0);
        assertThat(batches(group)).containsExactly(1, 1);
        assertThat(rankTokens(group)).as("what runs, not what was scheduled").containsExactly(1, 1);
        assertThat(group.engine(0).deferred(WaitReason.GATE)).isEqualTo(1);
        assertThat(group.engine(0).seatsUsed()).as("what it took went back").isEqualTo(1);
        assertThat(group.launched()).isTrue();
      }
      to(group, 3, 1, 8, 40);
      step(group);
      assertThat(contexts(group)).containsExactly(1, 1);
      assertThat(batches(group)).containsExactly(2, 2);
      assertThat(rankTokens(group)).containsExactly(9, 9);
    }
  }

  @Test
  void anUnbalancedFleetLetsItsContextsRunAfterTheTimeout() {
    try (var group = new LockstepGroup(holding(2, 4, 3))) {
      to(group, 0, 0, 8, 40);
      to(group, 1, 1, 8, 40);
      step(group);
      to(group, 2, 0, 8, 40);
      step(group);
      step(group);
      assertThat(contexts(group)).containsExactly(0, 0);
      step(group);
      assertThat(contexts(group)).containsExactly(1, 0);
    }
  }

  private static EngineConfig holding(int ranks, int batch, int timeout) {
    return TestConfig.nonOverlap(ranks, batch).build().toBuilder()
        .hold(new ContextHold.Balanced(new BalanceGate.Rules(timeout, 0, 0, 0)))
        .build();
  }

  @Test
  void encoderWorkWaitsForMoreAndThenAllOfItRuns() {
    var config =
        TestConfig.nonOverlap(1, 4).build().toBuilder()
            .encoderWait(new EncoderWait(new BatchWait.Rules(2, 0.5), 100))
            .build();
    try (var group = new LockstepGroup(config)) {
      RankEngine engine = group.engine(0);
      group.offer(Request.of(0, 8, 2).withEncoder(10));
      step(group);
      assertThat(engine.encodes()).isZero();
      assertThat(engine.deferred(WaitReason.ENCODER)).isEqualTo(1);
      group.offer(Request.of(1, 8, 2).withEncoder(40));
      step(group);
      assertThat(engine.encodes()).as("half of the tokens").isEqualTo(2);
      assertThat(engine.encoderTokens()).isEqualTo(50);
      int first = engine.encodeRow(0);
      assertThat(engine.table().id(first)).isZero();
      step(group);
      assertThat(engine.real()).as("until it is there").isZero();
      engine.encoded(first, 0);
      step(group);
      assertThat(engine.contexts()).isEqualTo(1);
      group.offer(Request.of(2, 8, 2).withEncoder(10));
      step(group);
      step(group);
      assertThat(engine.encodes()).isZero();
      step(group);
      assertThat(engine.encodes()).as("two iterations are over").isEqualTo(1);
    }
  }

  @Test
  void holdsThatTheWorkerCantKeepAreRefusedWithTheReason() {
    EngineConfig ranks = TestConfig.overlap(2, 8).maxNumTokens(64).build();
    EngineConfig single = TestConfig.oneGroup(8, Trait.OVERLAP).maxNumTokens(64).build();
    var balanced = new ContextHold.Balanced(BalanceGate.Rules.DEFAULT);
    var batched = new ContextHold.Batched(new BatchWait.Rules(2, 0.5));

    assertThat(ranks.toBuilder().hold(balanced).build().hold()).isEqualTo(balanced);
    assertThat(single.toBuilder().hold(batched).build().hold()).isEqualTo(batched);
    assertRefused(single, balanced, "compares attention-DP ranks and this worker has none");
    assertRefused(ranks, batched, "wait for each other");
    assertRefused(
        ranks,
        new ContextHold.Balanced(new BalanceGate.Rules(50, 10, 9, 0)),
        "less than 9 generations, the plan has 8 batch positions");
    assertRefused(TestConfig.oneGroup(8).build(), batched, "the plan limits them by nothing");
  }

  private static void assertRefused(EngineConfig config, ContextHold hold, String reason) {
    assertThatThrownBy(() -> config.toBuilder().hold(hold).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(reason);
  }

  @Test
  void encoderInputBelowZeroIsRefused() {
    assertThatThrownBy(() -> Request.of(0, 8, 2).withEncoder(-1))
        .hasMessageContaining("encoderTokens must be >= 0, got -1");
  }
}
