// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.engine.EndKind;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.log.LogException.Kind;
import dev.berth.request.WaitReason;
import java.util.Arrays;

/** What a log says of a group after its last step: the opposite of {@link Recorder#stepped}. */
final class GroupState {
  /** Ids, each with a number that belongs to it. */
  static final class Ids {
    int size;
    long[] id = new long[4];
    long[] value = new long[4];

    void add(long newId, long newValue) {
      if (size == id.length) {
        id = Arrays.copyOf(id, size * 2);
        value = Arrays.copyOf(value, size * 2);
      }
      id[size] = newId;
      value[size++] = newValue;
    }

    /** Where an id stands, -1 if nowhere. */
    int find(long wanted) {
      for (int i = 0; i < size; i++) {
        if (id[i] == wanted) {
          return i;
        }
      }
      return -1;
    }

    boolean same(Ids other) {
      return Arrays.equals(id, 0, size, other.id, 0, other.size)
          && Arrays.equals(value, 0, size, other.value, 0, other.size);
    }
  }

  /** One rank of one stage. */
  static final class Frame {
    /** Who ran how: value = tokens · 2 + (1 for a context). */
    Ids batch = new Ids();

    int bits;

    /** Who ended how: value = tokens · 3 + kind. */
    final Ids ended = new Ids();

    final Ids receives = new Ids();
    final int[] deferred = new int[REASONS];
    long resident;
    long seats;
    long leases;
    long pages;

    private Ids spent = new Ids();
    private long addedId;
    private long endedId;
    private long receivedId;
  }

  private static final int REASONS = WaitReason.values().length;

  final int ranks;
  final Frame[] frames;
  private final int positions;

  int flags;
  long expected;
  long budget;
  long charged;

  /** Who was given to which rank: value = the rank. */
  final Ids assigned = new Ids();

  long hash;
  private long assignedId;

  GroupState(EngineConfig config) {
    ranks = config.ranks();
    positions = config.plan().batchPositions().count();
    frames = new Frame[ranks * config.stages()];
    Arrays.setAll(frames, i -> new Frame());
  }

  /** Reads a step behind the number of its record. */
  void step(LogInput in) {
    flags = (int) in.number("the flags of a step", 0, LogFormat.STEP_FLAGS);
    if ((flags & LogFormat.RAN) == 0) {
      return;
    }
    if ((flags & LogFormat.NUMBERS) != 0) {
      expected += in.signed();
      budget += in.signed();
      charged += in.signed();
    }
    assignments(in);
    for (Frame frame : frames) {
      frame.ended.size = 0;
      frame.receives.size = 0;
    }
    int last = -1;
    for (int gap = in.count("the next rank"); gap != 0; gap = in.count("the next rank")) {
      if (gap > frames.length - 1 - last) {
        throw bad(in, "a rank of %d, %d further on, of %d".formatted(last, gap, frames.length));
      }
      last += gap;
      frame(frames[last], in);
    }
    hash = in.fixed();
  }

  private void assignments(LogInput in) {
    assigned.size = 0;
    int total = in.count("the requests admitted");
    while (assigned.size < total) {
      int rank = in.index("a rank", ranks);
      int n = (int) in.number("the requests of a rank", 1, (long) total - assigned.size);
      for (int i = 0; i < n; i++) {
        assignedId += in.signed();
        assigned.add(assignedId, rank);
      }
    }
  }

  private void frame(Frame frame, LogInput in) {
    int sections = (int) in.number("the sections of a rank", 1, LogFormat.SECTIONS);
    if ((sections & LogFormat.BATCH) != 0) {
      batch(frame, in);
    }
    if ((sections & LogFormat.BITS) != 0) {
      frame.bits = in.index("the bits of a rank", 8);
    }
    if ((sections & LogFormat.ENDED) != 0) {
      int n = in.count("the requests that ended");
      for (int i = 0; i < n; i++) {
        frame.endedId += in.signed();
        frame.ended.add(frame.endedId, in.number("tokens and end", 0, 3L << 32));
      }
    }
    if ((sections & LogFormat.RECEIVES) != 0) {
      int n = in.count("the transfers begun");
      for (int i = 0; i < n; i++) {
        frame.receivedId += in.signed();
        frame.receives.add(frame.receivedId, 0);
      }
    }
    if ((sections & LogFormat.DEFERRED) != 0) {
      int differ = in.index("the reasons to wait", 1 << REASONS);
      for (int reason = 0; reason < REASONS; reason++) {
        if ((differ & 1 << reason) != 0) {
          frame.deferred[reason] = in.count("the requests that wait");
        }
      }
    }
    if ((sections & LogFormat.POOLS) != 0) {
      frame.resident += in.signed();
      frame.seats += in.signed();
      frame.leases += in.signed();
      frame.pages += in.signed();
    }
  }

  private void batch(Frame frame, LogInput in) {
    Ids old = frame.batch;
    Ids now = frame.spent;
    now.size = 0;
    int at = 0;
    while (true) {
      long number = in.number();
      long rest = number >>> 2;
      switch ((int) (number & 3)) {
        case LogFormat.ADD -> {
          if (rest >= 1L << 33) {
            throw bad(in, "a batch position of " + (rest >>> 1) + " tokens");
          }
          frame.addedId += in.signed();
          now.add(frame.addedId, rest);
        }
        case LogFormat.COPY -> {
          requireLeft(rest, old.size - at, in);
          for (int end = at + (int) rest; at < end; at++) {
            now.add(old.id[at], old.value[at]);
          }
        }
        case LogFormat.DROP -> {
          requireLeft(rest, old.size - at, in);
          at += (int) rest;
        }
        default -> {
          if (rest != 0 || at != old.size) {
            throw bad(in, "a batch that ends before the last one is used up");
          }
          frame.batch = now;
          frame.spent = old;
          return;
        }
      }
      if (now.size > positions) {
        throw bad(in, "a batch of more than " + positions + " positions");
      }
    }
  }

  private static void requireLeft(long wanted, int left, LogInput in) {
    if (wanted < 1 || wanted > left) {
      throw bad(in, "%d positions of the last batch, which has %d left".formatted(wanted, left));
    }
  }

  private static LogException bad(LogInput in, String problem) {
    return new LogException(Kind.MALFORMED, in.offset(), problem);
  }

  /** How a request of {@link Frame#ended} ended. */
  static EndKind endKind(long value) {
    return EndKind.values()[(int) (value % 3)];
  }
}
