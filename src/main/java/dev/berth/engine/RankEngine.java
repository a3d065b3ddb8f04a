// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.EngineSelection;
import dev.berth.exchange.FrameBoard;
import dev.berth.exchange.FrameBoard.Op;
import dev.berth.internal.NativeCore;
import dev.berth.kv.KvView;
import dev.berth.plan.RegisteredPool;
import dev.berth.plan.StartupValidator;
import dev.berth.plan.WhatIf;
import dev.berth.request.Prompt;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.RequestTable;
import dev.berth.request.WaitReason;
import dev.berth.route.RankState;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;

/**
 * One rank on one pipeline stage, as events and effects: no thread, no clock, no I/O (DESIGN.md
 * decision 1). A driver carries out each {@link Effect} and answers with the {@link Event} that
 * belongs to it. One iteration is
 *
 * <pre>
 *   NeedGather → Gathered → NeedVote → Voted → [Launch → Launched] → [Collect → Collected] → NeedGather …
 * </pre>
 *
 * Not thread-safe. Allocates nothing per iteration.
 */
public final class RankEngine implements AutoCloseable {
  private enum Phase {
    READY,
    GATHERING,
    SELECTING,
    VOTING,
    LAUNCHING,
    COLLECTING,
    IDLE
  }

  /** Error codes of a gather frame, added up. */
  static final int LAUNCH_BROKE = 1;

  static final int COLLECT_BROKE = 2;

  private static final int STATES = RequestState.values().length;

  private final EngineConfig config;
  private final int rank;
  private final int stage;
  private final int frame;
  private final Admission admission;
  private final NativeCore core;
  private final Optional<KvView> kv;
  private final RequestTable table;
  private final boolean attentionDp;
  private final StartupValidator.Verdict startUp;
  private final Optional<EngineSelection> ownPolicy;

  private final long[] gatherFrame = FrameBoard.frame(Payload.GATHER_WORDS);
  private final long[] voteFrame = FrameBoard.frame(Payload.VOTE_WORDS);
  private final Effect needGather = new Effect.NeedGather(gatherFrame);
  private final Effect needVote = new Effect.NeedVote(voteFrame);
  private final Batch launching;
  private final Batch collecting;
  private final Batch scheduled;
  private final Effect launch;
  private final Effect collect;
  private final long[] fitNumbers = new long[2];

  /** Sequences that were placed here and have no row yet. */
  private final Landing landing = new Landing();

  /** Batches by ring slot, as their runner sees them. */
  private final BatchView[] views;

  /** Launched batches, by ring slot, that never ran. */
  private final boolean[] broken;

  private int brokenLaunch = -1;
  private int brokenCollect = -1;
  private LandingObserver observer = (request, child, row) -> {};

  private Phase phase = Phase.READY;
  private long sequence;
  private int arrivals;
  private FillWarmUp warmUp = FillWarmUp.OFF;
  private boolean canQueue;
  private DummyRole dummyRole = DummyRole.GENERATION;
  private final BatchWait encoderWait;
  private GroupTap tap = GroupTap.NONE;
  private Effect pending = Effect.IDLE;

  /**
   * An engine with an empty request table. It starts only if its pools and its plan agree, unless
   * the plan's what-if overrides the start-up validator.
   *
   * @param rank 0 .. ranks - 1
   * @param stage 0 .. stages - 1
   * @param admission the replicated decisions of this stage; may be shared with other ranks of the
   *     process
   * @throws BerthException ARGUMENT for a rank or stage outside the worker; CONFIGURATION with
   *     every disagreement of the start-up validator
   */
  public RankEngine(EngineConfig config, int rank, int stage, Admission admission) {
    this(config, rank, stage, admission, config.core(stage));
  }

  /** With a core that may differ from the plan's. */
  RankEngine(
      EngineConfig config,
      int rank,
      int stage,
      Admission admission,
      NativeCore.CoreConfig coreConfig) {
    if (rank < 0 || rank >= config.ranks() || stage < 0 || stage >= config.stages()) {
      throw new BerthException(
          Code.ARGUMENT,
          "rank %d of %d, stage %d of %d".formatted(rank, config.ranks(), stage, config.stages()));
    }
    this.config = config;
    this.rank = rank;
    this.stage = stage;
    this.frame = stage * config.ranks() + rank;
    this.admission = admission;
    this.encoderWait =
        new BatchWait(config.encoderWait().rules(), config.encoderWait().maxTokens());
    this.attentionDp = config.plan().shape().attentionDp();
    this.core = NativeCore.create(coreConfig, config.cacheParts());
    this.startUp = StartupValidator.check(config.plan(), pools());
    if (!config.plan().whatIf().has(WhatIf.Switch.VALIDATOR_OVERRIDDEN) && !startUp.agrees()) {
      core.close();
      startUp.orThrow();
    }
    this.kv = config.cacheView(core);
    this.ownPolicy =
        config.ownPolicy().map(own -> EngineSelection.of(own, core, config.rangeEnd()));
    this.table = new RequestTable(core.rowMemory(), core.coldMemory(), core.tokenMemory());
    this.launching = new Batch(this, core, table);
    this.collecting = new Batch(this, core, table);
    this.scheduled = new Batch(this, core, table);
    this.launch = new Effect.Launch(launching);
    this.collect = new Effect.Collect(collecting);
    this.broken = new boolean[core.ring()];
    this.views = new BatchView[core.ring()];
    for (int slot = 0; slot < views.length; slot++) {
      views[slot] = new BatchView(this, core, table, slot);
    }
  }

  /**
   * This engine's pools with the sizes that they really have, for a {@link StartupValidator} that
   * looks at pools of the caller's too.
   */
  public List<RegisteredPool> pools() {
    return EnginePool.registered(core.pools());
  }

  /** What the start-up validator said of them and of the plan. */
  public StartupValidator.Verdict startUp() {
    return startUp;
  }

  /** The first effect. Call once. */
  public Effect start() {
    require(Phase.READY);
    pending = gather();
    return pending;
  }

  /**
   * Takes the answer to the last effect, gives the next one.
   *
   * @throws BerthException STATE if the event isn't the answer to the last effect; DIVERGED if
   *     ranks or stages disagree; POLICY if the caller's own policy failed, and then the engine has
   *     gone on without it: nobody was let in in this iteration, and {@link #pending} is what is to
   *     be carried out next
   */
  public Effect advance(Event event) {
    pending =
        switch (event) {
          case Event.Gathered gathered -> onGathered(gathered.board());
          case Event.Voted voted -> onVoted(voted.board());
          case Event.Launched ignored -> onLaunched();
          case Event.LaunchFailed ignored -> onLaunchFailed();
          case Event.Collected ignored -> onCollected();
          case Event.CollectFailed ignored -> onCollectFailed();
          case Event.Woken ignored -> onWoken();
        };
    return pending;
  }

  /** The effect that waits for its answer. */
  public Effect pending() {
    return pending;
  }

  // ------------------------------------------------------------------------------ one iteration

  private Effect gather() {
    int error = (brokenLaunch >= 0 ? LAUNCH_BROKE : 0) | (brokenCollect >= 0 ? COLLECT_BROKE : 0);
    int flags = error == 0 ? 0 : FrameBoard.FLAG_ERROR;
    FrameBoard.header(gatherFrame, Op.GATHER, 0, sequence, flags, error, core.decisionHash());
    int at = FrameBoard.HEADER_WORDS;
    gatherFrame[at + RankState.RANK] = rank;
    gatherFrame[at + RankState.ACTIVE_REQUESTS] = (long) core.routable() + landing.size();
    gatherFrame[at + RankState.ACTIVE_TOKENS] = core.routableTokens() + landing.tokens();
    gatherFrame[at + RankState.RETIRING_REQUESTS] = core.retiring();
    gatherFrame[at + RankState.STATISTICS + 1] = -1; // no statistics
    int init = count(RequestState.GENERATION_INIT);
    boolean settled =
        FillGate.settled(
            init, count(RequestState.GENERATION_TRANSFER), count(RequestState.TRANSFER_ERROR));
    gatherFrame[at + Payload.FILL_OK] = settled ? 1 : 0;
    gatherFrame[at + Payload.FILL_PROGRESS] = arrivals;
    gatherFrame[at + Payload.FILL_RESIDENT] =
        (long) count(RequestState.GENERATION_TRANSFER_COMPLETE) + count(RequestState.GENERATION);
    gatherFrame[at + Payload.FILL_INIT] = init;
    gatherFrame[at + Payload.FILL_TRANSFER] = count(RequestState.GENERATION_TRANSFER);
    gatherFrame[at + Payload.FILL_FLAGS] =
        (admission.gateOpen() ? 0 : Payload.FILLING)
            | (warmUp == FillWarmUp.ON ? Payload.WARMING_UP : 0);
    arrivals = 0;
    phase = Phase.GATHERING;
    return needGather;
  }

  private Effect onGathered(FrameBoard board) {
    require(Phase.GATHERING);
    requireBoard(board, Op.GATHER, Payload.GATHER_WORDS);
    admission.decide(board);
    if (admission.faulted()) {
      return endWhatBroke();
    }
    if (admission.idle()) {
      sequence++;
      phase = Phase.IDLE;
      return Effect.IDLE;
    }
    for (int i = 0; i < admission.assigned(rank); i++) {
      landing.add(admission.assigned(rank, i), admission.assignedLoad(rank, i));
    }
    while (!landing.isEmpty() && core.freeRows() > 0) {
      admit(landing.request(), landing.child(), landing.load());
      landing.remove();
    }
    dummyRole = admission.dummyRole();
    Optional<BerthException> failed = schedule();
    FrameBoard.header(
        voteFrame, Op.VOTE, 0, sequence, 0, 0, core.decisionHash() ^ admission.decisionHash());
    int at = FrameBoard.HEADER_WORDS;
    voteFrame[at + Payload.BATCH] = core.batch();
    // What the gate of contexts sees comes before an empty batch is padded (spec 01 §10).
    int late = core.pad() == NativeCore.Pad.AFTER ? 1 : 0;
    int context = core.pad() == NativeCore.Pad.BEFORE && dummyRole == DummyRole.CONTEXT ? 1 : 0;
    voteFrame[at + Payload.CONTEXTS] = (long) core.contexts() + context;
    voteFrame[at + Payload.GENERATIONS] = (long) core.generations() - late - context;
    voteFrame[at + Payload.REAL_GENERATIONS] = (long) core.real() - core.contexts();
    voteFrame[at + Payload.TOKENS] = core.batchTokens();
    voteFrame[at + Payload.ADMISSION] = admission.decisionHash();
    voteFrame[at + Payload.STUCK] = core.stuck() ? 1 : 0;
    voteFrame[at + Payload.CONTEXT_TOKENS] = contextTokens();
    phase = Phase.VOTING;
    pending = needVote;
    if (failed.isPresent()) {
      throw failed.get();
    }
    return needVote;
  }

  /** Contexts stand at the end of a batch. */
  private long contextTokens() {
    long tokens = 0;
    for (int i = core.batch() - core.contexts(); i < core.batch(); i++) {
      tokens += core.entryTokens(core.batchSlot(), i);
    }
    return tokens;
  }

  private Optional<BerthException> schedule() {
    if (ownPolicy.isEmpty()) {
      core.schedule(admission.expectedActive(), admission.held(), dummyRole.ordinal());
      return Optional.empty();
    }
    core.begin(admission.expectedActive(), admission.held(), dummyRole.ordinal());
    phase = Phase.SELECTING;
    return ownPolicy.get().run(core);
  }

  /**
   * The branch that all ranks take when any of them reports that a batch broke: its requests end,
   * nobody admits, votes or launches. What was launched before stays launched.
   */
  private Effect endWhatBroke() {
    core.fault(brokenLaunch, brokenCollect);
    brokenLaunch = -1;
    brokenCollect = -1;
    canQueue = false;
    sequence++;
    return gather();
  }

  /**
   * A request's sequences are requests of their own to everything on the rank (spec 01 §3.4): each
   * has a row, a seat, a lease and a load.
   *
   * @param child 0: the first one
   */
  private void admit(Request request, int child, int load) {
    Prompt prompt = request.prompt();
    int tokens = 0;
    if (kv.isPresent() && prompt.size() > 0) {
      MemorySegment place = core.promptPlace(prompt.size());
      if (place.byteSize() > 0) {
        prompt.copyTo(place);
        tokens = 1;
      }
    }
    int row =
        core.admit(
            request.id(),
            request.tag(),
            firstState().value(),
            request.promptTokens(),
            outputTokens(request),
            load,
            child == 0 ? request.children() : -child,
            tokens,
            (prompt.adapter().isPresent() ? 1 : 0) | (prompt.salt().isPresent() ? 2 : 0),
            prompt.adapter().orElse(0),
            prompt.salt().orElse(0),
            config.role() == WorkerRole.GENERATION ? 0 : request.encoderTokens());
    observer.landed(request, child, row);
  }

  private RequestState firstState() {
    return config.role() == WorkerRole.GENERATION
        ? RequestState.GENERATION_INIT
        : RequestState.CONTEXT_INIT;
  }

  /**
   * Output tokens that this worker makes: a context worker makes one, whatever the request asks
   * for.
   */
  private int outputTokens(Request request) {
    return config.role() == WorkerRole.CONTEXT ? 1 : request.maxNewTokens();
  }

  private Effect onVoted(FrameBoard board) {
    require(Phase.VOTING);
    requireBoard(board, Op.VOTE, Payload.VOTE_WORDS);
    requireStagesAgree(board);
    admission.vote(board);
    // Spec 01 §7: without attention DP a rank asks only itself.
    canQueue = attentionDp ? admission.noneEmpty() : core.batch() > 0;
    core.launch(canQueue, admission.held(), admission.contextsHeld(), encodesNow());
    if (core.launched()) {
      phase = Phase.LAUNCHING;
      launching.set(core.launchedSlot(), core.batch());
      views[core.launchedSlot()].launched(core.batch());
      return launch;
    }
    return collectOrSettle();
  }

  /**
   * Does the encoder work that waits begin? A forward needs none of it, so a rank asks only itself.
   */
  private boolean encodesNow() {
    return core.encoderItems() > 0
        && encoderWait.encoder(core.encoderItems(), core.encoderTokens())
            == BalanceGate.Decision.RUN;
  }

  private void requireBoard(FrameBoard board, Op op, int payloadWords) {
    int world = config.ranks() * config.stages();
    if (board.op() != op || board.ranks() != world || board.payloadWords() != payloadWords) {
      throw new BerthException(
          Code.ARGUMENT,
          "a %s board of %d ranks and %d words is no answer to %s with %d ranks and %d words"
              .formatted(board.op(), board.ranks(), board.payloadWords(), op, world, payloadWords));
    }
    if (board.sequence() != sequence) {
      throw new BerthException(
          Code.DIVERGED,
          "rank %d is in iteration %d, the %s board is of iteration %d"
              .formatted(rank, sequence, op, board.sequence()));
    }
  }

  /** Stage 0 decides; a stage that decided otherwise must never run (spec 06 BC-39). */
  private void requireStagesAgree(FrameBoard board) {
    if (stage > 0 && board.decisionHash(frame) != board.decisionHash(rank)) {
      throw new BerthException(
          Code.DIVERGED,
          "iteration %d: rank %d decided %016x on stage 0 and %016x on stage %d"
              .formatted(
                  sequence, rank, board.decisionHash(rank), board.decisionHash(frame), stage));
    }
  }

  private Effect onLaunched() {
    require(Phase.LAUNCHING);
    return collectOrSettle();
  }

  private Effect onLaunchFailed() {
    require(Phase.LAUNCHING);
    brokenLaunch = core.launchedSlot();
    broken[brokenLaunch] = true;
    return collectOrSettle();
  }

  private Effect collectOrSettle() {
    if (core.due() > 0 && broken[core.dueSlot()]) {
      broken[core.dueSlot()] = false;
      core.voidResults(core.dueSlot(), core.due());
    } else if (core.due() > 0) {
      phase = Phase.COLLECTING;
      collecting.set(core.dueSlot(), core.due());
      return collect;
    }
    return settle();
  }

  private Effect onCollected() {
    require(Phase.COLLECTING);
    return settle();
  }

  private Effect onCollectFailed() {
    require(Phase.COLLECTING);
    brokenCollect = core.dueSlot();
    core.voidResults(core.dueSlot(), core.due());
    return settle();
  }

  private Effect settle() {
    core.settle();
    sequence++;
    if (FleetRules.pauses(admission.held(), admission.progress(), admission.admitted())) {
      phase = Phase.IDLE;
      return Effect.PAUSE;
    }
    return gather();
  }

  private Effect onWoken() {
    require(Phase.IDLE);
    return gather();
  }

  private void require(Phase expected) {
    if (phase != expected) {
      throw new BerthException(
          Code.STATE, "rank %d is %s, the event belongs to %s".formatted(rank, phase, expected));
    }
  }

  // ------------------------------------------------------------------------------ between
  // iterations

  /**
   * Whether a request could ever run on an empty rank of this kind.
   *
   * @throws BerthException ARGUMENT if it has no prompt
   */
  public Outcome fits(Request request) {
    if (request.promptTokens() < 1) {
      throw new BerthException(
          Code.ARGUMENT, "request " + request.id() + " has no prompt: nothing could run");
    }
    if (request.admissionCost() > admission.capacity()) {
      return new Outcome.Refused(WaitReason.BATCH, request.admissionCost(), admission.capacity());
    }
    int reason =
        core.fits(firstState().value(), request.promptTokens(), outputTokens(request), fitNumbers);
    return reason == 0
        ? Outcome.QUEUED
        : new Outcome.Refused(WaitReason.of(reason), fitNumbers[0], fitNumbers[1]);
  }

  /** As {@link #transferArrived(int, long, int)}, of a request whose first token isn't known. */
  public void transferArrived(int row, long requestId) {
    transferArrived(row, requestId, -1);
  }

  /**
   * The KV of a row arrived; a row that was given to another request since is left alone.
   *
   * @param firstToken the output token that the context worker made; -1: not known
   * @throws BerthException ARGUMENT for a token below -1, or a row outside of the table
   */
  public void transferArrived(int row, long requestId, int firstToken) {
    if (firstToken < -1) {
      throw new BerthException(Code.ARGUMENT, "token " + firstToken);
    }
    core.arrived(row, requestId, firstToken);
    arrivals++;
    tap.changed(this, GroupTap.Change.ARRIVED, row, requestId);
  }

  /** The KV of a row that {@link #sends} told of has been taken: the request ends. */
  public void transferSent(int row, long requestId) {
    core.arrived(row, requestId, -1);
    tap.changed(this, GroupTap.Change.ARRIVED, row, requestId);
  }

  /** The transfer of a row failed. */
  public void transferFailed(int row, long requestId) {
    core.failed(row, requestId);
    tap.changed(this, GroupTap.Change.FAILED, row, requestId);
  }

  /** From the next gather on; for all ranks it is a warm-up as long as it is for one. */
  void warmUp(FillWarmUp phase) {
    warmUp = phase;
  }

  /** The output of a row's encoder is here: its prompt can be computed. */
  public void encoded(int row, long requestId) {
    core.encoded(row, requestId);
    tap.changed(this, GroupTap.Change.ENCODED, row, requestId);
  }

  /** Ends a live request as soon as nothing launched holds it. */
  public void cancel(int row, long requestId) {
    core.cancel(row, requestId);
    tap.changed(this, GroupTap.Change.CANCELLED, row, requestId);
  }

  /**
   * A request isn't scheduled until {@link #resume}; it keeps what it has. For readers that are too
   * slow.
   */
  public void hold(int row, long requestId) {
    core.hold(row, requestId);
    tap.held(this, GroupTap.Hold.HELD, row, requestId);
  }

  /** A request is scheduled again. */
  public void resume(int row, long requestId) {
    core.resume(row, requestId);
    tap.held(this, GroupTap.Hold.RESUMED, row, requestId);
  }

  /**
   * Takes back the sequences of a request that were placed here and have no row yet: those that its
   * cancellation doesn't reach.
   *
   * @return how many there were
   */
  public int withdraw(long requestId) {
    return landing.withdraw(requestId);
  }

  /** Changes of rows that can still be told before the next iteration. */
  public int changeRoom() {
    return core.changeRoom();
  }

  void listen(GroupTap listener) {
    tap = listener;
  }

  /** Hears which row a sequence gets. */
  interface LandingObserver {
    void landed(Request request, int child, int row);
  }

  void observe(LandingObserver landings) {
    observer = landings;
  }

  /** The device lost what a position ran. */
  void failed(int position) {
    tap.lost(this, position);
  }

  /** The device ended the sequence at a position. */
  void stopped(int position) {
    tap.stopped(this, position);
  }

  // ------------------------------------------------------------------------------ what happened

  /** This rank's number. */
  public int rank() {
    return rank;
  }

  /** This stage's number. */
  public int stage() {
    return stage;
  }

  /**
   * The rank's KV cache, to be read; empty if pages are only counted. Valid while the engine is
   * open. Between {@link Effect.Launch} and its answer it makes the block tables of that batch.
   */
  public Optional<KvView> kv() {
    return kv;
  }

  /** The batch of a ring slot, as its runner sees it: from its launch until it is collected. */
  BatchView view(int slot) {
    return views[slot];
  }

  /** Slot of the batch that is to be launched, after a vote; -1: none is. */
  int launchSlot() {
    return core.launched() ? core.launchedSlot() : -1;
  }

  /** Slot of the batch whose results this iteration settles, after a vote; -1: there is none. */
  int dueSlot() {
    return core.due() > 0 && !broken[core.dueSlot()] ? core.dueSlot() : -1;
  }

  /** Whether a row's prompt was computed elsewhere; one that gave way has computed its own. */
  boolean receives(int row) {
    return config.role() == WorkerRole.GENERATION && table.pausedTokens(row) == 0;
  }

  /** Sequences that are here in any way: with a row or without, retiring ones too. */
  long live() {
    return (long) core.routable() + core.retiring() + landing.size();
  }

  /** What a runner of this rank runs for. */
  RankSetup setup() {
    return new RankSetup(config, rank, stage, core.positions(), core.ring(), kv, table);
  }

  /** Tokens of each rank's batch, {@code int32[ranks]}. */
  MemorySegment rankTokens() {
    return admission.rankTokens();
  }

  /** Requests that gave way in this iteration. */
  public int paused() {
    return core.paused();
  }

  /** Rows that found no page although the plan had them: none, or there is a defect. */
  int shortOfPages() {
    return core.shortOfPages();
  }

  /** Examines every invariant of the pages; for tests, takes time in all of them. */
  void checkPages() {
    int broken = core.kv().check();
    if (broken != 0) {
      throw new BerthException(
          Code.INTERNAL, "invariant %d of rank %d's pages".formatted(broken, rank));
    }
  }

  /** Live requests, valid while the engine is open. */
  public RequestTable table() {
    return table;
  }

  /** Iterations completed, held ones not counted. */
  public long iterations() {
    return core.number();
  }

  /**
   * Requests in a state, padding not counted: at the gather once settled, before that as of the
   * last settle.
   */
  public int count(RequestState state) {
    return core.stateCount(state.ordinal());
  }

  /** Number of states that {@link #count} knows. */
  public static int states() {
    return STATES;
  }

  /** Batch positions that this iteration scheduled, the dummy's included. */
  public int batch() {
    return core.batch();
  }

  /** These batch positions, launched or not; valid until the next schedule. */
  public Batch scheduled() {
    return scheduled.set(core.batchSlot(), core.batch());
  }

  /** Hash of what they run, in order: equal batches of equal requests have equal hashes. */
  public long batchHash() {
    return core.batchHash();
  }

  /** Contexts among them. */
  public int contexts() {
    return core.contexts();
  }

  /** Requests among them. */
  public int real() {
    return core.real();
  }

  /** Tokens of the batch. */
  public int batchTokens() {
    return core.batchTokens();
  }

  /** Whether this iteration gave the rank a dummy. */
  public boolean padded() {
    return core.pad() != NativeCore.Pad.NONE;
  }

  /** Whether the rank needed a dummy in this iteration and its pages weren't free. */
  public boolean padRefused() {
    return core.padShort();
  }

  /** What the dummy of this iteration's batch does, if there is one. */
  public DummyRole dummyRole() {
    return core.pad() == NativeCore.Pad.AFTER ? DummyRole.GENERATION : dummyRole;
  }

  /** Requests whose encoder hasn't been started, as of this iteration's schedule. */
  public int encoderItems() {
    return core.encoderItems();
  }

  /** Rows whose encoder this iteration started: whoever runs it then calls {@link #encoded}. */
  public int encodes() {
    return core.encodes();
  }

  /** One of them. */
  public int encodeRow(int index) {
    return core.encodeRow(index);
  }

  /** Their encoder input in tokens: all begin together, or none. */
  public long encoderTokens() {
    return core.encoderTokens();
  }

  /** Requests on the rank after admission. */
  public int resident() {
    return core.resident();
  }

  /** Whether this iteration's batch was launched. */
  public boolean launched() {
    return core.launched();
  }

  /** The fleet's vote in this iteration. */
  public boolean canQueue() {
    return canQueue;
  }

  /** Requests that could have run and did not, for a reason. */
  public int deferred(WaitReason reason) {
    return core.deferred(reason.ordinal());
  }

  /** Routable requests that the next gather reports. */
  public int routable() {
    return core.routable();
  }

  /** Token load that the next gather reports. */
  public long routableTokens() {
    return core.routableTokens();
  }

  /** Output tokens settled in this iteration. */
  public int tokensOut() {
    return core.tokensOut();
  }

  /** Rows whose KV transfer this iteration asked for. */
  public int receives() {
    return core.receives();
  }

  /** One of them. */
  public int receiveRow(int index) {
    return core.receiveRow(index);
  }

  /**
   * Rows that came to state 21 in this iteration, as of its settle: their KV is there to be taken,
   * and stays until {@link #transferSent} or {@link #transferFailed}.
   */
  public int sends() {
    return core.sends();
  }

  /** One of them. */
  public int sendRow(int index) {
    return core.sendRow(index);
  }

  /**
   * Pages of a row's request in a life cycle, by block; -1: none there.
   *
   * @throws BerthException STATE if pages are only counted; ARGUMENT if the row has no pages
   */
  int[] pagesOf(int row, int lifeCycle) {
    return core.blocks(row, lifeCycle, kv.orElseThrow().config().maxBlocks());
  }

  /** Requests that left in the last iteration that ran; an idle one leaves the list as it is. */
  public int ended() {
    return core.done();
  }

  /** The row that one of them had. */
  public int endedRow(int index) {
    return core.doneRow(index);
  }

  /** The id of one of them. */
  public long endedId(int index) {
    return core.doneId(index);
  }

  /** The caller's number of one of them. */
  public long endedTag(int index) {
    return core.doneTag(index);
  }

  /** How one of them ended. */
  public EndKind endedKind(int index) {
    return EndKind.of(core.doneKind(index));
  }

  /** Output tokens of one of them. */
  public int endedTokens(int index) {
    return core.doneTokens(index);
  }

  /** Seats in use. */
  public int seatsUsed() {
    return core.seatsUsed();
  }

  /** Leases in use. */
  public int leasesUsed() {
    return core.leasesUsed();
  }

  /** KV pages in use or promised, of all pools; what can only be found again isn't in use. */
  public long pagesUsed() {
    return core.pagesUsed();
  }

  /** Calls into native code so far. */
  long nativeCalls() {
    return core.calls();
  }

  /** Rolling hash of everything this rank decided. */
  public long decisionHash() {
    return core.decisionHash();
  }

  @Override
  public void close() {
    core.close();
  }
}
