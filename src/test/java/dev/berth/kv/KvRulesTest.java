// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.id.Lease;
import dev.berth.kv.KvOutcome.Done;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.TestSizes;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.test.GoldenLines;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Rules of spec 03 §6 to §14, one test each; docs/kv.md has the table of error conditions. */
class KvRulesTest {
  private static final int BLOCK = 4;
  private static final KvLayout PLAIN =
      KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));
  private static final KvLayout WITH_WINDOW =
      KvLayout.plan(
          BLOCK,
          List.of(
              KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
              KvBuffer.of(1, KvBuffer.KEY, 128, KvReach.window(4))));
  private static final KvLayout WITH_STATE =
      KvLayout.plan(
          BLOCK,
          List.of(
              KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
              KvBuffer.of(1, KvBuffer.KEY, 256, KvReach.STATE)));

  private static KvConfig config() {
    return KvConfig.of(TestSizes.leases(4), 16, 64).withPartialReuse(KvConfig.Partial.COPY);
  }

  private static KvCache cache(KvLayout layout, long... pages) {
    return KvCache.create(layout, config(), KvSizes.device(pages));
  }

  private static Done done(KvOutcome outcome) {
    assertThat(outcome).isInstanceOf(Done.class);
    return (Done) outcome;
  }

  private static int[] tokens(int n) {
    return IntStream.range(0, n).toArray();
  }

  private static long open(KvCache cache, KvOps.Reuse reuse, int... prompt) {
    KvOps ops = cache.newOps(1);
    ops.open(KvScope.NONE, 0, reuse, prompt);
    assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
    return ops.handle(0);
  }

  /** Opened, with room for all its tokens, of which it committed those that it didn't find. */
  private static long run(KvCache cache, KvOps.Reuse reuse, int row, int... tokens) {
    long sequence = open(cache, reuse, tokens);
    done(cache.resume(sequence, row));
    done(cache.resize(sequence, tokens.length));
    int known = cache.sequence(sequence).committed();
    cache.commit(sequence, Arrays.copyOfRange(tokens, known, tokens.length));
    return sequence;
  }

  private static KvStatus apply(KvCache cache, java.util.function.Consumer<KvOps> fill) {
    KvOps ops = cache.newOps(4);
    fill.accept(ops);
    return cache.apply(ops);
  }

  private static void code(Code code, org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  // ------------------------------------------------------------------------------ stopping

  @Test
  void aStopStoresTheBlockBegunAndNoTokenTwice() {
    try (var cache = cache(PLAIN, 16)) {
      long s = run(cache, KvOps.Reuse.FULL, 0, tokens(6));
      assertThat(cache.probe(KvScope.NONE, tokens(7))).containsExactly(4);
      cache.stop(s);
      assertThat(cache.sequence(s).committed()).isEqualTo(6);
      assertThat(cache.sequence(s).commits()).isEqualTo(KvSequence.Commits.STOPPED);
      assertThat(cache.probe(KvScope.NONE, tokens(7))).containsExactly(6);
      cache.stop(s);
      assertThat(cache.probe(KvScope.NONE, tokens(7))).containsExactly(6);
      assertThat(cache.usage().indexBlocks()).isEqualTo(2);
      cache.check();
    }
  }

  @Test
  void afterAStopTheSequenceGoesOnButStoresNothing() {
    try (var cache = cache(PLAIN, 16)) {
      long s = run(cache, KvOps.Reuse.FULL, 0, tokens(6));
      cache.stop(s);
      done(cache.resize(s, 12));
      code(Code.STATE, () -> cache.commit(s, 6, 7));
      assertThat(apply(cache, ops -> ops.resize(s, 12, 12))).isEqualTo(KvStatus.OK);
      assertThat(cache.probe(KvScope.NONE, tokens(12))).containsExactly(6);
      cache.close(s);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0))
          .isEqualTo(new KvUsage.Pages(16, 14, 0, 2, 2, 0));
    }
  }

  @Test
  void whatGoesOnBehindAStoredPartIsNobodyElses() {
    try (var cache = cache(PLAIN, 16)) {
      cache.close(stopped(cache, 0, 0, 1, 2, 3, 4, 5));
      // Reused by copy, so that two can go on differently.
      long a = open(cache, KvOps.Reuse.FULL, 0, 1, 2, 3, 4, 5, 6, 7);
      long b = open(cache, KvOps.Reuse.FULL, 0, 1, 2, 3, 4, 5, 8, 9);
      done(cache.resume(a, 0));
      done(cache.resume(b, 1));
      assertThat(cache.pages(a, 0, 0)[0]).isEqualTo(cache.pages(b, 0, 0)[0]);
      assertThat(cache.pages(a, 0, 0)[1]).isNotEqualTo(cache.pages(b, 0, 0)[1]);
      done(cache.resize(a, 8));
      cache.commit(a, 6, 7);
      // The whole block takes the part's place.
      assertThat(cache.usage().indexBlocks()).isEqualTo(2);
      cache.check();
    }
  }

  private static long stopped(KvCache cache, int row, int... tokens) {
    long sequence = run(cache, KvOps.Reuse.FULL, row, tokens);
    cache.stop(sequence);
    return sequence;
  }

  // ------------------------------------------------------------------------------ own pages

  @Test
  void whoKeepsItsOwnPagesStoresNothingBehindABlockThatTheIndexHas() {
    try (var cache = cache(PLAIN, 16)) {
      long first = open(cache, KvOps.Reuse.FULL, tokens(8));
      long second = open(cache, KvOps.Reuse.KEEP_OWN_PAGES, tokens(12));
      for (long s : new long[] {first, second}) {
        done(cache.resume(s, s == first ? 0 : 1));
        done(cache.resize(s, s == first ? 8 : 12));
      }
      cache.commit(first, tokens(8));
      int[] own = cache.pages(second, 0, 0);
      cache.commit(second, tokens(12));
      assertThat(cache.pages(second, 0, 0)).isEqualTo(own);
      assertThat(cache.sequence(second).commits()).isEqualTo(KvSequence.Commits.COUNTED);
      assertThat(cache.sequence(second).committed()).isEqualTo(12);
      assertThat(cache.usage().rebased()).isZero();
      assertThat(cache.probe(KvScope.NONE, tokens(13))).containsExactly(8);
      cache.close(second);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).held()).isZero();
      cache.check();
    }
  }

  // ------------------------------------------------------------------------------ retention

  @Test
  void aHitThatNamesARetentionChangesItForBlocksThatAreThere() {
    try (var cache = cache(PLAIN, 6)) {
      int[] a = {1, 1, 1, 1, 2, 2, 2, 2, 0};
      int[] b = {3, 3, 3, 3, 4, 4, 4, 4, 0};
      for (int[] prompt : List.of(a, b)) {
        cache.close(run(cache, KvOps.Reuse.FULL, 0, Arrays.copyOf(prompt, 8)));
      }
      // b is younger, but then a hit on a raises its first block.
      long hit = open(cache, KvOps.Reuse.FULL, a);
      assertThat(apply(cache, ops -> ops.retain(hit, 0, 4, 80, -1))).isEqualTo(KvStatus.OK);
      cache.close(hit);
      long again = open(cache, KvOps.Reuse.FULL, b);
      cache.close(again);
      long other = open(cache, KvOps.Reuse.FULL, 9);
      done(cache.resume(other, 0));
      done(cache.resize(other, 12));
      assertThat(cache.probe(KvScope.NONE, a, b)).containsExactly(4, 8);
      done(cache.resize(other, 20));
      assertThat(cache.probe(KvScope.NONE, a, b)).containsExactly(4, 0);
      cache.check();
    }
  }

  @Test
  void aHitWithoutARetentionLeavesThePriorityAndItsEnd() {
    try (var cache = cache(PLAIN, 3)) {
      int[] dear = {1, 1, 1, 1, 0};
      int[] cheap = {2, 2, 2, 2, 0};
      long s = open(cache, KvOps.Reuse.FULL, dear);
      assertThat(
              apply(
                  cache,
                  ops -> {
                    ops.retain(s, 0, -1, 90, 500);
                    ops.resume(s, 0);
                    ops.resize(s, 4);
                    ops.commit(s, Arrays.copyOf(dear, 4));
                  }))
          .isEqualTo(KvStatus.OK);
      cache.close(s);
      cache.close(open(cache, KvOps.Reuse.FULL, dear));
      cache.close(run(cache, KvOps.Reuse.FULL, 0, Arrays.copyOf(cheap, 4)));
      assertThat(room(cache, 8)).isEqualTo(List.of(4, 0));
      cache.close(run(cache, KvOps.Reuse.FULL, 0, Arrays.copyOf(cheap, 4)));
      cache.clock(500);
      cache.close(open(cache, KvOps.Reuse.FULL, cheap));
      assertThat(room(cache, 8)).isEqualTo(List.of(0, 4));
    }
  }

  /** What is found of the dear and of the cheap prompt while another takes so many tokens' room. */
  private static List<Integer> room(KvCache cache, int tokens) {
    long s = open(cache, KvOps.Reuse.FULL, 9);
    done(cache.resume(s, 0));
    done(cache.resize(s, tokens));
    int[] found = cache.probe(KvScope.NONE, new int[] {1, 1, 1, 1, 0}, new int[] {2, 2, 2, 2, 0});
    cache.close(s);
    return Arrays.stream(found).boxed().toList();
  }

  @Test
  void aChangedPriorityIsToldOf() {
    try (var cache = KvCache.create(PLAIN, config().withEvents(6), KvSizes.device(8))) {
      KvEvents events = cache.events();
      long s = run(cache, KvOps.Reuse.FULL, 0, tokens(12));
      for (int i = 0; i < 3; i++) {
        assertThat(events.poll().orElseThrow().priority()).isEqualTo(35);
      }
      assertThat(apply(cache, ops -> ops.retain(s, 4, 8, 70, 100))).isEqualTo(KvStatus.OK);
      KvEvent raised = events.poll().orElseThrow();
      assertThat(raised.kind()).isEqualTo(KvEvent.Kind.UPDATED);
      assertThat(raised.priority()).isEqualTo(70);
      assertThat(raised.oldLevel()).isEqualTo(raised.level());
      assertThat(events.poll()).isEmpty();
      cache.clock(100);
      KvEvent fallen = events.poll().orElseThrow();
      assertThat(fallen.block()).isEqualTo(raised.block());
      assertThat(fallen.priority()).isEqualTo(35);
      assertThat(cache.snapshot().pages()).extracting(KvEvent::priority).containsOnly(35);
    }
  }

  @Test
  void aQuotaIsSoftWhoHasNoneOrIsWithinItsOwnIsSparedWhileOthersAreOver() {
    var config = config().withScopes(4, 3);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(8))) {
      cache.quota(0, 1);
      cache.quota(1, 4);
      // Nothing stands in a tenant's way while there is room: two blocks over its quota.
      for (int tenant = 0; tenant < 2; tenant++) {
        for (int i = 0; i < 3; i++) {
          int[] prompt = {10 * tenant + i, 1, 1, 1, 0};
          KvOps ops = cache.newOps(1);
          ops.open(KvScope.NONE, tenant, KvOps.Reuse.FULL, prompt);
          assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
          long s = ops.handle(0);
          done(cache.resume(s, 0));
          done(cache.resize(s, 4));
          cache.commit(s, Arrays.copyOf(prompt, 4));
          cache.close(s);
        }
      }
      assertThat(found(cache)).containsExactly(4, 4, 4, 4, 4, 4);
      long s = open(cache, KvOps.Reuse.FULL, 99);
      done(cache.resume(s, 0));
      done(cache.resize(s, 16));
      assertThat(found(cache)).containsExactly(0, 0, 4, 4, 4, 4);
      // Nobody is over its quota any more: the oldest goes, whoever's it is.
      done(cache.resize(s, 20));
      assertThat(found(cache)).containsExactly(0, 0, 0, 4, 4, 4);
      done(cache.resize(s, 24));
      assertThat(found(cache)).containsExactly(0, 0, 0, 0, 4, 4);
    }
  }

  private static int[] found(KvCache cache) {
    int[][] prompts = new int[6][];
    for (int i = 0; i < 6; i++) {
      prompts[i] = new int[] {10 * (i / 3) + i % 3, 1, 1, 1, 0};
    }
    return cache.probe(KvScope.NONE, prompts);
  }

  // ------------------------------------------------------------------------------ snapshots

  @Test
  void theLastTokenOfATurnIsASnapshotWithItsState() {
    var config = config().withMemory(KvConfig.Memory.HOST);
    try (var cache = KvCache.create(WITH_STATE, config, KvSizes.device(32, 8))) {
      long s = open(cache, KvOps.Reuse.MIN_SNAPSHOT, tokens(6));
      done(cache.resume(s, 0));
      done(cache.resize(s, 6));
      int pool = WITH_STATE.view(1).pool();
      cache.page(KvLevel.DEVICE, pool, cache.pages(s, 1, 0)[0]).fill((byte) 6);
      assertThat(apply(cache, ops -> ops.commitLast(s, tokens(6)))).isEqualTo(KvStatus.OK);
      cache.close(s);
      // The next turn goes on exactly there; one that parts before finds a state nowhere.
      assertThat(cache.probe(KvScope.NONE, tokens(7), new int[] {0, 1, 2, 3, 4, 99}))
          .containsExactly(6, 0);
      Done next = done(cache.open(KvScope.NONE, tokens(9)));
      assertThat(next.matched()).isEqualTo(6);
      assertThat(next.partial()).isEqualTo(2);
      done(cache.resume(next.handle(), 1));
      int slot = cache.pages(next.handle(), 1, 0)[0];
      assertThat(
              cache
                  .page(KvLevel.DEVICE, pool, slot)
                  .get(java.lang.foreign.ValueLayout.JAVA_BYTE, 9))
          .isEqualTo((byte) 6);
      cache.check();
    }
  }

  @Test
  void aStateThatIsNotTheLastTokensIsNoSnapshot() {
    try (var cache = cache(WITH_STATE, 32, 8)) {
      long s = open(cache, KvOps.Reuse.FULL, tokens(6));
      done(cache.resume(s, 0));
      // A seventh token may be under way.
      done(cache.resize(s, 7));
      assertThat(apply(cache, ops -> ops.commitLast(s, tokens(6)))).isEqualTo(KvStatus.OK);
      cache.close(s);
      assertThat(cache.probe(KvScope.NONE, tokens(7))).containsExactly(0);
    }
  }

  @Test
  void aMinimalSnapshotKeepsOnlyTheLastWindow() {
    for (var reuse : List.of(KvOps.Reuse.FULL, KvOps.Reuse.MIN_SNAPSHOT)) {
      try (var cache = cache(WITH_WINDOW, 32, 32)) {
        long s = open(cache, reuse, tokens(17));
        done(cache.resume(s, 0));
        for (int i = 0; i < 16; i += 4) {
          done(cache.resize(s, i + 4));
          cache.commit(s, i, i + 1, i + 2, i + 3);
        }
        cache.close(s);
        // Behind sixteen tokens a window of four looks back on the last block.
        long kept = cache.usage().pages(KvLevel.DEVICE, 1).cached();
        assertThat(kept).isEqualTo(reuse == KvOps.Reuse.FULL ? 4 : 1);
        assertThat(cache.probe(KvScope.NONE, tokens(17))).containsExactly(16);
        assertThat(cache.probe(KvScope.NONE, tokens(9)))
            .containsExactly(reuse == KvOps.Reuse.FULL ? 8 : 0);
        cache.check();
      }
    }
  }

  @Test
  void aSnapshotIsOfAHistory() {
    try (var cache = cache(PLAIN, 16)) {
      long s = open(cache, KvOps.Reuse.MIN_SNAPSHOT, tokens(12));
      done(cache.resume(s, 0));
      assertThat(apply(cache, ops -> ops.resize(s, 12, 8))).isEqualTo(KvStatus.OK);
      code(Code.ARGUMENT, () -> cache.commit(s, tokens(4)));
      code(Code.ARGUMENT, () -> cache.commit(s, tokens(9)));
      cache.commit(s, tokens(8));
      cache.commit(s, 8, 9);
      assertThat(cache.sequence(s).history()).isEqualTo(10);
    }
  }

  // ------------------------------------------------------------------------------ scratch

  /** Three layers with a window of four: three blocks of a chunk fit where one layer's would. */
  private static final KvLayout THREE_WINDOWS =
      KvLayout.plan(
          BLOCK,
          IntStream.range(0, 3)
              .mapToObj(l -> KvBuffer.of(l, KvBuffer.KEY, 64, new KvReach.Window(4, 1)))
              .toList());

  @Test
  void aChunksBlocksThatItsEndHasPassedShareSlots() {
    for (boolean shared : new boolean[] {false, true}) {
      try (var cache = cache(THREE_WINDOWS, 16)) {
        long s = open(cache, KvOps.Reuse.FULL, tokens(40));
        done(cache.resume(s, 0));
        assertThat(
                apply(
                    cache,
                    ops -> {
                      if (shared) {
                        ops.resizeChunk(s, 40, 0);
                      } else {
                        ops.resize(s, 40, 0);
                      }
                    }))
            .isEqualTo(KvStatus.OK);
        // Of ten blocks the sink and the last are kept: eight go three to a slot.
        assertThat(cache.usage().pages(KvLevel.DEVICE, 0).held()).isEqualTo(shared ? 2 + 3 : 10);
        int[] pages = cache.pages(s, 0, 0);
        assertThat(IntStream.range(0, 10).filter(b -> pages[b] < -1).count())
            .isEqualTo(shared ? 8 : 0);
        cache.check();
        cache.commit(s, tokens(40));
        assertThat(cache.usage().pages(KvLevel.DEVICE, 0).held()).isZero();
        assertThat(cache.probe(KvScope.NONE, tokens(41))).containsExactly(40);
        cache.check();
      }
    }
  }

  @Test
  void blocksThatShareASlotHaveAPlaceEachInEveryBuffersTableAndInNoOther() {
    try (var cache = cache(THREE_WINDOWS, 16)) {
      long s = open(cache, KvOps.Reuse.FULL, tokens(40));
      done(cache.resume(s, 0));
      assertThat(apply(cache, ops -> ops.resizeChunk(s, 40, 0))).isEqualTo(KvStatus.OK);
      KvTables tables = cache.newTables(new KvTables.Shape(1, 40, 10, 3));
      tables.add(s, 40);
      assertThat(cache.prepare(tables, KvTables.Padding.UNTOUCHED)).isEqualTo(KvStatus.OK);
      for (int buffer = 0; buffer < 3; buffer++) {
        int of = buffer;
        assertThat(IntStream.range(0, 10).map(b -> tables.bufferPage(of, 0, b)).boxed().toList())
            .doesNotHaveDuplicates()
            .allMatch(page -> page >= 0 && page < 16 * 3);
      }
      assertThat(IntStream.range(0, 10).filter(b -> tables.keyPage(0, 0, b) == -1))
          .containsExactly(1, 2, 3, 4, 5, 6, 7, 8);
      code(Code.ARGUMENT, () -> cache.newTables(new KvTables.Shape(1, 0, 0, 2)));
    }
  }

  @Test
  void nothingEndsAmongBlocksThatShareASlot() {
    try (var cache = KvCache.create(THREE_WINDOWS, config().withBeams(2), KvSizes.device(16))) {
      long s = open(cache, KvOps.Reuse.FULL, tokens(40));
      done(cache.resume(s, 0));
      assertThat(apply(cache, ops -> ops.resizeChunk(s, 40, 0))).isEqualTo(KvStatus.OK);
      KvSequence before = cache.sequence(s);
      code(Code.STATE, () -> cache.commit(s, tokens(20)));
      assertThat(apply(cache, ops -> ops.resize(s, 40, 20))).isEqualTo(KvStatus.STATE);
      assertThat(apply(cache, ops -> ops.resize(s, 20))).isEqualTo(KvStatus.STATE);
      assertThat(apply(cache, ops -> ops.widen(s, 2))).isEqualTo(KvStatus.STATE);
      assertThat(cache.sequence(s)).isEqualTo(before);
      // The whole chunk may be taken back, and come again.
      done(cache.resize(s, 0));
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).free()).isEqualTo(16);
      assertThat(apply(cache, ops -> ops.resizeChunk(s, 40, 0))).isEqualTo(KvStatus.OK);
      cache.suspend(s);
      done(cache.resume(s, 2));
      cache.check();
      cache.close(s);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).free()).isEqualTo(16);
    }
  }

  // ------------------------------------------------------------------------------ orphans

  @Test
  void anOrphanServesThoseWhoHaveItAndNobodyElse() {
    try (var cache = cache(PLAIN, 16)) {
      long a = run(cache, KvOps.Reuse.FULL, 0, tokens(8));
      long b = open(cache, KvOps.Reuse.FULL, tokens(9));
      long pin = done(cache.pin(KvScope.NONE, tokens(9))).handle();
      int[] pages = cache.pages(a, 0, 0);
      cache.reset();
      assertThat(cache.probe(KvScope.NONE, tokens(9))).containsExactly(0);
      assertThat(cache.snapshot().pages()).isEmpty();
      done(cache.resume(b, 1));
      assertThat(cache.pages(b, 0, 0)).isEqualTo(pages);
      // The same tokens anew have pages of their own; who ends in an orphan stores nothing.
      long c = run(cache, KvOps.Reuse.FULL, 2, tokens(8));
      assertThat(cache.pages(c, 0, 0)).doesNotContain(pages);
      assertThat(cache.probe(KvScope.NONE, tokens(9))).containsExactly(8);
      done(cache.resize(b, 12));
      cache.commit(b, 8, 9, 10, 11);
      cache.stop(b);
      assertThat(cache.probe(KvScope.NONE, tokens(13))).containsExactly(8);
      assertThat(apply(cache, ops -> ops.retain(a, 0, -1, 90, -1))).isEqualTo(KvStatus.OK);
      cache.check();
      // The last one who lets it go frees it.
      cache.close(a);
      cache.close(b);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).cached()).isEqualTo(4);
      cache.unpin(pin);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0))
          .isEqualTo(new KvUsage.Pages(16, 14, 0, 2, 0, 0));
      cache.check();
    }
  }

  // ------------------------------------------------------------------------------ several caches

  @Test
  void draftAndCrossCachesArePoolsOfTheirOwnFedByOnePlan() {
    var shape = WorkerShape.builder(3).ranks(2).with(Trait.ATTENTION_DP, Trait.OVERLAP).build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    KvLayout draft =
        KvLayout.plan(8, List.of(new KvBuffer(0, KvBuffer.KEY, 32, KvReach.window(8), 0, 1)));
    KvLayout cross =
        KvLayout.plan(16, List.of(new KvBuffer(0, KvBuffer.KEY, 256, KvReach.FULL, 0, 2)));
    List<KvLayout> layouts = List.of(PLAIN, draft, cross);
    // The draft model's pages run out first.
    long[] pages = {64, 3, 64};
    List<KvCache> caches = new ArrayList<>();
    List<LeaseMap> leases = new ArrayList<>();
    try {
      for (int i = 0; i < 3; i++) {
        caches.add(
            KvCache.create(
                layouts.get(i),
                KvConfig.of(plan.leases(), 16, 64).withReserved(plan.reservedLeases()),
                KvSizes.device(pages[i])));
        leases.add(
            LeaseMap.create(
                plan.leases(), LeaseMap.Options.DEFAULT.withReserved(plan.reservedLeases())));
        assertThat(leases.get(i).capacity()).isEqualTo(plan.leases().count());
      }
      // Mirrored, each with a lease of its own: numbers differ, and one may have to wait alone.
      assertThat(leases.get(1).acquire(1000, 0)).isInstanceOf(Acquisition.Acquired.class);
      int all = 0;
      int draftShort = 0;
      for (int id = 0; id < plan.leases().count(); id++) {
        for (int i = 0; i < 3; i++) {
          if (!(leases.get(i).acquire(id, 0) instanceof Acquisition.Acquired<Lease> lease)) {
            assertThat(i).as("only the draft pool has a lease less").isEqualTo(1);
            continue;
          }
          KvCache cache = caches.get(i);
          long sequence = done(cache.open(KvScope.NONE, new int[] {id, 1, 2})).handle();
          assertThat(cache.resume(sequence, lease.slot().index())).isInstanceOf(Done.class);
          KvOutcome room = cache.resize(sequence, 4);
          if (room instanceof KvOutcome.PagesShort) {
            assertThat(i).isEqualTo(1);
            draftShort++;
          } else {
            all++;
          }
        }
      }
      int n = plan.leases().count();
      assertThat(all).isEqualTo(n + 3 + n);
      assertThat(draftShort).isEqualTo(n - 1 - 3);
      assertThat(leases.get(0).acquire(n, 0)).isInstanceOf(Acquisition.Exhausted.class);
      caches.forEach(KvCache::check);
    } finally {
      caches.forEach(KvCache::close);
      leases.forEach(LeaseMap::close);
    }
  }

  @Test
  void oneLayoutKeepsTheDomainsApart() {
    KvLayout layout =
        KvLayout.plan(
            BLOCK,
            List.of(
                KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
                new KvBuffer(1, KvBuffer.KEY, 64, KvReach.FULL, 0, 1)));
    assertThat(layout.lifeCycles()).isEqualTo(2);
    assertThat(layout.lifeCycle(1).domain()).isEqualTo(1);
  }

  // ------------------------------------------------------------------------------ event hashes

  static List<GoldenLines.Line> vectors() {
    return GoldenLines.read("kv_event_hashes.jsonl");
  }

  @ParameterizedTest
  @MethodSource("vectors")
  void identitiesAreThoseOfTheVectors(GoldenLines.Line vector) {
    int[] tokens = vector.integers("tokens").stream().mapToInt(Integer::intValue).toArray();
    var scope = new KvScope(optional(vector, "lora"), optional(vector, "salt"));
    for (KvHash hash : KvHash.values()) {
      byte[] ids = hash.chain(scope, tokens, vector.integer("tokens_per_block")).ids();
      List<String> blocks = new ArrayList<>();
      for (int at = 0; at < ids.length; at += hash.bytes()) {
        blocks.add(HexFormat.of().formatHex(ids, at, at + hash.bytes()));
      }
      assertThat(blocks)
          .isEqualTo(vector.values().get(hash.name().toLowerCase(java.util.Locale.ROOT)));
    }
  }

  private static OptionalLong optional(GoldenLines.Line vector, String key) {
    return vector.values().get(key) instanceof Number n
        ? OptionalLong.of(n.longValue())
        : OptionalLong.empty();
  }

  // ------------------------------------------------------------------------------ bad input

  @Test
  void historyNeverGoesBackNorPastItsCapacity() {
    try (var cache = cache(PLAIN, 8)) {
      long s = open(cache, KvOps.Reuse.FULL, tokens(3));
      done(cache.resume(s, 0));
      assertThat(apply(cache, ops -> ops.resize(s, 8, 5))).isEqualTo(KvStatus.OK);
      KvSequence before = cache.sequence(s);
      assertThat(apply(cache, ops -> ops.resize(s, 8, 4))).isEqualTo(KvStatus.ARGUMENT);
      assertThat(apply(cache, ops -> ops.resize(s, 8, 9))).isEqualTo(KvStatus.ARGUMENT);
      assertThat(apply(cache, ops -> ops.resize(s, 4, 5))).isEqualTo(KvStatus.ARGUMENT);
      assertThat(apply(cache, ops -> ops.resize(s, 4))).isEqualTo(KvStatus.ARGUMENT);
      KvSteps steps = KvSteps.ofCapacity(1);
      steps.add(s, -1, 0);
      assertThat(cache.step(steps)).isEqualTo(KvStatus.ARGUMENT);
      steps.clear();
      steps.add(s, 4, 0);
      assertThat(cache.step(steps)).isEqualTo(KvStatus.ARGUMENT);
      assertThat(cache.sequence(s)).isEqualTo(before);
      cache.check();
    }
  }

  @Test
  void commitsAreForOneBeamAndUntilAStop() {
    var config = config().withBeams(2);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(16))) {
      long s = run(cache, KvOps.Reuse.FULL, 0, tokens(4));
      done(cache.resize(s, 8));
      assertThat(apply(cache, ops -> ops.widen(s, 2))).isEqualTo(KvStatus.OK);
      code(Code.STATE, () -> cache.commit(s, 4));
      code(Code.STATE, () -> cache.stop(s));
      assertThat(apply(cache, ops -> ops.widen(s, 1))).isEqualTo(KvStatus.OK);
      cache.commit(s, 4);
      cache.stop(s);
      code(Code.STATE, () -> cache.commit(s, 5));
    }
  }

  @Test
  void eachOperationOfABatchStandsForItself() {
    try (var cache = cache(PLAIN, 8)) {
      long s = open(cache, KvOps.Reuse.FULL, tokens(3));
      KvOps ops = cache.newOps(5);
      ops.resize(s, 4);
      ops.resume(s, 0);
      ops.resize(s, 1 << 20);
      ops.resize(s, 40);
      ops.resize(s, 4);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.STATE);
      assertThat(IntStream.range(0, 5).mapToObj(ops::status))
          .containsExactly(
              KvStatus.STATE, KvStatus.OK, KvStatus.ARGUMENT, KvStatus.EXHAUSTED, KvStatus.OK);
      assertThat(ops.shortGroup(3)).isZero();
      assertThat(ops.shortPages(3)).isEqualTo(2);
    }
  }

  @Test
  void theGroupThatIsShortIsNamedWithWhatItLacks() {
    try (var cache = cache(WITH_WINDOW, 32, 2)) {
      long s = open(cache, KvOps.Reuse.FULL, tokens(3));
      done(cache.resume(s, 0));
      assertThat(cache.resize(s, 20)).isEqualTo(new KvOutcome.PagesShort(1, 3));
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).free()).isEqualTo(32);
      done(cache.resize(s, 8));
    }
  }

  @Test
  void memoryThatIsNotThereIsSaidAndNothingIsLeft() {
    KvLayout huge =
        KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 1L << 40, KvReach.FULL)));
    for (KvLevel level : KvLevel.values()) {
      KvSizes sizes = KvSizes.device(1).with(level, 1 << 20);
      code(
          level == KvLevel.DISK ? Code.CONFIGURATION : Code.MEMORY,
          () -> KvCache.create(huge, config().withMemory(KvConfig.Memory.HOST), sizes).close());
    }
  }

  /** Every size at its end: products of them pass 2^32, and are still what they are. */
  @Test
  void sizesWhoseProductsPassThirtyTwoBitsWorkOrAreRefused() {
    KvLayout small = KvLayout.plan(1, List.of(KvBuffer.of(0, KvBuffer.KEY, 8, KvReach.FULL)));
    for (KvConfig wide :
        List.of(
            // 2^20 sequences of 2^14 blocks: 2^34 page numbers, few of them touched.
            KvConfig.of(TestSizes.leases(4), 1 << 14, 16)
                .withSequences(1 << 20, 0)
                .withTokenArena(64),
            KvConfig.of(TestSizes.leases(4), 16, 1 << 28).withTokenArena(64))) {
      try (var cache = KvCache.create(small, wide, KvSizes.device(1 << 20))) {
        long s = open(cache, KvOps.Reuse.FULL, 1, 2, 3);
        int row = (wide.leases().count() - 1) * wide.beams();
        done(cache.resume(s, row));
        done(cache.resize(s, 9));
        assertThat(cache.pages(s, 0, 0)).hasSize(9);
        cache.close(s);
      } catch (BerthException e) {
        assertThat(e.code()).isEqualTo(Code.MEMORY);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(KvHash.class)
  void noTokensHaveNoIdentity(KvHash hash) {
    assertThat(hash.chain(KvScope.NONE, new int[0], 4).ids()).isEmpty();
    code(Code.ARGUMENT, () -> hash.chain(KvScope.NONE, new int[] {1}, 0));
    code(Code.ARGUMENT, () -> hash.chain(KvScope.NONE, new byte[31], new int[] {1}, 4));
  }
}
