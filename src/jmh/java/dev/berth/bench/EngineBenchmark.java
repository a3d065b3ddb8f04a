// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import dev.berth.engine.EngineConfig;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Request;
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
 * One iteration of all ranks of a worker whose batches are full of generations, without a device:
 * gather, admission, schedule, vote, launch, settle. With {@code -prof gc} the bytes allocated an
 * iteration are to be 0.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
public class EngineBenchmark {
  /** Attention-DP size. */
  @Param({"8", "64"})
  public int ranks;

  /** Live requests of each rank. */
  @Param("256")
  public int live;

  private LockstepGroup group = group(1, 1);

  private static LockstepGroup group(int ranks, int batch) {
    WorkerShape shape =
        WorkerShape.builder(batch).ranks(ranks).with(Trait.ATTENTION_DP, Trait.OVERLAP).build();
    return switch (SeatPlan.of(shape, SeatPolicy.UNIFIED)) {
      case PlanOutcome.Planned(SeatPlan plan) ->
          new LockstepGroup(EngineConfig.of(plan, WorkerRole.AGGREGATED));
      case PlanOutcome.Refused refused -> throw new AssertionError(refused);
    };
  }

  /** Fills every batch position with a request that doesn't end. */
  @Setup(Level.Trial)
  public void fill() {
    group.close();
    group = group(ranks, live);
    for (int id = 0; id < ranks * live; id++) {
      if (!(group.offer(Request.of(id, 100, 1 << 30)) instanceof Outcome.Queued)) {
        throw new AssertionError(id);
      }
    }
    for (int i = 0; i < 10; i++) {
      group.step(LockstepGroup.NO_DEVICE);
    }
    if (group.engine(ranks - 1).batch() != live) {
      throw new AssertionError(group.engine(ranks - 1).batch());
    }
  }

  /** One iteration. */
  @Benchmark
  public boolean step() {
    return group.step(LockstepGroup.NO_DEVICE);
  }

  /** Frees the engines. */
  @TearDown(Level.Trial)
  public void free() {
    group.close();
  }
}
