// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.random.RandomGenerator;

/** Random requests, pools and rules: every state, every shortage, every trait. */
final class RandomTables {
  static final int ADAPTERS = 4;
  private static final int PAGE_IDS = 48;

  /** A random case. */
  record Case(
      List<Naive.Req> requests,
      Naive.Pools pools,
      int[] adapterPages,
      CapacityRules capacity,
      BatchRules batch) {

    /** The same in a table. */
    SchedulingTable table() {
      Pool[] list = new Pool[pools.free().length];
      for (int p = 0; p < list.length; p++) {
        list[p] =
            (p < pools.self() ? Pool.self(64, pools.total()[p]) : Pool.cross(64, pools.total()[p]))
                .withPageIds(PAGE_IDS);
      }
      SchedulingTable table =
          new SchedulingTable(
              TableShape.of(requests.size(), list)
                  .withAdapters(ADAPTERS)
                  .withHeldPages(PAGE_IDS)
                  .withSnapshotPoints(4));
      for (int p = 0; p < list.length; p++) {
        table.freePages(p, pools.free()[p]);
      }
      for (int a = 0; a < ADAPTERS; a++) {
        table.adapterPages(a, adapterPages[a]);
      }
      for (Naive.Req r : requests) {
        describe(table, r);
        for (int p = 0; p < list.length; p++) {
          table.demand(r.row, p, r.remaining[p], r.oneStep[p], r.twoStep[p], r.credit[p]);
          table.held(r.row, p, r.held[p], r.held[p].length);
        }
        table.markDirty(r.row);
        table.enter(r.row);
      }
      return table;
    }
  }

  /** A random case of the one loop. */
  record LoopCase(
      List<NaiveLoop.Cached> requests, int[] adapterPages, boolean cross, LoopRules rules) {

    /** The same in a table. */
    SchedulingTable table() {
      Pool self = Pool.self(64, Pool.UNKNOWN);
      Pool[] pools = cross ? new Pool[] {self, Pool.cross(64, Pool.UNKNOWN)} : new Pool[] {self};
      SchedulingTable table =
          new SchedulingTable(
              TableShape.of(requests.size(), pools).withAdapters(ADAPTERS).withSnapshotPoints(4));
      for (int a = 0; a < ADAPTERS; a++) {
        table.adapterPages(a, adapterPages[a]);
      }
      for (NaiveLoop.Cached cached : requests) {
        describe(table, cached.req);
        if (cached.tokens >= 0) {
          table.cache(
              cached.req.row,
              cached.tokens,
              cached.resident
                  ? SchedulingTable.Residency.RESIDENT
                  : SchedulingTable.Residency.SUSPENDED);
        }
        table.prepareTokens(cached.req.row, cached.found);
        if (cached.multimodal) {
          table.multimodal(cached.req.row);
        }
        table.markDirty(cached.req.row);
        table.enter(cached.req.row);
      }
      return table;
    }
  }

  /** For whoever looks into a failure. */
  static String text(LoopCase c) {
    StringBuilder text =
        new StringBuilder(c.rules() + " adapters " + Arrays.toString(c.adapterPages()));
    for (NaiveLoop.Cached r : c.requests()) {
      text.append(
          "\n  row %d %s %d/%d cached %d drafts %d beam %d adapter %d flight %d key %d cache %d %b finds %d"
              .formatted(
                  r.req.row,
                  r.req.state,
                  r.req.cursor,
                  r.req.prompt,
                  r.req.cached,
                  r.req.drafts,
                  r.req.beam,
                  r.req.adapter,
                  r.req.inFlight,
                  r.req.key,
                  r.tokens,
                  r.resident,
                  r.found));
    }
    return text.toString();
  }

  /** All that both kinds of tables say of a request. */
  private static void describe(SchedulingTable table, Naive.Req r) {
    table.begin(r.row, r.row, r.state, r.prompt, 9);
    table.context(r.row, r.cursor, r.cached);
    table.generatedTokens(r.row, r.generated);
    table.draftTokens(r.row, r.drafts);
    table.beamWidth(r.row, r.beam);
    table.adapter(r.row, r.adapter);
    table.inFlight(r.row, r.inFlight);
    if (r.awaitsEncoder) {
      table.awaitEncoder(r.row);
    }
    table.encoderTokens(r.row, r.encoderTokens);
    table.reusableTokens(r.row, r.reusable);
    table.firstBlock(r.row, r.key);
    table.crossFirstBlock(r.row, r.crossKey);
    table.snapshotPoints(r.row, r.snapshots);
  }

  private final RandomGenerator random;

  RandomTables(RandomGenerator random) {
    this.random = random;
  }

  private boolean chance(int percent) {
    return random.nextInt(100) < percent;
  }

  Case next(PolicySet set) {
    boolean steady = chance(25); // nearly all are generations about which nothing is special
    int self = steady ? 1 : chance(10) ? 0 : 1 + random.nextInt(2);
    int cross = !steady && self > 0 && chance(25) ? 1 : 0;
    int pools = self + cross;
    boolean encoders = chance(20);
    int size = 1 + random.nextInt(chance(20) ? 60 : 12);
    List<Naive.Req> requests = new ArrayList<>();
    for (int row = 0; row < size; row++) {
      Naive.Req r = request(row, pools, encoders && cross > 0);
      requests.add(steady && chance(90) ? plain(r) : r);
    }
    long[] free = new long[pools];
    long[] total = new long[pools];
    for (int p = 0; p < pools; p++) {
      free[p] = random.nextInt(chance(30) ? 4 : 60);
      int pool = p;
      long held =
          requests.stream().flatMapToInt(r -> Arrays.stream(r.held[pool])).distinct().count();
      total[p] = chance(40) ? Pool.UNKNOWN : Math.max(free[p] + held, random.nextInt(40));
    }
    int[] adapterPages = random.ints(ADAPTERS, 0, 5).toArray();
    CapacityRules capacity = capacity(set, encoders, size);
    return new Case(
        requests,
        new Naive.Pools(free, total, self),
        adapterPages,
        capacity,
        batch(set, capacity.rangeBegin()));
  }

  LoopCase nextLoop(PolicySet set) {
    boolean cross = chance(25);
    boolean encoders = chance(25);
    int size = 1 + random.nextInt(chance(20) ? 40 : 12);
    int tokensPerBlock = 1 + random.nextInt(8);
    List<NaiveLoop.Cached> requests = new ArrayList<>();
    int caches = 0;
    int pages = 0;
    for (int row = 0; row < size; row++) {
      NaiveLoop.Cached cached = cached(request(row, 1, encoders));
      requests.add(cached);
      if (cached.tokens >= 0) {
        caches++;
        pages += (cached.tokens + tokensPerBlock - 1) / tokensPerBlock;
      }
    }
    int begin = encoders ? CapacityRules.ENCODER_INIT : CapacityRules.CONTEXT_INIT;
    LoopRules rules =
        new LoopRules(
            batch(set, begin),
            chance(30) ? PrefixSharing.OFF : PrefixSharing.ON,
            LoopRules.Reuse.values()[random.nextInt(3)],
            chance(60) ? CapacityRules.NO_ADAPTERS : random.nextInt(12),
            chance(50) ? LoopRules.Recompute.ON : LoopRules.Recompute.OFF,
            chance(50) ? LoopRules.Tier.BELOW : LoopRules.Tier.NONE,
            tokensPerBlock,
            1 + random.nextInt(pages + (chance(50) ? 20 : 2)),
            1 + random.nextInt(caches + 4));
    return new LoopCase(requests, random.ints(ADAPTERS, 0, 5).toArray(), cross, rules);
  }

  private NaiveLoop.Cached cached(Naive.Req r) {
    NaiveLoop.Cached cached = new NaiveLoop.Cached(r);
    cached.multimodal = chance(10);
    cached.found = chance(50) ? 0 : random.nextInt(r.prompt);
    boolean holds = r.generation() || (r.context() && !r.firstChunk());
    if (chance(holds ? 90 : 10)) {
      cached.tokens = r.cursor + r.generated + random.nextInt(4);
      cached.resident = chance(75);
    }
    return cached;
  }

  private CapacityRules capacity(PolicySet set, boolean encoders, int size) {
    Set<CacheTrait> traits = EnumSet.noneOf(CacheTrait.class);
    for (CacheTrait trait : CacheTrait.values()) {
      boolean window =
          trait == CacheTrait.SELF_VARIABLE_WINDOW || trait == CacheTrait.CROSS_VARIABLE_WINDOW;
      if (chance(window ? 10 : 60)) {
        traits.add(trait);
      }
    }
    CapacityRule[] rules = CapacityRule.values();
    return new CapacityRules(
        set,
        rules[random.nextInt(rules.length)],
        1 + random.nextInt(chance(50) ? 100 : size + 1),
        chance(30) ? Lookahead.TWO_STEPS : Lookahead.ONE_STEP,
        encoders ? CapacityRules.ENCODER_INIT : CapacityRules.CONTEXT_INIT,
        chance(50) ? CapacityRules.RETIRING : CapacityRules.COMPLETE,
        chance(20) ? PrefixSharing.OFF : PrefixSharing.ON,
        traits,
        chance(60) ? CapacityRules.NO_ADAPTERS : random.nextInt(12));
  }

  private BatchRules batch(PolicySet set, int rangeBegin) {
    Chunking chunking = Chunking.values()[random.nextInt(4)];
    int unit = 1 + random.nextInt(16);
    int least = set == PolicySet.BERTH_1 ? unit : 1;
    int tokens = chance(20) ? BatchRules.NO_LIMIT : least + random.nextInt(120);
    int context = chance(50) ? BatchRules.NO_LIMIT : least + random.nextInt(80);
    return new BatchRules(
        set,
        1 + random.nextInt(chance(50) ? 64 : 8),
        tokens,
        context,
        chunking,
        unit,
        rangeBegin,
        CapacityRules.RETIRING);
  }

  private Naive.Req request(int row, int pools, boolean encoders) {
    Naive.Req r = new Naive.Req();
    r.row = row;
    r.state = state(encoders);
    r.prompt = 1 + random.nextInt(60);
    if (r.context()) {
      r.cached = chance(70) ? 0 : random.nextInt(r.prompt);
      r.cursor = chance(60) ? r.cached : r.cached + random.nextInt(r.prompt - r.cached);
    } else if (r.generation()) {
      r.cursor = r.prompt;
      r.generated = 1 + random.nextInt(20);
    }
    r.drafts = chance(60) ? 0 : random.nextInt(9);
    r.beam = chance(85) ? 1 : 2;
    r.adapter = chance(60) ? -1 : random.nextInt(ADAPTERS);
    r.inFlight = chance(85) ? 0 : 1;
    r.awaitsEncoder = r.context() && chance(8);
    r.encoderTokens = r.encoder() ? 1 + random.nextInt(50) : 0;
    r.reusable = r.context() && chance(40) ? random.nextInt(60) : 0;
    r.key = r.context() && chance(60) ? 1 + random.nextInt(6) : 0;
    r.crossKey = r.context() && chance(40) ? 1 + random.nextInt(6) : 0;
    r.snapshots = random.ints(random.nextInt(4), 1, 60).sorted().distinct().toArray();
    r.remaining = new int[pools];
    r.oneStep = new int[pools];
    r.twoStep = new int[pools];
    r.credit = new int[pools];
    r.held = new int[pools][];
    for (int p = 0; p < pools; p++) {
      r.remaining[p] = random.nextInt(10);
      boolean running = r.context() && !r.firstChunk();
      r.oneStep[p] = running ? 0 : random.nextInt(r.generation() ? 3 : 8);
      r.twoStep[p] = running ? 0 : r.oneStep[p] + random.nextInt(2);
      r.credit[p] = r.firstChunk() ? random.nextInt(Math.min(r.remaining[p], r.oneStep[p]) + 1) : 0;
      boolean holds = running || r.generation();
      r.held[p] =
          holds ? random.ints(random.nextInt(6), 0, PAGE_IDS).distinct().toArray() : new int[0];
    }
    return r;
  }

  /** The same request as a generation without adapter, beams, credit or a batch in flight. */
  private Naive.Req plain(Naive.Req r) {
    r.state = RequestState.GENERATION;
    r.cursor = r.prompt;
    r.cached = 0;
    r.generated = 1 + random.nextInt(20);
    r.beam = 1;
    r.adapter = -1;
    r.inFlight = 0;
    r.awaitsEncoder = false;
    r.encoderTokens = 0;
    r.reusable = 0;
    r.oneStep = new int[] {random.nextInt(3)};
    r.twoStep = new int[] {r.oneStep[0] + random.nextInt(2)};
    r.credit = new int[] {0};
    return r;
  }

  private RequestState state(boolean encoders) {
    int kind = random.nextInt(100);
    if (kind < 40) {
      return RequestState.CONTEXT_INIT;
    } else if (kind < 75) {
      return RequestState.GENERATION;
    } else if (kind < 80) {
      return RequestState.GENERATION_INIT;
    } else if (kind < 85) {
      return RequestState.RETIRING;
    } else if (kind < 88) {
      return RequestState.GENERATION_TRANSFER;
    }
    RequestState[] states = RequestState.values();
    RequestState state = states[random.nextInt(states.length)];
    return state == RequestState.ENCODER_INIT && !encoders ? RequestState.CONTEXT_INIT : state;
  }
}
