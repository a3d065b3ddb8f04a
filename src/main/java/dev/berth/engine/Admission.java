// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.exchange.FrameBoard;
import dev.berth.request.RankOccupancy;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitingQueue;
import dev.berth.route.AdpRouter;
import dev.berth.route.Assignment;
import dev.berth.route.MatchSource;
import dev.berth.route.PrefixMatches;
import dev.berth.route.RankLoads;
import dev.berth.route.RankState;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.BitSet;
import java.util.Locale;
import java.util.Objects;
import java.util.StringJoiner;
import org.jspecify.annotations.Nullable;

/**
 * The part of an engine that every rank computes alike: waiting queue, admission budget, fill gate
 * and router (spec 01 §3, §4, §8). It is a replicated state machine: the same offers and the same
 * gathered frames give the same decisions. Ranks of one process may share one instance; the
 * decision is then computed once and the others check that they asked about the same frames.
 */
public final class Admission {
  /** Ranks that a report names. */
  private static final int MOST_NAMED = 8;

  private final EngineConfig config;
  private final boolean attentionDp;
  private final int firstFrame;
  private final WaitingQueue queue;
  private final AdpRouter router;
  private final RankLoads loads = new RankLoads();
  private final RequestBatch popped = new RequestBatch();
  private final Assignment assignment = new Assignment();
  private final MatchSource matches;
  private PrefixMatches routed = PrefixMatches.NONE;

  private final BitSet closedRanks = new BitSet();
  private final MemorySegment rankTokens;
  private int cap;
  private int fleetCapacity;

  /** What a request that insists on a rank finds there: a rank that takes none is full. */
  private final RankOccupancy occupancy =
      new RankOccupancy() {
        @Override
        public int ranks() {
          return loads.ranks();
        }

        @Override
        public int activeRequests(int rank) {
          return loads.isClosed(rank) ? Integer.MAX_VALUE : loads.activeRequests(rank);
        }
      };

  private long decided = -1;
  private long askedAbout;
  private long fetched;
  private boolean gateOpen;
  private long rampCap;
  private boolean warmingUp;
  private boolean pausing;
  private long stalledPauses;

  private long voted = -1;
  private long votedAbout;
  private boolean noneEmpty;
  private boolean contextsHeld;
  private final @Nullable BalanceGate balance;
  private final @Nullable BatchWait wait;
  private DummyRole dummyRole = DummyRole.GENERATION;

  private long budget;
  private boolean idle;
  private boolean faulted;
  private boolean held;
  private boolean progress;
  private long decisionHash;

  /**
   * The admission of one pipeline stage.
   *
   * @param stage which stage's frames of a board it reads
   */
  public Admission(EngineConfig config, int stage) {
    this(config, stage, MatchSource.NONE);
  }

  /**
   * The admission of one pipeline stage that may know what the ranks' caches hold.
   *
   * @param stage which stage's frames of a board it reads
   * @param matches asked for a batch that isn't empty if the router uses matches (spec 01 §4.3);
   *     gives every rank the same
   */
  public Admission(EngineConfig config, int stage, MatchSource matches) {
    this.config = config;
    this.attentionDp = config.plan().shape().attentionDp();
    this.rankTokens = Arena.ofAuto().allocate(ValueLayout.JAVA_INT, config.ranks());
    this.firstFrame = stage * config.ranks();
    this.queue =
        attentionDp
            ? WaitingQueue.withAttentionDp(config.queue(), config.ranks())
            : WaitingQueue.withoutAttentionDp(config.queue());
    this.router = config.router().router(config.cap());
    this.matches = matches;
    this.gateOpen = !config.gate().active();
    this.balance =
        config.hold() instanceof ContextHold.Balanced(var rules)
            ? new BalanceGate(rules, config.plan().batchPositions().count())
            : null;
    this.wait =
        config.hold() instanceof ContextHold.Batched(var rules)
            ? new BatchWait(rules, config.plan().shape().maxNumTokens())
            : null;
    limit(config.plan().admissionCap());
  }

  /**
   * From the next decision on each rank takes at most that many requests. On every stage alike,
   * between the same iterations.
   *
   * @param admissionCap 1 to the plan's
   */
  void limit(int admissionCap) {
    if (admissionCap < 1 || admissionCap > config.plan().admissionCap()) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d requests a rank: 1 to %d".formatted(admissionCap, config.plan().admissionCap()));
    }
    cap = admissionCap;
    setCapacity();
  }

  /** From the next decision on a rank takes no new requests. What it has goes on. */
  void closeRank(int rank) {
    closedRanks.set(Objects.checkIndex(rank, config.ranks()));
    setCapacity();
  }

  /** From the next decision on a rank takes new requests again. */
  void openRank(int rank) {
    closedRanks.clear(Objects.checkIndex(rank, config.ranks()));
    setCapacity();
  }

  private void setCapacity() {
    boolean asPlanned = cap == config.plan().admissionCap() && closedRanks.isEmpty();
    fleetCapacity =
        asPlanned
            ? config.plan().fleetCapacity()
            : cap * (config.ranks() - closedRanks.cardinality());
  }

  /** Most requests that may be admitted, on all ranks that take new ones. */
  public int capacity() {
    return fleetCapacity;
  }

  /** True if a rank takes no new requests. */
  public boolean isClosed(int rank) {
    return closedRanks.get(rank);
  }

  /**
   * Appends a request that every rank received in the same order, between the same iterations.
   * Without attention DP placement wishes mean nothing. Deadlines are iterations, as boards count
   * them: the first is 0.
   */
  public WaitingQueue.Offer offer(Request request) {
    return queue.offer(attentionDp ? request : request.withScheduling(SchedulingParams.NONE));
  }

  /** Takes a request out of the queue again. */
  public boolean cancel(long id) {
    return queue.cancel(id);
  }

  /**
   * Decides the iteration of a board: who is admitted, on which rank, and whether anything is to be
   * done at all. Asking again about the same board gives the same decision.
   *
   * @throws BerthException DIVERGED if the frames aren't those that another rank asked about
   */
  void decide(FrameBoard board) {
    if (board.sequence() == decided) {
      requireSame(board, askedAbout);
      return;
    }
    queue.advanceTo(board.sequence());
    loads.read(
        board.segment(),
        board.payloadOffset(firstFrame),
        (long) board.stride() * Long.BYTES,
        RankState.WORDS,
        config.ranks());
    for (int rank = closedRanks.nextSetBit(0); rank >= 0; rank = closedRanks.nextSetBit(rank + 1)) {
      loads.close(rank);
    }
    faulted = board.faulted();
    idle = !faulted && FleetRules.idle(loads.live(), queue.size());
    popped.clear();
    decisionHash = 0;
    if (faulted) {
      held = false;
      progress = false;
      route();
    } else {
      askGate(board);
    }
    pausing = false;
    if (!idle && !faulted) {
      pop();
      route();
      giveBackUnassigned();
      chooseDummy();
      hashAssignment();
      pausing = FleetRules.pauses(held, progress, admitted());
    }
    decided = board.sequence(); // last: a decision that failed is none
    askedAbout = board.hash();
  }

  private void route() {
    routed = gatherMatches();
    router.route(loads, popped, routed, cap, assignment);
  }

  /**
   * What the ranks of the stage scheduled decides what runs: whether the fleet may launch (spec 01
   * §7: a rank without a batch vetoes the forward everywhere) and whether contexts are held (§9).
   * Asking again about the same board changes nothing.
   *
   * @throws BerthException DIVERGED if the frames aren't those that another rank asked about, or if
   *     a rank admitted otherwise
   */
  void vote(FrameBoard board) {
    if (board.sequence() == voted) {
      requireSame(board, votedAbout);
      return;
    }
    noneEmpty = true;
    for (int r = firstFrame; r < firstFrame + config.ranks(); r++) {
      noneEmpty &= FleetRules.votesToQueue(board.word(r, Payload.BATCH));
      requireSameAdmission(r - firstFrame, board.word(r, Payload.ADMISSION));
    }
    failFast(board);
    contextsHeld = holdsContexts(board);
    for (int r = firstFrame; r < firstFrame + config.ranks(); r++) {
      long left = contextsHeld ? board.word(r, Payload.CONTEXT_TOKENS) : 0;
      rankTokens.setAtIndex(
          ValueLayout.JAVA_INT, r - firstFrame, (int) (board.word(r, Payload.TOKENS) - left));
    }
    voted = board.sequence(); // last: a vote that failed is none
    votedAbout = board.hash();
  }

  private void failFast(FrameBoard board) {
    boolean any = false;
    for (int r = firstFrame; r < firstFrame + config.ranks(); r++) {
      any |= board.word(r, Payload.STUCK) != 0;
    }
    boolean allFetched = config.gate().active() && fetched >= config.gate().target();
    if (config.fill().fails(held, allFetched, any)) {
      throw config.fill().shortOfKv(whoIsStuck(board));
    }
  }

  private String whoIsStuck(FrameBoard board) {
    var who = new StringJoiner(", ");
    for (int rank = 0; rank < config.ranks(); rank++) {
      if (board.word(firstFrame + rank, Payload.STUCK) != 0) {
        who.add("rank " + rank);
      }
    }
    return who.toString();
  }

  private boolean holdsContexts(FrameBoard board) {
    if (balance != null) {
      balance.begin();
      for (int r = firstFrame; r < firstFrame + config.ranks(); r++) {
        balance.rank(
            (int) board.word(r, Payload.CONTEXTS),
            (int) board.word(r, Payload.GENERATIONS),
            (int) board.word(r, Payload.REAL_GENERATIONS));
      }
      return balance.decide() == BalanceGate.Decision.HOLD;
    }
    return wait != null
        && wait.contexts(
                board.word(firstFrame, Payload.CONTEXTS),
                board.word(firstFrame, Payload.GENERATIONS),
                board.word(firstFrame, Payload.TOKENS))
            == BalanceGate.Decision.HOLD;
  }

  /** Only in a disaggregated fleet are there requests of one kind. */
  private void chooseDummy() {
    if (config.plan().shape().disaggregated()) {
      dummyRole =
          FleetRules.dummyRole(
              dummyRole,
              config.role() == WorkerRole.CONTEXT ? admitted() : 0,
              config.role() == WorkerRole.GENERATION ? admitted() : 0);
    }
  }

  /** Every rank computes the admission itself; one that came to another must never run. */
  private void requireSameAdmission(int rank, long theirs) {
    if (theirs != decisionHash) {
      throw new BerthException(
          Code.DIVERGED,
          "iteration %d: rank %d admitted %016x, this rank %016x"
              .formatted(decided, rank, theirs, decisionHash));
    }
  }

  private static void requireSame(FrameBoard board, long hash) {
    if (board.hash() != hash) {
      throw new BerthException(
          Code.DIVERGED,
          "two ranks gathered different frames for iteration %d: %x and %x"
              .formatted(board.sequence(), hash, board.hash()));
    }
  }

  private void askGate(FrameBoard board) {
    progress = false;
    held = false;
    warmingUp = agreeOnFlags(board);
    if (gateOpen || warmingUp) {
      stalledPauses = 0;
      return;
    }
    boolean allOk = true;
    long resident = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      allOk &= board.word(firstFrame + rank, Payload.FILL_OK) != 0;
      resident += board.word(firstFrame + rank, Payload.FILL_RESIDENT);
      progress |= board.word(firstFrame + rank, Payload.FILL_PROGRESS) != 0;
    }
    gateOpen = config.gate().opens(fetched, allOk, resident);
    held = !gateOpen;
    boundStall(board);
  }

  /**
   * Whether the fill goes on is part of the replicated state, and a rank that has it otherwise must
   * not run; it is a warm-up for all as long as it is for one.
   */
  private boolean agreeOnFlags(FrameBoard board) {
    long any = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      long flags = board.word(firstFrame + rank, Payload.FILL_FLAGS);
      if ((flags & Payload.FILLING) != (gateOpen ? 0 : Payload.FILLING)) {
        throw new BerthException(
            Code.DIVERGED,
            "iteration %d: for rank %d the fill is %s, for this rank it is %s"
                .formatted(
                    board.sequence(),
                    rank,
                    gateOpen ? "under way" : "over",
                    gateOpen ? "over" : "under way"));
      }
      any |= flags;
    }
    return (any & Payload.WARMING_UP) != 0;
  }

  /** Spec 01 §8.2: progress clears it. */
  private void boundStall(FrameBoard board) {
    stalledPauses = progress || gateOpen ? 0 : stalledPauses + (pausing ? 1 : 0);
    if (config.fill().stalls(stalledPauses)) {
      throw config.fill().stalled(whoWaits(board));
    }
  }

  /** Of the board of collective A. */
  private String whoWaits(FrameBoard board) {
    var text = new StringJoiner("; ");
    text.add(
        "the %s gate waits for %d, fetched %d, waiting %d"
            .formatted(
                config.gate().kind().name().toLowerCase(Locale.ROOT),
                config.gate().target(),
                fetched,
                queue.size()));
    int named = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      int frame = firstFrame + rank;
      long init = board.word(frame, Payload.FILL_INIT);
      long transfer = board.word(frame, Payload.FILL_TRANSFER);
      if (init + transfer == 0) {
        continue;
      }
      if (named++ == MOST_NAMED) {
        return text.add("and further ranks").toString();
      }
      text.add(
          "rank %d: %d in GENERATION_INIT, %d in transfer, %d here"
              .formatted(rank, init, transfer, board.word(frame, Payload.FILL_RESIDENT)));
    }
    return text.toString();
  }

  private void pop() {
    budget = FleetRules.budget(fleetCapacity, routableWhereOpen());
    if (held) {
      rampCap = FleetRules.ramp(config.fill().ramp(), rampCap, config.ranks(), fleetCapacity);
      budget = Math.min(budget, rampCap);
    } else {
      rampCap = 0;
    }
    int allowed = (int) Math.max(0, budget);
    if (attentionDp) {
      queue.pop(allowed, occupancy, cap, popped);
    } else {
      queue.pop(allowed, popped);
    }
    fetched += warmingUp ? 0 : popped.size();
  }

  private long routableWhereOpen() {
    long routable = loads.routable();
    for (int rank = closedRanks.nextSetBit(0); rank >= 0; rank = closedRanks.nextSetBit(rank + 1)) {
      routable -= loads.activeRequests(rank);
    }
    return routable;
  }

  /** Only what every rank computes alike decides whether matches are asked for. */
  private PrefixMatches gatherMatches() {
    return router.usesMatches() && popped.size() > 0
        ? matches.of(popped, config.ranks())
        : PrefixMatches.NONE;
  }

  private void giveBackUnassigned() {
    if (assignment.unassignedSize() == 0) {
      return;
    }
    RequestBatch back = new RequestBatch();
    for (int i = 0; i < assignment.unassignedSize(); i++) {
      back.add(popped.get(assignment.unassigned(i)));
    }
    fetched -= warmingUp ? 0 : back.size();
    queue.putBack(back);
  }

  private void hashAssignment() {
    long h = assignment.expectedActive();
    for (int rank = 0; rank < assignment.ranks(); rank++) {
      for (int i = 0; i < assignment.size(rank); i++) {
        h = (h ^ popped.get(assignment.get(rank, i)).id()) * 0x9E3779B97F4A7C15L;
        h ^= h >>> 32;
      }
      h = (h ^ rank) * 0x9E3779B97F4A7C15L;
    }
    decisionHash = h;
  }

  /** Nothing lives and nothing waits: the fleet may block. */
  public boolean idle() {
    return idle;
  }

  /**
   * A rank's runner failed in the iteration before: this one ends what it ran, and nothing else.
   */
  public boolean faulted() {
    return faulted;
  }

  /** Tokens of each rank's batch as the vote left it, {@code int32[ranks]}. */
  MemorySegment rankTokens() {
    return rankTokens;
  }

  /** A gate holds the forward in this iteration. */
  public boolean held() {
    return held;
  }

  /** While held: did any rank receive KV since the last gather? */
  public boolean progress() {
    return progress;
  }

  /** Does every rank of the stage have a batch, as of the last vote? */
  boolean noneEmpty() {
    return noneEmpty;
  }

  /** No context runs in this iteration, as of the last vote. */
  public boolean contextsHeld() {
    return contextsHeld;
  }

  /** What a dummy of this iteration does. */
  public DummyRole dummyRole() {
    return dummyRole;
  }

  /** Is the fill over? */
  public boolean gateOpen() {
    return gateOpen;
  }

  /** Routable requests of all ranks at the gather: what is charged (spec 01 §3.2). */
  public long charged() {
    return loads.routable();
  }

  /** Retiring requests that were left out of {@link #charged()}. */
  public long retiring() {
    return loads.live() - loads.routable();
  }

  /** Requests that the iteration could admit; may be negative. */
  public long budget() {
    return budget;
  }

  /** Requests that it admitted. */
  public int admitted() {
    return popped.size() - assignment.unassignedSize();
  }

  /** Requests popped so far, children not counted (spec 01 §3.7). */
  public long fetched() {
    return fetched;
  }

  /** Requests that wait. */
  public int waiting() {
    return queue.size();
  }

  /** True if a request of this id waits. */
  public boolean waits(long id) {
    return queue.contains(id);
  }

  /** E of the router in the last decision. */
  public int expectedActive() {
    return assignment.expectedActive();
  }

  /** How many requests a rank was given. */
  public int assigned(int rank) {
    return assignment.size(rank);
  }

  /** The id of a request that a rank was given. */
  public long assignedId(int rank, int index) {
    return assigned(rank, index).id();
  }

  /** A request that a rank was given. */
  Request assigned(int rank, int index) {
    return popped.get(assignment.get(rank, index));
  }

  /** What a request that a rank was given adds to the rank's token load. */
  int assignedLoad(int rank, int index) {
    int item = assignment.get(rank, index);
    int cached = routed.requests() == 0 ? 0 : routed.get(item, rank);
    return (int) config.router().load().tokens(popped.promptTokens(item), cached);
  }

  /** Hash of the last decision. */
  long decisionHash() {
    return decisionHash;
  }
}
