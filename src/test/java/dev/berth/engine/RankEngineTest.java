// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.exchange.FrameBoard;
import dev.berth.exchange.FrameBoard.Op;
import dev.berth.id.BatchPosition;
import dev.berth.internal.NativeCore.CoreConfig;
import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.plan.KeyedBy;
import dev.berth.plan.RegisteredPool;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.StartupValidator;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.RequestTable;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitReason;
import dev.berth.route.RankState;
import dev.berth.test.TestConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.ToIntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The rules of one rank and of a few, each in the smallest fleet that shows it. */
class RankEngineTest {
  // ------------------------------------------------------------------------------ helpers: they
  // translate only

  private static List<Integer> perRank(LockstepGroup group, ToIntFunction<RankEngine> value) {
    return IntStream.range(0, group.config().ranks())
        .map(r -> value.applyAsInt(group.engine(r)))
        .boxed()
        .toList();
  }

  private static List<Integer> scheduled(LockstepGroup group) {
    return perRank(group, RankEngine::batch);
  }

  private static List<Integer> padded(LockstepGroup group) {
    return perRank(group, e -> e.padded() ? 1 : 0);
  }

  private static List<Integer> seats(LockstepGroup group) {
    return perRank(group, RankEngine::seatsUsed);
  }

  private static void offer(LockstepGroup group, int first, int count, int prompt, int output) {
    for (int id = first; id < first + count; id++) {
      assertThat(group.offer(Request.of(id, prompt, output))).isEqualTo(Outcome.QUEUED);
    }
  }

  private static void offerTo(LockstepGroup group, int rank, int id, int prompt, int output) {
    Request request =
        Request.of(id, prompt, output).withScheduling(SchedulingParams.target(rank, Relax.RELAXED));
    assertThat(group.offer(request)).isEqualTo(Outcome.QUEUED);
  }

  private static void step(LockstepGroup group) {
    assertThat(group.step(LockstepGroup.NO_DEVICE)).isTrue();
  }

  private static void steps(LockstepGroup group, int count) {
    for (int i = 0; i < count; i++) {
      step(group);
    }
  }

  /** Runs until nothing lives; what a value was in each iteration. */
  private static <T> List<T> toTheEnd(LockstepGroup group, IntFunction<T> value) {
    var values = new ArrayList<T>();
    while (group.step(LockstepGroup.NO_DEVICE)) {
      values.add(value.apply(values.size()));
      assertThat(values).hasSizeLessThan(10_000);
    }
    return values;
  }

  private static void allIsBack(LockstepGroup group) {
    for (int rank = 0; rank < group.config().ranks(); rank++) {
      for (int stage = 0; stage < group.config().stages(); stage++) {
        RankEngine engine = group.engine(rank, stage);
        assertThat(engine.seatsUsed() + engine.leasesUsed() + engine.pagesUsed()).isZero();
      }
    }
  }

  private static void refused(
      Code code, org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  /** A device that ends every sequence with its first token. */
  private static final class EndAtOnce implements LockstepGroup.Device {
    @Override
    public void collect(RankEngine engine, Batch batch) {
      for (int i = 0; i < batch.size(); i++) {
        batch.stop(new BatchPosition(i));
      }
    }
  }

  // ------------------------------------------------------------------------------ three counts

  @Nested
  class Counts {
    @Test
    void retiringRequestsAreResidentButNotRoutable() {
      try (var group =
          new LockstepGroup(TestConfig.overlap(1, 2).role(WorkerRole.CONTEXT).build())) {
        offer(group, 0, 2, 8, 1);
        step(group);
        RankEngine engine = group.engine(0);
        assertThat(engine.count(RequestState.RETIRING)).isEqualTo(2);
        assertThat(engine.routable()).isZero();
        assertThat(engine.routableTokens()).isZero();
        assertThat(engine.seatsUsed()).isEqualTo(2);
        assertThat(engine.leasesUsed()).isEqualTo(2);
        offer(group, 2, 2, 8, 1);
        step(group);
        assertThat(group.admission().charged()).isZero();
        assertThat(group.admission().retiring()).isEqualTo(2);
        assertThat(group.admission().budget()).isEqualTo(2);
        assertThat(engine.resident()).isEqualTo(4);
        assertThat(engine.batch()).as("and not schedulable").isEqualTo(2);
      }
    }

    @Test
    void retiringRequestsAreChargedWhereTheHeadroomGateIsClosed() {
      var config =
          TestConfig.overlap(1, 2).role(WorkerRole.CONTEXT).whatIf(WhatIf.Switch.CHARGE_RETIRING);
      try (var group = new LockstepGroup(config.build())) {
        offer(group, 0, 4, 8, 1);
        step(group);
        assertThat(group.engine(0).routable()).isEqualTo(2);
        step(group);
        assertThat(group.admission().charged()).isEqualTo(2);
        assertThat(group.admission().retiring()).isZero();
        assertThat(group.admission().admitted()).isZero();
      }
    }

    @Test
    void withOverlapOffNoRequestEverRetires() {
      try (var group = new LockstepGroup(TestConfig.nonOverlap(2, 2).build())) {
        offer(group, 0, 6, 8, 3);
        toTheEnd(
            group,
            i -> {
              assertThat(perRank(group, e -> e.count(RequestState.RETIRING))).containsOnly(0);
              return i;
            });
        allIsBack(group);
      }
    }

    /** Spec 06 BC-04 b. */
    @Test
    void idleIsDecidedFromLiveTotals() {
      try (var group =
          new LockstepGroup(TestConfig.overlap(4, 2).role(WorkerRole.CONTEXT).build())) {
        offer(group, 0, 1, 8, 1);
        step(group);
        assertThat(group.engine(0).routable()).isZero();
        step(group); // a retiring request lives: the fleet doesn't block
        assertThat(group.admission().idle()).isFalse();
        assertThat(group.admission().budget()).isEqualTo(4 * 2);
        assertThat(padded(group)).containsOnly(0);
        assertThat(group.engine(0).ended()).isEqualTo(1);
        assertThat(group.step(LockstepGroup.NO_DEVICE)).as("nothing anywhere").isFalse();
        assertThat(group.admission().idle()).isTrue();
      }
    }

    /**
     * Spec 06 BC-04 a: requests whose KV is on the way need no dummy of a fleet that has nothing
     * else to do.
     */
    @Test
    void aFleetThatOnlyWaitsForKvIsNotIdleAndPadsNoForwardAlone() {
      try (var group =
          new LockstepGroup(TestConfig.overlap(2, 2).role(WorkerRole.GENERATION).build())) {
        offer(group, 0, 2, 8, 4);
        step(group);
        assertThat(perRank(group, e -> e.count(RequestState.GENERATION_TRANSFER)))
            .containsExactly(1, 1);
        assertThat(seats(group)).containsOnly(0);
        assertThat(perRank(group, RankEngine::leasesUsed)).containsOnly(1);
        step(group);
        assertThat(group.admission().idle()).isFalse();
        assertThat(perRank(group, RankEngine::real)).containsOnly(0);
      }
    }
  }

  // ------------------------------------------------------------------------------ padding and the
  // vote

  @Nested
  class Vote {
    /** Spec 01 §7.5, iteration 2: ranks with two retirees are at K, get no dummy, and veto. */
    @Test
    void aRankAtItsCapIsLeftEmptyAndVetoes() {
      var config =
          TestConfig.overlap(4, 2).role(WorkerRole.CONTEXT).whatIf(WhatIf.Switch.CHARGE_RETIRING);
      try (var group = new LockstepGroup(config.build())) {
        offer(group, 0, 1, 8, 1);
        step(group);
        assertThat(scheduled(group)).containsExactly(1, 1, 1, 1);
        assertThat(padded(group)).containsExactly(0, 1, 1, 1);
        offer(group, 1, 40, 8, 1);
        step(group);
        assertThat(scheduled(group)).containsExactly(1, 2, 2, 2);
        step(group);
        assertThat(scheduled(group)).containsExactly(1, 0, 0, 0);
        assertThat(padded(group)).containsOnly(0);
        assertThat(group.launched()).isFalse();
        assertThat(group.engine(0).canQueue()).isFalse();
      }
    }

    /** Spec 01 §7.4. */
    @Test
    void aRankWithWorkKeepsItsPreviousBatchWhileAPeerIsEmpty() {
      var config =
          TestConfig.overlap(4, 2).role(WorkerRole.CONTEXT).whatIf(WhatIf.Switch.CHARGE_RETIRING);
      try (var group = new LockstepGroup(config.build())) {
        offer(group, 0, 1, 8, 1);
        step(group);
        offer(group, 1, 40, 8, 1);
        step(group);
        step(group); // the veto of aRankAtItsCapIsLeftEmptyAndVetoes
        assertThat(perRank(group, RankEngine::ended)).containsExactly(0, 2, 2, 2);
        assertThat(perRank(group, e -> e.count(RequestState.RETIRING))).containsExactly(1, 0, 0, 0);
        step(group);
        assertThat(group.launched()).isTrue();
        assertThat(group.engine(0).ended()).isEqualTo(1);
      }
    }

    /**
     * The dummy is no work of its own: rank 1 settles what it launched before, although its batch
     * isn't empty.
     */
    @Test
    void aDummyOnlyBatchGoesBackWithTheVeto() {
      var config =
          TestConfig.overlap(3, 1)
              .role(WorkerRole.CONTEXT)
              .whatIf(WhatIf.Switch.CHARGE_RETIRING)
              .maxNumTokens(64);
      try (var group = new LockstepGroup(config.build())) {
        // Rank 0 is at its cap of 1 with a retiree; rank 1 gets a new request; rank 2 is padded.
        offerTo(group, 0, 0, 8, 1);
        step(group);
        assertThat(padded(group)).containsExactly(0, 1, 1);
        offerTo(group, 1, 1, 8, 1);
        step(group);
        assertThat(scheduled(group)).containsExactly(0, 1, 1);
        assertThat(padded(group)).containsExactly(0, 0, 1);
        assertThat(group.launched()).isFalse();
        step(group);
        assertThat(padded(group)).as("a new one, never two").containsExactly(1, 0, 1);
        assertThat(group.launched()).isTrue();
      }
    }

    @Test
    void oneDummyARankNeverTwo() {
      try (var group = new LockstepGroup(TestConfig.overlap(4, 3).build())) {
        offer(group, 0, 1, 8, 12);
        toTheEnd(
            group,
            i -> {
              for (int rank = 0; rank < 4; rank++) {
                RankEngine engine = group.engine(rank);
                assertThat(engine.batch() - engine.real()).isLessThanOrEqualTo(1);
                assertThat(engine.batch() - engine.real()).isEqualTo(engine.padded() ? 1 : 0);
              }
              return i;
            });
      }
    }

    /** Spec 06 BC-08: growth belongs to the forward. */
    @Test
    void vetoReturnsSeatsLeasesAndPages() {
      var overlapped =
          TestConfig.overlap(2, 1)
              .role(WorkerRole.CONTEXT)
              .whatIf(WhatIf.Switch.CHARGE_RETIRING)
              .tokensPerBlock(4)
              .pages(9);
      try (var group = new LockstepGroup(overlapped.build())) {
        offerTo(group, 0, 0, 8, 1);
        step(group);
        offerTo(group, 1, 1, 8, 1);
        step(group); // rank 0 at its cap: empty, a veto
        assertThat(scheduled(group)).containsExactly(0, 1);
        assertThat(group.launched()).isFalse();
        assertThat(group.engine(1).seatsUsed() + group.engine(1).leasesUsed()).isZero();
        assertThat(group.engine(1).pagesUsed()).isZero();
        assertThat(group.engine(1).count(RequestState.CONTEXT_INIT)).isEqualTo(1);
        step(group);
        assertThat(group.launched()).isTrue();
        assertThat(group.engine(1).pagesUsed()).isEqualTo(3);
      }
    }

    @Test
    void withoutAttentionDpARankAsksOnlyItself() {
      try (var group = new LockstepGroup(TestConfig.oneGroup(2, Trait.OVERLAP).build())) {
        offer(group, 0, 1, 8, 2);
        step(group);
        assertThat(group.launched()).isTrue();
        assertThat(toTheEnd(group, i -> group.engine(0).padded())).containsOnly(false);
        allIsBack(group);
      }
    }

    /** The fixed arm of evidence E1, small: an end of 20 lets retirees fill the batch. */
    @ParameterizedTest
    @CsvSource({"14, 2", "20, 1"})
    void rangeEnd20BreaksTheFix(int rangeEnd, int newPerRank) {
      var config = TestConfig.overlap(4, 2).role(WorkerRole.CONTEXT).rangeEnd(rangeEnd);
      try (var group = new LockstepGroup(config.build())) {
        offer(group, 0, 400, 8, 1);
        steps(group, 20);
        int contexts = 0;
        for (int i = 0; i < 10; i++) {
          step(group);
          contexts += group.engine(0).contexts();
        }
        assertThat(contexts / 10).isEqualTo(newPerRank);
      }
    }
  }

  // ------------------------------------------------------------------------------ seats and leases

  @Nested
  class Seating {
    private List<Integer> batches(TestConfig config, int requests) {
      try (var group = new LockstepGroup(config.role(WorkerRole.CONTEXT).build())) {
        offer(group, 0, requests, 8, 1);
        List<Integer> all = toTheEnd(group, i -> group.engine(0).batch());
        allIsBack(group);
        return all.subList(
            0, all.lastIndexOf(all.stream().max(Integer::compare).orElseThrow()) + 1);
      }
    }

    /** Spec 06 BC-01, the table of slots. */
    @ParameterizedTest
    @CsvSource({
      "2, 2 0 2 0 2 0 2 0 2 0 2 0 2 0 2 0 2 0 2, -1",
      "3, 2 1 2 1 2 1 2 1 2 1 2 1 2, 6",
      "4, 2 2 2 2 2 2 2 2 2 2, 0"
    })
    void slotsForOneBatchForOneAndAHalfAndForTwo(int slots, String batches, int deferrals) {
      var config =
          TestConfig.overlap(1, 2)
              .leases(slots)
              .whatIf(WhatIf.Switch.VALIDATOR_OVERRIDDEN)
              .role(WorkerRole.CONTEXT)
              .build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 20, 8, 1);
        var sizes = new ArrayList<Integer>();
        int deferred = 0;
        while (group.step(LockstepGroup.NO_DEVICE)) {
          sizes.add(group.engine(0).batch());
          deferred += group.engine(0).deferred(WaitReason.LEASE);
        }
        String text = String.join(" ", sizes.stream().map(String::valueOf).toList());
        assertThat(text).startsWith(batches);
        assertThat(text.substring(batches.length())).as("then nothing").matches("( 0)*");
        if (deferrals >= 0) {
          assertThat(deferred).isEqualTo(deferrals);
        }
      }
    }

    /** Spec 06 BC-01, eight requests. */
    @Test
    void chargingRetireesHalvesTheForwards() {
      assertThat(batches(TestConfig.overlap(1, 2).whatIf(WhatIf.Switch.CHARGE_RETIRING), 8))
          .containsExactly(2, 0, 2, 0, 2, 0, 2);
      assertThat(batches(TestConfig.overlap(1, 2), 8)).containsExactly(2, 2, 2, 2);
    }

    /** Spec 06 BC-02: leases beyond seats, a burst of transfers lands in one iteration. */
    @Test
    void aLandedRequestThatFindsNoSeatKeepsItsPlace() {
      var config =
          TestConfig.oneGroup(8)
              .role(WorkerRole.GENERATION)
              .policy(SeatPolicy.SPLIT)
              .seats(4)
              .leases(8)
              .whatIf(WhatIf.Switch.VALIDATOR_OVERRIDDEN)
              .build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 8, 8, 3);
        step(group);
        RankEngine engine = group.engine(0);
        assertThat(engine.receives()).isEqualTo(8);
        assertThat(engine.seatsUsed()).isZero();
        for (int i = 0; i < 8; i++) {
          int row = engine.receiveRow(i);
          engine.transferArrived(row, engine.table().id(row));
        }
        step(group);
        assertThat(engine.batch()).isEqualTo(4);
        assertThat(engine.deferred(WaitReason.SEAT)).isEqualTo(4);
        assertThat(engine.count(RequestState.GENERATION_TRANSFER_COMPLETE)).isEqualTo(4);
        step(group);
        assertThat(engine.ended()).isEqualTo(4);
        step(group);
        assertThat(engine.batch()).isEqualTo(4);
        assertThat(engine.count(RequestState.GENERATION_TRANSFER_COMPLETE)).isZero();
        toTheEnd(group, i -> i);
        allIsBack(group);
      }
    }

    /** Spec 06 BC-02, the start-up check. */
    @ParameterizedTest
    @CsvSource({"16, 8, false", "16, 16, true", "16, 32, false"})
    void anEngineStartsOnlyWithAsManyLeasesAsSeats(int seats, int leases, boolean accepted) {
      var config = TestConfig.overlap(2, 8).seats(seats).leases(leases);
      if (accepted) {
        new LockstepGroup(config.build()).close();
        return;
      }
      assertThatThrownBy(() -> new LockstepGroup(config.build()))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
          .hasMessage(
              "there are %d seats and %d leases: unified seats need as many leases as seats"
                  .formatted(seats, leases));
      var overridden = config.whatIf(WhatIf.Switch.VALIDATOR_OVERRIDDEN).build();
      try (var group = new LockstepGroup(overridden)) {
        assertThat(group.engine(0).startUp().disagreements()).hasSize(1);
      }
    }

    /** A core as the plan has it but for what is given here. */
    private static CoreConfig core(
        EngineConfig config, int seats, int leases, int reserved, int batch) {
      CoreConfig c = config.core(0);
      return new CoreConfig(
          c.rows(),
          seats,
          leases,
          reserved,
          batch,
          c.maxNumTokens(),
          c.draftTokens(),
          c.admissionCap(),
          c.maxResident(),
          c.rangeEnd(),
          c.pendingBatches(),
          c.exclusiveFlight(),
          c.markRetiring(),
          c.retiring(),
          c.padding(),
          c.transceiver(),
          c.chunked(),
          c.tokensPerBlock(),
          c.maxSeqLen(),
          c.pages(),
          c.policySet(),
          c.capacity(),
          c.pause(),
          c.prefixSharing(),
          c.oneLoop(),
          c.selects(),
          c.padCount(),
          c.sends());
    }

    /** The sizes that are compared are those of the pools, not the plan's own a second time. */
    @Test
    void everyPoolThatIsNotAsPlannedIsNamedAtStartWithBothNumbers() {
      var config = TestConfig.overlap(2, 8).build();
      var admission = new Admission(config, 0);
      assertThatThrownBy(() -> new RankEngine(config, 0, 0, admission, core(config, 17, 15, 3, 9)))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
          .hasMessage(
              "seat pool has 17 rows, but the plan has 16 seats;"
                  + " lease map has 15 rows, but the plan has 16 leases;"
                  + " padding lease pool has 3 rows, but the plan has 1 reserved leases;"
                  + " batch has 9 rows, but the plan has 8 batch positions");
      assertThatThrownBy(() -> new RankEngine(config, 0, 0, admission, core(config, 16, 16, 1, 7)))
          .hasMessage("batch has 7 rows, but the plan has 8 batch positions");
      new RankEngine(config, 0, 0, admission, core(config, 16, 16, 1, 8)).close();
    }

    /** A cache brings block tables, a row a lease; an engine that counts pages has none. */
    @Test
    void blockTablesAreComparedWhereThereAreSome() {
      var layout = KvLayout.plan(4, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));
      var config =
          TestConfig.overlap(2, 8)
              .tokensPerBlock(4)
              .maxSeqLen(64)
              .build()
              .withKv(KvSetup.paged(layout, KvSizes.device(64)));
      try (var group = new LockstepGroup(config)) {
        assertThat(group.engine(0).startUp().checked())
            .containsExactly(
                "seat pool", "lease map", "padding lease pool", "batch", "block tables");
      }
      var admission = new Admission(config, 0);
      assertThatThrownBy(() -> new RankEngine(config, 0, 0, admission, core(config, 16, 14, 3, 8)))
          .hasMessage(
              "lease map has 14 rows, but the plan has 16 leases;"
                  + " padding lease pool has 3 rows, but the plan has 1 reserved leases;"
                  + " block tables has 14 rows, but the plan has 16 leases");
    }

    @Test
    void poolsWithoutABoundAreSkippedByName() {
      try (var group = new LockstepGroup(TestConfig.overlap(2, 8).build())) {
        var startUp = group.engine(1).startUp();
        assertThat(startUp.checked())
            .containsExactly("seat pool", "lease map", "padding lease pool", "batch");
        assertThat(startUp.skipped()).containsExactly("KV pages");
      }
    }

    /** What a caller keeps beside the engine is looked at together with the engine's pools. */
    @Test
    void poolsOfTheCallerJoinThoseOfTheEngine() {
      var config = TestConfig.overlap(2, 8).build();
      try (var group = new LockstepGroup(config)) {
        var pools = new ArrayList<>(group.engine(0).pools());
        pools.add(RegisteredPool.of("guided decoder", KeyedBy.SEAT, 8));
        assertThat(StartupValidator.check(config.plan(), pools).disagreements())
            .extracting(StartupValidator.Disagreement::message)
            .containsExactly("guided decoder has 8 rows, but the plan has 16 seats");
      }
    }

    /**
     * Spec 06 BC-05 in this engine: the dummy has its own lease and no pages, so a full rank is
     * padded all the same.
     */
    @Test
    void aRankWithoutPagesOrLeasesIsPaddedAndItsPeersGoOn() {
      var config = TestConfig.nonOverlap(2, 2).pages(4).tokensPerBlock(4);
      try (var group = new LockstepGroup(config.build())) {
        offerTo(group, 0, 0, 4, 12);
        step(group);
        assertThat(scheduled(group)).containsExactly(1, 1);
        assertThat(padded(group)).containsExactly(0, 1);
        assertThat(group.launched()).isTrue();
        assertThat(group.engine(1).leasesUsed()).as("not out of the requests' leases").isZero();
      }
    }

    /** Spec 06 BC-11. */
    @Test
    void withOneSlotTheSecondKeepsItsPlaceAndRunsNext() {
      var config = TestConfig.nonOverlap(1, 2).seats(1).leases(1).build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 2, 8, 2);
        step(group);
        RankEngine engine = group.engine(0);
        assertThat(engine.batch()).isEqualTo(1);
        assertThat(engine.deferred(WaitReason.LEASE)).isEqualTo(1);
        assertThat(engine.count(RequestState.CONTEXT_INIT)).isEqualTo(1);
        step(group);
        assertThat(engine.endedId(0)).isZero();
        step(group);
        assertThat(engine.batch()).isEqualTo(1);
        assertThat(engine.count(RequestState.CONTEXT_INIT)).isZero();
        toTheEnd(group, i -> i);
        allIsBack(group);
      }
    }

    /** Spec 06 BC-11: a lease while the KV is on the way, a seat once it has landed, never two. */
    @Test
    void aRequestInTransferHoldsALeaseAndNoSeat() {
      var config = TestConfig.oneGroup(1).role(WorkerRole.GENERATION).build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 7, 1, 8, 4);
        step(group);
        RankEngine engine = group.engine(0);
        assertThat(engine.leasesUsed()).isEqualTo(1);
        assertThat(engine.seatsUsed()).isZero();
        engine.transferArrived(engine.receiveRow(0), 7);
        steps(group, 2);
        assertThat(engine.leasesUsed()).isEqualTo(1);
        assertThat(engine.seatsUsed()).isEqualTo(1);
      }
    }

    /** Spec 06 BC-12. */
    @ParameterizedTest
    @CsvSource({"128, 32, 1", "256, 64, 0", "255, 63, 1"})
    void draftTokensLowerTheCap(int tokens, int cap, int warnings) {
      var config = TestConfig.overlap(2, 64).draftTokens(3).maxNumTokens(tokens).build();
      assertThat(config.plan().admissionCap()).isEqualTo(cap);
      assertThat(config.plan().advice()).hasSize(warnings);
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 200, 1, 20);
        steps(group, 5);
        assertThat(perRank(group, RankEngine::resident)).containsOnly(cap);
      }
    }

    @Test
    void aStepThatHoldsNoGenerationIsAConfigurationError() {
      refused(
          Code.CONFIGURATION,
          () -> TestConfig.overlap(2, 64).draftTokens(3).maxNumTokens(3).build());
    }

    /** Spec 06 BC-74. */
    @Test
    void theLastTokensComeWithoutNewTraffic() {
      try (var group = new LockstepGroup(TestConfig.overlap(2, 2).build())) {
        offer(group, 0, 1, 8, 3);
        List<Integer> tokens = toTheEnd(group, i -> group.engine(0).tokensOut());
        assertThat(tokens).hasSizeLessThanOrEqualTo(5);
        assertThat(tokens.stream().mapToInt(t -> t).sum()).isEqualTo(3);
        allIsBack(group);
      }
    }
  }

  // ------------------------------------------------------------------------------ requests that
  // end otherwise

  @Nested
  class Ends {
    /** Spec 06 BC-31. */
    @Test
    void cancelledPagesStayUntilTheTransferIsOver() {
      var config =
          TestConfig.oneGroup(2).role(WorkerRole.GENERATION).tokensPerBlock(4).pages(4).build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 1, 1, 12, 4);
        step(group);
        RankEngine engine = group.engine(0);
        int row = engine.receiveRow(0);
        engine.cancel(row, 1);
        offer(group, 2, 1, 2, 2);
        steps(group, 3);
        assertThat(engine.pagesUsed()).isEqualTo(4);
        assertThat(engine.deferred(WaitReason.PAGES)).isEqualTo(1);
        assertThat(engine.ended()).isZero();
        engine.transferArrived(row, 1);
        step(group);
        assertThat(engine.endedKind(0)).isEqualTo(EndKind.CANCELLED);
        assertThat(engine.receives()).isEqualTo(1);
        assertThat(engine.pagesUsed()).isEqualTo(1);
      }
    }

    /** Spec 06 BC-32. */
    @Test
    void launchedChunksComeBackOnceAfterACancel() {
      var config =
          TestConfig.overlap(1, 2).maxNumTokens(16).chunked().tokensPerBlock(4).pages(40).build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 1, 1, 64, 4);
        steps(group, 2); // two chunks launched, one settled
        RankEngine engine = group.engine(0);
        engine.cancel(0, 1);
        step(group);
        assertThat(engine.pagesUsed()).isZero();
        assertThat(engine.endedKind(0)).isEqualTo(EndKind.CANCELLED);
        assertThat(group.step(LockstepGroup.NO_DEVICE)).isFalse();
        allIsBack(group);
      }
    }

    @Test
    void aSequenceThatEndsWhileLaunchedAgainComesBackWithItsLastFlight() {
      try (var group = new LockstepGroup(TestConfig.overlap(2, 2).build())) {
        offer(group, 0, 1, 8, 9);
        var device = new EndAtOnce();
        assertThat(group.step(device)).isTrue();
        assertThat(group.step(device)).isTrue(); // settles the first token, launches the second
        RankEngine engine = group.engine(0);
        assertThat(engine.ended()).isZero();
        assertThat(engine.routable()).isZero();
        assertThat(engine.seatsUsed()).isEqualTo(1);
        assertThat(group.step(device)).isTrue();
        assertThat(engine.ended()).isEqualTo(1);
        assertThat(engine.endedTokens(0)).isEqualTo(1);
        assertThat(group.step(device)).isFalse();
        allIsBack(group);
      }
    }

    @Test
    void lateNewsOfARowThatIsSomebodyElsesIsIgnored() {
      var config = TestConfig.oneGroup(1).role(WorkerRole.GENERATION).build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 1, 1, 8, 2);
        step(group);
        RankEngine engine = group.engine(0);
        int row = engine.receiveRow(0);
        engine.transferFailed(row, 1);
        step(group);
        assertThat(engine.endedKind(0)).isEqualTo(EndKind.FAILED);
        offer(group, 2, 1, 8, 2);
        step(group);
        assertThat(engine.receiveRow(0)).isEqualTo(row);
        engine.transferArrived(row, 1);
        engine.transferFailed(row, 1);
        engine.cancel(row, 1);
        step(group);
        assertThat(engine.count(RequestState.GENERATION_TRANSFER)).isEqualTo(1);
        assertThat(engine.ended()).isZero();
      }
    }

    /** Spec 06 BC-34: who is deferred keeps his place. */
    @Test
    void deferredRequestsKeepTheirOrder() {
      var config = TestConfig.nonOverlap(1, 3).leases(1).seats(1).build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 3, 8, 4);
        List<Long> order = new ArrayList<>();
        while (group.step(LockstepGroup.NO_DEVICE)) {
          for (int i = 0; i < group.engine(0).ended(); i++) {
            order.add(group.engine(0).endedId(i));
          }
        }
        assertThat(order).containsExactly(0L, 1L, 2L);
      }
    }
  }

  // ------------------------------------------------------------------------------ what can't run

  @Nested
  class NeverFits {
    /** Spec 06 BC-17. */
    @Test
    void anOversizedRequestIsRefusedAtOnceAndTheNextGoesOn() {
      var config = TestConfig.nonOverlap(1, 4).tokensPerBlock(16).pages(4790).build();
      try (var group = new LockstepGroup(config)) {
        assertThat(group.offer(Request.of(0, 99_999, 1)))
            .isEqualTo(new Outcome.Refused(WaitReason.PAGES, 6250, 4790));
        offer(group, 1, 1, 1000, 1);
        step(group);
        assertThat(group.engine(0).ended()).isEqualTo(1);
      }
    }

    @Test
    void aPromptBeyondTheTokensOfABatchIsRefusedUnlessItIsChunked() {
      var request = Request.of(0, 17, 2);
      try (var group = new LockstepGroup(TestConfig.nonOverlap(1, 2).maxNumTokens(16).build())) {
        assertThat(group.offer(request)).isEqualTo(new Outcome.Refused(WaitReason.TOKENS, 17, 16));
        assertThat(group.offer(Request.of(1, 16, 2))).isEqualTo(Outcome.QUEUED);
      }
      try (var group =
          new LockstepGroup(TestConfig.nonOverlap(1, 2).maxNumTokens(16).chunked().build())) {
        assertThat(group.offer(request)).isEqualTo(Outcome.QUEUED);
        assertThat(toTheEnd(group, i -> group.engine(0).batchTokens())).containsExactly(16, 1, 1);
      }
    }

    @Test
    void aSequenceThatNoIntCountsIsRefused() {
      try (var group = new LockstepGroup(TestConfig.nonOverlap(1, 2).build())) {
        int most = Integer.MAX_VALUE;
        assertThat(group.offer(Request.of(0, most, most)))
            .isEqualTo(new Outcome.Refused(WaitReason.TOKENS, 2L * most, most));
        assertThat(group.offer(Request.of(1, most - 1, 1))).isEqualTo(Outcome.QUEUED);
        step(group);
        assertThat(group.engine(0).batchTokens()).isEqualTo(most - 1);
      }
    }

    @Test
    void twoPromptsThatNoIntCountsTogetherRunOneAfterTheOther() {
      try (var group = new LockstepGroup(TestConfig.nonOverlap(1, 2).build())) {
        offer(group, 0, 2, 1_500_000_000, 1);
        assertThat(toTheEnd(group, i -> group.engine(0).batchTokens()))
            .containsExactly(1_500_000_000, 1_500_000_000);
        allIsBack(group);
      }
    }

    @Test
    void aRequestWithoutAPromptIsMisuseAndSpoilsNothing() {
      try (var group = new LockstepGroup(TestConfig.nonOverlap(1, 2).build())) {
        refused(Code.ARGUMENT, () -> group.offer(Request.of(0, 0, 1)));
        offer(group, 1, 1, 8, 1);
        step(group);
        assertThat(group.engine(0).ended()).isEqualTo(1);
      }
    }

    /**
     * The part of spec 06 BC-26 that admission decides: what costs more than the whole fleet would
     * block the queue.
     */
    @ParameterizedTest
    @ValueSource(ints = {4, Request.MAX_CHILDREN})
    void aRequestWithMoreSequencesThanTheFleetHoldsIsRefused(int children) {
      try (var group = new LockstepGroup(TestConfig.nonOverlap(2, 2).build())) {
        Request many =
            new Request(0, 8, 1, Request.DEFAULT_PRIORITY, SchedulingParams.NONE, children, 0);
        assertThat(group.offer(many))
            .isEqualTo(new Outcome.Refused(WaitReason.BATCH, 1L + children, 4));
        offer(group, 1, 1, 8, 1);
        step(group);
        assertThat(group.admission().admitted()).isEqualTo(1);
      }
    }

    @Test
    void anUnknownTargetRankIsMisuse() {
      try (var group = new LockstepGroup(TestConfig.nonOverlap(2, 2).build())) {
        var wish = SchedulingParams.target(2, Relax.RELAXED);
        refused(Code.ARGUMENT, () -> group.offer(Request.of(0, 8, 1).withScheduling(wish)));
        assertThat(group.step(LockstepGroup.NO_DEVICE)).isFalse();
      }
    }

    @Test
    void withoutAttentionDpATargetRankMeansNothing() {
      try (var group = new LockstepGroup(TestConfig.oneGroup(2).build())) {
        for (Relax relax : Relax.values()) {
          var wish = SchedulingParams.target(5, relax);
          assertThat(group.offer(Request.of(relax.ordinal(), 8, 1).withScheduling(wish)))
              .isEqualTo(Outcome.QUEUED);
        }
        toTheEnd(group, i -> i);
        assertThat(group.admission().fetched()).isEqualTo(3);
      }
    }

    @Test
    void anIdThatWaitsIsADuplicate() {
      try (var group = new LockstepGroup(TestConfig.nonOverlap(2, 2).stages(2).build())) {
        offer(group, 0, 1, 8, 1);
        assertThat(group.offer(Request.of(0, 9, 9))).isEqualTo(Outcome.DUPLICATE);
        assertThat(group.cancel(0)).isTrue();
        assertThat(group.cancel(0)).isFalse();
        assertThat(group.step(LockstepGroup.NO_DEVICE)).isFalse();
      }
    }
  }

  // ------------------------------------------------------------------------------ gates

  /** Spec 01 §8, §12.7. */
  @Nested
  class Gates {
    private LockstepGroup filling(FillGate.Kind kind, int target) {
      return new LockstepGroup(
          TestConfig.overlap(4, 8)
              .role(WorkerRole.GENERATION)
              .gate(new FillGate(kind, target))
              .build());
    }

    private void land(LockstepGroup group, int rank, long id) {
      RankEngine engine = group.engine(rank);
      int row =
          IntStream.range(0, engine.table().rows() - 1)
              .filter(r -> engine.table().id(r) == id)
              .filter(r -> engine.table().state(r) == RequestState.GENERATION_TRANSFER)
              .findFirst()
              .orElseThrow();
      engine.transferArrived(row, id);
    }

    @Test
    void theRampStartsWithOneARankAndDoubles() {
      try (var group = filling(FillGate.Kind.STATE, 32)) {
        offer(group, 0, 1000, 8, 4);
        var admitted = new ArrayList<Integer>();
        for (int i = 0; i < 4; i++) {
          step(group);
          admitted.add(group.admission().admitted());
        }
        assertThat(admitted).as("4, 8, 16, and what is left of 4 x 8").containsExactly(4, 8, 16, 4);
      }
    }

    @Test
    void theRampGoesOnWhileTheQueueIsEmpty() {
      try (var group = filling(FillGate.Kind.STATE, 32)) {
        offer(group, 0, 1, 8, 4);
        steps(group, 3); // 4, 8, 16, though only one came
        offer(group, 1, 1000, 8, 4);
        step(group);
        assertThat(group.admission().admitted()).isEqualTo(31);
      }
    }

    @Test
    void noDummiesDuringTheFillAndNormalOnesAfterIt() {
      try (var group = filling(FillGate.Kind.STATE, 4)) {
        offer(group, 0, 4, 8, 9);
        step(group);
        assertThat(padded(group)).containsOnly(0);
        for (int rank = 0; rank < 4; rank++) {
          land(group, rank, group.engine(rank).table().id(group.engine(rank).receiveRow(0)));
        }
        step(group); // they land
        assertThat(group.admission().held()).isTrue();
        assertThat(group.launched()).isFalse();
        step(group); // and the gather after that opens the gate
        assertThat(group.admission().gateOpen()).isTrue();
        assertThat(group.launched()).isTrue();
        group.engine(3).cancel(0, group.engine(3).table().id(0));
        steps(group, 2);
        assertThat(padded(group)).containsExactly(0, 0, 0, 1);
      }
    }

    @Test
    void closedWhileNotAllAreFetchedOrOneIsBeforeOrInTransfer() {
      try (var group = filling(FillGate.Kind.STATE, 5)) {
        offer(group, 0, 4, 8, 9);
        step(group);
        for (int rank = 0; rank < 4; rank++) {
          land(group, rank, group.engine(rank).table().id(group.engine(rank).receiveRow(0)));
        }
        steps(group, 3);
        assertThat(group.admission().gateOpen()).as("four of five fetched").isFalse();
        offer(group, 4, 1, 8, 9);
        steps(group, 3);
        assertThat(group.admission().fetched()).isEqualTo(5);
        assertThat(group.admission().gateOpen()).as("one is in transfer").isFalse();
        int rank = perRank(group, e -> e.count(RequestState.GENERATION_TRANSFER)).indexOf(1);
        land(group, rank, 4);
        steps(group, 2);
        assertThat(group.admission().gateOpen()).isTrue();
      }
    }

    @Test
    void oneEarlyEndClosesTheCountGateForEverAndNotTheStateGate() {
      for (FillGate.Kind kind : List.of(FillGate.Kind.COUNT, FillGate.Kind.STATE)) {
        try (var group = filling(kind, 4)) {
          offer(group, 0, 3, 8, 9);
          offer(group, 3, 1, 8, 1); // its only token came with its KV
          step(group);
          for (int rank = 0; rank < 4; rank++) {
            land(group, rank, group.engine(rank).table().id(group.engine(rank).receiveRow(0)));
          }
          steps(group, 6);
          assertThat(group.admission().gateOpen()).isEqualTo(kind == FillGate.Kind.STATE);
        }
      }
    }

    @Test
    void aPauseOnlyWhileNoRankMakesProgress() {
      try (var group = filling(FillGate.Kind.STATE, 8)) {
        offer(group, 0, 4, 8, 9);
        step(group);
        assertThat(group.pauseMicros()).as("four were admitted").isZero();
        step(group);
        assertThat(group.pauseMicros()).isEqualTo(FillGate.PAUSE_MICROS);
        land(group, 2, group.engine(2).table().id(0));
        step(group);
        assertThat(group.pauseMicros()).as("a peer made progress: no rank pauses").isZero();
        step(group);
        assertThat(group.pauseMicros()).isEqualTo(FillGate.PAUSE_MICROS);
      }
    }

    @Test
    void aGateIsForGenerationOnlyWorkersAndNeedsATarget() {
      assertThatThrownBy(
              () -> TestConfig.overlap(2, 2).gate(new FillGate(FillGate.Kind.STATE, 4)).build())
          .hasMessageContaining("generation-only");
      assertThatThrownBy(() -> new FillGate(FillGate.Kind.STATE, 0)).hasMessageContaining("0");
      assertThatThrownBy(() -> new FillGate(FillGate.Kind.NONE, 1)).hasMessageContaining("1");
    }
  }

  // ------------------------------------------------------------------------------ misuse

  @Nested
  class Misuse {
    private final EngineConfig config = TestConfig.overlap(1, 2).build();

    private FrameBoard board(Op op, int words, long[] frame, long sequence) {
      var board = new FrameBoard(op, 1, words);
      board.put(0, frame);
      board.verify(0, sequence);
      return board;
    }

    private Event gathered(Effect effect, long sequence) {
      long[] frame = ((Effect.NeedGather) effect).frame();
      return new Event.Gathered(board(Op.GATHER, Payload.GATHER_WORDS, frame, sequence));
    }

    private Event voted(Effect effect, long sequence) {
      long[] frame = ((Effect.NeedVote) effect).frame();
      return new Event.Voted(board(Op.VOTE, Payload.VOTE_WORDS, frame, sequence));
    }

    /**
     * Every event in every phase: the one that belongs there is taken, all others are refused and
     * change nothing.
     */
    @Test
    void anEventThatAnswersNothingIsRefused() {
      var admission = new Admission(config, 0);
      admission.offer(Request.of(0, 8, 2));
      try (var engine = new RankEngine(config, 0, 0, admission)) {
        refused(Code.STATE, () -> engine.advance(Event.LAUNCHED));
        Effect first = engine.start();
        refused(Code.STATE, engine::start);
        Event a = gathered(first, 0);
        refusedAll(engine, List.of(Event.LAUNCHED, Event.COLLECTED, Event.WOKEN));
        Effect vote = engine.advance(a);
        Event b = voted(vote, 0);
        refusedAll(engine, List.of(a, Event.LAUNCHED, Event.COLLECTED, Event.WOKEN));
        assertThat(engine.advance(b)).isInstanceOf(Effect.Launch.class);
        refusedAll(engine, List.of(a, b, Event.COLLECTED, Event.WOKEN));
        Effect second = engine.advance(Event.LAUNCHED);
        assertThat(second).isInstanceOf(Effect.NeedGather.class);
        refusedAll(engine, List.of(b, Event.LAUNCHED, Event.COLLECTED, Event.WOKEN));
        Effect vote1 = engine.advance(gathered(second, 1));
        engine.advance(voted(vote1, 1));
        assertThat(engine.advance(Event.LAUNCHED)).isInstanceOf(Effect.Collect.class);
        refusedAll(engine, List.of(a, b, Event.LAUNCHED, Event.WOKEN));
        Effect third = engine.advance(Event.COLLECTED);
        Effect vote2 = engine.advance(gathered(third, 2));
        assertThat(engine.advance(voted(vote2, 2))).isInstanceOf(Effect.Collect.class);
        Effect fourth = engine.advance(Event.COLLECTED);
        assertThat(engine.ended()).isEqualTo(1);
        assertThat(engine.advance(gathered(fourth, 3))).isEqualTo(Effect.IDLE);
        refusedAll(engine, List.of(a, b, Event.LAUNCHED, Event.COLLECTED));
        assertThat(engine.advance(Event.WOKEN)).isInstanceOf(Effect.NeedGather.class);
      }
    }

    private void refusedAll(RankEngine engine, List<Event> events) {
      events.forEach(event -> refused(Code.STATE, () -> engine.advance(event)));
    }

    @Test
    void aBoardOfAnotherCollectiveFleetOrIterationIsRefused() {
      try (var engine = new RankEngine(config, 0, 0, new Admission(config, 0))) {
        long[] frame = ((Effect.NeedGather) engine.start()).frame();
        refused(
            Code.ARGUMENT,
            () ->
                engine.advance(
                    new Event.Gathered(new FrameBoard(Op.VOTE, 1, Payload.GATHER_WORDS))));
        refused(
            Code.ARGUMENT,
            () ->
                engine.advance(
                    new Event.Gathered(new FrameBoard(Op.GATHER, 2, Payload.GATHER_WORDS))));
        refused(
            Code.ARGUMENT,
            () -> engine.advance(new Event.Gathered(new FrameBoard(Op.GATHER, 1, 3))));
        var unverified = new FrameBoard(Op.GATHER, 1, Payload.GATHER_WORDS);
        unverified.put(0, frame);
        refused(Code.DIVERGED, () -> engine.advance(new Event.Gathered(unverified)));
        unverified.verify(0, 0);
        assertThat(engine.advance(new Event.Gathered(unverified))).isEqualTo(Effect.IDLE);
      }
    }

    /** Spec 08 §9: nobody looks at a payload before every header is right. */
    @ParameterizedTest
    @CsvSource({"0, 0", "0, 32", "0, 48", "1, 0", "2, 0", "3, 0"})
    void aFrameWithAForeignHeaderIsDiverged(int word, int bit) {
      var board = new FrameBoard(Op.GATHER, 2, Payload.GATHER_WORDS);
      long[] frame = FrameBoard.frame(Payload.GATHER_WORDS);
      FrameBoard.header(frame, Op.GATHER, 0, 5, 0, 0, 0);
      board.put(0, frame);
      board.put(1, frame);
      board.verify(0, 5);
      frame[word] ^= 1L << bit;
      board.put(1, frame);
      assertThatThrownBy(() -> board.verify(0, 5))
          .hasMessageContaining("rank 1")
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.DIVERGED));
    }

    /** Spec 06 BC-07: ranks that share a decision must have asked about the same frames. */
    @Test
    void ranksThatGatheredDifferentFramesAreDiverged() {
      var two = TestConfig.overlap(2, 2).build();
      var admission = new Admission(two, 0);
      admission.offer(Request.of(0, 8, 2));
      try (var zero = new RankEngine(two, 0, 0, admission);
          var one = new RankEngine(two, 1, 0, admission)) {
        long[] a = ((Effect.NeedGather) zero.start()).frame();
        long[] b = ((Effect.NeedGather) one.start()).frame();
        var board = new FrameBoard(Op.GATHER, 2, Payload.GATHER_WORDS);
        board.put(0, a);
        board.put(1, b);
        board.verify(0, 0);
        assertThat(zero.advance(new Event.Gathered(board))).isInstanceOf(Effect.NeedVote.class);
        long[] tampered = b.clone();
        tampered[FrameBoard.HEADER_WORDS + RankState.ACTIVE_TOKENS]++;
        board.put(1, tampered);
        board.verify(0, 0);
        refused(Code.DIVERGED, () -> one.advance(new Event.Gathered(board)));
        board.put(1, b);
        board.verify(0, 0);
        assertThat(one.advance(new Event.Gathered(board))).isInstanceOf(Effect.NeedVote.class);
      }
    }

    /**
     * The first rank's decision fails on a frame; the second must not take the decision before it
     * for this one.
     */
    @Test
    void aFailedDecisionIsNone() {
      var two = TestConfig.overlap(2, 2).build();
      var admission = new Admission(two, 0);
      admission.offer(Request.of(0, 8, 9));
      try (var zero = new RankEngine(two, 0, 0, admission);
          var one = new RankEngine(two, 1, 0, admission)) {
        var effects = List.of(zero.start(), one.start());
        Event gathered = new Event.Gathered(gather(effects, 0));
        effects = List.of(zero.advance(gathered), one.advance(gathered));
        var votes = new FrameBoard(Op.VOTE, 2, Payload.VOTE_WORDS);
        for (int rank = 0; rank < 2; rank++) {
          votes.put(rank, ((Effect.NeedVote) effects.get(rank)).frame());
        }
        votes.verify(0, 0);
        for (RankEngine engine : List.of(zero, one)) {
          assertThat(engine.advance(new Event.Voted(votes))).isInstanceOf(Effect.Launch.class);
        }
        effects = List.of(zero.advance(Event.LAUNCHED), one.advance(Event.LAUNCHED));
        long[] frame = ((Effect.NeedGather) effects.getFirst()).frame();
        frame[FrameBoard.HEADER_WORDS + RankState.ACTIVE_REQUESTS] = -1;
        Event spoilt = new Event.Gathered(gather(effects, 1));
        refused(Code.ARGUMENT, () -> zero.advance(spoilt));
        refused(Code.ARGUMENT, () -> one.advance(spoilt));
      }
    }

    /**
     * Ranks in processes of their own compute the admission themselves; one that lacks a request is
     * found.
     */
    @Test
    void ranksThatAdmitOtherwiseAreDivergedBeforeAnythingRuns() {
      var two = TestConfig.overlap(2, 2).build();
      var all = new Admission(two, 0);
      var most = new Admission(two, 0);
      for (int id = 0; id < 3; id++) {
        all.offer(Request.of(id, 8, 2));
      }
      for (int id = 0; id < 2; id++) {
        most.offer(Request.of(id, 8, 2));
      }
      try (var zero = new RankEngine(two, 0, 0, all);
          var one = new RankEngine(two, 1, 0, most)) {
        Event gathered = new Event.Gathered(gather(List.of(zero.start(), one.start()), 0));
        var votes = new FrameBoard(Op.VOTE, 2, Payload.VOTE_WORDS);
        votes.put(0, ((Effect.NeedVote) zero.advance(gathered)).frame());
        votes.put(1, ((Effect.NeedVote) one.advance(gathered)).frame());
        votes.verify(0, 0);
        refused(Code.DIVERGED, () -> zero.advance(new Event.Voted(votes)));
        refused(Code.DIVERGED, () -> one.advance(new Event.Voted(votes)));
      }
    }

    private FrameBoard gather(List<Effect> effects, long sequence) {
      var board = new FrameBoard(Op.GATHER, effects.size(), Payload.GATHER_WORDS);
      for (int rank = 0; rank < effects.size(); rank++) {
        board.put(rank, ((Effect.NeedGather) effects.get(rank)).frame());
      }
      board.verify(0, sequence);
      return board;
    }

    @Test
    void rowsAndInboxesHaveBounds() {
      try (var group = new LockstepGroup(config)) {
        RankEngine engine = group.engine(0);
        int rows = engine.table().rows();
        for (int row : new int[] {-1, rows - 1, rows, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
          refused(Code.ARGUMENT, () -> engine.cancel(row, 0));
          refused(Code.ARGUMENT, () -> engine.transferArrived(row, 0));
          refused(Code.ARGUMENT, () -> engine.transferFailed(row, 0));
        }
        for (int i = 0; i < rows - 1; i++) {
          engine.cancel(0, 99);
        }
        refused(Code.STATE, () -> engine.cancel(0, 99));
        offer(group, 0, 1, 8, 1);
        step(group);
        engine.cancel(0, 99); // room again
        toTheEnd(group, i -> i);
        allIsBack(group);
        refused(Code.ARGUMENT, () -> group.engine(1));
        refused(Code.ARGUMENT, () -> group.engine(-1));
        refused(Code.ARGUMENT, () -> group.engine(0, 1));
        refused(Code.ARGUMENT, () -> new RankEngine(config, 1, 0, group.admission()));
        refused(Code.ARGUMENT, () -> new RankEngine(config, 0, 1, group.admission()));
      }
    }

    @Test
    void whatIsClosedSaysSo() {
      var group = new LockstepGroup(config);
      offer(group, 0, 1, 8, 4);
      var batches = new ArrayList<Batch>();
      group.step(
          new LockstepGroup.Device() {
            @Override
            public void launch(RankEngine engine, Batch batch) {
              batches.add(batch);
            }
          });
      RankEngine engine = group.engine(0);
      RequestTable table = engine.table();
      Batch batch = batches.getFirst();
      group.close();
      group.close(); // idempotent
      refused(Code.CLOSED, () -> group.step(LockstepGroup.NO_DEVICE));
      refused(Code.CLOSED, () -> group.offer(Request.of(1, 8, 1)));
      refused(Code.CLOSED, () -> engine.cancel(0, 0));
      refused(Code.CLOSED, () -> engine.transferArrived(0, 0));
      refused(Code.CLOSED, engine::batch);
      refused(Code.CLOSED, engine::routable);
      refused(Code.CLOSED, engine::decisionHash);
      refused(Code.CLOSED, () -> engine.count(RequestState.GENERATION));
      refused(Code.CLOSED, () -> engine.deferred(WaitReason.SEAT));
      refused(Code.CLOSED, () -> engine.receiveRow(0));
      refused(Code.CLOSED, () -> engine.endedId(0));
      refused(Code.CLOSED, () -> table.state(0));
      refused(Code.CLOSED, () -> table.tag(0));
      refused(Code.CLOSED, () -> batch.row(0));
      refused(Code.CLOSED, () -> batch.makesToken(0));
      refused(Code.CLOSED, () -> batch.stop(new BatchPosition(0)));
    }

    @Test
    void aStepThatThrewLeavesAGroupThatOnlyCloses() {
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 1, 8, 4);
        LockstepGroup.Device broken =
            new LockstepGroup.Device() {
              @Override
              public void launch(RankEngine engine, Batch batch) {
                refused(Code.STATE, () -> group.step(LockstepGroup.NO_DEVICE)); // inside a step
                throw new IllegalStateException("the device is gone");
              }
            };
        assertThatThrownBy(() -> group.step(broken)).hasMessage("the device is gone");
        refused(Code.STATE, () -> group.step(LockstepGroup.NO_DEVICE));
        assertThat(group.engine(0).real()).isEqualTo(1);
      }
    }

    @Test
    void aWorkerThatIsTooLargeIsRefusedAndTyped() {
      refused(
          Code.CONFIGURATION,
          () -> new LockstepGroup(TestConfig.nonOverlap(1, 1 << 20).stages(512).build()));
    }
  }

  // ------------------------------------------------------------------------------ groups

  @Nested
  class Groups {
    private List<Long> hashes(EngineConfig config, int seed) {
      var random = new java.util.Random(seed);
      var hashes = new ArrayList<Long>();
      try (var group = new LockstepGroup(config)) {
        for (int i = 0; i < 60; i++) {
          for (int n = random.nextInt(4); n > 0; n--) {
            offer(group, random.nextInt(), 1, 1 + random.nextInt(30), 1 + random.nextInt(6));
          }
          group.step(LockstepGroup.NO_DEVICE);
          for (int rank = 0; rank < config.ranks(); rank++) {
            hashes.add(group.engine(rank).decisionHash());
          }
        }
      }
      return hashes;
    }

    @Test
    void decisionsAreAFunctionOfTheInputs() {
      for (TestConfig config :
          List.of(
              TestConfig.overlap(3, 2),
              TestConfig.nonOverlap(3, 2).maxNumTokens(32),
              TestConfig.overlap(2, 2).stages(2))) {
        EngineConfig built = config.build();
        assertThat(hashes(built, 1)).isEqualTo(hashes(built, 1));
        assertThat(hashes(built, 1)).isNotEqualTo(hashes(built, 2));
      }
    }

    @Test
    void anIdleFleetWakesUp() {
      try (var group = new LockstepGroup(TestConfig.overlap(2, 2).build())) {
        for (int wave = 0; wave < 3; wave++) {
          for (int i = 0; i < 3; i++) {
            assertThat(group.step(LockstepGroup.NO_DEVICE)).isFalse();
          }
          long before = group.steps();
          offer(group, wave * 10, 3, 8, 2);
          toTheEnd(group, i -> i);
          assertThat(group.steps()).isGreaterThan(before);
          assertThat(group.admission().fetched()).isEqualTo(3L * (wave + 1));
          allIsBack(group);
        }
      }
    }

    /** Evidence E3's broken arm, small. */
    @Test
    void stageDivergenceIsDetected() {
      var config =
          TestConfig.overlap(2, 4)
              .stages(2)
              .whatIf(WhatIf.Switch.HEADROOM_UNDER_PIPELINE)
              .mark(RetiringMark.LAST_STAGE)
              .build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 64, 8, 2);
        assertThatThrownBy(() -> steps(group, 64))
            .hasMessageContaining("stage 1")
            .isInstanceOfSatisfying(
                BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.DIVERGED));
      }
    }

    @Test
    void allStagesOfARankDecideAlike() {
      var config =
          TestConfig.overlap(2, 3).stages(3).whatIf(WhatIf.Switch.HEADROOM_UNDER_PIPELINE).build();
      try (var group = new LockstepGroup(config)) {
        offer(group, 0, 40, 8, 5);
        toTheEnd(
            group,
            i -> {
              for (int rank = 0; rank < 2; rank++) {
                for (int stage = 1; stage < 3; stage++) {
                  assertThat(group.engine(rank, stage).decisionHash())
                      .isEqualTo(group.engine(rank).decisionHash());
                }
              }
              return i;
            });
        allIsBack(group);
      }
    }

    /** Spec 06 BC-79: padding is per micro-batch and alike on all stages of a rank. */
    @Test
    void underAPipelineBothStagesOfAnEmptyRankPadAlike() {
      try (var group = new LockstepGroup(TestConfig.overlap(2, 2).stages(2).build())) {
        for (int id = 0; id < 2; id++) {
          offerTo(group, 0, id, 8, 3);
        }
        var pads = new int[2];
        while (group.step(LockstepGroup.NO_DEVICE)) {
          for (int stage = 0; stage < 2; stage++) {
            pads[stage] += group.engine(1, stage).padded() ? 1 : 0;
          }
        }
        assertThat(pads[0]).isPositive().isEqualTo(pads[1]);
        allIsBack(group);
      }
    }

    /** A request that is in flight on one stage isn't scheduled again before it is back. */
    @Test
    void aPipelineNeverSchedulesWhatIsInFlight() {
      try (var group = new LockstepGroup(TestConfig.overlap(1, 2).stages(3).build())) {
        offer(group, 0, 6, 8, 4);
        List<Integer> waits = toTheEnd(group, i -> group.engine(0).deferred(WaitReason.IN_FLIGHT));
        assertThat(waits).contains(4);
        allIsBack(group);
      }
    }
  }
}
