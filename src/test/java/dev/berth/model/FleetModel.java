// SPDX-License-Identifier: Apache-2.0
package dev.berth.model;

import dev.berth.engine.FillGate;
import dev.berth.engine.FillRules;
import dev.berth.engine.FleetRules;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.route.Assignment;
import dev.berth.route.DefaultRouter;
import dev.berth.route.RankLoads;
import dev.berth.route.RankState;
import java.util.Arrays;
import java.util.List;
import java.util.StringJoiner;

/**
 * Up to four ranks as a small state machine: what each has told the others, what it holds, and what
 * may happen next, one rank's step at a time. Ranks don't run in step: between the two collectives
 * of an iteration each goes on when its peers' frames are there, and requests and transfers arrive
 * at any moment.
 *
 * <p>What the fleet decides from gathered numbers is asked of the engine's own rules ({@link
 * FleetRules}, {@link FillGate}, {@link DefaultRouter}). What a rank does with its own requests is
 * modelled here, naively, and held to the engine by {@code ModelConformanceTest}.
 *
 * <p>A state is an array of small numbers: those of the fleet, then those of each rank.
 */
final class FleetModel {
  /** What an idle test looks at. Only the first is right. */
  enum IdleView {
    /** Live requests of all ranks, as gathered. */
    GATHERED_LIVE,
    /** Routable requests of all ranks: retirees are forgotten. */
    GATHERED_ROUTABLE,
    /** The rank's own live requests: peers are forgotten. */
    OWN_LIVE
  }

  /** Whether a rank that would have no batch is padded. */
  enum Padding {
    BOTH,
    NONE
  }

  /**
   * A fleet and its traffic.
   *
   * @param ranks 1 to 4
   * @param batch B and K of each rank
   * @param overlap one batch is pending while the next is launched
   * @param transfers requests arrive by KV transfer (a generation worker); else they are contexts
   * @param forwards forwards that a long request needs after its transfer, or as a context
   * @param requests for each request in order: L a long one, S one that ends with its transfer
   * @param failures transfers that may fail
   * @param gate the fill gate
   * @param idle what the idle test looks at
   * @param padding whether dummies exist
   */
  record Setup(
      int ranks,
      int batch,
      boolean overlap,
      boolean transfers,
      int forwards,
      String requests,
      int failures,
      FillGate gate,
      IdleView idle,
      Padding padding) {
    Setup with(FillGate other) {
      return new Setup(
          ranks, batch, overlap, transfers, forwards, requests, failures, other, idle, padding);
    }

    Setup with(IdleView view) {
      return new Setup(
          ranks, batch, overlap, transfers, forwards, requests, failures, gate, view, padding);
    }

    Setup with(Padding dummies) {
      return new Setup(
          ranks, batch, overlap, transfers, forwards, requests, failures, gate, idle, dummies);
    }
  }

  // ---- what may happen
  static final int SUBMIT = 0;
  static final int LAND_SHORT = 1;
  static final int LAND_LONG = 2;
  static final int FAIL = 3;
  static final int WAKE = 4;
  static final int DECIDE = 5;
  static final int FORWARD = 6;
  private static final List<String> NAMES =
      List.of("submit", "land S", "land L", "fail", "wake", "decide", "forward");

  // ---- where a rank stands
  static final int GATHERING = 0;
  static final int VOTING = 1;
  static final int IDLE = 2;
  static final int PAUSED = 3;
  private static final List<String> PLACES = List.of("gathering", "voting", "idle", "paused");

  // ---- numbers of the fleet
  static final int SENT = 0;
  static final int DONE = 1;
  static final int FAILURES = 2;

  /** Masks of ranks: whose frame is in, who has read all, for either collective. */
  private static final int IN_A = 3;

  private static final int READ_A = 4;
  private static final int IN_B = 5;
  private static final int READ_B = 6;
  private static final int FLEET = 7;

  // ---- numbers of a rank
  static final int PLACE = 0;
  static final int INIT_SHORT = 1;
  static final int INIT_LONG = 2;
  static final int TRANSFER_SHORT = 3;
  static final int TRANSFER_LONG = 4;

  /** Transfers that ended since the last schedule; they still count as on the way. */
  static final int LANDED_SHORT = 5;

  static final int LANDED_LONG = 6;
  static final int FAILED = 7;

  /** Whether KV arrived since the last frame was made. */
  static final int ARRIVED = 8;

  /** Requests that retire: their last forward is in the pending batch. */
  static final int RETIRING = 9;

  static final int BUILT = 10;
  static final int DUMMY = 11;

  // the frames
  static final int A_ROUTABLE = 12;
  static final int A_RETIRING = 13;
  static final int A_SETTLED = 14;
  static final int A_PROGRESS = 15;
  static final int A_RESIDENT = 16;
  static final int A_NEW = 17;
  static final int B_BATCH = 18;

  // the rank's copy of the admission
  static final int APPENDED = 19;
  static final int FETCHED = 20;
  static final int GATE_OPEN = 21;
  static final int RAMP = 22;
  static final int HELD = 23;
  static final int PROGRESS = 24;
  static final int ADMITTED = 25;

  /** How many requests need one more forward, two more, …; the longer run comes last. */
  static final int READY = 26;

  private static final int PROMPT = 8;

  private final Setup setup;
  private final int stride;
  private final DefaultRouter router = new DefaultRouter();
  private final Assignment assignment = new Assignment();

  FleetModel(Setup setup) {
    this.setup = setup;
    this.stride = READY + setup.forwards;
  }

  /** Length of a state. */
  int length() {
    return FLEET + setup.ranks * stride;
  }

  private int at(int rank, int field) {
    return FLEET + rank * stride + field;
  }

  int get(byte[] state, int rank, int field) {
    return state[at(rank, field)];
  }

  byte[] initial() {
    byte[] state = new byte[length()];
    for (int rank = 0; rank < setup.ranks; rank++) {
      state[at(rank, GATE_OPEN)] = (byte) (setup.gate.active() ? 0 : 1);
      sendGather(state, rank);
    }
    return state;
  }

  // ------------------------------------------------------------------------------ what may happen

  /** An event as one number: its kind times 4, plus the rank. */
  static int event(int kind, int rank) {
    return kind * 4 + rank;
  }

  static int kind(int event) {
    return event / 4;
  }

  static int rank(int event) {
    return event % 4;
  }

  /**
   * Events that can't fail to come as long as they are possible: all but the environment's whims.
   */
  static boolean fair(int event) {
    return kind(event) != SUBMIT && kind(event) != FAIL;
  }

  static String name(int event) {
    return kind(event) == SUBMIT ? "submit" : NAMES.get(kind(event)) + " on rank " + rank(event);
  }

  /** Possible events, their number in place 0. */
  int enabled(byte[] s, int[] events) {
    int n = 0;
    if (s[SENT] < setup.requests.length()) {
      events[n++] = event(SUBMIT, 0);
    }
    for (int rank = 0; rank < setup.ranks; rank++) {
      if (get(s, rank, TRANSFER_SHORT) > get(s, rank, LANDED_SHORT)) {
        events[n++] = event(LAND_SHORT, rank);
      }
      // A failure takes the place of a long one.
      if (get(s, rank, TRANSFER_LONG) > get(s, rank, LANDED_LONG) + get(s, rank, FAILED)) {
        events[n++] = event(LAND_LONG, rank);
        if (s[FAILURES] < setup.failures) {
          events[n++] = event(FAIL, rank);
        }
      }
      switch (get(s, rank, PLACE)) {
        case GATHERING -> {
          if (all(s[IN_A]) && !has(s[READ_A], rank)) {
            events[n++] = event(DECIDE, rank);
          }
        }
        case VOTING -> {
          if (all(s[IN_B]) && !has(s[READ_B], rank)) {
            events[n++] = event(FORWARD, rank);
          }
        }
        case IDLE -> {
          if (!has(s[IN_A], rank) && (rank > 0 || somethingArrived(s))) {
            events[n++] = event(WAKE, rank);
          }
        }
        default -> {
          if (!has(s[IN_A], rank)) {
            events[n++] = event(WAKE, rank);
          }
        }
      }
    }
    return n;
  }

  /** Rank 0 blocks on the queue of requests; its peers wait in the next gather for it. */
  private boolean somethingArrived(byte[] s) {
    return s[SENT] > get(s, 0, APPENDED)
        || get(s, 0, LANDED_SHORT) + get(s, 0, LANDED_LONG) + get(s, 0, FAILED) > 0;
  }

  private boolean all(int mask) {
    return mask == (1 << setup.ranks) - 1;
  }

  private static boolean has(int mask, int rank) {
    return (mask >> rank & 1) != 0;
  }

  /** All submitted requests are done. */
  static boolean done(byte[] s) {
    return s[DONE] == s[SENT];
  }

  /** Nothing more will be submitted. */
  boolean allSent(byte[] s) {
    return s[SENT] == setup.requests.length();
  }

  /** The state after an event. */
  byte[] after(byte[] before, int event) {
    byte[] s = before.clone();
    int rank = rank(event);
    switch (kind(event)) {
      case SUBMIT -> s[SENT]++;
      case LAND_SHORT -> land(s, rank, LANDED_SHORT);
      case LAND_LONG -> land(s, rank, LANDED_LONG);
      case FAIL -> {
        s[at(rank, FAILED)]++;
        s[FAILURES]++;
      }
      case WAKE -> sendGather(s, rank);
      case DECIDE -> decide(s, rank);
      default -> forward(s, rank);
    }
    return s;
  }

  private void land(byte[] s, int rank, int field) {
    s[at(rank, field)]++;
    s[at(rank, ARRIVED)] = 1;
  }

  // ------------------------------------------------------------------------------ one iteration

  private void sendGather(byte[] s, int rank) {
    int init = get(s, rank, INIT_SHORT) + get(s, rank, INIT_LONG);
    int transfer = get(s, rank, TRANSFER_SHORT) + get(s, rank, TRANSFER_LONG);
    int ready = ready(s, rank);
    s[at(rank, A_ROUTABLE)] = (byte) (init + transfer + ready);
    s[at(rank, A_RETIRING)] = s[at(rank, RETIRING)];
    s[at(rank, A_SETTLED)] = (byte) (FillGate.settled(init, transfer, 0) ? 1 : 0);
    s[at(rank, A_PROGRESS)] = s[at(rank, ARRIVED)];
    s[at(rank, A_RESIDENT)] = (byte) (setup.transfers ? ready : 0);
    s[at(rank, A_NEW)] = (byte) (rank == 0 ? s[SENT] - get(s, 0, APPENDED) : 0);
    s[at(rank, ARRIVED)] = 0;
    s[at(rank, PLACE)] = GATHERING;
    s[IN_A] |= (byte) (1 << rank);
  }

  private int ready(byte[] s, int rank) {
    int ready = 0;
    for (int k = 0; k < setup.forwards; k++) {
      ready += get(s, rank, READY + k);
    }
    return ready;
  }

  private void decide(byte[] s, int rank) {
    s[READ_A] |= (byte) (1 << rank);
    long routable = 0;
    long retiring = 0;
    boolean settled = true;
    boolean progress = false;
    long resident = 0;
    var states = new RankState[setup.ranks];
    for (int r = 0; r < setup.ranks; r++) {
      int load = get(s, r, A_ROUTABLE);
      routable += load;
      retiring += get(s, r, A_RETIRING);
      settled &= get(s, r, A_SETTLED) != 0;
      progress |= get(s, r, A_PROGRESS) != 0;
      resident += get(s, r, A_RESIDENT);
      states[r] = RankState.of(r, load, (long) load * PROMPT, get(s, r, A_RETIRING));
    }
    s[at(rank, APPENDED)] += s[at(0, A_NEW)];
    int waiting = get(s, rank, APPENDED) - get(s, rank, FETCHED);
    long live =
        switch (setup.idle) {
          case GATHERED_LIVE -> routable + retiring;
          case GATHERED_ROUTABLE -> routable;
          case OWN_LIVE -> (long) get(s, rank, A_ROUTABLE) + get(s, rank, A_RETIRING);
        };
    boolean idle = FleetRules.idle(live, waiting);
    boolean held = false;
    if (get(s, rank, GATE_OPEN) == 0) {
      boolean opens = setup.gate.opens(get(s, rank, FETCHED), settled, resident);
      s[at(rank, GATE_OPEN)] = (byte) (opens ? 1 : 0);
      held = !opens;
    } else {
      progress = false;
    }
    s[at(rank, HELD)] = (byte) (held ? 1 : 0);
    s[at(rank, PROGRESS)] = (byte) (progress ? 1 : 0);
    clearIfAllRead(s, IN_A, READ_A);
    if (idle) {
      s[at(rank, ADMITTED)] = 0;
      s[at(rank, PLACE)] = IDLE;
      return;
    }
    admit(s, rank, RankLoads.of(List.of(states)), routable, held);
    schedule(s, rank, held);
    s[at(rank, PLACE)] = VOTING;
    s[IN_B] |= (byte) (1 << rank);
  }

  private void admit(byte[] s, int rank, RankLoads loads, long routable, boolean held) {
    long capacity = (long) setup.ranks * setup.batch;
    long budget = FleetRules.budget(capacity, routable);
    if (held) {
      s[at(rank, RAMP)] =
          (byte)
              FleetRules.ramp(FillRules.Ramp.DOUBLING, get(s, rank, RAMP), setup.ranks, capacity);
      budget = Math.min(budget, get(s, rank, RAMP));
    } else {
      s[at(rank, RAMP)] = 0;
    }
    var popped = new RequestBatch();
    int first = get(s, rank, FETCHED);
    int last = (int) Math.min(get(s, rank, APPENDED), first + Math.max(0, budget));
    for (int i = first; i < last; i++) {
      popped.add(Request.of(i, PROMPT, 1));
    }
    router.route(loads, popped, setup.batch, assignment);
    for (int i = 0; i < assignment.size(rank); i++) {
      boolean isShort = setup.requests.charAt(first + assignment.get(rank, i)) == 'S';
      s[at(rank, admitted(isShort))]++;
    }
    s[at(rank, FETCHED)] = (byte) last;
    s[at(rank, ADMITTED)] = (byte) (last - first);
  }

  private int admitted(boolean isShort) {
    if (!setup.transfers) {
      return READY + setup.forwards - 1;
    }
    return isShort ? INIT_SHORT : INIT_LONG;
  }

  private void schedule(byte[] s, int rank, boolean held) {
    // What arrived is here now; one that needs no forward, or whose transfer failed, is over.
    int over = get(s, rank, LANDED_SHORT) + get(s, rank, FAILED);
    s[DONE] += (byte) over;
    s[at(rank, TRANSFER_SHORT)] -= s[at(rank, LANDED_SHORT)];
    s[at(rank, TRANSFER_LONG)] -= (byte) (get(s, rank, LANDED_LONG) + get(s, rank, FAILED));
    s[at(rank, READY + setup.forwards - 1)] += s[at(rank, LANDED_LONG)];
    s[at(rank, LANDED_SHORT)] = s[at(rank, LANDED_LONG)] = s[at(rank, FAILED)] = 0;

    boolean expected = setup.padding == Padding.BOTH && !held && assignment.expectedActive() > 0;
    int ready = ready(s, rank);
    int kvHere = ready + get(s, rank, RETIRING);
    boolean before = expected && kvHere == 0;
    // Their KV is asked for: at most K are there, and there are leases for two batches.
    s[at(rank, TRANSFER_SHORT)] += s[at(rank, INIT_SHORT)];
    s[at(rank, TRANSFER_LONG)] += s[at(rank, INIT_LONG)];
    s[at(rank, INIT_SHORT)] = s[at(rank, INIT_LONG)] = 0;
    int built = Math.min(setup.batch, ready);
    int active = kvHere + get(s, rank, TRANSFER_SHORT) + get(s, rank, TRANSFER_LONG);
    boolean after = expected && built == 0 && active > 0 && active < setup.batch;
    s[at(rank, BUILT)] = (byte) built;
    s[at(rank, DUMMY)] = (byte) (before || after ? 1 : 0);
    s[at(rank, B_BATCH)] = (byte) (built + (before || after ? 1 : 0));
  }

  private void forward(byte[] s, int rank) {
    s[READ_B] |= (byte) (1 << rank);
    boolean canQueue = true;
    for (int r = 0; r < setup.ranks; r++) {
      canQueue &= FleetRules.votesToQueue(get(s, r, B_BATCH));
    }
    boolean held = get(s, rank, HELD) != 0;
    int built = get(s, rank, BUILT);
    boolean launched = canQueue && !held && get(s, rank, B_BATCH) > 0;
    int retire = launched ? run(s, rank, built) : 0;
    if (setup.overlap) {
      // A rank with work of its own keeps its pending batch while a peer is empty (spec 01 §7.4).
      boolean settles = !held && (launched || built == 0);
      if (settles) {
        s[DONE] += s[at(rank, RETIRING)];
        s[at(rank, RETIRING)] = 0;
      }
      s[at(rank, RETIRING)] += (byte) retire;
    } else {
      s[DONE] += (byte) retire;
    }
    s[at(rank, BUILT)] = s[at(rank, DUMMY)] = 0;
    clearIfAllRead(s, IN_B, READ_B);
    if (FleetRules.pauses(held, get(s, rank, PROGRESS) != 0, get(s, rank, ADMITTED))) {
      s[at(rank, PLACE)] = PAUSED;
    } else {
      sendGather(s, rank);
    }
  }

  /** Who needs the fewest forwards came first; how many had their last one. */
  private int run(byte[] s, int rank, int built) {
    int left = built;
    int retire = 0;
    for (int k = 0; k < setup.forwards; k++) {
      int n = Math.min(left, get(s, rank, READY + k));
      s[at(rank, READY + k)] -= (byte) n;
      if (k == 0) {
        retire = n;
      } else {
        s[at(rank, READY + k - 1)] += (byte) n;
      }
      left -= n;
    }
    return retire;
  }

  /** Whoever reads last makes room for the next collective. */
  private void clearIfAllRead(byte[] s, int in, int read) {
    if (all(s[read])) {
      s[in] = 0;
      s[read] = 0;
    }
  }

  // ------------------------------------------------------------------------------ in words

  String describe(byte[] s) {
    var text = new StringJoiner("; ");
    text.add("sent " + s[SENT] + ", done " + s[DONE]);
    for (int rank = 0; rank < setup.ranks; rank++) {
      var line = new StringJoiner(", ", "rank " + rank + " ", "");
      line.add(PLACES.get(get(s, rank, PLACE)));
      add(line, get(s, rank, INIT_SHORT) + get(s, rank, INIT_LONG), "init");
      add(line, get(s, rank, TRANSFER_SHORT) + get(s, rank, TRANSFER_LONG), "in transfer");
      add(line, ready(s, rank), "ready");
      add(line, get(s, rank, RETIRING), "retiring");
      add(line, get(s, rank, APPENDED) - get(s, rank, FETCHED), "waiting");
      if (get(s, rank, GATE_OPEN) == 0) {
        line.add("gate closed");
      }
      text.add(line.toString());
    }
    return text.toString();
  }

  private static void add(StringJoiner line, int n, String what) {
    if (n > 0) {
      line.add(n + " " + what);
    }
  }

  @Override
  public String toString() {
    return setup + " " + Arrays.toString(initial());
  }
}
