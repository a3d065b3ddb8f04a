// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.simulate.RankAudit.Change;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * KV transfers to one rank, and the log of what its stages are told about live requests: each stage
 * reads the same up to the same place in the same iteration.
 */
final class Transfers {
  private static final long NEVER = Long.MAX_VALUE;

  private final WorldPlan plan;
  private final FleetAudit fleet;
  private final int[] lateBy;
  private final boolean[] fails;
  private final boolean[] hangs;
  private final int[] repeats; // 0: not at all, else µs + 1

  private int[] request = new int[16]; // numbers of sequences
  private long[] endsAt = new long[16];
  private long[] startedAt = new long[16]; // by the rank's clock
  private boolean[] over = new boolean[16]; // told once; this is the second time
  private int count;
  private int underway;

  private int[] logRequest = new int[64];
  private Change[] logChange = new Change[64];
  private int logged;

  Transfers(WorldPlan plan, FleetAudit fleet) {
    this.plan = plan;
    this.fleet = fleet;
    int n = plan.arrivals().size();
    lateBy = new int[n];
    fails = new boolean[n];
    hangs = new boolean[n];
    repeats = new int[n];
    for (Happening happening : plan.happenings()) {
      int subject = happening.subject();
      switch (happening.fault()) {
        case TRANSFER_LATE -> lateBy[subject] = happening.amount();
        case TRANSFER_FAILS -> fails[subject] = true;
        case TRANSFER_TIMES_OUT -> hangs[subject] = true;
        case SIGNAL_REPEATED -> repeats[subject] = 1 + happening.amount();
        default -> {}
      }
    }
  }

  void start(int number, long now, long clock) {
    int whose = fleet.requestOf(number);
    long takes =
        plan.arrivals().get(whose).transferMicros()
            + (long) lateBy[whose]
            + 7L * fleet.child(number);
    add(number, hangs[whose] ? NEVER : now + takes, clock);
    underway++;
  }

  private void add(int number, long at, long clock) {
    if (count == request.length) {
      request = Arrays.copyOf(request, 2 * count);
      endsAt = Arrays.copyOf(endsAt, 2 * count);
      startedAt = Arrays.copyOf(startedAt, 2 * count);
      over = Arrays.copyOf(over, 2 * count);
    }
    request[count] = number;
    endsAt[count] = at;
    startedAt[count] = clock;
    over[count++] = false;
  }

  /** Nothing is on the way. */
  boolean quiet() {
    return count == 0;
  }

  /** Transfers whose end wasn't told. */
  int underway() {
    return underway;
  }

  /** When the next one ends, as far as is known. */
  long nextAt() {
    long next = NEVER;
    for (int i = 0; i < count; i++) {
      next = Math.min(next, endsAt[i]);
    }
    return next;
  }

  /** Tells the ends that are due, those of time-outs, and those that were told before. */
  void bring(long now, long clock, long limit, Consumer<Fault> strike) {
    for (int i = 0; i < count; i++) {
      int number = request[i];
      int whose = fleet.requestOf(number);
      boolean ends = endsAt[i] <= now;
      if (over[i]) {
        if (ends) {
          if (fleet.claims(whose)) {
            strike.accept(Fault.SIGNAL_REPEATED);
            tell(number, fails[whose] ? Change.FAILED : Change.ARRIVED);
          }
          remove(i--);
        }
        continue;
      }
      if (!ends && clock - startedAt[i] < limit) {
        continue;
      }
      underway--;
      if (ends) {
        tell(number, fails[whose] ? Change.FAILED : Change.ARRIVED);
        strikeAll(whose, strike);
        endsAt[i] = now + repeats[whose];
        over[i] = true;
        if (repeats[whose] == 0) {
          remove(i--);
        }
      } else {
        tell(number, Change.FAILED);
        strike.accept(Fault.TRANSFER_TIMES_OUT);
        over[i] = true; // its own end is still to come
        if (endsAt[i] == NEVER) {
          remove(i--);
        }
      }
    }
  }

  private void strikeAll(int number, Consumer<Fault> strike) {
    if (lateBy[number] > 0) {
      strike.accept(Fault.TRANSFER_LATE);
    }
    if (fails[number]) {
      strike.accept(Fault.TRANSFER_FAILS);
    }
  }

  private void remove(int i) {
    count--;
    request[i] = request[count];
    endsAt[i] = endsAt[count];
    startedAt[i] = startedAt[count];
    over[i] = over[count];
  }

  /** Appends to the log. */
  void tell(int number, Change change) {
    if (logged == logRequest.length) {
      logRequest = Arrays.copyOf(logRequest, 2 * logged);
      logChange = Arrays.copyOf(logChange, 2 * logged);
    }
    logRequest[logged] = number;
    logChange[logged++] = change;
  }

  /** Length of the log. */
  int log() {
    return logged;
  }

  int request(int entry) {
    return logRequest[entry];
  }

  Change change(int entry) {
    return logChange[entry];
  }
}
