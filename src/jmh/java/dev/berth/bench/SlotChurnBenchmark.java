// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
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

@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 500, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 10, time = 500, timeUnit = TimeUnit.MILLISECONDS)
@Fork(3)
public class SlotChurnBenchmark {
  private static final int ROUNDS = 333_312;

  private static final MethodHandle CREATE =
      BenchLibrary.function(
          "berth_bench_churn_create", FunctionDescriptor.of(ADDRESS, JAVA_INT, JAVA_INT));
  private static final MethodHandle RUN =
      BenchLibrary.function(
          "berth_bench_churn_run",
          FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, JAVA_INT));
  private static final MethodHandle DESTROY =
      BenchLibrary.function("berth_bench_churn_destroy", FunctionDescriptor.ofVoid(ADDRESS));

  @Param({"4096", "65536"})
  int capacity;

  private MemorySegment churn = MemorySegment.NULL;
  private MemorySegment victims = MemorySegment.NULL;

  @Setup
  public void create() throws Throwable {
    churn = (MemorySegment) CREATE.invokeExact(capacity, 0);
    victims = Arena.ofAuto().allocate(JAVA_INT, ROUNDS);
  }

  @TearDown
  public void destroy() throws Throwable {
    DESTROY.invokeExact(churn);
  }

  @Benchmark
  @OperationsPerInvocation(3 * ROUNDS)
  public long probe() throws Throwable {
    return (long) RUN.invokeExact(churn, victims, victims, ROUNDS);
  }
}
