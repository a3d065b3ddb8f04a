// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.Batch;
import dev.berth.engine.BrokenBatchException;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.engine.log.Difference.Decision;
import dev.berth.engine.log.LogException.Kind;
import dev.berth.id.BatchPosition;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * Runs a logged group again: what came in is brought in the same order, and what the engines decide
 * is compared with what they decided then, byte by byte, step by step. The first step that isn't
 * the same is taken apart to name the decision.
 */
public final class LogReplay {
  /**
   * What came of it.
   *
   * @param label what ran, as its writer called it
   * @param config what ran
   * @param steps steps that were run again, idle ones included
   * @param requests requests that were offered again
   * @param ending how the log ends
   * @param difference the first decision that isn't the logged one; nothing behind it was run
   * @param damage what made the log unreadable, where its ending is {@link Ending#DAMAGED}
   */
  public record Result(
      String label,
      EngineConfig config,
      long steps,
      long requests,
      Ending ending,
      Optional<Difference> difference,
      Optional<LogException> damage) {
    /** True if the log is whole and every decision is the same. */
    public boolean same() {
      return difference.isEmpty() && damage.isEmpty();
    }
  }

  /** How a log ends. */
  public enum Ending {
    /** Its writer closed it. */
    CLOSED,
    /** With a whole block: its writer was never closed. */
    OPEN,
    /** What follows can't be read; the steps before it were run. */
    DAMAGED
  }

  private final LogInput input;
  private final RecordReader reader;
  private final EngineConfig config;
  private final LockstepGroup group;
  private final Rerun rerun = new Rerun();
  private final List<LogRecord.Input> before = new ArrayList<>();
  private final List<During> during = new ArrayList<>();
  private int call;
  private long steps;
  private long requests;

  private record During(int call, LogRecord.Input input) {}

  /** An input that the group doesn't take, or takes otherwise. */
  private static final class Departed extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final transient Difference difference;

    Departed(Difference difference) {
      super(difference.describe());
      this.difference = difference;
    }
  }

  private LogReplay(LogInput input, RecordReader reader, EngineConfig config) {
    this.input = input;
    this.reader = reader;
    this.config = config;
    try {
      this.group = new LockstepGroup(config);
    } catch (BerthException e) {
      throw new LogException(
          Kind.MALFORMED, input.offset(), "its engines can't be made: " + e.getMessage(), e);
    }
  }

  /**
   * Runs a log again.
   *
   * @param log the bytes; read to the end or to the first difference, not closed
   * @throws LogException if there is nothing that could be run: no log, another version, a header
   *     or a configuration that is damaged or can't work
   */
  public static Result run(InputStream log) {
    return run(log, Optional.empty());
  }

  /**
   * Runs a log again under another configuration, to see from where on it would have decided
   * otherwise.
   *
   * @param instead ranks and stages as logged
   * @throws LogException as {@link #run(InputStream)}
   * @throws BerthException ARGUMENT if it has other ranks or stages
   */
  public static Result run(InputStream log, EngineConfig instead) {
    return run(log, Optional.of(instead));
  }

  private static Result run(InputStream log, Optional<EngineConfig> instead) {
    var input = new LogInput(new LogReader(log));
    var reader = new RecordReader(input);
    EngineConfig config = instead.orElse(reader.config());
    requireWorld(config, reader.config());
    var replay = new LogReplay(input, reader, config);
    try (replay.group) {
      return replay.toTheEnd();
    }
  }

  private static void requireWorld(EngineConfig config, EngineConfig logged) {
    if (config.ranks() != logged.ranks() || config.stages() != logged.stages()) {
      throw new BerthException(
          Code.ARGUMENT,
          "the log is of %d ranks and %d stages, the other configuration of %d and %d"
              .formatted(logged.ranks(), logged.stages(), config.ranks(), config.stages()));
    }
  }

  private Result toTheEnd() {
    group.listen(rerun.recorder);
    rerun.begin();
    try {
      while (true) {
        input.mark();
        Optional<Ending> ending = step();
        if (ending.isPresent()) {
          return result(ending.get(), Optional.empty(), Optional.empty());
        }
        steps++;
      }
    } catch (LogException e) {
      return result(Ending.DAMAGED, Optional.empty(), Optional.of(e));
    } catch (Departed e) {
      return result(Ending.OPEN, Optional.of(e.difference), Optional.empty());
    }
  }

  private Result result(
      Ending ending, Optional<Difference> difference, Optional<LogException> damage) {
    return new Result(reader.label(), config, steps, requests, ending, difference, damage);
  }

  // ------------------------------------------------------------------------------ one step

  /** Reads the records of a step and runs it; how the log ends if it does before that. */
  private Optional<Ending> step() {
    before.clear();
    during.clear();
    call = 0;
    while (!reader.ended()) {
      long at = input.offset();
      switch (reader.next()) {
        case LogRecord.Call(int number) -> call = number;
        case LogRecord.Input in when call == 0 -> before.add(in);
        case LogRecord.Input in -> during.add(new During(call, in));
        case LogRecord.Step ignored -> {
          repeat();
          return Optional.empty();
        }
        case LogRecord.Failed failed -> {
          repeatFailure(failed);
          return Optional.empty();
        }
        case LogRecord.End(long logged) -> {
          requireEnd(logged, at);
          return Optional.of(Ending.CLOSED);
        }
      }
    }
    return Optional.of(Ending.OPEN);
  }

  private void requireEnd(long logged, long at) {
    if (logged != steps) {
      throw new LogException(
          Kind.MALFORMED, at, "the log counts %d steps, it holds %d".formatted(logged, steps));
    }
    if (!reader.ended()) {
      throw new LogException(Kind.MALFORMED, input.offset(), "something follows the log's end");
    }
  }

  private void repeat() {
    before.forEach(this::bring);
    var device = new Device();
    try {
      group.step(device);
    } catch (BerthException e) {
      throw departed(Decision.FAILURE, "a step", "%s: %s".formatted(e.code(), e.getMessage()));
    }
    device.requireAllBrought();
    byte[] logged = input.sinceMark();
    byte[] came = rerun.drain();
    if (!Arrays.equals(logged, came)) {
      throw new Departed(
          new Comparer(reader.state(), rerun.state(), steps)
              .first()
              .orElseGet(() ->
                  difference(
                      Decision.INPUT,
                      OptionalLong.empty(),
                      logged.length + " bytes of records",
                      came.length + " other bytes")));
    }
  }

  /** What the device threw can't be repeated; what an engine threw must be thrown again. */
  private void repeatFailure(LogRecord.Failed failed) {
    if (Arrays.stream(Code.values()).noneMatch(code -> code.name().equals(failed.code()))) {
      return;
    }
    before.forEach(this::bring);
    String logged = "%s: %s".formatted(failed.code(), failed.message());
    try {
      group.step(new Device());
    } catch (BerthException e) {
      String came = "%s: %s".formatted(e.code(), e.getMessage());
      if (came.equals(logged)) {
        return;
      }
      throw departed(Decision.FAILURE, logged, came);
    }
    throw departed(Decision.FAILURE, logged, "a step");
  }

  private Departed departed(Decision decision, String logged, String came) {
    return new Departed(difference(decision, OptionalLong.empty(), logged, came));
  }

  private Difference difference(
      Decision decision, OptionalLong request, String logged, String came) {
    return new Difference(
        steps, decision, OptionalInt.empty(), OptionalInt.empty(), request, logged, came);
  }

  // ------------------------------------------------------------------------------ inputs

  private void bring(LogRecord.Input in) {
    try {
      switch (in) {
        case LogRecord.Offer(var request, Outcome logged) -> {
          requests++;
          Outcome came = group.offer(request);
          requireSame(Decision.OFFER, request.id(), logged, came);
        }
        case LogRecord.Withdraw(long id, boolean waited) ->
            requireSame(
                Decision.WITHDRAWAL,
                id,
                waited ? "it waited" : "it did not wait",
                group.cancel(id) ? "it waited" : "it did not wait");
        case LogRecord.Changed changed -> bring(changed);
        case LogRecord.WarmedUp(var phase) -> group.warmUp(phase);
        case LogRecord.Held held -> bring(held);
        case LogRecord.TakenBack(int rank, long id) -> group.withdraw(rank, id);
        case LogRecord.Limited(int admissionCap) -> group.limit(admissionCap);
        case LogRecord.Placed(int rank, var change) -> group.placement(rank, change);
        case LogRecord.Stop ignored ->
            throw departed(Decision.INPUT, "a sequence that ended between two steps", "no batch");
        case LogRecord.Lost ignored ->
            throw departed(Decision.INPUT, "a sequence that failed between two steps", "no batch");
        case LogRecord.Faulted ignored ->
            throw departed(Decision.INPUT, "a batch that broke between two steps", "no batch");
      }
    } catch (BerthException e) {
      throw departed(Decision.INPUT, in.toString(), "%s: %s".formatted(e.code(), e.getMessage()));
    }
  }

  private void bring(LogRecord.Held held) {
    RankEngine engine = group.engine(held.frame() % config.ranks(), held.frame() / config.ranks());
    switch (held.change()) {
      case HELD -> engine.hold(held.row(), held.id());
      case RESUMED -> engine.resume(held.row(), held.id());
    }
  }

  private void bring(LogRecord.Changed changed) {
    RankEngine engine =
        group.engine(changed.frame() % config.ranks(), changed.frame() / config.ranks());
    switch (changed.change()) {
      case ARRIVED -> engine.transferArrived(changed.row(), changed.id());
      case FAILED -> engine.transferFailed(changed.row(), changed.id());
      case CANCELLED -> engine.cancel(changed.row(), changed.id());
      case ENCODED -> engine.encoded(changed.row(), changed.id());
    }
  }

  private void requireSame(Decision decision, long request, Object logged, Object came) {
    if (!logged.equals(came)) {
      throw new Departed(
          difference(decision, OptionalLong.of(request), logged.toString(), came.toString()));
    }
  }

  /** Brings what came while the device was at work, at the same calls. */
  private final class Device implements LockstepGroup.Device {
    private int calls;
    private int brought;

    @Override
    public void forward(long maxRankTokens, long totalTokens) {
      calls++;
      while (due()) {
        bring(during.get(brought++).input);
      }
    }

    @Override
    public void launch(RankEngine engine, Batch batch) {
      called(engine, batch);
    }

    @Override
    public void collect(RankEngine engine, Batch batch) {
      called(engine, batch);
    }

    private void called(RankEngine engine, Batch batch) {
      calls++;
      while (due()) {
        switch (during.get(brought++).input) {
          case LogRecord.Stop(int frame, int position) -> {
            requireHere(engine, batch, frame, position);
            batch.stop(new BatchPosition(position));
          }
          case LogRecord.Lost(int frame, int position) -> {
            requireHere(engine, batch, frame, position);
            batch.fail(new BatchPosition(position));
          }
          case LogRecord.Faulted fault -> throw new BrokenBatchException(fault.toString());
          case LogRecord.Input in -> bring(in);
        }
      }
    }

    private void requireHere(RankEngine engine, Batch batch, int frame, int position) {
      int here = engine.stage() * config.ranks() + engine.rank();
      if (frame != here || position >= batch.size()) {
        throw departed(
            Decision.INPUT,
            "position %d of rank %d ended".formatted(position, frame % config.ranks()),
            "a batch of %d of rank %d".formatted(batch.size(), engine.rank()));
      }
    }

    private boolean due() {
      return brought < during.size() && during.get(brought).call == calls;
    }

    void requireAllBrought() {
      if (brought < during.size()) {
        throw departed(
            Decision.INPUT,
            "an input at call %d of the device".formatted(during.get(brought).call),
            calls + " calls");
      }
    }
  }

  // ------------------------------------------------------------------------------ the run again

  /** The log that the run writes this time, and what it says. */
  private static final class Rerun implements LogInput.Source {
    private final LogBuffer buffer =
        new LogBuffer(
            1 << 16,
            (memory, end) -> {
              byte[] block = new byte[end - LogFormat.BLOCK_HEADER];
              memory.get(LogFormat.BLOCK_HEADER, block);
              take(block);
            });
    final Recorder recorder = new Recorder(buffer, "");
    private final LogInput records = new LogInput(this);
    private Optional<RecordReader> reader = Optional.empty();
    private byte[] written = new byte[0];

    private void take(byte[] block) {
      int old = written.length;
      written = Arrays.copyOf(written, old + block.length);
      System.arraycopy(block, 0, written, old, block.length);
    }

    void begin() {
      buffer.flush();
      reader = Optional.of(new RecordReader(records));
    }

    /** What was written since the last call; the state is then that of its last step. */
    byte[] drain() {
      buffer.flush();
      byte[] all = written;
      RecordReader step = reader.orElseThrow();
      while (!step.ended()) {
        step.next();
      }
      return all;
    }

    GroupState state() {
      return reader.orElseThrow().state();
    }

    @Override
    public byte[] next() {
      byte[] all = written;
      written = new byte[0];
      return all;
    }

    @Override
    public long offset() {
      return 0;
    }
  }
}
