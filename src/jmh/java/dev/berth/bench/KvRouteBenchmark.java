// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.RouteKey;
import dev.berth.route.AdpRouter;
import dev.berth.route.Assignment;
import dev.berth.route.KvAwareRouter;
import dev.berth.route.PrefixMatches;
import dev.berth.route.RankLoads;
import dev.berth.route.RankState;
import dev.berth.route.RouteKernels;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * W4, KV-aware: one call that routes 4,096 requests of 128 to 8,192 tokens onto ranks that hold 0
 * to 63 requests and 0 to 262,143 tokens. Half of the prompts begin with one of 64 prefixes, which
 * one to three ranks hold. The native probe computes the scores and nothing else. Where the
 * router's other rules can't bind, both must place every request alike before anything is timed.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(
    value = 3,
    jvmArgsAppend = {"--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"})
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
public class KvRouteBenchmark {
  private static final int REQUESTS = 4096;
  private static final int INPUTS = 8;
  private static final int PREFIXES = 64;
  private static final int MOST_RANKS = 512;

  private static final MethodHandle SCORE =
      BenchLibrary.function(
          "berth_bench_score_run",
          FunctionDescriptor.ofVoid(
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_INT,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS,
              ValueLayout.JAVA_DOUBLE,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS));

  /** Attention-DP size. */
  @Param({"8", "64", "512"})
  public int ranks;

  private final List<Input> inputs = new ArrayList<>();
  private final AdpRouter router = new KvAwareRouter();
  private final Assignment assignment = new Assignment();
  private final Arena arena = Arena.ofAuto();
  private MemorySegment rankOf = MemorySegment.NULL;
  private MemorySegment load = MemorySegment.NULL;
  private int cap;
  private int turn;

  /** One call's arguments, for Java and for native code. */
  private record Input(
      RankLoads loads,
      RequestBatch batch,
      PrefixMatches matches,
      MemorySegment load,
      MemorySegment table,
      MemorySegment sizes) {

    /**
     * A random input.
     *
     * @param grain what all lengths are multiples of; above the number of ranks each rank's load
     *     has a remainder of its own, so that no two ever tie
     */
    static Input random(SplittableRandom random, int ranks, int grain, Arena arena) {
      MemorySegment load = arena.allocate(ValueLayout.JAVA_DOUBLE, ranks);
      MemorySegment sizes = arena.allocate(ValueLayout.JAVA_INT, REQUESTS);
      MemorySegment table = arena.allocate(ValueLayout.JAVA_INT, (long) REQUESTS * ranks);
      var states = new ArrayList<RankState>();
      for (int rank = 0; rank < ranks; rank++) {
        int tokens = random.nextInt(262_144) / grain * grain + rank % grain;
        var state = RankState.of(rank, random.nextInt(64), tokens, 0);
        load.setAtIndex(ValueLayout.JAVA_DOUBLE, rank, state.activeTokens());
        states.add(state);
      }
      int[][] holders = new int[PREFIXES][];
      int[] lengths = new int[PREFIXES];
      for (int prefix = 0; prefix < PREFIXES; prefix++) {
        holders[prefix] = random.ints(1 + random.nextInt(3), 0, ranks).toArray();
        lengths[prefix] = 32 * (1 + random.nextInt(64));
      }
      var batch = new RequestBatch();
      var matches = new PrefixMatches();
      matches.begin(REQUESTS, ranks);
      for (int item = 0; item < REQUESTS; item++) {
        int size = Math.max(grain, (128 + random.nextInt(8_192 - 128 + 1)) / grain * grain);
        int prefix = random.nextInt(2 * PREFIXES);
        int[] head = new SplittableRandom(prefix).ints(64, 0, 128_000).toArray();
        if (prefix >= PREFIXES) {
          head = random.ints(64, 0, 128_000).toArray();
        } else {
          for (int rank : holders[prefix]) {
            int match = Math.min(lengths[prefix], (size - 1) / 32 * 32) / grain * grain;
            matches.set(item, rank, match);
            table.setAtIndex(ValueLayout.JAVA_INT, (long) item * ranks + rank, match);
          }
        }
        head[0] = 1; // every prompt begins alike
        batch.add(Request.of(item, size, 1).withRoute(RouteKey.prompt(head)));
        sizes.setAtIndex(ValueLayout.JAVA_INT, item, size);
      }
      return new Input(RankLoads.of(states), batch, matches, load, table, sizes);
    }
  }

  /** Makes the inputs and compares both placements where nothing but scores can decide. */
  @Setup(Level.Trial)
  public void prepare() throws Throwable {
    RouteKernels.preload();
    System.out.println("# " + RouteKernels.describe());
    cap = 2 * REQUESTS / ranks + 128;
    rankOf = arena.allocate(ValueLayout.JAVA_INT, REQUESTS);
    load = arena.allocate(ValueLayout.JAVA_DOUBLE, ranks);
    var random = new SplittableRandom(20261130);
    for (int i = 0; i < INPUTS; i++) {
      inputs.add(Input.random(random, ranks, 1, arena));
      verify(Input.random(random, ranks, MOST_RANKS, arena));
    }
  }

  /** Without beginnings and with the longest first the order is that of arrival. */
  private void verify(Input input) throws Throwable {
    var plain = new RequestBatch();
    MemorySegment sizes = arena.allocate(ValueLayout.JAVA_INT, REQUESTS);
    int[] sorted = input.sizes.toArray(ValueLayout.JAVA_INT);
    Arrays.sort(sorted);
    for (int item = 0; item < REQUESTS; item++) {
      int size = sorted[REQUESTS - 1 - item];
      plain.add(Request.of(item, size, 1));
      sizes.setAtIndex(ValueLayout.JAVA_INT, item, size);
    }
    var scoring = new KvAwareRouter(KvAwareRouter.Options.DEFAULTS.withWeights(1, 0, 1e6));
    scoring.route(input.loads, plain, input.matches, 1 << 20, assignment);
    score(input, sizes);
    for (int rank = 0; rank < ranks; rank++) {
      for (int i = 0; i < assignment.size(rank); i++) {
        int item = assignment.get(rank, i);
        if (rankOf.getAtIndex(ValueLayout.JAVA_INT, item) != rank) {
          throw new IllegalStateException(
              "request %d of %d ranks: the router says %d, the probe %d"
                  .formatted(item, ranks, rank, rankOf.getAtIndex(ValueLayout.JAVA_INT, item)));
        }
      }
    }
  }

  private void score(Input input, MemorySegment sizes) throws Throwable {
    load.copyFrom(input.load);
    SCORE.invokeExact(ranks, REQUESTS, input.table, sizes, 1.0, load, rankOf);
  }

  /** Berth's router. */
  @Benchmark
  public Assignment berth() {
    Input input = inputs.get(turn++ % INPUTS);
    router.route(input.loads, input.batch, input.matches, cap, assignment);
    return assignment;
  }

  /** Scores alone. */
  @Benchmark
  public MemorySegment probe() throws Throwable {
    Input input = inputs.get(turn++ % INPUTS);
    score(input, input.sizes);
    return rankOf;
  }
}
