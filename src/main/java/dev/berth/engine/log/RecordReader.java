// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.BerthException;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillWarmUp;
import dev.berth.engine.GroupTap.Change;
import dev.berth.engine.GroupTap.Fault;
import dev.berth.engine.GroupTap.Hold;
import dev.berth.engine.GroupTap.Placement;
import dev.berth.engine.Outcome;
import dev.berth.engine.log.LogException.Kind;
import dev.berth.request.WaitReason;
import java.util.LinkedHashMap;
import java.util.Map;

/** Reads records: the opposite of {@link Recorder}. */
final class RecordReader {
  private static final Change[] CHANGES = Change.values();
  private static final Fault[] FAULTS = Fault.values();
  private static final Hold[] HOLDS = Hold.values();
  private static final Placement[] PLACEMENTS = Placement.values();
  private static final FillWarmUp[] WARM_UPS = FillWarmUp.values();
  private static final WaitReason[] REASONS = WaitReason.values();
  private static final int MOST_SETTINGS = 4096;
  private static final long MOST_ENGINES = 1 << 14;
  private static final long MOST_ROWS = 1 << 21;

  private final LogInput in;
  private final RequestCodec requests = new RequestCodec();
  private final String label;
  private final EngineConfig config;
  private final GroupState state;
  private long changedId;
  private int calls;

  /** Reads the first record, which says what ran. */
  RecordReader(LogInput in) {
    this.in = in;
    long begin = in.offset();
    if (in.octet() != LogFormat.CONFIG) {
      throw new LogException(Kind.MALFORMED, begin, "the log doesn't begin with its configuration");
    }
    this.label = in.text("the label");
    Map<String, String> settings = new LinkedHashMap<>();
    for (int n = in.index("the settings", MOST_SETTINGS); n > 0; n--) {
      String name = in.text("a setting's name");
      settings.put(name, in.text("a setting's value"));
    }
    try {
      this.config = ConfigText.read(settings);
    } catch (IllegalArgumentException | BerthException | ArithmeticException e) {
      throw new LogException(
          Kind.MALFORMED, begin, "its configuration can't be used: " + e.getMessage(), e);
    }
    requireModest(begin);
    this.state = new GroupState(config);
  }

  /** A few bytes may not ask for more memory than a machine has. */
  private void requireModest(long begin) {
    long engines = (long) config.ranks() * config.stages();
    long rows = engines * config.requestRows();
    if (engines > MOST_ENGINES || rows > MOST_ROWS) {
      throw new LogException(
          Kind.MALFORMED,
          begin,
          "a group of %d engines that keep up to %d requests; the most that is read: %d and %d"
              .formatted(engines, rows, MOST_ENGINES, MOST_ROWS));
    }
  }

  String label() {
    return label;
  }

  EngineConfig config() {
    return config;
  }

  GroupState state() {
    return state;
  }

  boolean ended() {
    return in.ended();
  }

  LogRecord next() {
    long begin = in.offset();
    int record = in.octet();
    return switch (record) {
      case LogFormat.OFFER -> offer();
      case LogFormat.WITHDRAW -> {
        boolean waited = in.index("whether it waited", 2) == 1;
        yield new LogRecord.Withdraw(in.signed(), waited);
      }
      case LogFormat.CHANGE -> {
        int which = in.index("rank and change", state.frames.length * LogFormat.FIRST_CHANGES);
        yield changed(which / LogFormat.FIRST_CHANGES, which % LogFormat.FIRST_CHANGES);
      }
      case LogFormat.OTHER_CHANGE -> {
        int frame = in.index("a rank", state.frames.length);
        yield changed(frame, in.index("a change", CHANGES.length));
      }
      case LogFormat.WARM_UP ->
          new LogRecord.WarmedUp(WARM_UPS[in.index("a warm-up", WARM_UPS.length)]);
      case LogFormat.STOP -> {
        int frame = in.index("a rank", state.frames.length);
        yield new LogRecord.Stop(frame, in.count("a batch position"));
      }
      case LogFormat.LOST -> {
        int frame = in.index("a rank", state.frames.length);
        yield new LogRecord.Lost(frame, in.count("a batch position"));
      }
      case LogFormat.FAULT -> {
        int which = in.index("rank and fault", config.ranks() * FAULTS.length);
        yield new LogRecord.Faulted(which / FAULTS.length, FAULTS[which % FAULTS.length]);
      }
      case LogFormat.HOLD -> {
        int which = in.index("rank and hold", state.frames.length * HOLDS.length);
        int row = in.count("a row");
        changedId += in.signed();
        yield new LogRecord.Held(which / HOLDS.length, HOLDS[which % HOLDS.length], row, changedId);
      }
      case LogFormat.TAKE_BACK -> {
        int rank = in.index("a rank", config.ranks());
        yield new LogRecord.TakenBack(rank, in.signed());
      }
      case LogFormat.LIMIT -> new LogRecord.Limited(in.count("requests a rank"));
      case LogFormat.PLACEMENT -> {
        int which = in.index("rank and placement", config.ranks() * PLACEMENTS.length);
        yield new LogRecord.Placed(
            which / PLACEMENTS.length, PLACEMENTS[which % PLACEMENTS.length]);
      }
      case LogFormat.CALL -> {
        calls = (int) in.number("the number of a call", calls + 1L, Integer.MAX_VALUE);
        yield new LogRecord.Call(calls);
      }
      case LogFormat.STEP -> {
        calls = 0;
        state.step(in);
        yield new LogRecord.Step();
      }
      case LogFormat.FAILED -> {
        calls = 0;
        String code = in.text("the code of a failure");
        yield new LogRecord.Failed(code, in.text("the message of a failure"));
      }
      case LogFormat.END -> new LogRecord.End(in.number("the steps", 0, Long.MAX_VALUE));
      default ->
          throw new LogException(
              Kind.MALFORMED, begin, "there is no record 0x%02x".formatted(record));
    };
  }

  private LogRecord.Changed changed(int frame, int change) {
    int row = in.count("a row");
    changedId += in.signed();
    return new LogRecord.Changed(frame, CHANGES[change], row, changedId);
  }

  private LogRecord.Offer offer() {
    int flags = in.index("the flags of an offer", RequestCodec.ENCODER * 2);
    var request = requests.read(flags, in);
    Outcome outcome = Outcome.QUEUED;
    if ((flags & LogFormat.NOT_QUEUED) != 0) {
      int logged = in.index("the outcome of an offer", LogFormat.REFUSED + REASONS.length);
      outcome =
          switch (logged) {
            case LogFormat.DUPLICATE -> Outcome.DUPLICATE;
            case LogFormat.EXPIRED -> Outcome.EXPIRED;
            default ->
                new Outcome.Refused(REASONS[logged - LogFormat.REFUSED], in.signed(), in.signed());
          };
    }
    return new LogRecord.Offer(request, outcome);
  }
}
