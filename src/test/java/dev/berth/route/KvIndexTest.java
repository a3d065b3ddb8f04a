// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.route.KvIndex.Event;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The event-fed index on published cases and against a model. */
class KvIndexTest {
  private static final int BLOCK = 2;

  private static int[] block(int value) {
    return new int[] {value, value + 1};
  }

  private static int[] match(KvIndex index, int ranks, long scope, int... prompt) {
    var matches = new PrefixMatches();
    matches.begin(1, ranks);
    index.match(scope, prompt, prompt.length, matches, 0);
    return IntStream.range(0, ranks).map(rank -> matches.get(0, rank)).toArray();
  }

  @Test
  void eachRankMatchesAsFarAsItsBlocksGo() {
    var index = new KvIndex(3, BLOCK);
    index.stored(0, 1, 1, KvIndex.ROOT, 0, 1, 2);
    index.stored(0, 2, 2, 1, 0, 3, 4);
    index.stored(1, 1, 9, KvIndex.ROOT, 0, 1, 2);

    assertThat(match(index, 3, 0, 1, 2, 3, 4, 5)).containsExactly(4, 2, 0);
    assertThat(match(index, 3, 0, 1, 2, 3, 9)).containsExactly(2, 2, 0);
    assertThat(match(index, 3, 0, 7, 2)).containsExactly(0, 0, 0);
    assertThat(match(index, 3, 0, 1)).containsExactly(0, 0, 0);
    assertThat(match(index, 3, 1, 1, 2)).as("another scope").containsExactly(0, 0, 0);
    assertThat(index.size()).isEqualTo(2);
  }

  @Test
  void aBlockNamesItsParentAndADetachedSubtreeIsGone() {
    var index = new KvIndex(1, BLOCK);
    index.stored(0, 1, 1, KvIndex.ROOT, 0, block(1));
    index.stored(0, 2, 2, 1, 0, block(3));
    index.stored(0, 3, 3, 2, 0, block(5));
    assertThat(match(index, 1, 0, 1, 2, 3, 4, 5, 6)).containsExactly(6);

    index.removed(0, 4, 2);
    index.removed(0, 5, 3);

    assertThat(index.blocks(0)).isEqualTo(1);
    assertThat(index.size()).isEqualTo(1);
    assertThat(match(index, 1, 0, 1, 2, 3, 4, 5, 6)).containsExactly(2);
  }

  @Test
  void anUnknownParentAsksForASnapshotOnce() {
    var index = new KvIndex(1, BLOCK);
    index.beginSnapshot(0, 10);

    assertThat(index.stored(0, 11, 3, 2, 0, block(5))).isEqualTo(Event.RESYNC);
    assertThat(index.stored(0, 12, 4, 3, 0, block(7))).isEqualTo(Event.WAITING_FOR_SNAPSHOT);
    assertThat(index.awaitsSnapshot(0)).isTrue();

    index.beginSnapshot(0, 12);
    for (int i = 0; i < 4; i++) {
      assertThat(index.restore(0, i + 1, i, 0, block(2 * i + 1))).isEqualTo(Event.APPLIED);
    }
    assertThat(match(index, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8)).containsExactly(8);
    assertThat(index.awaitsSnapshot(0)).isFalse();
    assertThat(index.sequence(0)).isEqualTo(12);
    assertThat(index.removed(0, 13, 4)).isEqualTo(Event.APPLIED);
  }

  @Test
  void aGapAsksForASnapshotAndOldEventsAreIgnored() {
    var index = new KvIndex(2, BLOCK);

    assertThat(index.stored(0, 2, 1, KvIndex.ROOT, 0, block(1))).isEqualTo(Event.RESYNC);
    assertThat(index.passed(0, 3)).isEqualTo(Event.WAITING_FOR_SNAPSHOT);
    assertThat(index.stored(1, 1, 1, KvIndex.ROOT, 0, block(1))).isEqualTo(Event.APPLIED);
    assertThat(index.stored(1, 1, 2, KvIndex.ROOT, 0, block(3))).isEqualTo(Event.IGNORED);
    assertThat(index.passed(1, 2)).isEqualTo(Event.IGNORED);
    assertThat(index.sequence(1)).isEqualTo(2);
  }

  @Test
  void storingTwiceIsStoringOnceAndRemovingOnceIsEnough() {
    var index = new KvIndex(1, BLOCK);
    long sequence = 0;
    for (long block : new long[] {1, 2, 3, 2, 3, 4}) {
      index.stored(0, ++sequence, block, KvIndex.ROOT, 0, block((int) block * 10));
    }
    assertThat(index.blocks(0)).isEqualTo(4);
    assertThat(index.removed(0, ++sequence, 2)).isEqualTo(Event.APPLIED);
    assertThat(index.removed(0, ++sequence, 2)).isEqualTo(Event.IGNORED);
    assertThat(index.blocks(0)).isEqualTo(3);
    assertThat(index.cleared(0, ++sequence)).isEqualTo(Event.APPLIED);
    assertThat(index.blocks(0)).isZero();
    assertThat(index.size()).isZero();
  }

  @Test
  void twoNamesForTheSameTokensAreOnePresence() {
    var index = new KvIndex(1, BLOCK);
    index.stored(0, 1, 1, KvIndex.ROOT, 0, block(1));
    assertThat(index.stored(0, 2, 2, KvIndex.ROOT, 0, block(1))).isEqualTo(Event.IGNORED);
    assertThat(index.size()).isEqualTo(1);

    index.removed(0, 3, 1);
    assertThat(match(index, 1, 0, 1, 2)).containsExactly(0);
    assertThat(index.stored(0, 4, 3, 2, 0, block(3))).as("the other name").isEqualTo(Event.APPLIED);
    index.removed(0, 5, 2);
    index.removed(0, 6, 3);
    assertThat(index.size()).isZero();
  }

  @Test
  void theIndexIsAsLargeAsWhatIsHeld() {
    var index = new KvIndex(1, BLOCK);
    long sequence = 0;
    for (int i = 1; i <= 1_000_000; i++) {
      index.stored(0, ++sequence, i, KvIndex.ROOT, 0, block(i));
      index.removed(0, ++sequence, i);
    }

    assertThat(index.size()).isZero();
    assertThat(index.blocks(0)).isZero();
  }

  @Test
  void partialBlocksAreIgnoredAndOtherSizesRefused() {
    var index = new KvIndex(2, 16);

    assertThat(index.stored(0, 1, 1, KvIndex.ROOT, 0, 5)).isEqualTo(Event.IGNORED);
    refused(() -> index.register(1, 64), "64 tokens, the index of 16");
    index.register(1, 16);
    refused(() -> index.stored(0, 2, 2, KvIndex.ROOT, 0, new int[17]), "17 tokens");
    refused(() -> index.stored(0, 2, KvIndex.ROOT, KvIndex.ROOT, 0, new int[16]), "block 0");
    refused(() -> index.stored(2, 1, 1, KvIndex.ROOT, 0, new int[16]), "rank 2");
    refused(() -> new KvIndex(0, 16), "1 or more");
    refused(() -> new KvIndex(1, 0), "1 or more");
    var matches = new PrefixMatches();
    matches.begin(1, 3);
    refused(() -> index.match(0, new int[4], 4, matches, 0), "3 ranks, the index has 2");
    refused(() -> index.match(0, new int[4], 5, matches, 0), "length 5");
  }

  private static void refused(Runnable call, String with) {
    assertThatThrownBy(call::run).isInstanceOf(BerthException.class).hasMessageContaining(with);
  }

  // --------------------------------------------------------------------------------- random

  /** A rank's cache as paths: each block is its whole prefix. */
  private static final class Cache {
    final Map<Long, List<Integer>> paths = new HashMap<>();
    long nextBlock = 1;
    long sequence;

    boolean holds(List<Integer> path) {
      return paths.containsValue(path);
    }
  }

  @Test
  void afterEveryEventEachRankMatchesWhatItsCacheHolds() {
    RandomGenerator random = Seeds.generator(Seeds.seed("KvIndexTest"));
    int ranks = 70;
    var index = new KvIndex(ranks, BLOCK);
    List<Cache> caches = IntStream.range(0, ranks).mapToObj(rank -> new Cache()).toList();
    for (int step = 0; step < 30_000; step++) {
      int rank = random.nextInt(4) == 0 ? random.nextInt(ranks) : random.nextInt(3);
      Cache cache = caches.get(rank);
      int choice = random.nextInt(200);
      if (choice == 0) {
        snapshot(index, rank, cache);
      } else if (choice == 1) {
        index.cleared(rank, ++cache.sequence);
        cache.paths.clear();
      } else if (choice < 80 && !cache.paths.isEmpty()) {
        removeLeaf(index, rank, cache, random);
      } else {
        store(index, rank, cache, random);
      }
      if (step % 10 == 0) {
        compare(index, caches, random);
      }
    }
    for (int rank = 0; rank < ranks; rank++) {
      assertThat(index.blocks(rank)).isEqualTo(caches.get(rank).paths.size());
      index.forget(rank);
    }
    assertThat(index.size()).isZero();
  }

  private static void store(KvIndex index, int rank, Cache cache, RandomGenerator random) {
    long parent = KvIndex.ROOT;
    List<Integer> path = List.of();
    if (!cache.paths.isEmpty() && random.nextInt(4) > 0) {
      List<Long> names = cache.paths.keySet().stream().sorted().toList();
      parent = names.get(random.nextInt(names.size()));
      path = Objects.requireNonNull(cache.paths.get(parent));
    }
    var longer = new ArrayList<>(path);
    int value = random.nextInt(3);
    longer.add(value);
    if (!cache.holds(longer)) {
      long name = cache.nextBlock++;
      cache.paths.put(name, longer);
      assertThat(index.stored(rank, ++cache.sequence, name, parent, 5, block(value)))
          .isEqualTo(Event.APPLIED);
    }
  }

  private static void removeLeaf(KvIndex index, int rank, Cache cache, RandomGenerator random) {
    List<Long> leaves =
        cache.paths.entrySet().stream()
            .filter(e ->
                cache.paths.values().stream()
                    .noneMatch(other ->
                        other.size() == e.getValue().size() + 1
                            && other.subList(0, e.getValue().size()).equals(e.getValue())))
            .map(Map.Entry::getKey)
            .sorted()
            .toList();
    long name = leaves.get(random.nextInt(leaves.size()));
    cache.paths.remove(name);
    assertThat(index.removed(rank, ++cache.sequence, name)).isEqualTo(Event.APPLIED);
  }

  private static void snapshot(KvIndex index, int rank, Cache cache) {
    cache.sequence += 3;
    index.beginSnapshot(rank, cache.sequence);
    Map<List<Integer>, Long> names = new HashMap<>();
    cache.paths.forEach((name, path) -> names.put(path, name));
    cache.paths.entrySet().stream()
        .sorted((a, b) -> Integer.compare(a.getValue().size(), b.getValue().size()))
        .forEach(e -> {
          List<Integer> path = e.getValue();
          long parent = names.getOrDefault(path.subList(0, path.size() - 1), KvIndex.ROOT);
          index.restore(rank, e.getKey(), parent, 5, block(path.getLast()));
        });
  }

  private static void compare(KvIndex index, List<Cache> caches, RandomGenerator random) {
    int[] values = random.ints(random.nextInt(7), 0, 3).toArray();
    int[] prompt = Arrays.stream(values).flatMap(v -> Arrays.stream(block(v))).toArray();
    List<Integer> path = Arrays.stream(values).boxed().toList();
    int[] expected = new int[caches.size()];
    for (int rank = 0; rank < caches.size(); rank++) {
      int depth = 0;
      while (depth < path.size() && caches.get(rank).holds(path.subList(0, depth + 1))) {
        depth++;
      }
      expected[rank] = depth * BLOCK;
    }
    assertThat(match(index, caches.size(), 5, prompt)).isEqualTo(expected);
  }
}
