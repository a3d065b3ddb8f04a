// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvCache;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvOps;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvScope;
import dev.berth.kv.KvSizes;
import dev.berth.kv.KvStatus;
import dev.berth.kv.KvSteps;
import dev.berth.kv.KvTables;
import dev.berth.plan.BenchSizes;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Workloads W2, W3 and W6 as ratios: a native limit probe and the KV cache, through FFM, take turns
 * in one thread, so that whatever else the machine does hits both. Prints CPU time, best and
 * median.
 */
public final class KvRatio {
  private static final int BLOCK = 32;
  private static final KvLayout LAYOUT =
      KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));

  private KvRatio() {}

  /** One turn: CPU time is measured around it; returns something that depends on the work. */
  private interface Turn {
    long run() throws Throwable;
  }

  /** Runs it. */
  public static void main(String[] args) throws Throwable {
    System.out.println(
        "                                      probe best/median       ours best/median   ratio best/median");
    pages();
    decode();
    prefixes();
    tables();
    churnedHit();
  }

  private static void report(
      String name, int turns, double operations, String unit, double scale, Turn probe, Turn ours)
      throws Throwable {
    double[] floor = new double[turns];
    double[] mine = new double[turns];
    long sum = 0;
    for (int turn = -turns / 3; turn < turns; turn++) {
      long start = BenchLibrary.cpuNanos();
      sum += probe.run();
      long middle = BenchLibrary.cpuNanos();
      sum += ours.run();
      long end = BenchLibrary.cpuNanos();
      if (turn >= 0) {
        floor[turn] = (middle - start) / operations / scale;
        mine[turn] = (end - middle) / operations / scale;
      }
    }
    Arrays.sort(floor);
    Arrays.sort(mine);
    int half = turns / 2;
    System.out.printf(
        "%-34s %8.2f /%8.2f %s   %8.2f /%8.2f %s   %6.2f /%6.2f%s%n",
        name,
        floor[0],
        floor[half],
        unit,
        mine[0],
        mine[half],
        unit,
        mine[0] / floor[0],
        mine[half] / floor[half],
        sum == 42 ? " " : "");
  }

  private static void ok(KvStatus status) {
    if (status != KvStatus.OK) {
      throw new IllegalStateException(status.toString());
    }
  }

  // ------------------------------------------------------------------------------ W2

  private static void pages() throws Throwable {
    int sequences = 1024;
    int blocks = 512;
    MethodHandle create =
        BenchLibrary.function(
            "berth_bench_pages_create",
            FunctionDescriptor.of(ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT));
    MethodHandle run =
        BenchLibrary.function(
            "berth_bench_pages_run",
            FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, JAVA_INT, JAVA_INT));
    var probe = (MemorySegment) create.invokeExact(1 << 20, sequences, blocks);
    KvConfig config = KvConfig.of(BenchSizes.leases(sequences), blocks, 0);
    int n = 512;
    try (var cache = KvCache.create(LAYOUT, config, KvSizes.device(1 << 20));
        Arena arena = Arena.ofConfined()) {
      MemorySegment victims = arena.allocate(JAVA_INT, n);
      var random = new SplittableRandom(7);
      for (int i = 0; i < n; i++) {
        victims.setAtIndex(JAVA_INT, i, random.nextInt(sequences));
      }
      KvOps ops = cache.newOps(4);
      long[] live = new long[sequences];
      cache.tokens().set(JAVA_INT, 0, 1);
      for (int s = 0; s < sequences; s++) {
        live[s] = begin(cache, ops, s, blocks);
      }
      // Age the free list.
      for (int i = 0; i < 8192; i++) {
        int s = random.nextInt(sequences);
        ops.clear();
        ops.close(live[s]);
        ok(cache.apply(ops));
        live[s] = begin(cache, ops, s, blocks);
      }
      KvSteps step = KvSteps.ofCapacity(1);
      report(
          "W2 bulk, 512 pages, a page",
          40,
          (double) n * blocks,
          "ns",
          1,
          () -> (long) run.invokeExact(probe, victims, n, blocks),
          () -> turnover(cache, ops, step, live, victims, n, blocks, blocks));
      report(
          "W2 growth, 256 + 256 x 1, a page",
          40,
          (double) n * blocks,
          "ns",
          1,
          () -> (long) run.invokeExact(probe, victims, n, blocks / 2),
          () -> turnover(cache, ops, step, live, victims, n, blocks / 2, blocks));
    }
  }

  private static long begin(KvCache cache, KvOps ops, int row, int blocks) {
    ops.clear();
    ops.openAt(KvScope.NONE, 0, KvOps.Reuse.FULL, 0, 1);
    ok(cache.apply(ops));
    long sequence = ops.handle(0);
    ops.clear();
    ops.resume(sequence, row);
    ops.resize(sequence, blocks * BLOCK);
    ok(cache.apply(ops));
    return sequence;
  }

  private static long turnover(
      KvCache cache,
      KvOps ops,
      KvSteps step,
      long[] live,
      MemorySegment victims,
      int n,
      int bulk,
      int blocks) {
    for (int i = 0; i < n; i++) {
      int s = victims.getAtIndex(JAVA_INT, i);
      ops.clear();
      ops.close(live[s]);
      ops.openAt(KvScope.NONE, 0, KvOps.Reuse.FULL, 0, 1);
      ok(cache.apply(ops));
      long sequence = ops.handle(1);
      ops.clear();
      ops.resume(sequence, s);
      ops.resize(sequence, bulk * BLOCK);
      ok(cache.apply(ops));
      for (int b = bulk; b < blocks; b++) {
        step.clear();
        step.add(sequence, 0, BLOCK);
        ok(cache.step(step));
      }
      live[s] = sequence;
    }
    return live[0];
  }

  private static void decode() throws Throwable {
    int sequences = 4096;
    int tokens = 256 * BLOCK;
    KvConfig config = KvConfig.of(BenchSizes.leases(sequences), 512, 0);
    try (var cache = KvCache.create(LAYOUT, config, KvSizes.device(1L << 21));
        Arena arena = Arena.ofConfined()) {
      KvOps ops = cache.newOps(4);
      cache.tokens().set(JAVA_INT, 0, 1);
      long[] live = new long[sequences];
      for (int s = 0; s < sequences; s++) {
        // Blocks fill at different steps, as in a batch of requests that came at different times.
        live[s] = begin(cache, ops, s, 256);
        ops.clear();
        ops.resize(live[s], tokens - s % BLOCK);
        ok(cache.apply(ops));
      }
      // The columns stay as long as the batch does; after 64 steps all go back to where they were.
      KvSteps steps = KvSteps.ofCapacity(sequences);
      KvSteps back = KvSteps.ofCapacity(sequences);
      for (long sequence : live) {
        steps.add(sequence, 0, 1);
        back.add(sequence, 0, -64);
      }
      MemorySegment records = arena.allocate(64L * sequences, 64);
      MethodHandle touch =
          BenchLibrary.function(
              "berth_bench_touch", FunctionDescriptor.ofVoid(ADDRESS, JAVA_INT, JAVA_INT));
      report(
          "decode step, a token",
          60,
          64.0 * sequences,
          "ns",
          1,
          () -> {
            for (int i = 0; i < 64; i++) {
              touch.invokeExact(records, sequences, BLOCK);
            }
            return 0;
          },
          () -> {
            for (int i = 0; i < 64; i++) {
              ok(cache.step(steps));
            }
            ok(cache.step(back));
            return 0;
          });
    }
  }

  // ------------------------------------------------------------------------------ W3

  private static final int PREFIXES = 64;
  private static final int CONTINUATIONS = 64;
  private static final int PROMPT = 8192;
  private static final int SHARED = 2048;

  /** All 4096 prompts, and the order in which they come. */
  private static int[] write(MemorySegment to) {
    var order = new SplittableRandom(5);
    int[] shuffled = new int[PREFIXES * CONTINUATIONS];
    for (int p = 0; p < PREFIXES; p++) {
      for (int c = 0; c < CONTINUATIONS; c++) {
        int i = p * CONTINUATIONS + c;
        long at = (long) i * PROMPT;
        var prefix = new SplittableRandom(1000 + p);
        for (int t = 0; t < SHARED; t++) {
          to.setAtIndex(JAVA_INT, at + t, prefix.nextInt(128_000));
        }
        var rest = new SplittableRandom(1_000_000 + i);
        for (int t = SHARED; t < PROMPT; t++) {
          to.setAtIndex(JAVA_INT, at + t, rest.nextInt(128_000));
        }
        int j = order.nextInt(i + 1);
        shuffled[i] = shuffled[j];
        shuffled[j] = i;
      }
    }
    return shuffled;
  }

  /** The requests of one engine: at most 16 live, the oldest let go when another comes. */
  private static final class Requests {
    final KvCache cache;
    final KvOps ops;
    final long[] live = new long[16];
    int next;

    Requests(KvCache cache) {
      this.cache = cache;
      this.ops = cache.newOps(4);
    }

    int one(int[] order) {
      int prompt = order[next % order.length];
      int place = next++ % 16;
      long at = (long) prompt * PROMPT;
      ops.clear();
      if (live[place] != 0) {
        ops.close(live[place]);
      }
      int open = ops.openAt(KvScope.NONE, 0, KvOps.Reuse.FULL, at, PROMPT);
      ok(cache.apply(ops));
      long sequence = live[place] = ops.handle(open);
      int found = ops.matched(open);
      ops.clear();
      ops.resume(sequence, place);
      ops.resize(sequence, PROMPT);
      ops.commitAt(sequence, at + found, PROMPT - found);
      ok(cache.apply(ops));
      return found;
    }
  }

  private static KvConfig forPrompts(int pages) {
    return KvConfig.of(BenchSizes.leases(16), PROMPT / BLOCK, pages)
        .withTokenArena(PREFIXES * CONTINUATIONS * PROMPT);
  }

  private static final MethodHandle OPEN =
      BenchLibrary.function(
          "berth_bench_prefix_open",
          FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS));
  private static final MethodHandle CLOSE =
      BenchLibrary.function(
          "berth_bench_prefix_close", FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, JAVA_INT));
  private static final MethodHandle FIND =
      BenchLibrary.function(
          "berth_bench_prefix_find",
          FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS));
  private static final MethodHandle CREATE =
      BenchLibrary.function(
          "berth_bench_prefix_create", FunctionDescriptor.of(ADDRESS, JAVA_INT, JAVA_INT));

  private static void prefixes() throws Throwable {
    for (int pages : new int[] {1 << 18, 1 << 20}) {
      var probe = (MemorySegment) CREATE.invokeExact(pages, BLOCK);
      try (var cache = KvCache.create(LAYOUT, forPrompts(pages), KvSizes.device(pages));
          Arena arena = Arena.ofConfined()) {
        int[] order = write(cache.tokens());
        MemorySegment tokens = MemorySegment.ofAddress(cache.tokens().address());
        int blocks = PROMPT / BLOCK;
        MemorySegment held = arena.allocate(JAVA_INT, 16L * blocks);
        int[] next = {0};
        Requests requests = new Requests(cache);
        Turn floor =
            () -> {
              long sum = 0;
              for (int i = 0; i < 64; i++) {
                int place = next[0] % 16;
                MemorySegment list = held.asSlice((long) place * blocks * 4, blocks * 4L);
                if (next[0] >= 16) {
                  CLOSE.invokeExact(probe, list, blocks);
                }
                long at = (long) order[next[0]++ % order.length] * PROMPT * 4;
                sum +=
                    (int)
                        OPEN.invokeExact(
                            probe, MemorySegment.ofAddress(tokens.address() + at), PROMPT, list);
              }
              return sum;
            };
        Turn ours =
            () -> {
              long sum = 0;
              for (int i = 0; i < 64; i++) {
                sum += requests.one(order);
              }
              return sum;
            };
        // The pool is full before anything is timed: 1,500 requests do that for the small one, all
        // for the large.
        for (int i = 0; i < (pages == 1 << 18 ? 24 : 66); i++) {
          floor.run();
          ours.run();
        }
        report(
            pages == 1 << 18
                ? "W3 A: life, LRU evicting, a request"
                : "W3 B2: life, full hit, a request",
            54,
            64,
            "us",
            1000,
            floor,
            ours);
        if (pages == 1 << 20) {
          KvOps pins = cache.newOps(2);
          int[] at = {0, 0};
          report(
              "full hit of 8160 tokens, look up + pin",
              60,
              64,
              "us",
              1000,
              () -> {
                long sum = 0;
                for (int i = 0; i < 64; i++) {
                  long place = (long) order[at[0]++ % order.length] * PROMPT * 4;
                  sum +=
                      (int)
                          FIND.invokeExact(
                              probe,
                              MemorySegment.ofAddress(tokens.address() + place),
                              PROMPT,
                              held);
                }
                return sum;
              },
              () -> {
                long sum = 0;
                for (int i = 0; i < 64; i++) {
                  pins.clear();
                  pins.pinAt(KvScope.NONE, (long) order[at[1]++ % order.length] * PROMPT, PROMPT);
                  ok(cache.apply(pins));
                  sum += pins.matched(0);
                  long pin = pins.handle(0);
                  pins.clear();
                  pins.unpin(pin);
                  ok(cache.apply(pins));
                }
                return sum;
              });
          System.out.printf(
              "  index: %d blocks in %d runs%n",
              cache.usage().indexBlocks(), cache.usage().indexRuns());
        }
      }
    }
  }

  /** A hit on blocks that lie all over the arena, after prompts of many lengths came and went. */
  private static void churnedHit() throws Throwable {
    int pages = 1 << 16;
    try (var cache = KvCache.create(LAYOUT, forPrompts(pages), KvSizes.device(pages))) {
      int[] order = write(cache.tokens());
      KvOps ops = cache.newOps(4);
      var random = new SplittableRandom(3);
      long[] live = new long[16];
      for (int i = 0; i < 30_000; i++) {
        int place = i % 16;
        int n = BLOCK * (1 + random.nextInt(16));
        long at =
            (long) order[random.nextInt(order.length)] * PROMPT + (long) random.nextInt(PROMPT - n);
        ops.clear();
        if (live[place] != 0) {
          ops.close(live[place]);
        }
        int open = ops.openAt(KvScope.NONE, 0, KvOps.Reuse.FULL, at, n);
        ok(cache.apply(ops));
        live[place] = ops.handle(open);
        int found = ops.matched(open);
        ops.clear();
        ops.resume(live[place], place);
        ops.resize(live[place], n);
        ops.commitAt(live[place], at + found, n - found);
        ok(cache.apply(ops));
      }
      for (long sequence : live) {
        ops.clear();
        ops.close(sequence);
        ok(cache.apply(ops));
      }
      Requests requests = new Requests(cache);
      int few = 128;
      for (int i = 0; i < few; i++) {
        requests.one(order);
      }
      int[] at = {0};
      report(
          "the same after churn (probe: none)",
          60,
          64,
          "us",
          1000,
          () -> 0,
          () -> {
            long sum = 0;
            for (int i = 0; i < 64; i++) {
              ops.clear();
              ops.pinAt(KvScope.NONE, (long) order[at[0]++ % few] * PROMPT, PROMPT);
              ok(cache.apply(ops));
              sum += ops.matched(0);
              long pin = ops.handle(0);
              ops.clear();
              ops.unpin(pin);
              ok(cache.apply(ops));
            }
            return sum;
          });
    }
  }

  // ------------------------------------------------------------------------------ W6

  private static void tables() throws Throwable {
    int sequences = 512;
    int blocks = 128;
    KvConfig config = KvConfig.of(BenchSizes.leases(sequences), 512, 0);
    MethodHandle rows =
        BenchLibrary.function(
            "berth_bench_rows",
            FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT));
    try (var cache = KvCache.create(LAYOUT, config, KvSizes.device(1 << 18));
        Arena arena = Arena.ofConfined()) {
      KvOps ops = cache.newOps(4);
      cache.tokens().set(JAVA_INT, 0, 1);
      KvTables tables = cache.newTables(KvTables.Shape.rows(sequences));
      for (int s = 0; s < sequences; s++) {
        tables.add(begin(cache, ops, s, blocks), 0);
      }
      MemorySegment from = arena.allocate(4L * sequences * 512, 64);
      MemorySegment to = arena.allocate(8L * sequences * 512, 64);
      report(
          "W6 gather of 512 x 128 pages, K + V",
          200,
          32,
          "us",
          1000,
          () -> {
            for (int i = 0; i < 32; i++) {
              rows.invokeExact(to, from, sequences, 512, blocks);
            }
            return 0;
          },
          () -> {
            for (int i = 0; i < 32; i++) {
              ok(cache.prepare(tables, KvTables.Padding.UNTOUCHED));
            }
            return tables.rows();
          });
    }
  }
}
