// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.route.AdpRouter;
import dev.berth.route.Assignment;
import dev.berth.route.DefaultRouter;
import dev.berth.route.RankLoads;
import dev.berth.route.RankState;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
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
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * W4: one call that routes 4,096 requests of 128 to 8,192 tokens onto ranks that hold 0 to 63
 * requests and 0 to 262,143 tokens, cap {@code 2 * 4096 / ranks + 128}. The router and the native
 * probe take turns through the same inputs, and give the same placement on each of them before
 * anything is timed.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(
    value = 3,
    jvmArgsAppend = {"--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"})
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
public class RouteBenchmark {
  private static final int REQUESTS = 4096;

  /** More than one, so that no branch predictor learns the input by heart. */
  private static final int INPUTS = 16;

  private static final MethodHandle NEW =
      BenchLibrary.function(
          "berth_bench_router_create",
          FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
  private static final MethodHandle FREE =
      BenchLibrary.function(
          "berth_bench_router_destroy", FunctionDescriptor.ofVoid(ValueLayout.ADDRESS));
  private static final MethodHandle ROUTE =
      BenchLibrary.function(
          "berth_bench_router_run",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS,
              ValueLayout.JAVA_INT,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS));

  /** Attention-DP size. */
  @Param({"8", "64", "512"})
  public int ranks;

  private final List<Input> inputs = new ArrayList<>();
  private final AdpRouter router = new DefaultRouter();
  private final Assignment assignment = new Assignment();
  private final Arena arena = Arena.ofAuto();
  private MemorySegment probe = MemorySegment.NULL;
  private MemorySegment order = MemorySegment.NULL;
  private MemorySegment rankOf = MemorySegment.NULL;
  private int cap;
  private int turn;

  /** One call's arguments, for Java and for native code. */
  private record Input(
      RankLoads loads,
      RequestBatch batch,
      MemorySegment active,
      MemorySegment tokens,
      MemorySegment sizes) {

    static Input random(SplittableRandom random, int ranks, Arena arena) {
      MemorySegment active = arena.allocate(ValueLayout.JAVA_INT, ranks);
      MemorySegment tokens = arena.allocate(ValueLayout.JAVA_LONG, ranks);
      MemorySegment sizes = arena.allocate(ValueLayout.JAVA_INT, REQUESTS);
      var states = new ArrayList<RankState>();
      for (int rank = 0; rank < ranks; rank++) {
        var state = RankState.of(rank, random.nextInt(64), random.nextInt(262_144), 0);
        active.setAtIndex(ValueLayout.JAVA_INT, rank, state.activeRequests());
        tokens.setAtIndex(ValueLayout.JAVA_LONG, rank, state.activeTokens());
        states.add(state);
      }
      var batch = new RequestBatch();
      for (int id = 0; id < REQUESTS; id++) {
        var request = Request.of(id, 128 + random.nextInt(8_192 - 128 + 1), 1);
        sizes.setAtIndex(ValueLayout.JAVA_INT, id, request.promptTokens());
        batch.add(request);
      }
      return new Input(RankLoads.of(states), batch, active, tokens, sizes);
    }
  }

  /** Makes the inputs and compares both placements on each. */
  @Setup(Level.Trial)
  public void prepare() throws Throwable {
    cap = 2 * REQUESTS / ranks + 128;
    order = arena.allocate(ValueLayout.JAVA_INT, REQUESTS);
    rankOf = arena.allocate(ValueLayout.JAVA_INT, REQUESTS);
    probe = (MemorySegment) NEW.invokeExact(ranks, REQUESTS);
    var random = new SplittableRandom(20261130);
    for (int i = 0; i < INPUTS; i++) {
      inputs.add(Input.random(random, ranks, arena));
    }
    for (int i = 0; i < INPUTS; i++) {
      turn = i;
      berth();
      turn = i;
      verify(probe());
    }
  }

  private void verify(int expected) {
    boolean same = assignment.expectedActive() == expected;
    int[] next = new int[ranks];
    for (int i = 0; i < REQUESTS; i++) {
      int rank = rankOf.getAtIndex(ValueLayout.JAVA_INT, i);
      int item = order.getAtIndex(ValueLayout.JAVA_INT, i);
      same = same && next[rank] < assignment.size(rank) && assignment.get(rank, next[rank]) == item;
      next[rank]++;
    }
    if (!same || assignment.unassignedSize() != 0) {
      throw new IllegalStateException("router and probe place differently on " + ranks + " ranks");
    }
  }

  @TearDown(Level.Trial)
  public void free() throws Throwable {
    FREE.invokeExact(probe);
  }

  /** Berth's router. */
  @Benchmark
  public Assignment berth() {
    Input input = inputs.get(turn++ % INPUTS);
    router.route(input.loads, input.batch, cap, assignment);
    return assignment;
  }

  /** The native floor. */
  @Benchmark
  public int probe() throws Throwable {
    Input input = inputs.get(turn++ % INPUTS);
    return (int)
        ROUTE.invokeExact(probe, input.active, input.tokens, input.sizes, cap, order, rankOf);
  }
}
