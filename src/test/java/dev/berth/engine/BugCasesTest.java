// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.capacity.CapacityRule;
import dev.berth.plan.PolicySet;
import dev.berth.plan.Trait;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitReason;
import dev.berth.test.TestConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Public bug reports with their own numbers, on engines (docs/cases.md has the list). */
class BugCasesTest {
  private record Transfer(int rank, int row, long id) {}

  private static void offer(LockstepGroup group, int first, int count, int prompt, int output) {
    for (int id = first; id < first + count; id++) {
      assertThat(group.offer(Request.of(id, prompt, output))).isEqualTo(Outcome.QUEUED);
    }
  }

  private static void step(LockstepGroup group) {
    assertThat(group.step(LockstepGroup.NO_DEVICE)).isTrue();
  }

  private static int row(LockstepGroup group, long id) {
    RankEngine engine = group.engine(0);
    return IntStream.range(0, engine.table().rows() - 1)
        .filter(row -> engine.table().id(row) == id && engine.table().state(row).value() < 20)
        .findFirst()
        .orElse(-1);
  }

  private static List<Transfer> receives(LockstepGroup group) {
    var all = new ArrayList<Transfer>();
    for (int rank = 0; rank < group.config().ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      for (int i = 0; i < engine.receives(); i++) {
        int row = engine.receiveRow(i);
        all.add(new Transfer(rank, row, engine.table().id(row)));
      }
    }
    return all;
  }

  private static void land(LockstepGroup group, List<Transfer> transfers) {
    transfers.forEach(t -> group.engine(t.rank).transferArrived(t.row, t.id));
  }

  private static EngineConfig gives(EngineConfig config) {
    return config.withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_UTILIZATION);
  }

  private static void nothingIsHeld(RankEngine engine) {
    assertThat(engine.seatsUsed() + engine.leasesUsed() + engine.pagesUsed()).isZero();
  }

  // ------------------------------------------------------------------------------ fill

  /** BC-03: 31 × 256 + 255 residents of 8192, for one request ended with its KV. */
  @ParameterizedTest
  @ValueSource(ints = {0, 6})
  void theFillOf8192OpensWithout8192Residents(int stillInTransfer) {
    var config =
        TestConfig.overlap(32, 256)
            .role(WorkerRole.GENERATION)
            .gate(new FillGate(FillGate.Kind.STATE, 8192))
            .build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 0, 8191, 4, 9);
      offer(group, 8191, 1, 4, 1);
      var held = new ArrayList<Transfer>();
      for (int i = 0; i < 40 && !group.admission().gateOpen(); i++) {
        step(group);
        List<Transfer> started = receives(group);
        for (Transfer transfer : started) {
          boolean keeps = transfer.rank == 31 && held.size() < stillInTransfer;
          (keeps ? held : new ArrayList<Transfer>()).add(transfer);
        }
        started.removeAll(held);
        land(group, started);
        for (int rank = 0; rank < 32; rank++) {
          assertThat(group.engine(rank).routable()).isLessThanOrEqualTo(256);
          assertThat(group.engine(rank).launched()).isEqualTo(group.admission().gateOpen());
        }
      }
      assertThat(group.admission().fetched()).isEqualTo(8192);
      assertThat(group.admission().gateOpen()).isEqualTo(stillInTransfer == 0);
      land(group, held);
      step(group);
      step(group);
      assertThat(group.admission().gateOpen()).isTrue();
    }
  }

  /** BC-06: four transfers of 50 ms each are there within a second, not after four long sleeps. */
  @Test
  void aFillOfFourTransfersIsOpenWithinASecond() {
    var config =
        TestConfig.overlap(4, 8)
            .role(WorkerRole.GENERATION)
            .gate(new FillGate(FillGate.Kind.STATE, 4))
            .build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 0, 4, 8, 4);
      long now = 0;
      var due = new ArrayList<Long>();
      var waiting = new ArrayList<Transfer>();
      while (!group.admission().gateOpen()) {
        while (!due.isEmpty() && due.getFirst() <= now) {
          due.removeFirst();
          land(group, List.of(waiting.removeFirst()));
        }
        step(group);
        for (Transfer transfer : receives(group)) {
          waiting.add(transfer);
          due.add(now + 50_000 * (long) waiting.size()); // posted one after the other
        }
        now += Math.max(1, group.pauseMicros());
        assertThat(now).isLessThanOrEqualTo(1_000_000);
      }
    }
  }

  /** BC-06: what consecutive iterations of a fill admit, tp 4 and K 8. */
  @Test
  void theRampOfAFillDoublesToTheFleetsCapacity() {
    long cap = 0;
    var caps = new ArrayList<Long>();
    for (int i = 0; i < 5; i++) {
      cap = FleetRules.ramp(FillRules.Ramp.DOUBLING, cap, 4, 32);
      caps.add(cap);
    }
    assertThat(caps).containsExactly(4L, 8L, 16L, 32L, 32L);
  }

  /** BC-09: a rank whose only generation is padding has none. */
  @ParameterizedTest
  @CsvSource({"0, 5", "1, 50"})
  void paddingIsNoGenerationOfTheBalanceGate(int realOnRankZero, int heldAtMost) {
    var gate = new BalanceGate(new BalanceGate.Rules(50, 0, 1, 5), 8);
    int iterations = 0;
    BalanceGate.Decision decision;
    do {
      iterations++;
      gate.begin();
      gate.rank(1, 1, realOnRankZero);
      gate.rank(0, 5, 5);
      gate.rank(0, 6, 6);
      gate.rank(0, 7, 7);
      decision = gate.decide();
    } while (decision == BalanceGate.Decision.HOLD);
    assertThat(iterations).isEqualTo(heldAtMost);
  }

  // ------------------------------------------------------------------------------ pages

  /** BC-33, strict order: nothing passes a head that doesn't fit. */
  @Test
  void nothingPassesAHeadThatDoesNotFit() {
    var config = TestConfig.oneGroup(8).tokensPerBlock(1).pages(16).build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 1, 1, 9);
      offer(group, 2, 1, 1, 9); // the head: needs 10 of the 6 that are free
      offer(group, 3, 6, 1, 1);
      RankEngine engine = group.engine(0);
      for (int i = 0; i < 9; i++) {
        step(group);
        assertThat(engine.real()).isEqualTo(1);
      }
      step(group);
      assertThat(engine.real()).as("the head and three of two pages").isEqualTo(4);
    }
  }

  /** BC-95: a larger pool makes no larger chunk. */
  @ParameterizedTest
  @ValueSource(ints = {96, 150})
  void theChunkIsTheBudgetsWhateverThePool(int thousandTokens) {
    var config =
        TestConfig.oneGroup(4)
            .tokensPerBlock(32)
            .pages(thousandTokens * 1000 / 32)
            .maxNumTokens(8192)
            .chunked()
            .build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 1, 50_000, 4);
      step(group);
      assertThat(group.engine(0).scheduled().tokens(0)).isEqualTo(8192);
    }
  }

  /** BC-22: who gave way comes back whole or not at all. */
  @Test
  void whoGaveWayWaitsForPagesOfItsWholeContext() {
    var config =
        gives(TestConfig.oneGroup(2).tokensPerBlock(4).pages(16).maxNumTokens(8).chunked().build());
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 1, 32, 16); // 12 pages in the end
      offer(group, 2, 1, 24, 8); // 6 pages, then 7
      RankEngine engine = group.engine(0);
      int paused = 0;
      boolean whole = true;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        paused += engine.paused();
        int second = row(group, 2);
        boolean firstLives = row(group, 1) >= 0;
        if (paused > 0 && second >= 0 && firstLives) {
          whole &= engine.table().lease(second) < 0 && engine.table().pages(second) == 0;
        }
      }
      assertThat(paused).isEqualTo(1);
      assertThat(whole).as("it held nothing while the first lived").isTrue();
      nothingIsHeld(engine);
    }
  }

  /** BC-23: one pause, a token in every step, both end. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void twoThatDontFitTogetherCostOnePause(boolean overlap) {
    var shape = overlap ? TestConfig.oneGroup(2, Trait.OVERLAP) : TestConfig.oneGroup(2);
    var config = gives(shape.tokensPerBlock(16).pages(10).build());
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 2, 80, 32);
      RankEngine engine = group.engine(0);
      step(group);
      assertThat(engine.contexts()).isEqualTo(2);
      assertThat(engine.pagesUsed()).isEqualTo(10);
      int paused = 0;
      int ended = 0;
      int idle = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        paused += engine.paused();
        ended += engine.ended();
        idle = engine.real() > 0 || engine.tokensOut() > 0 ? 0 : idle + 1;
        assertThat(idle).isLessThanOrEqualTo(1);
      }
      assertThat(paused).isEqualTo(1);
      assertThat(ended).isEqualTo(2);
    }
  }

  /** BC-24: what one gives back is waited for before another is asked. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void onePageThatIsMissingPausesOneRequest(boolean overlap) {
    var shape = overlap ? TestConfig.oneGroup(4, Trait.OVERLAP) : TestConfig.oneGroup(4);
    var config = gives(shape.tokensPerBlock(4).pages(40).build());
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 4, 40, 4);
      RankEngine engine = group.engine(0);
      step(group);
      assertThat(engine.pagesUsed()).isEqualTo(40);
      int paused = 0;
      int ended = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        paused += engine.paused();
        ended += engine.ended();
      }
      assertThat(paused).isEqualTo(1);
      assertThat(ended).isEqualTo(4);
    }
  }

  /** BC-48: no-evict adds up the worst cases; otherwise an overrun costs one pause, no crash. */
  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  void twoBelowTheCapDontOverrunThePoolTogether(CapacityRule rule) {
    var config =
        TestConfig.oneGroup(2)
            .tokensPerBlock(1)
            .pages(100)
            .build()
            .withPolicies(PolicySet.BERTH_1, rule);
    boolean evicts = rule == CapacityRule.MAX_UTILIZATION;
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 2, 30, 30);
      RankEngine engine = group.engine(0);
      step(group);
      assertThat(engine.real()).isEqualTo(evicts ? 2 : 1);
      assertThat(engine.deferred(WaitReason.PAGES)).isEqualTo(evicts ? 0 : 1);
      long most = engine.pagesUsed();
      int paused = 0;
      int ended = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        paused += engine.paused();
        ended += engine.ended();
        most = Math.max(most, engine.pagesUsed());
      }
      assertThat(most).isLessThanOrEqualTo(100);
      assertThat(paused).isEqualTo(evicts ? 1 : 0);
      assertThat(ended).isEqualTo(2);
    }
  }

  /** BC-53: growth is part of admission, and all that end give back. */
  @Test
  void fiveOfThreePagesInAPoolOfTenRunThreeAtATime() {
    var config = TestConfig.oneGroup(8).tokensPerBlock(4).pages(10).build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 5, 8, 4);
      RankEngine engine = group.engine(0);
      step(group);
      assertThat(engine.real()).isEqualTo(3);
      assertThat(engine.pagesUsed()).isEqualTo(9);
      assertThat(engine.deferred(WaitReason.PAGES)).isEqualTo(2);
      for (int i = 0; i < 3; i++) {
        step(group);
      }
      assertThat(engine.ended()).isEqualTo(3);
      assertThat(engine.pagesUsed()).as("nine went back in one step").isZero();
      int ended = 3;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        ended += engine.ended();
      }
      assertThat(ended).isEqualTo(5);
      nothingIsHeld(engine);
    }
  }

  /** BC-57: what fails on pages has taken no seat, a thousand times. */
  @Test
  void aThousandFailedAdmissionsHoldNothing() {
    var config = TestConfig.oneGroup(4).tokensPerBlock(4).pages(301).build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 1, 1, 1203);
      step(group);
      offer(group, 2, 3, 4, 4);
      RankEngine engine = group.engine(0);
      for (int i = 0; i < 1000; i++) {
        step(group);
        assertThat(engine.deferred(WaitReason.PAGES)).isEqualTo(3);
        assertThat(engine.seatsUsed() + engine.leasesUsed()).isEqualTo(2);
      }
      while (group.step(LockstepGroup.NO_DEVICE)) {
        assertThat(engine.seatsUsed()).isLessThanOrEqualTo(4);
      }
      nothingIsHeld(engine);
    }
  }

  /** BC-57: end and cancel of one request in one step. */
  @Test
  void endAndCancelInOneStepReleaseOnce() {
    var config = TestConfig.oneGroup(4, Trait.OVERLAP).tokensPerBlock(4).pages(8).build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 1, 4, 2);
      RankEngine engine = group.engine(0);
      step(group);
      step(group); // its last forward is launched
      engine.cancel(row(group, 1), 1);
      engine.cancel(row(group, 1), 1);
      int ended = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        ended += engine.ended();
      }
      assertThat(ended).isEqualTo(1);
      nothingIsHeld(engine);
    }
  }

  /** BC-88: the policies end the same requests; only one of them computes tokens again. */
  @Test
  void bothPoliciesEndTheSameRequestsAndOneComputesTokensAgain() {
    for (boolean evicts : new boolean[] {false, true}) {
      var promised = TestConfig.oneGroup(4).tokensPerBlock(4).pages(20).build();
      try (var group = new LockstepGroup(evicts ? gives(promised) : promised)) {
        offer(group, 1, 12, 12, 20);
        RankEngine engine = group.engine(0);
        int ended = 0;
        int again = 0;
        while (group.step(LockstepGroup.NO_DEVICE)) {
          ended += engine.ended();
          again += engine.paused();
        }
        assertThat(ended).isEqualTo(12);
        assertThat(again > 0).isEqualTo(evicts);
      }
    }
  }

  // ------------------------------------------------------------------------------ batches

  /** BC-43: drafts of generations are taken off the step's tokens before contexts get theirs. */
  @Test
  void thirtyTwoGenerationsWithDraftsLeaveHalfTheTokensToAPrompt() {
    var config = TestConfig.oneGroup(64).draftTokens(3).maxNumTokens(256).chunked().build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 0, 32, 1, 100);
      step(group);
      offer(group, 32, 1, 1000, 4);
      step(group);
      RankEngine engine = group.engine(0);
      assertThat(engine.real()).isEqualTo(33);
      assertThat(engine.batchTokens()).isEqualTo(256);
      Batch batch = engine.scheduled();
      assertThat(batch.kind(32)).isEqualTo(Batch.Kind.CONTEXT);
      assertThat(batch.tokens(32)).isEqualTo(128);
      offer(group, 33, 31, 1, 100);
      for (int i = 0; i < 12; i++) {
        step(group);
        assertThat(engine.batchTokens()).isLessThanOrEqualTo(256);
      }
    }
  }

  /** BC-72: a long prompt leaves a running request its token. */
  @Test
  void aHogLeavesARunningRequestItsToken() {
    var config = TestConfig.oneGroup(4).maxNumTokens(2048).chunked().build();
    try (var group = new LockstepGroup(config)) {
      offer(group, 1, 1, 1, 50);
      step(group);
      offer(group, 2, 1, 100_000, 1);
      for (int i = 0; i < 40; i++) {
        step(group);
        Batch batch = group.engine(0).scheduled();
        assertThat(batch.kind(0)).isEqualTo(Batch.Kind.GENERATION);
        assertThat(batch.tokens(0)).isEqualTo(1);
        assertThat(batch.tokens(1)).isEqualTo(2047);
      }
    }
  }

  /** BC-73: who only waits for its teardown holds no place of the limit. */
  @Test
  void aRetireesPlaceInTheLimitIsTakenInTheSameIteration() {
    try (var group = new LockstepGroup(TestConfig.overlap(1, 4).build())) {
      offer(group, 0, 1, 8, 2);
      offer(group, 1, 3, 8, 50);
      step(group);
      step(group);
      RankEngine engine = group.engine(0);
      assertThat(engine.count(RequestState.RETIRING)).isEqualTo(1);
      offer(group, 4, 1, 8, 50);
      step(group);
      assertThat(group.admission().admitted()).isEqualTo(1);
      assertThat(engine.real()).isEqualTo(4);
    }
  }

  /** BC-91: four places, four prompts that fit, four in the first batch. */
  @Test
  void fourPlacesTakeFourPromptsAtOnce() {
    try (var group = new LockstepGroup(TestConfig.oneGroup(4).build())) {
      offer(group, 0, 5, 8, 4);
      step(group);
      assertThat(group.engine(0).real()).isEqualTo(4);
    }
  }

  /** BC-90: a rank tells its own work, and waiting by its reason. */
  @Test
  void everyRankHasItsOwnNumbers() {
    var config =
        TestConfig.nonOverlap(2, 8)
            .leases(7)
            .whatIf(dev.berth.plan.WhatIf.Switch.VALIDATOR_OVERRIDDEN)
            .build();
    try (var group = new LockstepGroup(config)) {
      for (int id = 0; id < 11; id++) {
        int rank = id < 3 ? 0 : 1;
        assertThat(
                group.offer(
                    Request.of(id, 8, 9)
                        .withScheduling(SchedulingParams.target(rank, Relax.RELAXED))))
            .isEqualTo(Outcome.QUEUED);
      }
      step(group);
      assertThat(group.engine(0).real()).isEqualTo(3);
      assertThat(group.engine(1).real()).isEqualTo(7);
      assertThat(group.engine(0).deferred(WaitReason.LEASE)).isZero();
      assertThat(group.engine(1).deferred(WaitReason.LEASE)).isEqualTo(1);
    }
  }

  // ------------------------------------------------------------------------------ transfers

  private static LockstepGroup oneSlot() {
    return new LockstepGroup(
        TestConfig.oneGroup(1)
            .role(WorkerRole.GENERATION)
            .leases(1)
            .whatIf(dev.berth.plan.WhatIf.Switch.VALIDATOR_OVERRIDDEN)
            .build());
  }

  /** BC-30: a transfer without an end is failed by its time-out, with or without new work. */
  @Test
  void aTransferThatTimesOutGivesItsSlotToTheNext() {
    try (var group = oneSlot()) {
      offer(group, 1, 1, 8, 4);
      step(group);
      RankEngine engine = group.engine(0);
      Transfer stuck = receives(group).getFirst();
      for (int second = 0; second < 10; second++) {
        step(group);
        assertThat(engine.leasesUsed()).isEqualTo(1);
      }
      engine.transferFailed(stuck.row, stuck.id);
      step(group);
      assertThat(engine.endedKind(0)).isEqualTo(EndKind.FAILED);
      assertThat(engine.leasesUsed()).isZero();
      offer(group, 2, 1, 8, 4);
      step(group);
      assertThat(receives(group)).extracting(Transfer::id).containsExactly(2L);
    }
  }

  /** BC-65: what ended stays ended, and its last signal releases. */
  @Test
  void anErrorIsNoCompletionHoweverManySignalsCome() {
    try (var group = oneSlot()) {
      offer(group, 1, 1, 8, 4);
      step(group);
      RankEngine engine = group.engine(0);
      Transfer transfer = receives(group).getFirst();
      engine.transferFailed(transfer.row, transfer.id);
      engine.transferArrived(transfer.row, transfer.id);
      step(group);
      assertThat(engine.ended()).isEqualTo(1);
      assertThat(engine.endedKind(0)).isEqualTo(EndKind.FAILED);
      engine.transferArrived(transfer.row, transfer.id);
      assertThat(group.step(LockstepGroup.NO_DEVICE)).isFalse();
      nothingIsHeld(engine);
    }
  }

  // ------------------------------------------------------------------------------ ids

  /**
   * BC-63: an id in the queue is refused, its first bearer is untouched, later it is free again.
   */
  @Test
  void anIdIsFreeAgainAfterItsEnd() {
    try (var group = new LockstepGroup(TestConfig.oneGroup(2).build())) {
      offer(group, 7, 1, 8, 10);
      assertThat(group.offer(Request.of(7, 99, 1))).isEqualTo(Outcome.DUPLICATE);
      RankEngine engine = group.engine(0);
      int tokens = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        tokens += engine.tokensOut();
      }
      assertThat(tokens).isEqualTo(10);
      assertThat(group.offer(Request.of(7, 8, 1))).isEqualTo(Outcome.QUEUED);
    }
  }

  /** BC-64: a hundred thousand that came and went leave nothing behind. */
  @Test
  void whoComesAndGoesLeavesNothingInTheQueue() {
    try (var group = new LockstepGroup(TestConfig.oneGroup(2).build())) {
      for (int i = 0; i < 100_000; i++) {
        assertThat(group.offer(Request.of(i % 977, 8, 4))).isEqualTo(Outcome.QUEUED);
        assertThat(group.cancel(i % 977)).isTrue();
      }
      assertThat(group.admission().waiting()).isZero();
      assertThat(group.step(LockstepGroup.NO_DEVICE)).isFalse();
      nothingIsHeld(group.engine(0));
    }
  }
}
