// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.kv.BatchMode;
import dev.berth.kv.SeatPool;
import dev.berth.kv.SlotBatch;
import dev.berth.kv.SlotStatus;
import dev.berth.plan.BenchSizes;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Workload W1, slot map churn: 3/4 of the capacity is live; release the id at a random position,
 * acquire a slot for a fresh id and put it there, look up the id at another random position. ns an
 * operation, three operations a round.
 *
 * <p>The probe runs all of it natively. Ours runs in Java on {@link SeatPool} in batches of 64:
 * gather 64 victims and release them, acquire 64 fresh ids, look up 64. The victims of one batch
 * are distinct positions, for both.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 400, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 20, time = 100, timeUnit = TimeUnit.MILLISECONDS)
@Fork(
    value = 3,
    jvmArgsAppend = {
      "--enable-native-access=ALL-UNNAMED",
      "--sun-misc-unsafe-memory-access=allow",
      "-Xmx512m"
    })
public class SlotChurnBenchmark {
  private static final int BATCH = 64;

  /** The whole batches next to the workload's 333,334 rounds. */
  private static final int ROUNDS = 333_312;

  static final int OPERATIONS = 3 * ROUNDS;

  private static final MethodHandle CREATE =
      BenchLibrary.function(
          "berth_bench_churn_create", FunctionDescriptor.of(ADDRESS, JAVA_INT, JAVA_INT));
  private static final MethodHandle RUN =
      BenchLibrary.function(
          "berth_bench_churn_run",
          FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, JAVA_INT));
  private static final MethodHandle DESTROY =
      BenchLibrary.function("berth_bench_churn_destroy", FunctionDescriptor.ofVoid(ADDRESS));

  /** How request ids come. */
  public enum Ids {
    /** 1, 2, 3, … */
    SEQUENTIAL,
    /** The splitmix64 of those. */
    RANDOM
  }

  /** Slots. */
  @Param({"4096", "65536"})
  public int capacity = 4096;

  /** Request ids. */
  @Param({"SEQUENTIAL", "RANDOM"})
  public Ids ids = Ids.SEQUENTIAL;

  private int[] victims = {};
  private int[] lookups = {};

  /** The positions, the same for both. */
  @Setup
  public void positions() {
    SplittableRandom random = new SplittableRandom(7);
    int live = capacity / 4 * 3;
    int[] lastBatch = new int[live];
    Arrays.fill(lastBatch, -1);
    victims = new int[ROUNDS];
    lookups = new int[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
      int victim = random.nextInt(live);
      while (lastBatch[victim] == i / BATCH) {
        victim = random.nextInt(live);
      }
      lastBatch[victim] = i / BATCH;
      victims[i] = victim;
      lookups[i] = random.nextInt(live);
    }
  }

  /** The limit probe, wholly native. */
  @State(Scope.Thread)
  public static class Probe {
    private MemorySegment churn = MemorySegment.NULL;
    private MemorySegment victims = MemorySegment.NULL;
    private MemorySegment lookups = MemorySegment.NULL;

    /** Fills it. */
    @Setup
    public void create(SlotChurnBenchmark workload) throws Throwable {
      churn =
          (MemorySegment) CREATE.invokeExact(workload.capacity, workload.ids == Ids.RANDOM ? 1 : 0);
      victims = Arena.ofAuto().allocateFrom(JAVA_INT, workload.victims);
      lookups = Arena.ofAuto().allocateFrom(JAVA_INT, workload.lookups);
    }

    /** Frees it. */
    @TearDown
    public void destroy() throws Throwable {
      DESTROY.invokeExact(churn);
    }
  }

  /** A seat pool and the ids that live in it, by position. */
  @State(Scope.Thread)
  public static class Pool {
    private final SlotBatch leaving = batch();
    private final SlotBatch arriving = batch();
    private final SlotBatch looked = batch();
    private Ids kind = Ids.SEQUENTIAL;
    private SeatPool pool = SeatPool.create(BenchSizes.seats(1));
    private long[] live = {};
    private long issued;

    /** Fills it. */
    @Setup
    public void create(SlotChurnBenchmark workload) {
      pool.close();
      pool = SeatPool.create(BenchSizes.seats(workload.capacity));
      kind = workload.ids;
      live = new long[workload.capacity / 4 * 3];
      SlotBatch all = SlotBatch.ofCapacity(live.length);
      for (int i = 0; i < live.length; i++) {
        live[i] = fresh();
        all.add(live[i]);
      }
      require(pool.acquire(all, BatchMode.ALL_OR_NOTHING, 0));
    }

    /** Nobody was lost. */
    @TearDown(Level.Iteration)
    public void count() {
      if (pool.usage().used() != live.length) {
        throw new IllegalStateException(pool.usage() + " instead of " + live.length + " used");
      }
    }

    /** Frees it. */
    @TearDown
    public void destroy() {
      pool.close();
    }

    private static SlotBatch batch() {
      SlotBatch batch = SlotBatch.ofCapacity(BATCH);
      batch.resize(BATCH);
      return batch;
    }

    long fresh() {
      issued++;
      return kind == Ids.RANDOM ? splitmix(issued) : issued;
    }

    private static long splitmix(long i) {
      long x = i + 0x9e3779b97f4a7c15L;
      x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
      x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
      return x ^ (x >>> 31);
    }
  }

  /** The floor. */
  @Benchmark
  @OperationsPerInvocation(OPERATIONS)
  public long probe(Probe probe) throws Throwable {
    return (long) RUN.invokeExact(probe.churn, probe.victims, probe.lookups, ROUNDS);
  }

  /** The product. */
  @Benchmark
  @OperationsPerInvocation(OPERATIONS)
  public long batchesOf64(Pool pool) {
    SeatPool seats = pool.pool;
    SlotBatch leaving = pool.leaving;
    SlotBatch arriving = pool.arriving;
    SlotBatch looked = pool.looked;
    long[] live = pool.live;
    int[] victims = this.victims;
    int[] lookups = this.lookups;
    long sum = 0;
    for (int from = 0; from < ROUNDS; from += BATCH) {
      for (int i = 0; i < BATCH; i++) {
        int victim = victims[from + i];
        long id = pool.fresh();
        leaving.id(i, live[victim]);
        arriving.id(i, id);
        live[victim] = id;
      }
      require(seats.releaseIds(leaving, BatchMode.ALL_OR_NOTHING, 0));
      require(seats.acquire(arriving, BatchMode.ALL_OR_NOTHING, 0));
      for (int i = 0; i < BATCH; i++) {
        looked.id(i, live[lookups[from + i]]);
      }
      seats.find(looked);
      for (int i = 0; i < BATCH; i++) {
        sum += (int) looked.handle(i);
      }
    }
    return sum;
  }

  private static void require(SlotStatus status) {
    if (status != SlotStatus.OK) {
      throw new IllegalStateException("batch ended as " + status);
    }
  }
}
