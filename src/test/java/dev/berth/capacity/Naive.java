// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Both stages once more, written from the text of spec 02 §3 to §6 over plain collections, slow and
 * obvious. The differences of berth-1 are those that docs/policies.md numbers.
 */
final class Naive {
  /** A request with all that scheduling knows of it. */
  static final class Req {
    int row;
    RequestState state = RequestState.CONTEXT_INIT;
    int prompt = 1;
    int cursor;
    int cached;
    int generated;
    int drafts;
    int beam = 1;
    int adapter = -1;
    int inFlight;
    boolean awaitsEncoder;
    int encoderTokens;
    int reusable;
    long key;
    long crossKey;
    int[] snapshots = {};
    int[] remaining = {};
    int[] oneStep = {};
    int[] twoStep = {};
    int[] credit = {};
    int[][] held = {};

    boolean context() {
      return state == RequestState.CONTEXT_INIT || state == RequestState.CONTEXT_INIT_AND_TRANSFER;
    }

    boolean generation() {
      return state == RequestState.GENERATION_TRANSFER_COMPLETE
          || state == RequestState.GENERATION
          || state == RequestState.RETIRING;
    }

    boolean encoder() {
      return state == RequestState.ENCODER_INIT;
    }

    boolean receives() {
      return state == RequestState.GENERATION_INIT;
    }

    boolean firstChunk() {
      return context() && cursor == cached;
    }
  }

  /** The pools: free pages, all pages (-1 unknown), which of them are the cross cache's. */
  record Pools(long[] free, long[] total, int self) {
    boolean cross() {
      return free.length > self;
    }
  }

  record Plan(List<Req> fitting, List<Req> receiving, List<Req> paused) {
    void take(Req req) {
      (req.receives() ? receiving : fitting).add(req);
    }

    int taken() {
      return fitting.size() + receiving.size();
    }
  }

  record Chunk(Req req, int tokens, int drafts) {}

  record Batch(List<Req> encoders, List<Chunk> contexts, List<Req> generations, long tokens) {}

  /** What upstream reports as an error of the whole call. */
  static final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Refused(String message) {
      super(message);
    }
  }

  private Naive() {}

  // ------------------------------------------------------------------------------ capacity

  static Plan capacity(
      List<Req> list,
      Pools pools,
      int[] adapterPages,
      CapacityRules rules,
      Optional<BatchRules> batchToo) {
    CapacityRule rule = pools.free().length == 0 ? CapacityRule.MAX_REQUESTS : rules.rule();
    Pass pass = new Pass(list, pools, adapterPages, rules, batchToo);
    switch (rule) {
      case MAX_REQUESTS -> pass.maxRequests();
      case GUARANTEED_NO_EVICT -> pass.toCompletion(false);
      case STATIC_BATCH -> pass.toCompletion(true);
      case MAX_UTILIZATION -> pass.maxUtilization();
    }
    return pass.plan;
  }

  private static final class Pass {
    final List<Req> list;
    final Pools pools;
    final int[] adapterPages;
    final CapacityRules rules;
    final boolean own;
    final Optional<BatchRules> batchToo;
    final boolean delays;
    final boolean selfReuse;
    final boolean crossReuse;
    final Plan plan = new Plan(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
    final Set<Long> selfKeys = new HashSet<>();
    final Set<Long> crossKeys = new HashSet<>();
    final Set<Integer> adapters = new HashSet<>();
    long adaptersClaimed;
    int transfers;

    Pass(
        List<Req> list,
        Pools pools,
        int[] adapterPages,
        CapacityRules rules,
        Optional<BatchRules> batchToo) {
      this.list = list;
      this.pools = pools;
      this.adapterPages = adapterPages;
      this.rules = rules;
      this.own = rules.set() == PolicySet.BERTH_1;
      this.batchToo = batchToo;
      this.selfReuse = rules.traits().contains(CacheTrait.SELF_REUSE);
      this.crossReuse = pools.cross() && rules.traits().contains(CacheTrait.CROSS_REUSE);
      this.delays =
          rules.prefixSharing() == PrefixSharing.ON
              && !rules.traits().contains(CacheTrait.SELF_VARIABLE_WINDOW)
              && !(pools.cross() && rules.traits().contains(CacheTrait.CROSS_VARIABLE_WINDOW));
    }

    boolean inRange(Req req) {
      int state = req.state.value();
      boolean kind = req.encoder() || req.context() || req.generation();
      return state >= rules.rangeBegin()
          && state < rules.rangeEnd()
          && (kind || !own)
          && !(req.context() && req.awaitsEncoder);
    }

    int admitted() {
      return plan.taken() + transfers;
    }

    // ---- prefixes

    void seed(boolean cross) {
      for (Req req : list) {
        boolean running = req.context() && !req.firstChunk();
        boolean counts = own ? req.inFlight > 0 : !(batchToo.isPresent() && req.awaitsEncoder);
        if (running && counts) {
          register(req, cross);
        }
      }
    }

    void register(Req req, boolean cross) {
      if (selfReuse && req.key != 0) {
        selfKeys.add(req.key);
      }
      if (cross && crossReuse && req.crossKey != 0) {
        crossKeys.add(req.crossKey);
      }
    }

    boolean delayed(Req req, boolean cross) {
      if (!delays || !req.firstChunk()) {
        return false;
      }
      if (selfReuse && req.key != 0 && selfKeys.contains(req.key)) {
        return true;
      }
      if (cross && crossReuse && req.crossKey != 0 && crossKeys.contains(req.crossKey)) {
        return true;
      }
      if (!own) {
        register(req, cross);
      }
      return false;
    }

    void take(Req req, boolean cross) {
      plan.take(req);
      claim(req);
      if (own && delays && req.context()) {
        register(req, cross);
      }
    }

    // ---- adapters

    int newPages(Req req) {
      return req.adapter < 0 || adapters.contains(req.adapter) ? 0 : adapterPages[req.adapter];
    }

    boolean adapterFits(Req req) {
      return rules.adapterPages() < 0
          || (own && newPages(req) == 0)
          || adaptersClaimed + newPages(req) <= rules.adapterPages();
    }

    void claim(Req req) {
      if (rules.adapterPages() >= 0) {
        adaptersClaimed += newPages(req);
        if (req.adapter >= 0) {
          adapters.add(req.adapter);
        }
      }
    }

    // ---- pages

    long need(Req req, int pool, int[] pages) {
      boolean credited = rules.prefixSharing() == PrefixSharing.ON || !req.firstChunk();
      return (long) pages[pool] - (credited ? req.credit[pool] : 0);
    }

    boolean fits(Req req, int[] pages, long[] used, long[] free) {
      for (int p = 0; p < free.length; p++) {
        long need = need(req, p, pages);
        if (used[p] + need > free[p] && !(own && need <= 0)) {
          return false;
        }
      }
      return true;
    }

    boolean hopeless(Req req, int[] pages) {
      for (int p = 0; p < pools.total().length; p++) {
        long total = pools.total()[p];
        boolean fresh = req.firstChunk() || req.receives();
        if (own
            && total >= 0
            && (need(req, p, pages) > total || (fresh && req.remaining[p] > total))) {
          return true;
        }
      }
      return false;
    }

    boolean neverRuns(Req req) {
      return own && batchToo.map(batch -> tooLong(req, batch)).orElse(false);
    }

    void maxRequests() {
      for (Req req : list) {
        if (!inRange(req)) {
          continue;
        }
        if (plan.taken() >= rules.maxRequests()) {
          return;
        }
        if (req.encoder() || req.context() || req.generation()) {
          plan.take(req);
        }
      }
    }

    void toCompletion(boolean staticBatch) {
      boolean cross = pools.cross();
      if (delays && !staticBatch) {
        seed(cross);
      }
      long[] free = pools.free().clone();
      List<Req> receiving = new ArrayList<>();
      List<Req> others = new ArrayList<>();
      List<Req> running = new ArrayList<>();
      for (Req req : list) {
        if (!req.receives() && !inRange(req)) {
          if (own && req.state == RequestState.RETIRING) {
            claim(req);
          }
          if (own && req.state == RequestState.GENERATION_TRANSFER) {
            transfers++;
            reserve(req, free);
          }
          continue;
        }
        if (admitted() + running.size() >= rules.maxRequests()) {
          takeRunning(running, delays && !staticBatch, cross);
          return; // nothing more can be admitted by the second pass either
        }
        if (req.generation()) {
          plan.take(req);
          reserve(req, free);
        } else if (own && req.context() && !req.firstChunk()) {
          reserve(req, free);
          running.add(req);
        } else {
          (req.receives() ? receiving : others).add(req);
        }
      }
      takeRunning(running, delays && !staticBatch, cross);
      if (staticBatch && (own ? admitted() : plan.taken()) > 0) {
        return;
      }
      pending(receiving, free, !staticBatch, cross);
      pending(others, free, !staticBatch, cross);
    }

    void takeRunning(List<Req> running, boolean mayDelay, boolean cross) {
      for (Req req : running) {
        plan.take(req);
        if (mayDelay) {
          register(req, cross);
        }
      }
    }

    void reserve(Req req, long[] free) {
      for (int p = 0; p < free.length; p++) {
        free[p] -= req.remaining[p] - req.credit[p];
      }
      claim(req);
    }

    void pending(List<Req> waiting, long[] free, boolean mayDelay, boolean cross) {
      for (Req req : waiting) {
        if (req.encoder() && !cross) {
          throw new Refused("encoder");
        }
        if (mayDelay && !req.receives() && delayed(req, cross)) {
          continue;
        }
        if (admitted() >= rules.maxRequests()) {
          return;
        }
        if (!req.encoder() && !req.context() && !req.receives()) {
          continue;
        }
        if (neverRuns(req)) {
          continue;
        }
        if (!req.encoder()) {
          if (hopeless(req, req.remaining)) {
            continue;
          }
          if (!fits(req, req.remaining, new long[free.length], free)) {
            return;
          }
        }
        if (!adapterFits(req)) {
          continue;
        }
        if (mayDelay) {
          take(req, cross);
        } else {
          plan.take(req);
          claim(req);
        }
        if (!req.encoder()) {
          for (int p = 0; p < free.length; p++) {
            free[p] -= need(req, p, req.remaining);
          }
        }
      }
    }

    void maxUtilization() {
      if (delays) {
        seed(false);
      }
      long[] free = pools.free().clone();
      long[] used = new long[free.length];
      Map<Integer, Map<Integer, Integer>> references = references();
      if (own) {
        list.stream()
            .filter(r -> r.state == RequestState.RETIRING && !inRange(r))
            .forEach(this::claim);
      }
      List<Req> rest = new ArrayList<>(list);
      int i = 0;
      while (i < rest.size()) {
        Req req = rest.get(i);
        int[] step = rules.lookahead() == Lookahead.TWO_STEPS ? req.twoStep : req.oneStep;
        if (!req.receives() && !inRange(req)) {
          if (own && req.state == RequestState.GENERATION_TRANSFER) {
            transfers++;
            if (adapterFits(req)) {
              claim(req);
            }
          }
          i++;
          continue;
        }
        if (req.encoder() && !pools.cross()) {
          throw new Refused("encoder");
        }
        if (delayed(req, false)) {
          i++;
          continue;
        }
        if ((!req.generation() && neverRuns(req)) || (!req.encoder() && hopeless(req, step))) {
          i++;
          continue;
        }
        boolean full = admitted() >= rules.maxRequests();
        boolean pages = req.encoder() || fits(req, step, used, free);
        if (!full && pages && adapterFits(req)) {
          take(req, false);
          for (int p = 0; p < free.length && !req.encoder(); p++) {
            used[p] += need(req, p, step);
          }
          i++;
          continue;
        }
        if (own && full) {
          return;
        }
        if (own && pages) {
          i++;
          continue;
        }
        int from = i;
        Optional<Req> victim =
            rest.stream()
                .skip(from)
                .filter(r -> inRange(r) && (r.generation() || (r.context() && !r.firstChunk())))
                .filter(r -> !(own && r.inFlight > 0))
                .reduce((a, b) -> b);
        if (victim.isEmpty()) {
          return;
        }
        release(victim.get(), free, references);
        plan.paused().add(victim.get());
        rest = new ArrayList<>(rest.subList(0, rest.indexOf(victim.get())));
      }
    }

    Map<Integer, Map<Integer, Integer>> references() {
      Map<Integer, Map<Integer, Integer>> references = new HashMap<>();
      for (Req req : list) {
        for (int p = 0; p < req.held.length; p++) {
          for (int page : req.held[p]) {
            references.computeIfAbsent(p, k -> new HashMap<>()).merge(page, 1, Integer::sum);
          }
        }
      }
      return references;
    }

    void release(Req req, long[] free, Map<Integer, Map<Integer, Integer>> references) {
      for (int p = 0; p < req.held.length; p++) {
        for (int page : req.held[p]) {
          if (references.getOrDefault(p, Map.of()).getOrDefault(page, 0) == 1) {
            free[p]++;
          }
          references.getOrDefault(p, new HashMap<>()).merge(page, -1, Integer::sum);
        }
      }
    }
  }

  // ------------------------------------------------------------------------------ batch

  private static int cost(Req req, int chunk) {
    int reuse = req.firstChunk() ? req.reusable : 0;
    int rest = req.prompt - req.cursor;
    return reuse <= 0 || reuse + chunk < rest ? chunk : Math.max(0, rest - reuse);
  }

  /** Longer than any batch takes. */
  private static boolean tooLong(Req req, BatchRules rules) {
    int limit = rules.maxTokens() == 0 ? Integer.MAX_VALUE : rules.maxTokens();
    int context = rules.maxContextTokens() == 0 ? limit : Math.min(limit, rules.maxContextTokens());
    if (req.encoder()) {
      return req.encoderTokens > context;
    }
    if (req.context()) {
      return rules.chunking() == Chunking.NONE
          && Math.max(1, cost(req, req.prompt + req.generated) + req.drafts) > context;
    }
    return req.generation() && req.beam + req.drafts > limit;
  }

  static Batch batch(List<Req> list, BatchRules rules) {
    boolean own = rules.set() == PolicySet.BERTH_1;
    long limit = rules.maxTokens() == 0 ? Integer.MAX_VALUE : rules.maxTokens();
    long contextLimit =
        rules.maxContextTokens() == 0 ? Integer.MAX_VALUE : rules.maxContextTokens();
    List<Req> encoders = new ArrayList<>();
    List<Chunk> contexts = new ArrayList<>();
    List<Req> generations = new ArrayList<>();
    List<Req> chunked = new ArrayList<>();
    long tokens = 0;
    long chunkTokens = 0;
    long chunkCost = 0;
    boolean allFit = true;
    int beam = 0;
    int places = 0;
    for (Req req : list) {
      int state = req.state.value();
      if (req.inFlight > 0
          || (req.context() && req.awaitsEncoder)
          || state < rules.rangeBegin()
          || state >= rules.rangeEnd()) {
        continue;
      }
      boolean context =
          req.state == RequestState.CONTEXT_INIT
              || (own && req.state == RequestState.CONTEXT_INIT_AND_TRANSFER);
      int rest = req.prompt - req.cursor;
      if (context && rules.chunking() != Chunking.NONE) {
        boolean toTheToken =
            rules.chunking() == Chunking.FIRST_COME_FIRST_SERVED && rules.chunkUnit() == 1;
        if (own && toTheToken && tokens + chunkCost >= limit) {
          continue;
        }
        chunkCost += Math.min(cost(req, rest), contextLimit);
        long n = (long) cost(req, rest) + req.drafts;
        if (n > contextLimit) {
          n = contextLimit;
          allFit = false;
        }
        chunked.add(req);
        chunkTokens += n;
      } else {
        boolean generation = !req.encoder() && !context;
        if (generation && own && !req.generation()) {
          continue;
        }
        long n =
            req.encoder()
                ? req.encoderTokens
                : context
                    ? Math.max(1, cost(req, req.prompt + req.generated) + req.drafts)
                    : req.beam + req.drafts;
        if (!generation && n > contextLimit && !own) {
          throw new Refused("too long");
        }
        if (own && tooLong(req, rules)) {
          continue;
        }
        if (tokens + n > limit) {
          if (own && generation) {
            continue;
          }
          break;
        }
        if (generation) {
          beam = beam == 0 ? req.beam : beam;
          if (req.beam != beam) {
            continue;
          }
          generations.add(req);
        } else if (req.encoder()) {
          encoders.add(req);
        } else {
          contexts.add(new Chunk(req, rest, req.drafts));
        }
        tokens += n;
      }
      places++;
      if (places >= rules.maxBatchSize()) {
        break;
      }
    }
    if (chunkTokens > limit - tokens || rules.chunking() == Chunking.FORCE_CHUNK) {
      allFit = false;
    }
    Map<Req, Integer> chunks = new LinkedHashMap<>();
    Map<Req, Integer> drafts = new HashMap<>();
    chunked.forEach(req -> chunks.put(req, req.prompt - req.cursor));
    chunked.forEach(req -> drafts.put(req, req.drafts));
    if (!allFit && !chunked.isEmpty()) {
      long capacity = limit == Integer.MAX_VALUE ? Integer.MAX_VALUE : limit - tokens;
      chunked.forEach(req -> chunks.put(req, 0));
      divide(chunked, chunks, capacity, contextLimit, rules);
      trim(chunked, chunks, drafts, capacity, contextLimit, rules.chunkUnit());
    }
    for (Req req : chunked) {
      int chunk = chunks.getOrDefault(req, 0);
      if (chunk > 0) {
        contexts.add(new Chunk(req, chunk, drafts.getOrDefault(req, 0)));
        tokens += cost(req, chunk);
      }
    }
    boolean split = !allFit;
    Comparator<Chunk> order =
        Comparator.comparing((Chunk c) -> split && c.tokens() == c.req().prompt - c.req().cursor);
    contexts.sort(order.thenComparingInt(c -> c.req().adapter));
    encoders.sort(Comparator.comparingInt(req -> req.adapter));
    generations.sort(Comparator.comparingInt(req -> req.adapter));
    return new Batch(encoders, contexts, generations, tokens);
  }

  private static void divide(
      List<Req> list,
      Map<Req, Integer> chunks,
      long capacity,
      long contextLimit,
      BatchRules rules) {
    int unit = rules.chunkUnit();
    switch (rules.chunking()) {
      case EQUAL_PROGRESS -> {
        long used = 0;
        boolean moved = true;
        while (moved && used < capacity) {
          moved = false;
          for (Req req : list) {
            int chunk = chunks.getOrDefault(req, 0);
            int candidate = Math.min(chunk + unit, req.prompt - req.cursor);
            int delta = cost(req, candidate) - cost(req, chunk);
            if (used + delta <= capacity && candidate <= contextLimit) {
              used += delta;
              moved |= candidate > chunk;
              chunks.put(req, candidate);
            }
          }
        }
      }
      case FIRST_COME_FIRST_SERVED -> {
        long left = capacity;
        for (Req req : list) {
          int want = req.prompt - req.cursor;
          long chunk = left < cost(req, want) ? left : want;
          if (cost(req, (int) chunk) > contextLimit) {
            chunk = Math.min(contextLimit, want);
          }
          if (chunk < want) {
            chunk = chunk / unit * unit;
          }
          chunks.put(req, (int) chunk);
          left -= left == Integer.MAX_VALUE ? 0 : cost(req, (int) chunk);
        }
      }
      case FORCE_CHUNK -> {
        if (unit > contextLimit) {
          throw new Refused("unit");
        }
        long total = 0;
        for (Req req : list) {
          int stop = req.prompt;
          for (int point : req.snapshots) {
            if (point > req.cursor) {
              stop = Math.min(stop, point);
            }
          }
          long target = (long) stop - req.cursor;
          if (target > contextLimit) {
            target = contextLimit / unit * unit;
          }
          if (total + target > capacity) {
            target = Math.min(target, capacity - total) / unit * unit;
          }
          chunks.put(req, (int) target);
          total += target;
        }
      }
      case NONE -> throw new IllegalStateException("nothing to divide");
    }
  }

  private static void trim(
      List<Req> list,
      Map<Req, Integer> chunks,
      Map<Req, Integer> drafts,
      long capacity,
      long contextLimit,
      int unit) {
    long total = list.stream().mapToLong(r -> cost(r, chunks.getOrDefault(r, 0))).sum();
    for (Req req : list) {
      int chunk = chunks.getOrDefault(req, 0);
      if (chunk == req.prompt - req.cursor && req.drafts > 0) {
        long space = Math.floorMod(-chunk, unit);
        long keep = Math.min(req.drafts, Math.max(0, Math.min(space, contextLimit - chunk)));
        if (capacity != Integer.MAX_VALUE) {
          keep = Math.max(0, Math.min(keep, capacity - total));
        }
        drafts.put(req, (int) keep);
        total += keep;
      }
    }
  }
}
