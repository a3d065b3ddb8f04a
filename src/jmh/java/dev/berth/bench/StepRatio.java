// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.berth.engine.BatchResults;
import dev.berth.engine.BatchView;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.KvSetup;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.ModelRunner;
import dev.berth.engine.ModelRunners;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankSetup;
import dev.berth.engine.WorkerRole;
import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.kv.KvStatus;
import dev.berth.kv.KvTables;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Prompt;
import dev.berth.request.Request;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.List;

/**
 * Workload W5 (spec 05 §7): a whole step of an engine, schedule, block tables and slots, results
 * and the requests that follow on those that ended, beside the bare bookkeeping in native code. The
 * engine has pages, tables and tokens; its model makes the same tokens as the probe's.
 */
public final class StepRatio {
  private static final double LIMIT = 1.5;
  private static final int WARM_TURNS = 150;
  private static final int STEPS = 64;
  private static final int PROMPT = 512;
  private static final int BLOCK = 16;
  private static final int MOST = 100;

  /** Requests that begin in one step, at most. */
  private static final int MOST_NEW = 128;

  private static final MethodHandle CREATE =
      BenchLibrary.function(
          "berth_bench_step_create",
          FunctionDescriptor.of(ValueLayout.ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT));
  private static final MethodHandle RUN =
      BenchLibrary.function(
          "berth_bench_step_run",
          FunctionDescriptor.of(JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS));
  private static final MethodHandle DESTROY =
      BenchLibrary.function(
          "berth_bench_step_destroy", FunctionDescriptor.ofVoid(ValueLayout.ADDRESS));

  private StepRatio() {}

  /** A model that has made its tokens already. */
  private static final class Model implements ModelRunner {
    private final KvTables tables;
    private final MemorySegment tokens;

    Model(RankSetup setup, MemorySegment tokens) {
      this.tokens = tokens;
      int positions = setup.positions();
      this.tables =
          setup
              .kv()
              .orElseThrow()
              .newTables(new KvTables.Shape(positions, positions + MOST_NEW * PROMPT, 0));
    }

    @Override
    public void launch(BatchView batch) {
      if (batch.fill(tables) != KvStatus.OK) {
        throw new AssertionError("no tables");
      }
    }

    @Override
    public void collect(BatchView batch, BatchResults results) {
      results.tokens(tokens.asSlice(0, (long) batch.size() * Integer.BYTES));
    }
  }

  /** An engine with so many requests in it. */
  private static final class Fleet implements AutoCloseable {
    final LockstepGroup group;
    final ModelRunners models;
    final Request[] prepared;
    int next;
    int begun;

    Fleet(int live, MemorySegment tokens) {
      WorkerShape shape =
          WorkerShape.builder(live)
              .ranks(1)
              .tokensPerBlock(BLOCK)
              .maxSeqLen(PROMPT + MOST + BLOCK)
              .build();
      SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
      long pages = (long) live * Math.ceilDiv(PROMPT + MOST + BLOCK, BLOCK);
      KvLayout layout =
          KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 1024, KvReach.FULL)));
      group =
          new LockstepGroup(
              EngineConfig.builder(plan, WorkerRole.AGGREGATED)
                  .kv(
                      KvSetup.paged(layout, KvSizes.device(pages))
                          .withIndex(0, KvConfig.Partial.OFF))
                  .build());
      models =
          new ModelRunners(
              group,
              setup -> new Model(setup, tokens),
              broken -> {
                throw new AssertionError(broken);
              });
      int[] prompt = new int[PROMPT];
      Arrays.setAll(prompt, k -> k);
      prepared = new Request[8 * live];
      for (int i = 0; i < prepared.length; i++) {
        int limit = i < live ? 1 + (int) ((long) i * MOST / live) : MOST;
        prepared[i] = Request.of(i, PROMPT, limit).withPrompt(Prompt.of(prompt));
      }
      while (begun < live) {
        offer(64);
        step();
      }
    }

    void offer(int count) {
      for (int i = 0; i < count; i++) {
        if (!(group.offer(prepared[next]) instanceof Outcome.Queued)) {
          throw new AssertionError("request " + next);
        }
        next = next + 1 == prepared.length ? 0 : next + 1;
        begun++;
      }
    }

    /** A step, and as many new requests as ended. */
    int step() {
      group.step(models);
      int ended = group.engine(0).ended();
      if (ended > 0) {
        offer(ended);
      }
      return ended;
    }

    @Override
    public void close() {
      models.close();
      group.close();
    }
  }

  /** Runs it; exit status 1 if a ratio is above the limit. */
  public static void main(String[] args) throws Throwable {
    boolean reached = true;
    for (int live : new int[] {256, 1024, 4096}) {
      reached &= compare(live);
    }
    System.exit(reached ? 0 : 1);
  }

  private static boolean compare(int live) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment tokens = arena.allocate(JAVA_INT, live + 1L);
      for (int i = 0; i <= live; i++) {
        tokens.setAtIndex(JAVA_INT, i, i % 1000);
      }
      MemorySegment probe = (MemorySegment) CREATE.invokeExact(live, PROMPT, BLOCK, MOST);
      try (var fleet = new Fleet(live, tokens)) {
        return PairedTurns.within(
            LIMIT,
            "W5 step of " + live + ", a step",
            STEPS,
            WARM_TURNS,
            () -> {
              long sum = 0;
              for (int i = 0; i < STEPS; i++) {
                sum += (int) RUN.invokeExact(probe, tokens);
              }
              return sum;
            },
            () -> {
              long sum = 0;
              for (int i = 0; i < STEPS; i++) {
                sum += fleet.step();
              }
              return sum;
            });
      } finally {
        DESTROY.invokeExact(probe);
      }
    }
  }
}
