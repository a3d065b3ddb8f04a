// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.bench.BenchLibrary;
import dev.berth.request.RequestState;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
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
 * One iteration's decisions: capacity and batch of live requests, 1 % of which were replaced since the last call. Beside
 * them in the same run: a native probe that reads the same rows, and the same rules over plain Java collections.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(value = 3, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class ScheduleBenchmark {
  private static final MethodHandle PROBE =
      BenchLibrary.function(
          "berth_bench_schedule",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.ADDRESS,
              ValueLayout.ADDRESS));

  /** Live requests. */
  @Param({"4096"})
  public int requests;

  /** Contexts among them, in percent, which share prefixes. */
  @Param({"0", "10"})
  public int contexts;

  /** The capacity policy. */
  @Param({"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  public CapacityRule rule = CapacityRule.GUARANTEED_NO_EVICT;

  private final SplittableRandom random = new SplittableRandom(20261130);
  private final List<Naive.Req> plain = new ArrayList<>();
  private SchedulingTable table = new SchedulingTable(TableShape.of(1));
  private TwoStageScheduler scheduler =
      TwoStageScheduler.of(table, CapacityRules.of(CapacityRule.MAX_REQUESTS, 1), BatchRules.of(1, 1));
  private CapacityRules capacity = CapacityRules.of(CapacityRule.MAX_REQUESTS, 1);
  private BatchRules batch = BatchRules.of(1, 1);
  private Naive.Pools pools = new Naive.Pools(new long[0], new long[0], 0);
  private MemorySegment fitting = MemorySegment.NULL;
  private MemorySegment running = MemorySegment.NULL;
  private int[] replaced = {};
  private int nextRow;

  /** For JMH. */
  public ScheduleBenchmark() {}

  /** Fills the table and compares what the two Berths decide. */
  @Setup(Level.Trial)
  public void fill() throws Throwable {
    table.close();
    long pages = 64L * requests;
    table = new SchedulingTable(TableShape.of(requests, Pool.self(8192, pages)));
    table.freePages(0, pages);
    capacity = CapacityRules.of(rule, requests);
    batch =
        BatchRules.of(requests, contexts == 0 ? 2 * requests : requests + 16_384)
            .withChunking(contexts == 0 ? Chunking.NONE : Chunking.FIRST_COME_FIRST_SERVED, 64);
    scheduler = TwoStageScheduler.of(table, capacity, batch);
    pools = new Naive.Pools(new long[] {pages}, new long[] {pages}, 1);
    for (int row = 0; row < requests; row++) {
      plain.add(new Naive.Req());
      begin(row);
      table.markDirty(row);
      table.enter(row);
    }
    replaced = new int[requests / 100];
    fitting = Arena.ofAuto().allocate(ValueLayout.JAVA_INT, requests);
    running = Arena.ofAuto().allocate(ValueLayout.JAVA_INT, requests);
    MicroBatch own = scheduler.schedule();
    Naive.Batch java = runPlain();
    if (own.generations() != java.generations().size()
        || own.contexts() != java.contexts().size()
        || own.tokens() != java.tokens()
        || (contexts == 0 && runProbe() != own.generations())) {
      throw new IllegalStateException("they decide differently");
    }
  }

  private void begin(int row) {
    boolean context = random.nextInt(100) < contexts;
    int prompt = 256 + random.nextInt(256);
    Naive.Req r = new Naive.Req();
    r.row = row;
    r.state = context ? RequestState.CONTEXT_INIT : RequestState.GENERATION;
    r.prompt = prompt;
    r.cursor = context ? 0 : prompt;
    r.generated = context ? 0 : 1 + random.nextInt(100);
    r.key = context ? 1 + random.nextInt(200) : 0;
    r.reusable = context ? 64 : 0;
    r.remaining = new int[] {1 + random.nextInt(30)};
    r.oneStep = new int[] {context ? 16 : random.nextInt(2)};
    r.twoStep = r.oneStep;
    r.credit = new int[] {context ? 1 : 0};
    r.held = new int[][] {{}};
    plain.set(row, r);
    table.begin(row, row, r.state, r.prompt, 128);
    table.context(row, r.cursor, 0);
    table.generatedTokens(row, r.generated);
    table.firstBlock(row, r.key);
    table.reusableTokens(row, r.reusable);
    table.demand(row, 0, r.remaining[0], r.oneStep[0], r.twoStep[0], r.credit[0]);
    table.held(row, 0, 16);
  }

  @TearDown(Level.Trial)
  public void close() {
    table.close();
  }

  /** One request in a hundred leaves, another one takes its row. */
  private void turnOver() {
    for (int i = 0; i < replaced.length; i++) {
      replaced[i] = nextRow;
      nextRow = (nextRow + 1) % requests;
      table.leave(replaced[i]);
    }
    for (int row : replaced) {
      begin(row);
    }
    table.markDirty(replaced, replaced.length);
    for (int row : replaced) {
      table.enter(row);
    }
  }

  /** The state of an invocation: somebody came, somebody went. */
  @State(Scope.Thread)
  public static class Turnover {
    /** For JMH. */
    public Turnover() {}

    /** Before every call. */
    @Setup(Level.Invocation)
    public void turn(ScheduleBenchmark benchmark) {
      benchmark.turnOver();
      benchmark.table.size();
    }
  }

  /** Both stages in one call. */
  @Benchmark
  public MicroBatch berth(Turnover turnover) {
    return scheduler.schedule();
  }

  /** The same, the bookkeeping of 1 % turnover included. */
  @Benchmark
  public MicroBatch berthWithTurnover() {
    turnOver();
    return scheduler.schedule();
  }

  /** One native pass over the same rows. */
  @Benchmark
  public int probe(Turnover turnover) throws Throwable {
    return runProbe();
  }

  private int runProbe() throws Throwable {
    return (int)
        PROBE.invokeExact(
            table.memory().rowMemory(),
            table.memory().demandMemory(),
            table.memory().activeMemory(),
            requests,
            64L * requests,
            Long.MAX_VALUE,
            fitting,
            running);
  }

  /** The same rules over plain collections. */
  @Benchmark
  public Object plain(Turnover turnover) {
    return runPlain();
  }

  private Naive.Batch runPlain() {
    Naive.Plan plan =
        Naive.capacity(plain, pools, new int[0], capacity, Optional.of(batch));
    return Naive.batch(plan.fitting(), batch);
  }
}
