// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.kv.KvOutcome.Done;
import dev.berth.plan.TestSizes;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Public bug reports with their own numbers, on a KV cache (docs/cases.md has the list). */
class KvBugCasesTest {
  private static final int BLOCK = 16;
  private static final KvLayout LAYOUT =
      KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));

  private static KvCache cache(long pages, KvConfig.Partial partial) {
    var config = KvConfig.of(TestSizes.leases(4), 16, 32).withPartialReuse(partial);
    return KvCache.create(LAYOUT, config, KvSizes.device(pages));
  }

  private static KvCache cache(long pages) {
    return cache(pages, KvConfig.Partial.OFF);
  }

  private static Done done(KvOutcome outcome) {
    assertThat(outcome).isInstanceOf(Done.class);
    return (Done) outcome;
  }

  private static int[] tokens(int n) {
    return IntStream.range(0, n).toArray();
  }

  private static int[] others(int n) {
    return IntStream.range(1000, 1000 + n).toArray();
  }

  /** Runs and commits a prompt; what it found. */
  private static int run(KvCache cache, KvScope scope, int... tokens) {
    Done opened = done(cache.open(scope, tokens));
    done(cache.resume(opened.handle(), 0));
    done(cache.resize(opened.handle(), tokens.length));
    cache.commit(opened.handle(), Arrays.copyOfRange(tokens, opened.matched(), tokens.length));
    cache.close(opened.handle());
    return opened.matched();
  }

  private static KvUsage.Pages pages(KvCache cache) {
    return cache.usage().pages(KvLevel.DEVICE, 0);
  }

  /** BC-27: five free of which two are its own: three new ones at most. */
  @Test
  void ownMatchedBlocksAreNoFreeOnes() {
    try (var cache = cache(5)) {
      run(cache, KvScope.NONE, tokens(2 * BLOCK));
      Done sequence = done(cache.open(KvScope.NONE, tokens(2 * BLOCK + 1)));
      assertThat(sequence.matched()).isEqualTo(2 * BLOCK);
      done(cache.resume(sequence.handle(), 0));
      KvUsage.Pages before = pages(cache);
      assertThat(cache.resize(sequence.handle(), 6 * BLOCK))
          .isEqualTo(new KvOutcome.PagesShort(0, 1));
      assertThat(pages(cache)).isEqualTo(before);
      done(cache.resize(sequence.handle(), 5 * BLOCK));
      assertThat(pages(cache).free()).isZero();
    }
  }

  /** BC-52: a block that is granted in a step isn't evicted in it. */
  @Test
  void aBlockThatIsFoundIsNotEvictedForItsFinder() {
    try (var cache = cache(2)) {
      run(cache, KvScope.NONE, tokens(BLOCK));
      Done sequence = done(cache.open(KvScope.NONE, tokens(2 * BLOCK)));
      done(cache.resume(sequence.handle(), 0));
      done(cache.resize(sequence.handle(), 2 * BLOCK));
      assertThat(sequence.matched()).isEqualTo(BLOCK);
      assertThat(cache.usage().evicted()).isZero();
    }
  }

  /** BC-55: eviction makes room before anything fails; what went back goes back once. */
  @Test
  void fourEvictableBlocksGiveTwo() {
    try (var cache = cache(4)) {
      run(cache, KvScope.NONE, tokens(4 * BLOCK));
      assertThat(pages(cache).free()).isZero();
      assertThat(pages(cache).evictable()).isEqualTo(4);
      long other = done(cache.open(KvScope.NONE, others(2 * BLOCK))).handle();
      done(cache.resume(other, 0));
      done(cache.resize(other, 2 * BLOCK));
      assertThat(pages(cache).evictable()).isEqualTo(2);
      cache.close(other);
      assertThatThrownBy(() -> cache.close(other)).isInstanceOf(BerthException.class);
      assertThat(pages(cache).free()).isEqualTo(2);
      cache.check();
    }
  }

  /** BC-56: at rest free, evictable and held ones are all there are. */
  @Test
  void atRestEveryPageIsAccountedFor() {
    try (var cache = cache(10)) {
      for (int round = 1; round <= 50; round++) {
        run(cache, KvScope.NONE, IntStream.range(0, 1 + round * 3 % 100).map(i -> i / 7).toArray());
        KvUsage.Pages pages = pages(cache);
        assertThat(pages.free() + pages.evictable()).isEqualTo(10);
        assertThat(pages.held()).isZero();
      }
      cache.check();
    }
  }

  /** BC-60: the same tokens under adapter A, under B, under A again. */
  @Test
  void anotherAdaptersBlocksAreNobodyElses() {
    try (var cache = cache(16)) {
      assertThat(run(cache, KvScope.lora(0), tokens(4 * BLOCK + 1))).isZero();
      assertThat(run(cache, KvScope.lora(1), tokens(4 * BLOCK + 1))).isZero();
      assertThat(run(cache, KvScope.lora(0), tokens(4 * BLOCK + 1))).isEqualTo(4 * BLOCK);
    }
  }

  /** BC-93: of a prompt that is cached as a whole something is computed. */
  @Test
  void aPromptThatIsThereComputesItsLastBlockOrToken() {
    try (var cache = cache(16)) {
      run(cache, KvScope.NONE, tokens(64));
      assertThat(cache.probe(KvScope.NONE, tokens(64))).containsExactly(48);
    }
    try (var cache = cache(16, KvConfig.Partial.COPY)) {
      run(cache, KvScope.NONE, tokens(64));
      assertThat(cache.probe(KvScope.NONE, tokens(64))).containsExactly(63);
    }
  }

  /** BC-94: the index has exactly what can be used again. */
  @Test
  void anEvictedBlockIsFoundNoMore() {
    try (var cache = cache(3)) {
      run(cache, KvScope.NONE, tokens(3 * BLOCK));
      assertThat(cache.usage().indexBlocks()).isEqualTo(3);
      long other = done(cache.open(KvScope.NONE, others(BLOCK))).handle();
      done(cache.resume(other, 0));
      done(cache.resize(other, BLOCK));
      assertThat(cache.usage().indexBlocks()).isEqualTo(2);
      assertThat(cache.probe(KvScope.NONE, tokens(3 * BLOCK + 1))).containsExactly(2 * BLOCK);
    }
  }
}
