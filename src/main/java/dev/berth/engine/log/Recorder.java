// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.BerthException;
import dev.berth.engine.Admission;
import dev.berth.engine.Batch;
import dev.berth.engine.FillWarmUp;
import dev.berth.engine.GroupTap;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.request.Request;
import dev.berth.request.WaitReason;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Turns what a group hears and decides into records. Only what differs from the iteration before is
 * written; what is as it was costs a comparison. Allocates nothing in the steady state.
 */
final class Recorder implements GroupTap {
  private static final WaitReason[] REASONS = WaitReason.values();

  /** Positions that are searched one by one. */
  private static final int NEAR = 16;

  private final LogBuffer out;
  private final String label;
  private final RequestCodec requests = new RequestCodec();
  private @Nullable LockstepGroup group;
  private Frame[] frames = new Frame[0];
  private int ranks;

  private int calls;
  private int callsWritten;
  private long changedId;
  private long assignedId;
  private long expected;
  private long budget;
  private long charged;
  private long steps;

  Recorder(LogBuffer out, String label) {
    this.out = out;
    this.label = label;
  }

  long steps() {
    return steps;
  }

  @Override
  public void begin(LockstepGroup begun) {
    group = begun;
    ranks = begun.config().ranks();
    frames = new Frame[ranks * begun.config().stages()];
    for (int i = 0; i < frames.length; i++) {
      frames[i] = new Frame(begun.engine(i % ranks, i / ranks));
    }
    Map<String, String> settings = ConfigText.write(begun.config());
    out.octet(LogFormat.CONFIG);
    out.text(label);
    out.number(settings.size());
    settings.forEach((name, value) -> {
      out.text(name);
      out.text(value);
    });
  }

  // ------------------------------------------------------------------------------ what came in

  @Override
  public void offered(Request request, Outcome outcome) {
    head(LogFormat.OFFER);
    requests.write(request, outcome instanceof Outcome.Queued ? 0 : LogFormat.NOT_QUEUED, out);
    switch (outcome) {
      case Outcome.Queued ignored -> {}
      case Outcome.Duplicate ignored -> out.number(LogFormat.DUPLICATE);
      case Outcome.Expired ignored -> out.number(LogFormat.EXPIRED);
      case Outcome.Refused refused -> {
        out.number((long) LogFormat.REFUSED + refused.reason().ordinal());
        out.signed(refused.required());
        out.signed(refused.available());
      }
    }
  }

  @Override
  public void cancelled(long id, boolean waited) {
    head(LogFormat.WITHDRAW);
    out.number(waited ? 1 : 0);
    out.signed(id);
  }

  @Override
  public void warmUp(FillWarmUp phase) {
    head(LogFormat.WARM_UP);
    out.number(phase.ordinal());
  }

  @Override
  public void changed(RankEngine engine, Change change, int row, long requestId) {
    if (change.ordinal() < LogFormat.FIRST_CHANGES) {
      head(LogFormat.CHANGE);
      out.number((long) frame(engine) * LogFormat.FIRST_CHANGES + change.ordinal());
    } else {
      head(LogFormat.OTHER_CHANGE);
      out.number(frame(engine));
      out.number(change.ordinal());
    }
    out.number(row);
    out.signed(requestId - changedId);
    changedId = requestId;
  }

  @Override
  public void stopped(RankEngine engine, int position) {
    head(LogFormat.STOP);
    out.number(frame(engine));
    out.number(position);
  }

  @Override
  public void lost(RankEngine engine, int position) {
    head(LogFormat.LOST);
    out.number(frame(engine));
    out.number(position);
  }

  @Override
  public void faulted(int rank, Fault kind) {
    head(LogFormat.FAULT);
    out.number(2L * rank + kind.ordinal());
  }

  @Override
  public void held(RankEngine engine, Hold change, int row, long requestId) {
    head(LogFormat.HOLD);
    out.number(2L * frame(engine) + change.ordinal());
    out.number(row);
    out.signed(requestId - changedId);
    changedId = requestId;
  }

  @Override
  public void withdrawn(int rank, long id) {
    head(LogFormat.TAKE_BACK);
    out.number(rank);
    out.signed(id);
  }

  @Override
  public void limited(int admissionCap) {
    head(LogFormat.LIMIT);
    out.number(admissionCap);
  }

  @Override
  public void placement(int rank, Placement change) {
    head(LogFormat.PLACEMENT);
    out.number(2L * rank + change.ordinal());
  }

  private int frame(RankEngine engine) {
    return engine.stage() * ranks + engine.rank();
  }

  private void head(int record) {
    if (calls != callsWritten) {
      out.octet(LogFormat.CALL);
      out.number(calls);
      callsWritten = calls;
    }
    out.octet(record);
  }

  @Override
  public void stepping() {
    calls = 0;
    callsWritten = 0;
  }

  @Override
  public void calling() {
    calls++;
  }

  // ------------------------------------------------------------------------------ what was decided

  @Override
  public void failed(RuntimeException cause) {
    calls = 0;
    callsWritten = 0;
    steps++;
    out.octet(LogFormat.FAILED);
    out.text(cause instanceof BerthException e ? e.code().name() : cause.getClass().getName());
    out.text(String.valueOf(cause.getMessage()));
  }

  @Override
  public void stepped(boolean ran) {
    calls = 0;
    callsWritten = 0;
    steps++;
    out.octet(LogFormat.STEP);
    if (!ran) {
      out.number(0);
      return;
    }
    LockstepGroup stepped = Objects.requireNonNull(group);
    Admission admission = stepped.admission();
    boolean numbers =
        admission.expectedActive() != expected
            || admission.budget() != budget
            || admission.charged() != charged;
    out.number(
        LogFormat.RAN
            | (admission.held() ? LogFormat.HELD : 0)
            | (admission.gateOpen() ? LogFormat.GATE_OPEN : 0)
            | (admission.progress() ? LogFormat.PROGRESS : 0)
            | (stepped.launched() ? LogFormat.LAUNCHED : 0)
            | (numbers ? LogFormat.NUMBERS : 0));
    if (numbers) {
      out.signed(admission.expectedActive() - expected);
      out.signed(admission.budget() - budget);
      out.signed(admission.charged() - charged);
      expected = admission.expectedActive();
      budget = admission.budget();
      charged = admission.charged();
    }
    assignments(admission);
    long hash = 0;
    int last = -1;
    for (int i = 0; i < frames.length; i++) {
      hash = LogFormat.mixed(hash, frames[i].engine.decisionHash());
      int sections = frames[i].sections();
      if (sections != 0) {
        out.number(i - last);
        out.number(sections);
        frames[i].write(sections, out);
        last = i;
      }
    }
    out.number(0);
    out.fixed(hash);
  }

  private void assignments(Admission admission) {
    out.number(admission.admitted());
    if (admission.admitted() == 0) {
      return;
    }
    for (int rank = 0; rank < ranks; rank++) {
      int n = admission.assigned(rank);
      if (n > 0) {
        out.number(rank);
        out.number(n);
        for (int i = 0; i < n; i++) {
          long id = admission.assignedId(rank, i);
          out.signed(id - assignedId);
          assignedId = id;
        }
      }
    }
  }

  /** The log is complete. */
  void end() {
    out.octet(LogFormat.END);
    out.number(steps);
    out.flush();
  }

  /** What one rank was when it was last written. */
  private static final class Frame {
    final RankEngine engine;

    /** The last batch as {@link Batch#words} gives it; only its generations are compared. */
    private long[] words = new long[16];

    private int size;
    private int generations;
    private long[] nextWords = new long[16];

    /** Where rows stand in the last batch; filled where a neighbourhood doesn't do. */
    private final int[] positions;

    private boolean positionsKnown;
    private long batchHash;
    private long addedId;
    private int copied;
    private int dropped;

    private int bits;
    private long endedId;
    private long receivedId;
    private final int[] deferred = new int[REASONS.length];
    private int resident;
    private int seats;
    private int leases;
    private long pages;

    Frame(RankEngine engine) {
      this.engine = engine;
      this.positions = new int[engine.table().rows()];
    }

    int sections() {
      int sections = engine.ended() > 0 ? LogFormat.ENDED : 0;
      if (engine.batchHash() != batchHash || engine.real() != size) {
        sections |= LogFormat.BATCH;
      }
      if (currentBits() != bits) {
        sections |= LogFormat.BITS;
      }
      if (engine.receives() > 0) {
        sections |= LogFormat.RECEIVES;
      }
      for (WaitReason reason : REASONS) {
        if (engine.deferred(reason) != deferred[reason.ordinal()]) {
          sections |= LogFormat.DEFERRED;
        }
      }
      if (engine.resident() != resident
          || engine.seatsUsed() != seats
          || engine.leasesUsed() != leases
          || engine.pagesUsed() != pages) {
        sections |= LogFormat.POOLS;
      }
      return sections;
    }

    private int currentBits() {
      return (engine.padded() ? LogFormat.PADDED : 0)
          | (engine.launched() ? LogFormat.FRAME_LAUNCHED : 0)
          | (engine.canQueue() ? LogFormat.CAN_QUEUE : 0);
    }

    void write(int sections, LogBuffer out) {
      if ((sections & LogFormat.BATCH) != 0) {
        writeBatch(engine.scheduled(), out);
      }
      if ((sections & LogFormat.BITS) != 0) {
        bits = currentBits();
        out.number(bits);
      }
      if ((sections & LogFormat.ENDED) != 0) {
        int n = engine.ended();
        out.number(n);
        for (int i = 0; i < n; i++) {
          out.signed(engine.endedId(i) - endedId);
          out.number((long) engine.endedTokens(i) * 3 + engine.endedKind(i).ordinal());
          endedId = engine.endedId(i);
        }
      }
      if ((sections & LogFormat.RECEIVES) != 0) {
        int n = engine.receives();
        out.number(n);
        for (int i = 0; i < n; i++) {
          long id = engine.table().id(engine.receiveRow(i));
          out.signed(id - receivedId);
          receivedId = id;
        }
      }
      if ((sections & LogFormat.DEFERRED) != 0) {
        writeDeferred(out);
      }
      if ((sections & LogFormat.POOLS) != 0) {
        out.signed((long) engine.resident() - resident);
        out.signed((long) engine.seatsUsed() - seats);
        out.signed((long) engine.leasesUsed() - leases);
        out.signed(engine.pagesUsed() - pages);
        resident = engine.resident();
        seats = engine.seatsUsed();
        leases = engine.leasesUsed();
        pages = engine.pagesUsed();
      }
    }

    private void writeDeferred(LogBuffer out) {
      int differ = 0;
      for (WaitReason reason : REASONS) {
        if (engine.deferred(reason) != deferred[reason.ordinal()]) {
          differ |= 1 << reason.ordinal();
        }
      }
      out.number(differ);
      for (WaitReason reason : REASONS) {
        int now = engine.deferred(reason);
        if (now != deferred[reason.ordinal()]) {
          out.number(now);
          deferred[reason.ordinal()] = now;
        }
      }
    }

    // ---- the batch, as a change of the rank's last one: runs that stay, runs that go, who comes

    private void writeBatch(Batch batch, LogBuffer out) {
      int length = batch.size();
      if (nextWords.length < length) {
        nextWords = new long[Math.max(length, nextWords.length * 2)];
      }
      batch.words(nextWords);
      int contexts = engine.contexts();
      int nextGenerations = engine.real() - contexts;
      positionsKnown = false;
      drop(size - writeGenerations(batch, nextGenerations, out), out);
      // A row may have gone from one context to the next request's: a context is never "as before".
      for (int i = length - contexts; i < length; i++) {
        add(batch.id(i), nextWords[i], out);
      }
      runs(out);
      out.number(LogFormat.DONE);
      long[] spent = words;
      words = nextWords;
      nextWords = spent;
      size = nextGenerations + contexts;
      generations = nextGenerations;
      batchHash = engine.batchHash();
    }

    /**
     * A row that generates in two iterations on end does so for one request: a new one's first
     * batch is its context, or comes after its transfer.
     *
     * @return how much of the last batch is dealt with
     */
    private int writeGenerations(Batch batch, int end, LogBuffer out) {
      int old = 0;
      int now = 0;
      while (now < end) {
        int differ = Arrays.mismatch(words, old, generations, nextWords, now, end);
        int run = differ < 0 ? end - now : differ;
        if (run > 0) {
          copy(run, out);
          old += run;
          now += run;
          continue;
        }
        int stood = find(nextWords[now], old);
        if (stood > old) {
          drop(stood - old, out);
          old = stood;
        } else {
          add(batch.id(now), nextWords[now], out);
          now++;
        }
      }
      return old;
    }

    /** Where a word stands in the last batch behind a position, -1 if nowhere. */
    private int find(long word, int behind) {
      int near = Math.min(generations, behind + NEAR);
      for (int i = behind + 1; i < near; i++) {
        if (words[i] == word) {
          return i;
        }
      }
      if (near >= generations) {
        return -1;
      }
      if (!positionsKnown) {
        for (int i = 0; i < generations; i++) {
          positions[(int) words[i]] = i;
        }
        positionsKnown = true;
      }
      int stood = positions[(int) word];
      return stood > behind && stood < generations && words[stood] == word ? stood : -1;
    }

    private void copy(int count, LogBuffer out) {
      if (dropped > 0) {
        runs(out);
      }
      copied += count;
    }

    private void drop(int count, LogBuffer out) {
      if (count > 0 && copied > 0) {
        runs(out);
      }
      dropped += count;
    }

    private void add(long id, long word, LogBuffer out) {
      runs(out);
      long run = word >>> 32;
      out.number(run << 2 | LogFormat.ADD);
      out.signed(id - addedId);
      addedId = id;
    }

    private void runs(LogBuffer out) {
      if (copied > 0) {
        out.number((long) copied << 2 | LogFormat.COPY);
        copied = 0;
      }
      if (dropped > 0) {
        out.number((long) dropped << 2 | LogFormat.DROP);
        dropped = 0;
      }
    }
  }
}
