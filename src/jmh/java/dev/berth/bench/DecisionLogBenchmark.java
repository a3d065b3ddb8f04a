// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import dev.berth.engine.Batch;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.GroupTap;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.engine.WorkerRole;
import dev.berth.engine.log.LogWriter;
import dev.berth.id.BatchPosition;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Request;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
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
 * What a decision log adds to an iteration: the call in which everything that was decided is
 * compared with the iteration before and written, blocks handed to a file included. The iteration
 * itself runs outside of the measurement. Batches are full of generations; in every iteration some
 * requests of each rank end and as many come.
 *
 * <p>A call is short, so its sample holds some 25 ns of the clock.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
@Warmup(iterations = 5, time = 2)
@Measurement(iterations = 5, time = 2)
public class DecisionLogBenchmark implements LockstepGroup.Device {
  /** Ranks x live requests of each x how many of each rank end in an iteration. */
  @Param({"1x256x0", "8x256x0", "1x4096x0", "1x256x3", "8x256x3", "1x4096x41"})
  public String load = "1x256x0";

  private int ranks;
  private int live;
  private int turnover;
  private long nextId;
  private int offset;
  private LockstepGroup group = group(1, 1);
  private Later tap = new Later(new LogWriter(nowhere(), ""));

  /** Hears everything at once but the end of a step, which is what is measured. */
  private record Later(LogWriter writer) implements GroupTap {
    @Override
    public void begin(LockstepGroup begun) {
      writer.begin(begun);
    }

    @Override
    public void offered(Request request, Outcome outcome) {
      writer.offered(request, outcome);
    }

    @Override
    public void stopped(RankEngine engine, int position) {
      writer.stopped(engine, position);
    }

    @Override
    public void stepping() {
      writer.stepping();
    }

    @Override
    public void calling() {
      writer.calling();
    }
  }

  /** Writes every block over the one before. */
  private static WritableByteChannel nowhere() {
    try {
      FileChannel file =
          FileChannel.open(
              Files.createTempFile("berth", ".log"),
              StandardOpenOption.WRITE,
              StandardOpenOption.DELETE_ON_CLOSE);
      return new WritableByteChannel() {
        @Override
        public int write(ByteBuffer source) throws IOException {
          return file.write(source, 0);
        }

        @Override
        public boolean isOpen() {
          return file.isOpen();
        }

        @Override
        public void close() throws IOException {
          file.close();
        }
      };
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static LockstepGroup group(int ranks, int batch) {
    WorkerShape shape =
        WorkerShape.builder(batch).ranks(ranks).with(Trait.ATTENTION_DP, Trait.OVERLAP).build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    return new LockstepGroup(EngineConfig.of(plan, WorkerRole.AGGREGATED));
  }

  /** Fills every batch position. */
  @Setup(Level.Trial)
  public void fill() {
    String[] numbers = load.split("x", -1);
    ranks = Integer.parseInt(numbers[0]);
    live = Integer.parseInt(numbers[1]);
    turnover = Integer.parseInt(numbers[2]);
    free();
    group = group(ranks, live);
    tap = new Later(new LogWriter(nowhere(), "benchmark"));
    group.listen(tap);
    offer(ranks * live);
    for (int i = 0; i < 10; i++) {
      group.step(LockstepGroup.NO_DEVICE);
    }
  }

  private void offer(int count) {
    for (int i = 0; i < count; i++) {
      group.offer(Request.of(nextId++, 100, 1 << 30));
    }
  }

  /** The iteration that is going to be written. */
  @Setup(Level.Invocation)
  public void iterate() {
    offer(ranks * turnover);
    offset++;
    group.step(this);
  }

  @Override
  public void collect(RankEngine engine, Batch batch) {
    for (int i = 0; i < turnover; i++) {
      int position = (offset * 31 + i * 97) % batch.size();
      if (batch.kind(position) != Batch.Kind.DUMMY) {
        batch.stop(new BatchPosition(position));
      }
    }
  }

  /** Compares and writes one iteration of all ranks. */
  @Benchmark
  public void write() {
    tap.writer.stepped(true);
  }

  /** Frees the engines, closes the log. */
  @TearDown(Level.Trial)
  public void free() {
    group.close();
    tap.writer.close();
  }
}
