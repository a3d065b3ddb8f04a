// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.kv.KvOutcome.Done;
import dev.berth.plan.TestSizes;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class KvCacheTest {
  private static final int BLOCK = 4;
  private static final KvLayout PLAIN =
      KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));

  private static KvConfig config() {
    return KvConfig.of(TestSizes.leases(4), 16, 32);
  }

  private static KvCache cache(long pages) {
    return KvCache.create(PLAIN, config(), KvSizes.device(pages));
  }

  private static Done done(KvOutcome outcome) {
    assertThat(outcome).isInstanceOf(Done.class);
    return (Done) outcome;
  }

  /** A sequence that ran its tokens and committed them, still active. */
  private static long run(KvCache cache, int row, int... tokens) {
    long sequence = done(cache.open(KvScope.NONE, tokens)).handle();
    done(cache.resume(sequence, row));
    done(cache.resize(sequence, tokens.length));
    int known = cache.sequence(sequence).committed();
    cache.commit(sequence, Arrays.copyOfRange(tokens, known, tokens.length));
    return sequence;
  }

  private static int[] tokens(int n) {
    return IntStream.range(0, n).toArray();
  }

  private static void code(Code code, org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  // ------------------------------------------------------------------------------ reuse

  @Test
  void whatOneSequenceCommittedAnotherFinds() {
    try (var cache = cache(16)) {
      long first = run(cache, 0, tokens(10));
      Done second = done(cache.open(KvScope.NONE, tokens(10)));
      assertThat(second.matched()).isEqualTo(8);
      assertThat(cache.pages(second.handle(), 0, 0))
          .isEqualTo(Arrays.copyOf(cache.pages(first, 0, 0), 2));
      cache.check();
    }
  }

  @Test
  void theLastTokenOfAPromptIsAlwaysComputed() {
    try (var cache = cache(16)) {
      run(cache, 0, tokens(8));
      assertThat(cache.probe(KvScope.NONE, tokens(8), tokens(9))).containsExactly(4, 8);
    }
  }

  @Test
  void scopesShareNothing() {
    try (var cache = cache(32)) {
      int[] prompt = tokens(16);
      for (var scope :
          List.of(KvScope.lora(0), KvScope.lora(1), KvScope.NONE.withSalt(0), KvScope.NONE)) {
        Done opened = done(cache.open(scope, prompt));
        assertThat(opened.matched()).isZero();
        done(cache.resume(opened.handle(), 0));
        done(cache.resize(opened.handle(), 16));
        cache.commit(opened.handle(), prompt);
        assertThat(cache.probe(scope, prompt)).containsExactly(12);
        cache.close(opened.handle());
      }
    }
  }

  @Test
  void aPartOfABlockIsReusedByCopy() {
    var config = config().withPartialReuse(KvConfig.Partial.COPY).withMemory(KvConfig.Memory.HOST);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(8))) {
      long first = run(cache, 0, tokens(8));
      int theirs = cache.pages(first, 0, 0)[1];
      cache.page(KvLevel.DEVICE, 0, theirs).fill((byte) 7);
      Done second = done(cache.open(KvScope.NONE, new int[] {0, 1, 2, 3, 4, 5, 99, 98}));
      assertThat(second.matched()).isEqualTo(6);
      assertThat(second.partial()).isEqualTo(2);
      done(cache.resume(second.handle(), 1));
      int mine = cache.pages(second.handle(), 0, 0)[1];
      assertThat(mine).isNotEqualTo(theirs);
      assertThat(
              cache.page(KvLevel.DEVICE, 0, mine).mismatch(cache.page(KvLevel.DEVICE, 0, theirs)))
          .isEqualTo(-1);
      cache.check();
    }
  }

  @Test
  void moreThanThirtyTwoWaysOnHideNoPartialMatch() {
    var config = KvConfig.of(TestSizes.leases(4), 16, 256).withPartialReuse(KvConfig.Partial.COPY);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(256))) {
      for (int i = 0; i < 100; i++) {
        cache.close(run(cache, 0, 1000 + i, 1, 2, 3));
      }
      for (int i = 0; i < 100; i++) {
        assertThat(cache.probe(KvScope.NONE, new int[] {1000 + i, 1, 2, 77, 5})).containsExactly(3);
      }
    }
  }

  @Test
  void twoThatComputeTheSameEndUpOnTheSamePages() {
    try (var cache = cache(16)) {
      int[] prompt = tokens(8);
      long a = done(cache.open(KvScope.NONE, prompt)).handle();
      long b = done(cache.open(KvScope.NONE, prompt)).handle();
      for (long s : new long[] {a, b}) {
        done(cache.resume(s, s == a ? 0 : 1));
        done(cache.resize(s, 8));
        cache.commit(s, prompt);
      }
      assertThat(cache.pages(b, 0, 0)).isEqualTo(cache.pages(a, 0, 0));
      assertThat(cache.usage().rebased()).isEqualTo(2);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).free()).isEqualTo(14);
    }
  }

  // ------------------------------------------------------------------------------ pins

  @Test
  void pinsAreALedger() {
    try (var cache = cache(8)) {
      cache.close(run(cache, 0, tokens(16)));
      long r1 = done(cache.pin(KvScope.NONE, tokens(17))).handle();
      long r2 = done(cache.pin(KvScope.NONE, tokens(17))).handle();
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).evictable()).isZero();
      cache.unpin(r1);
      code(Code.STALE, () -> cache.unpin(r1));
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).evictable()).isZero();
      cache.unpin(r2);
      code(Code.STALE, () -> cache.unpin(r1));
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).evictable()).isEqualTo(4);
      code(Code.NOT_FOUND, () -> cache.unpin(12345));
    }
  }

  @Test
  void whatIsPinnedSurvivesTheAllocationBetweenLookupAndUse() {
    try (var cache = cache(8)) {
      cache.close(run(cache, 0, tokens(16)));
      long pin = done(cache.pin(KvScope.NONE, tokens(17))).handle();
      long other = done(cache.open(KvScope.NONE, new int[] {9, 9, 9})).handle();
      done(cache.resume(other, 0));
      assertThat(cache.resize(other, 20)).isEqualTo(new KvOutcome.PagesShort(0, 1));
      done(cache.resize(other, 16));
      assertThat(cache.probe(KvScope.NONE, tokens(17))).containsExactly(16);
      cache.unpin(pin);
      done(cache.resize(other, 20));
      assertThat(cache.probe(KvScope.NONE, tokens(17))).containsExactly(12);
    }
  }

  // ------------------------------------------------------------------------------ growing

  @Test
  void aMatchedUnreferencedBlockStillTakesAFreeOne() {
    // Ten pages: four free, six cached. A needs eight of which the six are matched: two are left,
    // so B, who needs five,
    // must wait.
    try (var cache = cache(10)) {
      cache.close(run(cache, 0, tokens(24)));
      Done a = done(cache.open(KvScope.NONE, tokens(32)));
      assertThat(a.matched()).isEqualTo(24);
      done(cache.resume(a.handle(), 0));
      done(cache.resize(a.handle(), 32));
      long b = done(cache.open(KvScope.NONE, new int[] {7})).handle();
      done(cache.resume(b, 1));
      assertThat(cache.resize(b, 20)).isEqualTo(new KvOutcome.PagesShort(0, 3));
      done(cache.resize(b, 8));
    }
  }

  @Test
  void aResizeThatDoesNotFitChangesNothing() {
    try (var cache = cache(4)) {
      long s = done(cache.open(KvScope.NONE, tokens(3))).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 7));
      KvSequence before = cache.sequence(s);
      assertThat(cache.resize(s, 17)).isEqualTo(new KvOutcome.PagesShort(0, 1));
      assertThat(cache.sequence(s)).isEqualTo(before);
      done(cache.resize(s, 16));
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).free()).isZero();
    }
  }

  @Test
  void aStepTakesAPageOnlyWhereABlockIsFull() {
    try (var cache = cache(4)) {
      long s = done(cache.open(KvScope.NONE, tokens(3))).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 3));
      KvSteps steps = KvSteps.ofCapacity(1);
      int[] free = new int[14];
      for (int i = 0; i < free.length; i++) {
        steps.clear();
        steps.add(s, 1, 1);
        KvStatus status = cache.step(steps);
        free[i] = (int) cache.usage().pages(KvLevel.DEVICE, 0).free();
        assertThat(status).isEqualTo(i < 13 ? KvStatus.OK : KvStatus.EXHAUSTED);
      }
      assertThat(free).containsExactly(3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0);
      steps.clear();
      steps.add(s, 0, -3);
      assertThat(cache.step(steps)).isEqualTo(KvStatus.OK);
      assertThat(cache.sequence(s).capacity()).isEqualTo(13);
    }
  }

  @Test
  void whatIsReleasedWaitsForItsEpoch() {
    try (var cache = cache(4)) {
      cache.epochs(5, 4);
      long a = done(cache.open(KvScope.NONE, tokens(3))).handle();
      done(cache.resume(a, 0));
      done(cache.resize(a, 8));
      cache.close(a);
      long b = done(cache.open(KvScope.NONE, tokens(3))).handle();
      done(cache.resume(b, 0));
      done(cache.resize(b, 8));
      // Slots never issued come before those that a launched batch may still use.
      assertThat(cache.pages(b, 0, 0)).containsExactly(2, 3);
      assertThat(cache.usage().waitEpoch()).isZero();
      done(cache.resize(b, 12));
      assertThat(cache.usage().waitEpoch()).isEqualTo(5);
      cache.epochs(6, 5);
      cache.close(b);
      long c = done(cache.open(KvScope.NONE, tokens(3))).handle();
      done(cache.resume(c, 0));
      done(cache.resize(c, 4));
      assertThat(cache.pages(c, 0, 0)).containsExactly(1);
      code(Code.ARGUMENT, () -> cache.epochs(5, 5));
      code(Code.ARGUMENT, () -> cache.epochs(6, 4));
    }
  }

  @Test
  void aResumeIsRefusedWhereTooMuchIsInUse() {
    try (var cache = KvCache.create(PLAIN, config().withMaxUtilisation(32768), KvSizes.device(8))) {
      long a = done(cache.open(KvScope.NONE, tokens(3))).handle();
      done(cache.resume(a, 0));
      done(cache.resize(a, 20));
      long b = done(cache.open(KvScope.NONE, tokens(3))).handle();
      assertThat(cache.resume(b, 1)).isEqualTo(new KvOutcome.Pressure(0));
      done(cache.resize(a, 16));
      done(cache.resume(b, 1));
    }
  }

  // ------------------------------------------------------------------------------ eviction

  @Test
  void theLowestPriorityGoesFirstAndThenTheOldest() {
    try (var cache = cache(6)) {
      KvOps ops = cache.newOps(8);
      int[][] prompts = {{1, 1, 1, 1, 0}, {2, 2, 2, 2, 0}, {3, 3, 3, 3, 0}};
      int[] priority = {50, 10, 50};
      for (int i = 0; i < 3; i++) {
        long s = done(cache.open(KvScope.NONE, prompts[i])).handle();
        ops.clear();
        ops.retain(s, 0, -1, priority[i], -1);
        ops.resume(s, 0);
        ops.resize(s, 4);
        ops.commit(s, Arrays.copyOf(prompts[i], 4));
        ops.close(s);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      }
      long s = done(cache.open(KvScope.NONE, new int[] {9})).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 16));
      assertThat(cache.probe(KvScope.NONE, prompts)).containsExactly(4, 0, 4);
      done(cache.resize(s, 20));
      assertThat(cache.probe(KvScope.NONE, prompts)).containsExactly(0, 0, 4);
    }
  }

  @Test
  void aPriorityEndsWithItsTime() {
    try (var cache = cache(3)) {
      KvOps ops = cache.newOps(8);
      int[] dear = {1, 1, 1, 1, 0};
      int[] cheap = {2, 2, 2, 2, 0};
      cache.clock(1000);
      for (int[] prompt : List.of(dear, cheap)) {
        long s = done(cache.open(KvScope.NONE, prompt)).handle();
        ops.clear();
        if (Arrays.equals(prompt, dear)) {
          ops.retain(s, 0, -1, 90, 500);
        }
        ops.resume(s, 0);
        ops.resize(s, 4);
        ops.commit(s, Arrays.copyOf(prompt, 4));
        ops.close(s);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      }
      cache.clock(1500);
      // Expired, it stands behind what was let go before its time ended.
      long s = done(cache.open(KvScope.NONE, new int[] {9})).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 8));
      assertThat(cache.probe(KvScope.NONE, dear, cheap)).containsExactly(4, 0);
      code(Code.ARGUMENT, () -> cache.clock(1499));
    }
  }

  @Test
  void afterItsTimeAPriorityCountsNoMore() {
    try (var cache = cache(2)) {
      KvOps ops = cache.newOps(8);
      int[] dear = {1, 1, 1, 1, 0};
      int[] later = {2, 2, 2, 2, 0};
      cache.clock(1000);
      for (int[] prompt : List.of(dear, later)) {
        long s = done(cache.open(KvScope.NONE, prompt)).handle();
        ops.clear();
        if (Arrays.equals(prompt, dear)) {
          ops.retain(s, 0, -1, 90, 500);
        }
        ops.resume(s, 0);
        ops.resize(s, 4);
        ops.commit(s, Arrays.copyOf(prompt, 4));
        ops.close(s);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
        cache.clock(1500);
      }
      long s = done(cache.open(KvScope.NONE, new int[] {9})).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 4));
      assertThat(cache.probe(KvScope.NONE, dear, later)).containsExactly(0, 4);
    }
  }

  @Test
  void aTenantOverItsQuotaPaysFirst() {
    var config = config().withScopes(4, 2);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(8))) {
      KvOps ops = cache.newOps(8);
      int[] poor = {1, 1, 1, 1, 0};
      int[] rich = {2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 0};
      cache.quota(1, 2);
      for (int[] prompt : List.of(poor, rich)) {
        int n = prompt.length - 1;
        ops.clear();
        ops.open(KvScope.NONE, Arrays.equals(prompt, rich) ? 1 : 0, KvOps.Reuse.FULL, prompt);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
        long s = ops.handle(0);
        ops.clear();
        ops.resume(s, 0);
        ops.resize(s, n);
        ops.commit(s, Arrays.copyOf(prompt, n));
        ops.close(s);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      }
      long s = done(cache.open(KvScope.NONE, new int[] {9})).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 20));
      // The oldest is the poor tenant's, but the rich one has three blocks where two are its own.
      assertThat(cache.probe(KvScope.NONE, poor, rich)).containsExactly(4, 8);
      done(cache.resize(s, 24));
      assertThat(cache.probe(KvScope.NONE, poor, rich)).containsExactly(0, 8);
    }
  }

  @Test
  void whatOthersBuiltOnATenantsBlocksGoesBeforeThem() {
    var config = config().withScopes(4, 2);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(4))) {
      KvOps ops = cache.newOps(8);
      cache.quota(1, 1);
      // Tenant 1 has two blocks where one is its own; what tenant 0 added stands on them.
      for (int blocks = 2; blocks <= 3; blocks++) {
        int[] prompt = tokens(4 * blocks + 1);
        ops.clear();
        ops.open(KvScope.NONE, 3 - blocks, KvOps.Reuse.FULL, prompt);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
        long s = ops.handle(0);
        int known = ops.matched(0);
        ops.clear();
        ops.resume(s, 0);
        ops.resize(s, 4 * blocks);
        ops.commit(s, Arrays.copyOfRange(prompt, known, 4 * blocks));
        ops.close(s);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      }
      long s = done(cache.open(KvScope.NONE, new int[] {9})).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 8));
      assertThat(cache.probe(KvScope.NONE, tokens(13))).containsExactly(8);
      done(cache.resize(s, 12));
      assertThat(cache.probe(KvScope.NONE, tokens(13))).containsExactly(4);
      cache.check();
    }
  }

  @Test
  void aBlockMovesDownWhenItIsWorthItAndComesBack() {
    var sizes = KvSizes.device(4).with(KvLevel.HOST, 4);
    var config = config().withMemory(KvConfig.Memory.HOST);
    try (var cache = KvCache.create(PLAIN, config, sizes)) {
      long a = run(cache, 0, tokens(16));
      int page = cache.pages(a, 0, 0)[3];
      cache.page(KvLevel.DEVICE, 0, page).fill((byte) 42);
      cache.close(a);
      for (int round = 0; round < 1000; round++) {
        long b = done(cache.open(KvScope.NONE, new int[] {9})).handle();
        done(cache.resume(b, 1));
        done(cache.resize(b, 8));
        assertThat(cache.usage().pages(KvLevel.HOST, 0).cached()).isEqualTo(2);
        cache.close(b);
        Done c = done(cache.open(KvScope.NONE, tokens(17)));
        assertThat(c.matched()).isEqualTo(16);
        done(cache.resume(c.handle(), 0));
        assertThat(cache.usage().pages(KvLevel.DEVICE, 0))
            .isEqualTo(new KvUsage.Pages(4, 0, 0, 4, 0, 0));
        assertThat(cache.usage().pages(KvLevel.HOST, 0))
            .isEqualTo(new KvUsage.Pages(4, 4, 0, 0, 0, 0));
        int now = cache.pages(c.handle(), 0, 0)[3];
        assertThat(
                cache.page(KvLevel.DEVICE, 0, now).get(java.lang.foreign.ValueLayout.JAVA_BYTE, 5))
            .isEqualTo((byte) 42);
        cache.close(c.handle());
        assertThat(cache.usage().pages(KvLevel.DEVICE, 0).evictable()).isEqualTo(4);
      }
      cache.check();
    }
  }

  @Test
  void aBlockThatIsNotWorthItIsDropped() {
    var sizes = KvSizes.device(2).with(KvLevel.HOST, 2);
    try (var cache = KvCache.create(PLAIN, config().withPriorities(35, 36), sizes)) {
      cache.close(run(cache, 0, tokens(8)));
      long b = done(cache.open(KvScope.NONE, new int[] {9})).handle();
      done(cache.resume(b, 0));
      done(cache.resize(b, 4));
      assertThat(cache.usage().pages(KvLevel.HOST, 0).cached()).isZero();
      assertThat(cache.probe(KvScope.NONE, tokens(9))).containsExactly(4);
    }
  }

  // ------------------------------------------------------------------------------ windows and
  // states

  @Test
  void aWindowLetsGoOfWhatItLeft() {
    KvLayout layout =
        KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, new KvReach.Window(6, 3))));
    try (var cache = KvCache.create(layout, config(), KvSizes.device(16))) {
      long s = done(cache.open(KvScope.NONE, tokens(30))).handle();
      done(cache.resume(s, 0));
      KvOps ops = cache.newOps(1);
      for (int h = 0; h <= 24; h += 4) {
        ops.clear();
        ops.resize(s, Math.max(h, 1), h);
        assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      }
      // At 24 tokens the window looks back on 19 to 24: blocks 4 and 5, and the sink block.
      int[] pages = cache.pages(s, 0, 0);
      assertThat(IntStream.range(0, 6).filter(b -> pages[b] >= 0)).containsExactly(0, 4, 5);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).held()).isEqualTo(3);
    }
  }

  @Test
  void aWindowsMatchNeedsItsTail() {
    KvLayout layout =
        KvLayout.plan(
            BLOCK,
            List.of(
                KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
                KvBuffer.of(1, KvBuffer.KEY, 128, KvReach.window(5))));
    try (var cache = KvCache.create(layout, config(), KvSizes.device(32, 8))) {
      cache.close(run(cache, 0, tokens(24)));
      assertThat(cache.probe(KvScope.NONE, tokens(25))).containsExactly(24);
      // Takes the group's other pages and then the tail's: full attention's blocks are still there,
      // but of no use.
      long s = done(cache.open(KvScope.NONE, new int[] {9})).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 32));
      assertThat(cache.usage().indexBlocks()).isEqualTo(6);
      assertThat(cache.probe(KvScope.NONE, tokens(25))).containsExactly(0);
      cache.check();
    }
  }

  @Test
  void aStateIsReusedExactlyWhereItWasStored() {
    KvLayout layout =
        KvLayout.plan(
            BLOCK,
            List.of(
                KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
                KvBuffer.of(1, KvBuffer.KEY, 256, KvReach.STATE)));
    var config = config().withMemory(KvConfig.Memory.HOST);
    try (var cache = KvCache.create(layout, config, KvSizes.device(32, 4))) {
      long s = done(cache.open(KvScope.NONE, tokens(12))).handle();
      done(cache.resume(s, 0));
      done(cache.resize(s, 8));
      cache.page(KvLevel.DEVICE, layout.view(1).pool(), cache.pages(s, 1, 0)[0]).fill((byte) 8);
      cache.commit(s, tokens(8));
      done(cache.resize(s, 16));
      cache.page(KvLevel.DEVICE, layout.view(1).pool(), cache.pages(s, 1, 0)[0]).fill((byte) 11);
      cache.commit(s, 8, 9, 10, 11);
      // There is room for sixteen, so nobody knows that the state is still that of the twelve.
      Done found = done(cache.open(KvScope.NONE, tokens(13)));
      assertThat(found.matched()).isEqualTo(8);
      done(cache.resume(found.handle(), 1));
      int slot = cache.pages(found.handle(), 1, 0)[0];
      assertThat(
              cache
                  .page(KvLevel.DEVICE, layout.view(1).pool(), slot)
                  .get(java.lang.foreign.ValueLayout.JAVA_BYTE, 0))
          .isEqualTo((byte) 8);
      cache.check();
    }
  }

  @Test
  void aPlannedDropTakesTheWindowTailThatNobodyElsePlansToUse() {
    KvLayout layout =
        KvLayout.plan(
            BLOCK,
            List.of(
                KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
                KvBuffer.of(1, KvBuffer.KEY, 128, KvReach.window(8))));
    try (var cache = KvCache.create(layout, config(), KvSizes.device(32, 8))) {
      long s = run(cache, 0, tokens(16));
      KvOps ops = cache.newOps(4);
      ops.planDrop(s);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.STATE);
      ops.clear();
      ops.stop(s);
      ops.planDrop(s);
      ops.planDrop(s);
      ops.close(s);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      long first = ops.handle(1);
      long second = ops.handle(2);
      ops.clear();
      ops.drop(first);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      assertThat(cache.probe(KvScope.NONE, tokens(17))).containsExactly(16);
      ops.clear();
      ops.drop(second);
      ops.drop(second);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.STALE);
      assertThat(cache.probe(KvScope.NONE, tokens(17))).containsExactly(8);
      cache.check();
    }
  }

  @Test
  void aPlannedDropSparesWhatSomebodyUses() {
    KvLayout layout =
        KvLayout.plan(
            BLOCK,
            List.of(
                KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
                KvBuffer.of(1, KvBuffer.KEY, 128, KvReach.window(8))));
    try (var cache = KvCache.create(layout, config(), KvSizes.device(32, 8))) {
      long s = run(cache, 0, tokens(16));
      KvOps ops = cache.newOps(4);
      ops.stop(s);
      ops.planDrop(s);
      ops.close(s);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      long plan = ops.handle(1);
      long other = done(cache.open(KvScope.NONE, tokens(17))).handle();
      ops.clear();
      ops.drop(plan);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      cache.check();
      done(cache.resume(other, 0));
      cache.close(other);
      assertThat(cache.probe(KvScope.NONE, tokens(17))).containsExactly(16);
    }
  }

  // ------------------------------------------------------------------------------ beams

  @Test
  void beamsGoOnInPagesOfTheirOwn() {
    var config = config().withBeams(2).withMemory(KvConfig.Memory.HOST);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(16))) {
      long s = run(cache, 2, tokens(6));
      done(cache.resize(s, 9));
      int[] before = cache.pages(s, 0, 0);
      cache.page(KvLevel.DEVICE, 0, before[1]).fill((byte) 3);
      KvOps ops = cache.newOps(2);
      ops.widen(s, 2);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      int[] other = cache.pages(s, 0, 1);
      assertThat(other[0]).isEqualTo(-1);
      assertThat(other[1]).isNotIn(before[1], -1);
      assertThat(
              cache
                  .page(KvLevel.DEVICE, 0, other[1])
                  .mismatch(cache.page(KvLevel.DEVICE, 0, before[1])))
          .isEqualTo(-1);
      code(Code.STATE, () -> cache.commit(s, 6));
      done(cache.resize(s, 13));
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).held()).isEqualTo(3 + 3);
      KvTables tables = cache.newTables(KvTables.Shape.rows(4));
      tables.add(s, 1);
      assertThat(cache.prepare(tables, KvTables.Padding.UNTOUCHED, 0, 2)).isEqualTo(KvStatus.OK);
      assertThat(tables.rows()).isEqualTo(2);
      assertThat(tables.keyPage(0, 1, 1)).isEqualTo(other[1]);
      ops.clear();
      ops.widen(s, 1);
      ops.widen(s, 3);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.ARGUMENT);
      assertThat(ops.status(0)).isEqualTo(KvStatus.OK);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).held()).isEqualTo(3);
      cache.check();
    }
  }

  @Test
  void beamsPartInABlockThatWasStoredInPart() {
    var config = config().withBeams(2).withPartialReuse(KvConfig.Partial.COPY);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(16))) {
      long s = run(cache, 0, tokens(6));
      cache.stop(s);
      KvOps ops = cache.newOps(2);
      ops.widen(s, 2);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      int[] first = cache.pages(s, 0, 0);
      int[] second = cache.pages(s, 0, 1);
      assertThat(second[0]).isEqualTo(-1);
      assertThat(second[1]).isNotIn(-1, first[1]);
      ops.clear();
      ops.widen(s, 1);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
      cache.check();
      cache.close(s);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).held()).isZero();
      cache.check();
    }
  }

  // ------------------------------------------------------------------------------ tables

  @Test
  void tablesNameEveryPageThreeWaysAndLeaveOtherRowsAlone() {
    KvLayout layout =
        KvLayout.plan(
            BLOCK,
            List.of(
                KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
                KvBuffer.of(0, KvBuffer.VALUE, 64, KvReach.FULL),
                KvBuffer.of(1, KvBuffer.KEY, 64, KvReach.FULL),
                KvBuffer.of(1, KvBuffer.VALUE, 64, KvReach.FULL)));
    assertThat(layout.view(0)).isEqualTo(new KvLayout.View(0, 0, 4, 1));
    try (var cache = KvCache.create(layout, config(), KvSizes.device(16))) {
      long s = run(cache, 3, tokens(6));
      done(cache.resize(s, 9));
      KvTables tables = cache.newTables(new KvTables.Shape(2, 4, 8));
      tables.table().fill((byte) 0x55);
      tables.add(s, 3);
      assertThat(cache.prepare(tables, KvTables.Padding.UNTOUCHED)).isEqualTo(KvStatus.OK);
      int[] slots = cache.pages(s, 0, 0);
      for (int b = 0; b < 3; b++) {
        assertThat(tables.keyPage(0, 0, b)).isEqualTo(slots[b] * 4);
        assertThat(tables.valuePage(0, 0, b)).isEqualTo(slots[b] * 4 + 1);
      }
      assertThat(tables.keyPage(0, 0, 3)).isEqualTo(0x55555555);
      assertThat(tables.keyPage(0, 1, 0)).isEqualTo(0x55555555);
      assertThat(tables.slotMapping().asSlice(0, 24).toArray(JAVA_LONG))
          .containsExactly(slots[1] * 4L + 2, slots[1] * 4L + 3, slots[2] * 4L);
      assertThat(tables.indptr().asSlice(0, 8).toArray(JAVA_INT)).containsExactly(0, 3);
      assertThat(tables.lastPageLength().get(JAVA_INT, 0)).isEqualTo(1);
      assertThat(cache.prepare(tables, KvTables.Padding.CLEARED)).isEqualTo(KvStatus.OK);
      assertThat(tables.keyPage(0, 1, 0)).isEqualTo(-1);
      tables.add(s, 4);
      assertThat(cache.prepare(tables, KvTables.Padding.UNTOUCHED)).isEqualTo(KvStatus.ARGUMENT);
      cache.suspend(s);
      tables.clear();
      tables.add(s, 1);
      assertThat(cache.prepare(tables, KvTables.Padding.UNTOUCHED)).isEqualTo(KvStatus.STATE);
    }
  }

  @Test
  void aBatchUnderWaySeesTheTablesAsTheyWereWhenItWasLaunched() {
    var config = config().withTiming(KvConfig.Timing.EMULATION, 2);
    try (var cache = KvCache.create(PLAIN, config, KvSizes.device(16))) {
      long s = run(cache, 0, tokens(6));
      int[] then = cache.pages(s, 0, 0);
      KvTables first = cache.newTables(KvTables.Shape.rows(1));
      KvTables second = cache.newTables(KvTables.Shape.rows(1));
      first.add(s, 0);
      assertThat(cache.prepare(first, KvTables.Padding.UNTOUCHED)).isEqualTo(KvStatus.OK);
      // The next iteration: the row belongs to another sequence before the device has read it.
      cache.close(s);
      long t = run(cache, 0, 50, 51, 52, 53, 54, 55, 56, 57, 58);
      second.add(t, 0);
      assertThat(cache.prepare(second, KvTables.Padding.UNTOUCHED)).isEqualTo(KvStatus.OK);
      assertThat(cache.prepare(second, KvTables.Padding.UNTOUCHED)).isEqualTo(KvStatus.EXHAUSTED);
      assertThat(cache.run(1000)).isPositive();
      assertThat(IntStream.range(0, 2).map(b -> first.keyPage(0, 0, b)))
          .containsExactly(then[0], then[1]);
      int[] now = cache.pages(t, 0, 0);
      assertThat(IntStream.range(0, 3).map(b -> second.keyPage(0, 0, b)))
          .containsExactly(now[0], now[1], now[2]);
    }
  }

  // ------------------------------------------------------------------------------ events

  @Test
  void everyStoredEventNamesItsParentAndASlowConsumerSeesTheGap() {
    try (var cache = KvCache.create(PLAIN, config().withEvents(4), KvSizes.device(32))) {
      KvEvents events = cache.events();
      cache.close(run(cache, 0, tokens(8)));
      KvEvent one = events.poll().orElseThrow();
      KvEvent two = events.poll().orElseThrow();
      assertThat(one.parent()).isZero();
      assertThat(two.parent()).isEqualTo(one.block());
      assertThat(two.tokens()).containsExactly(4, 5, 6, 7);
      assertThat(events.gap()).isFalse();
      cache.close(run(cache, 0, tokens(12)));
      assertThat(events.poll().orElseThrow().parent()).isEqualTo(two.block());
      for (int i = 0; i < 20; i++) {
        cache.close(run(cache, 0, 100 + i, 1, 1, 1));
      }
      assertThat(events.dropped()).isEqualTo(4);
      while (events.poll().isPresent()) {}
      assertThat(events.gap()).isTrue();
      KvEvents.Snapshot snapshot = cache.snapshot();
      assertThat(snapshot.pages()).hasSize(23).allMatch(e -> e.kind() == KvEvent.Kind.STORED);
      events.continueAfter(snapshot);
      assertThat(events.gap()).isFalse();
      cache.reset();
      assertThat(events.poll().orElseThrow().kind()).isEqualTo(KvEvent.Kind.REMOVED);
    }
  }

  @Test
  void aResetForgetsEverythingButWhatIsInUse() {
    try (var cache = cache(16)) {
      long s = run(cache, 0, tokens(8));
      cache.close(run(cache, 1, 9, 9, 9, 9));
      cache.reset();
      assertThat(cache.probe(KvScope.NONE, tokens(9))).containsExactly(0);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0))
          .isEqualTo(new KvUsage.Pages(16, 14, 0, 2, 0, 0));
      done(cache.resize(s, 12));
      cache.commit(s, 8, 9, 10, 11);
      assertThat(cache.sequence(s).commits()).isEqualTo(KvSequence.Commits.COUNTED);
      cache.close(s);
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).free()).isEqualTo(16);
    }
  }

  // ------------------------------------------------------------------------------ identities

  @ParameterizedTest
  @EnumSource(
      value = KvHash.class,
      names = {"V2_SHA256", "V2_SHA256_64"})
  void identitiesAreTheChainOfDigestsThatAnybodyCanMake(KvHash hash) throws Exception {
    int[] tokens = {1, -2, 300_000, 4, 5, 6, 7};
    for (var scope : List.of(KvScope.NONE, KvScope.lora(0), KvScope.lora(7).withSalt(-9))) {
      MessageDigest sha = MessageDigest.getInstance("SHA-256");
      ByteBuffer root = ByteBuffer.allocate(17).order(ByteOrder.LITTLE_ENDIAN);
      root.put((byte) ((scope.lora().isPresent() ? 1 : 0) + (scope.salt().isPresent() ? 2 : 0)));
      scope.lora().ifPresent(root::putLong);
      scope.salt().ifPresent(root::putLong);
      byte[] digest = sha.digest(Arrays.copyOf(root.array(), root.position()));
      ByteBuffer ids = ByteBuffer.allocate(2 * hash.bytes());
      for (int[] block : List.of(Arrays.copyOf(tokens, 4), Arrays.copyOfRange(tokens, 4, 7))) {
        ByteBuffer words = ByteBuffer.allocate(4 * block.length).order(ByteOrder.LITTLE_ENDIAN);
        Arrays.stream(block).forEach(words::putInt);
        sha.update(digest);
        digest = sha.digest(words.array());
        ids.put(digest, 0, hash.bytes());
      }
      KvHash.Chain whole = hash.chain(scope, tokens, 4);
      assertThat(whole.ids()).isEqualTo(ids.array());
      assertThat(whole.last()).isEqualTo(digest);
      KvHash.Chain first = hash.chain(scope, Arrays.copyOf(tokens, 4), 4);
      KvHash.Chain rest = hash.chain(scope, first.last(), Arrays.copyOfRange(tokens, 4, 7), 4);
      assertThat(rest.last()).isEqualTo(digest);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 55, 56, 63, 64, 65, 1000})
  void digestsOfEveryLengthAreTheJdks(int length) throws Exception {
    int[] tokens = tokens(length);
    MessageDigest sha = MessageDigest.getInstance("SHA-256");
    byte[] root = sha.digest(new byte[1]);
    ByteBuffer words = ByteBuffer.allocate(4 * length).order(ByteOrder.LITTLE_ENDIAN);
    Arrays.stream(tokens).forEach(words::putInt);
    sha.update(root);
    byte[] digest = length == 0 ? root : sha.digest(words.array());
    assertThat(KvHash.V2_SHA256.chain(KvScope.NONE, tokens, 1024).last()).isEqualTo(digest);
  }

  @Test
  void theFirstVersionsKeyIsMixedTokenByToken() {
    int[] tokens = {11, 22, 33, 44, 55};
    for (var scope : List.of(KvScope.NONE, KvScope.lora(3), KvScope.NONE.withSalt(5))) {
      ByteBuffer ids =
          ByteBuffer.wrap(KvHash.V1_BLOCK_KEY.chain(scope, tokens, 4).ids())
              .order(ByteOrder.LITTLE_ENDIAN);
      long first = v1(scope, 0, Arrays.copyOf(tokens, 4));
      assertThat(ids.getLong(0)).isEqualTo(first);
      assertThat(ids.getLong(8)).isEqualTo(v1(scope, first, new int[] {55}));
    }
  }

  /** Spec 03 §8.2, written a second time. */
  private static long v1(KvScope scope, long parent, int[] tokens) {
    long seed = tokens.length ^ parent * 0xBF58476D1CE4E5B9L;
    if (parent == 0 && scope.salt().isPresent()) {
      seed = mix64(scope.salt().getAsLong(), seed);
    }
    for (int token : tokens) {
      int a = ((token >>> 16) ^ token) * 0x045D9F3B;
      a = ((a >>> 16) ^ a) * 0x045D9F3B;
      a = (a >>> 16) ^ a;
      seed ^= Integer.toUnsignedLong(a + 0x9E3779B9) + (seed << 6) + (seed >>> 2);
    }
    return scope.lora().isPresent() ? mix64(scope.lora().getAsLong(), seed) : seed;
  }

  private static long mix64(long a, long seed) {
    a = (a ^ (a >>> 30)) * 0xBF58476D1CE4E5B9L;
    a = (a ^ (a >>> 27)) * 0x94D049BB133111EBL;
    a ^= a >>> 31;
    return seed ^ (a + 0x9E3779B9L + (seed << 6) + (seed >>> 2));
  }

  // ------------------------------------------------------------------------------ bad input

  @Test
  void operationsOutOfTurnChangeNothing() {
    try (var cache = cache(8)) {
      long s = done(cache.open(KvScope.NONE, tokens(3))).handle();
      code(Code.STATE, () -> cache.resize(s, 4));
      code(Code.STATE, () -> cache.commit(s, 1));
      code(Code.ARGUMENT, () -> cache.resume(s, -1));
      code(Code.ARGUMENT, () -> cache.resume(s, 4));
      done(cache.resume(s, 0));
      code(Code.STATE, () -> cache.resume(s, 1));
      long t = done(cache.open(KvScope.NONE, tokens(3))).handle();
      code(Code.ALREADY, () -> cache.resume(t, 0));
      done(cache.resize(s, 4));
      code(Code.ARGUMENT, () -> cache.commit(s, 1, 2, 3, 4, 5));
      cache.commit(s, 0, 1, 2);
      code(Code.ARGUMENT, () -> cache.resize(s, 2));
      code(Code.ARGUMENT, () -> cache.resize(s, 16 * 4 + 1));
      cache.stop(s);
      code(Code.STATE, () -> cache.commit(s, 3));
      cache.close(s);
      code(Code.STALE, () -> cache.close(s));
      code(Code.NOT_FOUND, () -> cache.close(77));
      code(Code.NOT_FOUND, () -> cache.sequence(-1));
      cache.suspend(t);
      cache.suspend(t);
      cache.check();
    }
  }

  @Test
  void sequencesBeyondTheLimitAreAResult() {
    try (var cache = KvCache.create(PLAIN, config().withSequences(2, 0), KvSizes.device(8))) {
      done(cache.open(KvScope.NONE, tokens(3)));
      done(cache.open(KvScope.NONE, tokens(3)));
      assertThat(cache.open(KvScope.NONE, tokens(3))).isEqualTo(new KvOutcome.Full());
    }
  }

  @Test
  void emptyPromptsAndTokensBeyondTheArenaAreRefused() {
    try (var cache = KvCache.create(PLAIN, config().withTokenArena(10), KvSizes.device(8))) {
      code(Code.ARGUMENT, () -> cache.open(KvScope.NONE, new int[0]));
      code(Code.ARGUMENT, () -> cache.open(KvScope.NONE, tokens(11)));
      code(Code.ARGUMENT, () -> cache.probe(KvScope.NONE, tokens(5), new int[0]));
      code(Code.ARGUMENT, () -> cache.probe(KvScope.NONE, tokens(5), tokens(6)));
      KvOps ops = cache.newOps(2);
      ops.open(KvScope.NONE, 0, KvOps.Reuse.FULL, tokens(6));
      code(Code.ARGUMENT, () -> ops.open(KvScope.NONE, 0, KvOps.Reuse.FULL, tokens(5)));
      assertThat(ops.size()).isEqualTo(1);
      ops.open(KvScope.NONE, 1, KvOps.Reuse.FULL, tokens(4));
      code(Code.ARGUMENT, () -> ops.stop(1));
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.ARGUMENT);
      assertThat(ops.status(0)).isEqualTo(KvStatus.OK);
      assertThatThrownBy(() -> ops.status(2)).isInstanceOf(IndexOutOfBoundsException.class);
      try (var other = cache(8)) {
        code(Code.ARGUMENT, () -> other.apply(ops));
      }
    }
  }

  @Test
  void retentionRangesComeInOrder() {
    try (var cache = cache(8)) {
      long s = done(cache.open(KvScope.NONE, tokens(3))).handle();
      KvOps ops = cache.newOps(16);
      ops.retain(s, 0, 8, 50, -1);
      ops.retain(s, 4, 12, 50, -1);
      ops.retain(s, 8, 8, 50, -1);
      ops.retain(s, 8, 12, 101, -1);
      ops.retain(s, 8, 12, 50, -2);
      for (int i = 0; i < 8; i++) {
        ops.retain(s, 10 + i, 11 + i, 50, -1);
      }
      cache.apply(ops);
      assertThat(IntStream.range(0, 13).mapToObj(ops::status))
          .containsExactly(
              KvStatus.OK,
              KvStatus.ARGUMENT,
              KvStatus.ARGUMENT,
              KvStatus.ARGUMENT,
              KvStatus.ARGUMENT,
              KvStatus.OK,
              KvStatus.OK,
              KvStatus.OK,
              KvStatus.OK,
              KvStatus.OK,
              KvStatus.OK,
              KvStatus.OK,
              KvStatus.CAPACITY);
    }
  }

  @Test
  void sizesOutsideTheirRangeAreRefused() {
    for (KvConfig wrong :
        List.of(
            config().withBeams(0),
            config().withBeams(65),
            config().withReserved(-5),
            config().withReserved(Integer.MAX_VALUE),
            config().withSequences(0, 0),
            config().withSequences(1, -1),
            config().withScopes(0, 1),
            config().withScopes(1, 65),
            config().withPriorities(101, 0),
            config().withPriorities(-1, 0),
            config().withMaxUtilisation(65537),
            config().withEvents(3),
            config().withEvents(25),
            config().withTiming(KvConfig.Timing.EMULATION, 0),
            config().withTokenArena(0),
            KvConfig.of(TestSizes.leases(4), 15, 32),
            KvConfig.of(TestSizes.leases(4), 1 << 28, 32),
            KvConfig.of(TestSizes.leases(4), 16, -1))) {
      code(Code.ARGUMENT, () -> KvCache.create(PLAIN, wrong, KvSizes.device(8)).close());
    }
    code(Code.ARGUMENT, () -> KvCache.create(PLAIN, config(), KvSizes.device(0)).close());
    code(Code.ARGUMENT, () -> KvCache.create(PLAIN, config(), KvSizes.device(8, 8)).close());
    code(
        Code.ARGUMENT,
        () -> KvCache.create(PLAIN, config(), KvSizes.device(8).with(KvLevel.HOST, -1)).close());
    code(
        Code.ARGUMENT,
        () -> KvCache.create(PLAIN, config(), KvSizes.device(PLAIN.maxSlots(0) + 1)).close());
  }

  @Test
  void aClosedCacheRefusesEverythingAndItsMemoryIsGone() {
    var cache =
        KvCache.create(
            PLAIN, config().withEvents(4).withMemory(KvConfig.Memory.HOST), KvSizes.device(8));
    KvOps ops = cache.newOps(2);
    KvEvents events = cache.events();
    var page = cache.page(KvLevel.DEVICE, 0, 3);
    code(Code.ARGUMENT, () -> cache.page(KvLevel.DEVICE, 0, 8));
    code(Code.ARGUMENT, () -> cache.page(KvLevel.DEVICE, 1, 0));
    cache.close();
    cache.close();
    code(Code.CLOSED, () -> cache.open(KvScope.NONE, tokens(3)));
    code(Code.CLOSED, () -> ops.open(KvScope.NONE, 0, KvOps.Reuse.FULL, tokens(3)));
    code(Code.CLOSED, () -> cache.apply(ops));
    code(Code.CLOSED, cache::usage);
    code(Code.CLOSED, events::poll);
    code(Code.CLOSED, events::gap);
    assertThatThrownBy(() -> page.get(JAVA_INT, 0)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void closingAndUsingFromManyThreadsNeverCrashes() throws Exception {
    for (int round = 0; round < 20; round++) {
      var cache = KvCache.create(PLAIN, config().withEvents(4), KvSizes.device(8));
      var start = new CountDownLatch(1);
      var strange = new AtomicBoolean();
      Thread[] threads = new Thread[3];
      for (int t = 0; t < threads.length; t++) {
        boolean closes = t == 2;
        threads[t] =
            new Thread(() -> {
              try {
                start.await();
                for (int i = 0; i < 200; i++) {
                  if (closes && i == 100) {
                    cache.close();
                  }
                  cache.usage();
                  cache.check();
                }
              } catch (BerthException e) {
                if (e.code() != Code.STATE && e.code() != Code.CLOSED) {
                  strange.set(true);
                }
              } catch (InterruptedException e) {
                strange.set(true);
              }
            });
        threads[t].start();
      }
      start.countDown();
      for (Thread thread : threads) {
        thread.join(TimeUnit.SECONDS.toMillis(30));
      }
      cache.close();
      assertThat(strange).isFalse();
    }
  }
}
