// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.plan.TestSizes;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;

/**
 * Random histories through the public API, against {@link NaiveKvIndex} and a replica fed by
 * events.
 */
class KvCacheProperties {
  private static final int BLOCK = 3;
  private static final KvLayout LAYOUT =
      KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));

  private static final class Sequence {
    long handle;
    KvScope scope = KvScope.NONE;
    int[] tokens = {};
    int capacity;
    int indexed;
    int row;
  }

  @Test
  void randomHistoriesAreThoseOfTheModelAndEventsRebuildTheIndex() {
    long seed = Seeds.seed("KvCacheProperties");
    for (int history = 0; history < 40; history++) {
      history(Seeds.generator(seed + history));
    }
  }

  private static void history(RandomGenerator random) {
    int pages = 8 + random.nextInt(40);
    var config =
        KvConfig.of(TestSizes.leases(5), 16, pages)
            .withSequences(5, 4)
            .withScopes(3, 1)
            .withEvents(12);
    var model = new NaiveKvIndex(BLOCK, pages);
    Map<Long, KvEvent> replica = new HashMap<>();
    List<Sequence> live = new ArrayList<>();
    List<int[]> prompts = new ArrayList<>(List.of(new int[] {0, 1, 2, 0, 1, 2, 0, 1}));
    try (var cache = KvCache.create(LAYOUT, config, KvSizes.device(pages))) {
      KvEvents events = cache.events();
      for (int step = 0; step < 300; step++) {
        int what = random.nextInt(10);
        if (live.isEmpty() || what < 3 && live.size() < 5) {
          live.add(open(cache, model, random, prompts, live));
        } else if (what < 8) {
          grow(cache, model, random, live.get(random.nextInt(live.size())));
        } else {
          close(cache, model, live.remove(random.nextInt(live.size())));
        }
        cache.check();
        KvUsage.Pages use = cache.usage().pages(KvLevel.DEVICE, 0);
        assertThat(use.free()).isEqualTo(model.free());
        assertThat(use.cached()).isEqualTo(model.cached());
        assertThat(use.evictable()).isEqualTo(model.evictable());
        replay(events, replica);
        assertThat(events.gap()).isFalse();
        assertThat(index(cache.snapshot().pages())).isEqualTo(index(replica.values()));
      }
      for (Sequence sequence : live) {
        close(cache, model, sequence);
      }
      cache.reset();
      replay(events, replica);
      assertThat(replica).isEmpty();
      assertThat(cache.usage().pages(KvLevel.DEVICE, 0).free()).isEqualTo(pages);
    }
  }

  private static Sequence open(
      KvCache cache,
      NaiveKvIndex model,
      RandomGenerator random,
      List<int[]> prompts,
      List<Sequence> live) {
    var s = new Sequence();
    int[] old = prompts.get(random.nextInt(prompts.size()));
    int kept = random.nextInt(old.length + 1);
    s.tokens = Arrays.copyOf(old, Math.min(16 * BLOCK, kept + 1 + random.nextInt(12)));
    for (int i = Math.min(kept, s.tokens.length - 1); i < s.tokens.length; i++) {
      s.tokens[i] = random.nextInt(2);
    }
    prompts.add(s.tokens);
    s.scope = random.nextInt(6) == 0 ? KvScope.lora(1) : KvScope.NONE;
    int found = model.match(s.scope, s.tokens);
    assertThat(cache.probe(s.scope, s.tokens)).containsExactly(found * BLOCK);
    var opened = (KvOutcome.Done) cache.open(s.scope, s.tokens);
    assertThat(opened.matched()).isEqualTo(found * BLOCK);
    model.pin(s.scope, s.tokens, found);
    s.handle = opened.handle();
    s.indexed = found;
    s.capacity = found * BLOCK;
    Set<Integer> rows = new HashSet<>(List.of(0, 1, 2, 3, 4));
    live.forEach(other -> rows.remove(other.row));
    s.row = rows.iterator().next();
    assertThat(cache.resume(s.handle, s.row)).isInstanceOf(KvOutcome.Done.class);
    return s;
  }

  /** Room for some more of its tokens and, if there is, their commit. */
  private static void grow(KvCache cache, NaiveKvIndex model, RandomGenerator random, Sequence s) {
    int to = s.capacity + random.nextInt(s.tokens.length - s.capacity + 1);
    int more = Math.ceilDiv(to, BLOCK) - Math.ceilDiv(s.capacity, BLOCK);
    boolean fits = model.take(more);
    KvOutcome outcome = cache.resize(s.handle, to);
    assertThat(outcome instanceof KvOutcome.Done).isEqualTo(fits);
    if (!fits) {
      assertThat(outcome)
          .isEqualTo(new KvOutcome.PagesShort(0, more - model.free() - model.evictable()));
      return;
    }
    int committed = cache.sequence(s.handle).committed();
    cache.commit(s.handle, Arrays.copyOfRange(s.tokens, committed, to));
    s.capacity = to;
    while ((s.indexed + 1) * BLOCK <= to) {
      model.commit(s.scope, s.tokens, ++s.indexed);
    }
  }

  private static void close(KvCache cache, NaiveKvIndex model, Sequence s) {
    cache.close(s.handle);
    model.unpin(s.scope, s.tokens, s.indexed);
    model.give(Math.ceilDiv(s.capacity, BLOCK) - s.indexed);
  }

  private static void replay(KvEvents events, Map<Long, KvEvent> replica) {
    for (var next = events.poll(); next.isPresent(); next = events.poll()) {
      KvEvent event = next.get();
      switch (event.kind()) {
        case STORED -> assertThat(replica.put(event.block(), event)).isNull();
        case REMOVED -> assertThat(replica.remove(event.block())).isNotNull();
        case UPDATED -> throw new AssertionError("there is one level");
      }
    }
  }

  private static Set<List<Object>> index(Iterable<KvEvent> pages) {
    Set<List<Object>> index = new HashSet<>();
    for (KvEvent e : pages) {
      index.add(List.of(e.block(), e.parent(), e.scope(), Arrays.toString(e.tokens())));
    }
    return index;
  }

  // ------------------------------------------------------------------------------ a slow consumer

  private static final KvLayout WINDOW =
      KvLayout.plan(
          BLOCK,
          List.of(
              KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
              KvBuffer.of(1, KvBuffer.KEY, 64, KvReach.window(5))));

  private record PageKey(long block, int lifeCycle) {}

  private record Known(
      long parent, KvScope scope, KvLevel level, int priority, List<Integer> text) {
    static Known of(KvEvent e) {
      return new Known(
          e.parent(),
          e.scope(),
          e.level(),
          e.priority(),
          Arrays.stream(e.tokens()).boxed().toList());
    }
  }

  /** Partial blocks, windows, levels, priorities that end; a ring of sixteen, read now and then. */
  @Test
  void aConsumerThatMissesEventsRebuildsExactlyTheIndexFromASnapshot() {
    long seed = Seeds.seed("KvCacheProperties");
    int gaps = 0;
    int whole = 0;
    for (int i = 0; i < 60; i++) {
      RandomGenerator random = Seeds.generator(seed + i);
      var config =
          KvConfig.of(TestSizes.leases(5), 16, 60)
              .withSequences(5, 4)
              .withScopes(3, 1)
              .withPartialReuse(KvConfig.Partial.COPY)
              .withEvents(4);
      var sizes =
          KvSizes.device(16 + random.nextInt(30)).with(KvLevel.HOST, 1 + random.nextInt(20));
      try (var cache = KvCache.create(WINDOW, config, sizes)) {
        KvEvents events = cache.events();
        Map<PageKey, Known> replica = new HashMap<>();
        for (int step = 0; step < 120; step++) {
          turn(cache, random, step);
          if (random.nextInt(3) != 0) {
            continue;
          }
          Map<PageKey, Known> next = read(events, replica);
          if (events.gap()) {
            gaps++;
            KvEvents.Snapshot snapshot = cache.snapshot();
            next = new HashMap<>();
            for (KvEvent page : snapshot.pages()) {
              next.put(new PageKey(page.block(), page.lifeCycle()), Known.of(page));
            }
            events.continueAfter(snapshot);
          } else {
            whole++;
            Map<PageKey, Known> now = new HashMap<>();
            for (KvEvent page : cache.snapshot().pages()) {
              now.put(new PageKey(page.block(), page.lifeCycle()), Known.of(page));
            }
            assertThat(next).as("seed %d, step %d", seed + i, step).isEqualTo(now);
          }
          replica = next;
        }
      }
    }
    assertThat(gaps).isPositive();
    assertThat(whole).isPositive();
  }

  /** A request's whole life. */
  private static void turn(KvCache cache, RandomGenerator random, int step) {
    cache.clock(step);
    int[] tokens = random.ints(1 + random.nextInt(40), 0, 2).toArray();
    KvScope scope = random.nextInt(6) == 0 ? KvScope.lora(1) : KvScope.NONE;
    long s = ((KvOutcome.Done) cache.open(scope, tokens)).handle();
    KvOps ops = cache.newOps(4);
    if (random.nextInt(3) == 0) {
      ops.retain(s, random.nextInt(9), -1, random.nextInt(101), random.nextInt(20) - 1);
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
    }
    if (cache.resume(s, 0) instanceof KvOutcome.Done
        && cache.resize(s, tokens.length) instanceof KvOutcome.Done) {
      ops.clear();
      ops.commitLast(s, Arrays.copyOfRange(tokens, cache.sequence(s).committed(), tokens.length));
      assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
    }
    cache.close(s);
  }

  /** The replica with what is in the ring, as far as no event is missing. */
  private static Map<PageKey, Known> read(KvEvents events, Map<PageKey, Known> replica) {
    Map<PageKey, Known> next = new HashMap<>(replica);
    for (var polled = events.poll(); polled.isPresent(); polled = events.poll()) {
      KvEvent e = polled.get();
      if (events.gap()) {
        continue;
      }
      var key = new PageKey(e.block(), e.lifeCycle());
      switch (e.kind()) {
        case STORED -> assertThat(next.put(key, Known.of(e))).isNull();
        case REMOVED -> assertThat(next.remove(key)).isNotNull();
        case UPDATED -> {
          Known k = java.util.Objects.requireNonNull(next.get(key));
          assertThat(k.level()).isEqualTo(e.oldLevel());
          next.put(key, new Known(k.parent(), k.scope(), e.level(), e.priority(), k.text()));
        }
      }
    }
    return next;
  }
}
