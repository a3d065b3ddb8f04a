// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The one loop once more, written from the text of spec 02 §9 and of the vectors' README (the
 * counted caches), over plain collections, slow and obvious.
 */
final class NaiveLoop {
  /** A request and its cache. */
  static final class Cached {
    final Naive.Req req;

    /** Tokens of the cache, -1 without one. */
    int tokens = -1;

    boolean resident;

    /** Tokens that the first look into the cache finds. */
    int found;

    boolean multimodal;

    Cached(Naive.Req req) {
      this.req = req;
    }
  }

  /** One context that runs. */
  record Context(Cached request, int position, int tokens) {}

  final List<Cached> encoders = new ArrayList<>();
  final List<Context> contexts = new ArrayList<>();
  final List<Cached> generations = new ArrayList<>();
  final List<Cached> suspended = new ArrayList<>();
  final Set<Cached> recomputed = new LinkedHashSet<>();
  final List<Cached> receiving = new ArrayList<>();
  long budget;
  boolean stalled;

  private final List<Cached> list;
  private final LoopRules rules;
  private final int[] adapterPages;
  private final boolean cross;
  private final Set<Integer> adapters = new HashSet<>();
  private final Set<Cached> evicted = new HashSet<>();
  private final List<Cached> later = new ArrayList<>();
  private int end;
  private int frontier;
  private int beam;
  private boolean delayed;

  private NaiveLoop(List<Cached> list, LoopRules rules, int[] adapterPages, boolean cross) {
    this.list = list;
    this.rules = rules;
    this.adapterPages = adapterPages;
    this.cross = cross;
    this.end = list.size();
    this.frontier = list.size();
  }

  /** Schedules, and moves caches and cursors of the requests along. */
  static NaiveLoop run(List<Cached> list, LoopRules rules, int[] adapterPages, boolean cross) {
    NaiveLoop loop = new NaiveLoop(list, rules, adapterPages, cross);
    list.stream().filter(r -> r.req.state == RequestState.RETIRING).forEach(r -> loop.claim(r.req));
    loop.firstPhase();
    loop.secondPhase();
    loop.sort();
    loop.stalled = loop.countsAsStall();
    return loop;
  }

  // ------------------------------------------------------------------------------ the caches

  private int pages(int tokens) {
    return (tokens + rules.tokensPerBlock() - 1) / rules.tokensPerBlock();
  }

  private boolean tier() {
    return rules.tier() == LoopRules.Tier.BELOW;
  }

  private long used() {
    return list.stream()
        .filter(r -> r.tokens >= 0 && (r.resident || !tier()))
        .mapToLong(r -> pages(r.tokens))
        .sum();
  }

  private boolean resize(Cached r, int tokens) {
    long own = r.resident || !tier() ? pages(r.tokens) : 0;
    if (used() - own + pages(tokens) > rules.gpuPages()) {
      return false;
    }
    r.tokens = tokens;
    return true;
  }

  private boolean resume(Cached r) {
    if (!r.resident && tier() && used() + pages(r.tokens) > rules.gpuPages()) {
      return false;
    }
    r.resident = true;
    return true;
  }

  private boolean create(Cached r) {
    if (list.stream().filter(other -> other.tokens >= 0).count() >= rules.leases()) {
      return false;
    }
    r.tokens = 0;
    r.resident = false;
    return true;
  }

  private boolean prepareContext(Cached r) {
    if (r.tokens < 0) {
      if (!r.req.firstChunk() || !create(r)) {
        return false;
      }
      if (rules.reuse() != LoopRules.Reuse.OFF) {
        r.req.cursor = r.found;
        r.req.cached = r.found;
      }
    }
    return resume(r);
  }

  private boolean resizeContext(Cached r, int tokens) {
    if (resize(r, Math.max(r.tokens, r.req.cursor + tokens))) {
      return true;
    }
    if (r.req.firstChunk()) {
      r.resident = false;
    }
    return false;
  }

  private boolean prepareReceive(Cached r) {
    if ((r.tokens < 0 && !create(r)) || !resume(r)) {
      return false;
    }
    if (resize(r, Math.max(r.tokens, r.req.prompt + r.req.drafts))) {
      return true;
    }
    r.resident = false;
    return false;
  }

  private boolean allocateGeneration(Cached r) {
    return r.tokens >= 0 && resume(r) && resize(r, r.tokens + 1 + r.req.drafts);
  }

  private static void free(Cached r) {
    r.tokens = -1;
    r.resident = false;
  }

  // ------------------------------------------------------------------------------ what all ask

  private boolean own() {
    return rules.batch().set() == PolicySet.BERTH_1;
  }

  private long maxTokens() {
    int most = rules.batch().maxTokens();
    return most == BatchRules.NO_LIMIT ? Integer.MAX_VALUE : most;
  }

  private boolean full() {
    return encoders.size() + contexts.size() + generations.size() >= rules.batch().maxBatchSize();
  }

  private boolean inRange(Naive.Req r) {
    int state = r.state.value();
    return state >= rules.batch().rangeBegin()
        && state < rules.batch().rangeEnd()
        && !r.awaitsEncoder;
  }

  private boolean started(Naive.Req r) {
    if (r.state == RequestState.RETIRING) {
      return !own(); // D6
    }
    return inRange(r) && (r.generation() || (r.context() && !r.firstChunk()));
  }

  private int newPages(Naive.Req r) {
    return r.adapter < 0 || adapters.contains(r.adapter) ? 0 : adapterPages[r.adapter];
  }

  private boolean adapterFits(Naive.Req r) {
    int claimed = adapters.stream().mapToInt(a -> adapterPages[a]).sum();
    return rules.adapterPages() < 0
        || newPages(r) == 0
        || claimed + newPages(r) <= rules.adapterPages();
  }

  private void claim(Naive.Req r) {
    if (r.adapter >= 0) {
      adapters.add(r.adapter);
    }
  }

  /** May its cache be dropped? */
  private boolean candidate(Cached r) {
    return started(r.req)
        && r.req.inFlight == 0
        && r.req.state != RequestState.RETIRING
        && !(r.req.generation() && r.multimodal);
  }

  // ------------------------------------------------------------------------------ §9.2

  /** What ends the first phase. */
  private enum End {
    NOTHING,
    /** No place or no tokens are left. */
    BATCH,
    /** No adapter pages or no pages are left. */
    PAGES
  }

  private void firstPhase() {
    int i = 0;
    End stop = End.NOTHING;
    while (i < end && stop == End.NOTHING) {
      stop = visit(i);
      i++;
    }
    if (stop != End.BATCH || !own()) {
      return;
    }
    for (; i < end; i++) { // D14
      Cached r = list.get(i);
      if (!recomputed.contains(r) && r.req.inFlight == 0 && r.req.receives()) {
        if (!adapterFits(r.req)) {
          return;
        }
        receive(r);
      }
    }
  }

  private End visit(int i) {
    Cached r = list.get(i);
    if (recomputed.contains(r) || r.req.inFlight > 0) {
      return End.NOTHING;
    }
    if (r.req.receives()) {
      if (!adapterFits(r.req)) {
        return End.PAGES;
      }
      receive(r);
      return End.NOTHING;
    }
    if (full()) {
      return End.BATCH;
    }
    if (!inRange(r.req)) {
      return End.NOTHING;
    }
    if (r.req.encoder() || r.req.context()) {
      later.add(r);
      return End.NOTHING;
    }
    return r.req.generation() ? generation(i, r) : End.NOTHING;
  }

  private void receive(Cached r) {
    if (prepareReceive(r)) {
      claim(r.req);
      receiving.add(r);
    }
  }

  private End generation(int i, Cached r) {
    long n = (long) r.req.beam + r.req.drafts;
    if (!adapterFits(r.req)) {
      return End.PAGES;
    }
    if (budget + n > maxTokens()) {
      return End.BATCH;
    }
    beam = beam == 0 ? r.req.beam : beam;
    if (r.req.beam != beam) {
      return End.NOTHING;
    }
    if (!allocateGeneration(r) && !evict(i, r) && !recompute(i, r)) {
      if (r.resident) {
        suspend(r);
      }
      return End.PAGES;
    }
    claim(r.req);
    budget += n;
    generations.add(r);
    return End.NOTHING;
  }

  private void suspend(Cached r) {
    r.resident = false;
    suspended.add(r);
    evicted.add(r);
  }

  /** §9.3: suspends from the tail. */
  private boolean evict(int i, Cached r) {
    for (int v = end - 1; v > i; v--) {
      Cached victim = list.get(v);
      if (victim.req.inFlight == 0
          && started(victim.req)
          && victim.tokens >= 0
          && victim.resident) {
        suspend(victim);
        end = v;
        if (allocateGeneration(r)) {
          return true;
        }
      }
    }
    return false;
  }

  /** §9.3: drops caches, newest first. */
  private boolean recompute(int i, Cached r) {
    if (rules.recompute() == LoopRules.Recompute.OFF) {
      return false;
    }
    while (true) {
      Cached victim = null;
      for (int k = frontier - 1; k > i && victim == null; k--) {
        Cached c = list.get(k);
        if (!recomputed.contains(c) && candidate(c) && (tier() || !evicted.contains(c))) {
          victim = c;
        }
      }
      if (victim == null && tier()) {
        victim = suspended.stream().filter(this::candidate).findFirst().orElse(null);
      }
      if (victim == null) {
        return false;
      }
      drop(victim);
      frontier = Math.min(frontier, list.indexOf(victim));
      if (allocateGeneration(r) || (tier() && evict(i, r))) {
        return true;
      }
    }
  }

  private void drop(Cached victim) {
    suspended.remove(victim);
    free(victim);
    recomputed.add(victim);
  }

  // ------------------------------------------------------------------------------ §9.4

  private void secondPhase() {
    Set<Long> keys = new HashSet<>();
    boolean delays =
        rules.prefixSharing() == PrefixSharing.ON && rules.reuse() == LoopRules.Reuse.AT_ONCE;
    if (delays) {
      list.stream()
          .filter(r -> r.req.inFlight > 0 && r.req.context() && !r.req.firstChunk())
          .forEach(r -> keys.add(r.req.key));
      keys.remove(0L);
    }
    for (Cached r : later) {
      if (full()) {
        return;
      }
      long left = maxTokens() - budget;
      Chunking chunking = rules.batch().chunking();
      boolean noUnit = chunking != Chunking.FORCE_CHUNK && left < rules.batch().chunkUnit();
      if (chunking != Chunking.NONE && r.req.context() && (left <= 0 || noUnit)) {
        continue;
      }
      if (recomputed.contains(r)) {
        continue;
      }
      if (r.req.firstChunk() && keys.contains(r.req.key)) {
        delayed = true;
        continue;
      }
      if (!adapterFits(r.req)) {
        continue;
      }
      if (r.req.encoder()) {
        if (r.req.encoderTokens > left) {
          return;
        }
        if (!cross) {
          throw new Naive.Refused("encoder");
        }
        claim(r.req);
        budget += r.req.encoderTokens;
        encoders.add(r);
        continue;
      }
      boolean first = r.req.firstChunk();
      int taken = contexts.size();
      boolean goesOn = chunking == Chunking.NONE ? whole(r) : chunk(r);
      if (contexts.size() > taken) {
        claim(r.req);
        if (delays && r.req.key != 0) {
          keys.add(r.req.key);
        }
      } else if (first && !recomputed.contains(r)) {
        free(r);
        r.req.cursor = 0;
        r.req.cached = 0;
      }
      if (!goesOn) {
        return;
      }
    }
  }

  private boolean whole(Cached r) {
    boolean first = r.req.firstChunk();
    int before = r.req.prompt - r.req.cursor;
    if (!prepareContext(r)) {
      return false;
    }
    int remaining = r.req.prompt - r.req.cursor;
    boolean countsAll = rules.prefixSharing() == PrefixSharing.OFF && first;
    long n = (long) (countsAll ? Math.max(before, remaining) : remaining) + r.req.drafts;
    if (budget + n > maxTokens()) {
      return false;
    }
    if (!resizeContext(r, remaining + r.req.drafts)) {
      return !preempt(r);
    }
    budget += n;
    contexts.add(new Context(r, r.req.cursor, remaining));
    return true;
  }

  private boolean chunk(Cached r) {
    boolean first = r.req.firstChunk();
    int before = r.req.prompt - r.req.cursor;
    if (!prepareContext(r)) {
      return true;
    }
    int remaining = r.req.prompt - r.req.cursor;
    boolean countsAll = rules.prefixSharing() == PrefixSharing.OFF && first;
    long want = countsAll ? Math.max(before, remaining) : remaining;
    if (rules.batch().chunking() == Chunking.FORCE_CHUNK) {
      int stop = r.req.prompt;
      for (int point : r.req.snapshots) {
        if (point > r.req.cursor) {
          stop = Math.min(stop, point);
        }
      }
      want = Math.min(want, (long) stop - r.req.cursor);
    }
    int contextLimit = rules.batch().maxContextTokens();
    long size = Math.min(want, maxTokens() - budget);
    if (contextLimit != BatchRules.NO_LIMIT) {
      size = Math.min(size, contextLimit);
    }
    if (size < want) {
      size = size / rules.batch().chunkUnit() * rules.batch().chunkUnit();
    }
    if (size <= 0) {
      return true;
    }
    int tokens = (int) Math.min(size, remaining);
    int drafts = tokens == remaining ? r.req.drafts : 0;
    if (!resizeContext(r, tokens + drafts)) {
      return !preempt(r);
    }
    budget += size + drafts;
    contexts.add(new Context(r, r.req.cursor, tokens));
    return true;
  }

  /** §9.5: true if a cache was dropped, whose pages come too late for this pass. */
  private boolean preempt(Cached requester) {
    if (tier() || rules.recompute() == LoopRules.Recompute.OFF) {
      return false;
    }
    for (int k = list.size() - 1; k >= 0; k--) {
      Cached r = list.get(k);
      boolean taken = generations.contains(r) || contexts.stream().anyMatch(c -> c.request() == r);
      if (r != requester
          && !taken
          && !recomputed.contains(r)
          && candidate(r)
          && r.tokens >= 0
          && r.resident) {
        drop(r);
        return true;
      }
    }
    return false;
  }

  private void sort() {
    Comparator<Cached> byAdapter = Comparator.comparingInt(r -> r.req.adapter);
    encoders.sort(byAdapter);
    generations.sort(byAdapter);
    Map<Context, Boolean> last = new HashMap<>();
    contexts.forEach(c -> last.put(c, c.position() + c.tokens() == c.request().req.prompt));
    Comparator<Context> contextsByAdapter = Comparator.comparingInt(c -> c.request().req.adapter);
    contexts.sort(
        last.containsValue(false)
            ? Comparator.<Context, Boolean>comparing(last::get).thenComparing(contextsByAdapter)
            : contextsByAdapter);
  }

  // ------------------------------------------------------------------------------ §9.8

  private boolean countsAsStall() {
    boolean output =
        !encoders.isEmpty()
            || !contexts.isEmpty()
            || !generations.isEmpty()
            || !receiving.isEmpty()
            || !suspended.isEmpty()
            || !recomputed.isEmpty();
    boolean pagesOnTheWay =
        list.stream()
            .anyMatch(r ->
                r.req.state == RequestState.CONTEXT_TRANSFER
                    || r.req.state == RequestState.CONTEXT_COMPLETE
                    || r.req.state == RequestState.GENERATION_TRANSFER);
    boolean work =
        !later.isEmpty()
            || list.stream()
                .anyMatch(r ->
                    r.req.generation()
                        && r.req.state != RequestState.RETIRING
                        && inRange(r.req)
                        && r.req.inFlight == 0);
    return !output && !delayed && !pagesOnTheWay && work;
  }
}
