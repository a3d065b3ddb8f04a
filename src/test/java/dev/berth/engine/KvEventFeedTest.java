// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvCache;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvOutcome;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvScope;
import dev.berth.kv.KvSizes;
import dev.berth.plan.TestSizes;
import dev.berth.route.KvIndex;
import dev.berth.route.PrefixMatches;
import dev.berth.route.Seeds;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** An index that follows real caches by their events. */
class KvEventFeedTest {
  private static final int BLOCK = 4;
  private static final KvLayout LAYOUT =
      KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));

  /** What the index says is what each cache's own probe says, evictions and all. */
  @Test
  void theIndexMatchesAsTheCachesThemselvesDo() {
    RandomGenerator random = Seeds.generator(Seeds.seed("KvEventFeedTest"));
    int ranks = 3;
    var index = new KvIndex(ranks, BLOCK);
    List<KvCache> caches =
        IntStream.range(0, ranks)
            .mapToObj(rank ->
                KvCache.create(
                    LAYOUT,
                    KvConfig.of(TestSizes.leases(4), 16, 32).withEvents(6),
                    KvSizes.device(12)))
            .toList();
    List<KvEventFeed> feeds =
        IntStream.range(0, ranks)
            .mapToObj(rank ->
                new KvEventFeed(
                    index,
                    rank,
                    caches.get(rank).events(),
                    () -> caches.get(rank).snapshot(),
                    BLOCK,
                    0))
            .toList();
    int hits = 0;
    for (int step = 0; step < 2_000; step++) {
      int rank = random.nextInt(ranks);
      run(caches.get(rank), scope(random), prompt(random));
      if (random.nextInt(3) == 0) {
        feeds.forEach(KvEventFeed::pump);
        KvScope scope = scope(random);
        int[] prompt = prompt(random);
        var matches = new PrefixMatches();
        matches.begin(1, ranks);
        index.match(KvEventFeed.scope(scope), prompt, prompt.length - 1, matches, 0);
        for (int its = 0; its < ranks; its++) {
          int wholeBlocks = caches.get(its).probe(scope, prompt)[0] / BLOCK * BLOCK;
          assertThat(matches.get(0, its)).as("step %d, rank %d", step, its).isEqualTo(wholeBlocks);
          hits += wholeBlocks > 0 ? 1 : 0;
        }
      }
    }
    assertThat(hits).isGreaterThan(100);
    caches.forEach(KvCache::close);
  }

  private static KvScope scope(RandomGenerator random) {
    return random.nextInt(4) == 0 ? KvScope.lora(random.nextInt(2)) : KvScope.NONE;
  }

  private static int[] prompt(RandomGenerator random) {
    return random.ints(5 + random.nextInt(16), 0, 2).toArray();
  }

  private static void run(KvCache cache, KvScope scope, int[] tokens) {
    if (cache.open(scope, tokens) instanceof KvOutcome.Done opened) {
      long sequence = opened.handle();
      if (cache.resume(sequence, 0) instanceof KvOutcome.Done
          && cache.resize(sequence, tokens.length) instanceof KvOutcome.Done) {
        int known = cache.sequence(sequence).committed();
        cache.commit(sequence, Arrays.copyOfRange(tokens, known, tokens.length));
      }
      cache.close(sequence);
    }
  }

  @Test
  void whatWasDroppedIsMadeUpByASnapshot() {
    var index = new KvIndex(1, BLOCK);
    try (var cache =
        KvCache.create(
            LAYOUT, KvConfig.of(TestSizes.leases(4), 16, 32).withEvents(6), KvSizes.device(64))) {
      var feed = new KvEventFeed(index, 0, cache.events(), cache::snapshot, BLOCK, 0);
      RandomGenerator random = Seeds.generator(7);
      while (cache.events().dropped() == 0) {
        run(cache, KvScope.NONE, random.ints(16, 0, 1000).toArray());
      }
      int[] last = IntStream.range(0, 17).toArray();
      run(cache, KvScope.NONE, last);

      feed.pump();

      var matches = new PrefixMatches();
      matches.begin(1, 1);
      index.match(0, last, 16, matches, 0);
      assertThat(matches.get(0, 0)).isEqualTo(16);
      assertThat(index.awaitsSnapshot(0)).isFalse();
    }
  }

  @Test
  void aCacheOfOtherBlocksIsRefused() {
    var index = new KvIndex(1, 16);
    try (var cache =
        KvCache.create(
            LAYOUT, KvConfig.of(TestSizes.leases(4), 16, 32).withEvents(6), KvSizes.device(8))) {
      assertThatThrownBy(() -> new KvEventFeed(index, 0, cache.events(), cache::snapshot, BLOCK, 0))
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("blocks of 4 tokens, the index of 16");
    }
  }

  @Test
  void scopesAreKeptApart() {
    assertThat(KvEventFeed.scope(KvScope.NONE)).isZero();
    assertThat(
            List.of(
                KvEventFeed.scope(KvScope.NONE),
                KvEventFeed.scope(KvScope.lora(0)),
                KvEventFeed.scope(KvScope.lora(1)),
                KvEventFeed.scope(KvScope.NONE.withSalt(0)),
                KvEventFeed.scope(KvScope.NONE.withSalt(1)),
                KvEventFeed.scope(KvScope.lora(0).withSalt(0))))
        .doesNotHaveDuplicates();
  }
}
