// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.Prompt;
import dev.berth.request.Request;
import dev.berth.route.MatchSource;
import dev.berth.transfer.KvTransport;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A worker's engine for those who serve requests: {@link #submit}, read tokens, cancel, drain,
 * close. All of it is thread-safe. Somebody has to drive it, in one of two ways that differ in
 * nothing else:
 *
 * <ul>
 *   <li>{@link Builder#start}: a thread of its own runs {@link ModelRunner}s;
 *   <li>{@link Builder#open}: the caller's own loop calls {@link #step} and {@link #commit}.
 * </ul>
 *
 * <p>A request comes to exactly one end. What breaks in a model, a reader or a callback ends the
 * requests that it belongs to and no others. An engine that can't go on (ranks disagree, a defect)
 * ends all its requests as failed and is closed; {@link #failure} says why.
 */
public final class Engine implements AutoCloseable {
  /** Most requests that may wait, whatever the limits. */
  public static final int MOST_WAITING = 1 << 24;

  /** What a fleet in which nothing moves waits for, µs: a transfer, a reader. */
  static final long POLL_MICROS = 1000;

  private enum Phase {
    OPEN,
    DRAINING,
    CLOSED
  }

  /**
   * What can be changed while an engine runs. A change holds from the next step on; what is on a
   * rank already stays there.
   *
   * @param requestsPerRank most requests on one rank, 1 to the plan's
   * @param waiting most requests that wait, 1 to what the engine was made with
   */
  public record Limits(int requestsPerRank, int waiting) {}

  /** Makes the transports of an engine, one a rank. */
  @FunctionalInterface
  public interface Transports {
    /** The transport of a rank, the engine's own from now on; on the clock of its steps. */
    KvTransport open(int rank);
  }

  private record TransportSetup(Transports transports, Transceiver.Options options) {}

  /** A change that the next step makes. */
  @FunctionalInterface
  private interface Control {
    void apply();

    /** The engine has ended before that. */
    default void abandon() {}
  }

  private final EngineConfig config;
  private final LockstepGroup group;
  private final Inbox inbox;
  private final int mostWaiting;
  private final int vocabulary;
  private final long longest;
  private final int targetRanks;
  private final Executor callbacks;
  private final RequestHandle.Origin byDefault;
  private final Set<Long> adapters = ConcurrentHashMap.newKeySet();
  private final Queue<Control> controls = new ConcurrentLinkedQueue<>();
  private final Object ranksLock = new Object();
  private final BitSet closedRanks = new BitSet(); // guarded by ranksLock
  private Limits limits; // guarded by ranksLock
  private volatile Phase phase = Phase.OPEN;
  private volatile boolean released;
  private volatile boolean closeWhenDrained;
  private volatile boolean drained;
  private volatile Optional<Throwable> failure = Optional.empty();
  private volatile @Nullable EngineLoop loop;

  // ---- the driver's own, under its lock
  private final ReentrantLock driving = new ReentrantLock();
  private final Map<Long, LiveRequest> byId = new HashMap<>();
  private @Nullable LiveRequest[] byNumber = new @Nullable LiveRequest[64];
  private int[] freeNumbers = new int[64];
  private int freeCount;
  private int numbers;
  private final @Nullable TokenStream[][] byRow;
  private final TimerHeap timers = new TimerHeap();
  private final List<TokenStream> slow = new ArrayList<>();
  private final List<TokenStream> untold = new ArrayList<>();
  private final List<TokenStream> fresh = new ArrayList<>();
  private final List<CompletableFuture<Void>> drains = new ArrayList<>();
  private final Map<Integer, List<CompletableFuture<Void>>> rankDrains = new HashMap<>();
  private final @Nullable BrokenBatchException[] broken;
  private final Optional<TransportSetup> transports;
  private final List<Transceiver> transceivers =
      new ArrayList<>(); // by rank; none without transports
  private final StepResult result;
  private final StepPlan plan;
  private final Delivery delivery = new Delivery();
  private long now = Long.MIN_VALUE;
  private boolean out;
  private int stoppedWaiting;
  private volatile long pauseMicros;
  private volatile Optional<BerthException> policyFailure = Optional.empty();
  private volatile int waiting;
  private final AtomicLongArray live; // of each rank

  private Engine(Builder builder) {
    this.config = builder.config;
    this.group = new LockstepGroup(config, builder.matches);
    this.mostWaiting = builder.waiting;
    this.limits = new Limits(config.plan().admissionCap(), builder.waiting);
    this.inbox = new Inbox(builder.waiting);
    this.vocabulary = builder.vocabulary;
    int longestPlanned = config.plan().shape().maxSeqLen();
    this.longest = longestPlanned > 0 ? longestPlanned : Long.MAX_VALUE;
    // Without attention DP a target rank means nothing.
    boolean attentionDp = config.plan().shape().attentionDp();
    this.targetRanks = attentionDp ? config.ranks() : Integer.MAX_VALUE;
    this.callbacks = builder.callbacks;
    this.byDefault = new RequestHandle.Origin(this, builder.defaults, Optional.empty());
    this.adapters.addAll(builder.adapters);
    this.live = new AtomicLongArray(config.ranks());
    this.byRow = new @Nullable TokenStream[config.ranks()][];
    this.broken = new @Nullable BrokenBatchException[config.ranks()];
    int positions = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      positions = engine.setup().positions();
      byRow[rank] = new @Nullable TokenStream[engine.table().rows()];
      int here = rank;
      engine.observe((request, child, row) -> landed(here, request, child, row));
    }
    this.transports = builder.transports;
    this.transports.ifPresent(this::join);
    this.result = new StepResult(config, positions);
    this.plan = new StepPlan(result);
    builder.tap.ifPresent(group::listen);
  }

  private void join(TransportSetup setup) {
    try {
      for (int rank = 0; rank < config.ranks(); rank++) {
        var stages = new ArrayList<RankEngine>();
        for (int stage = 0; stage < config.stages(); stage++) {
          stages.add(group.engine(rank, stage));
        }
        KvTransport transport = setup.transports.open(rank);
        try {
          transceivers.add(new Transceiver(transport, stages, setup.options, new Transfers(rank)));
        } catch (RuntimeException | Error e) {
          transport.close();
          throw e;
        }
      }
    } catch (RuntimeException | Error e) {
      transceivers.forEach(Transceiver::close);
      group.close();
      throw e;
    }
  }

  /**
   * Does for servers what the first iterations would do: finds and loads the native library, links
   * its functions, compiles routers and the loop. Takes a second or so, once; what comes after it
   * in this JVM finds all of that done. Leaves nothing behind.
   *
   * @throws BerthException UNAVAILABLE if the native library can't be had
   */
  public static void preload() {
    Warmup.run();
  }

  /** Starts with every default: see {@link Builder}. */
  public static Builder builder(EngineConfig config) {
    return new Builder(config);
  }

  // ------------------------------------------------------------------------------ any thread

  /** As {@link #submit(Request, SubmitOptions)}, with the engine's default options. */
  public RequestHandle submit(Request request) {
    return submit(request, byDefault);
  }

  /**
   * Gives a request to the engine. Never blocks and never throws: {@link RequestHandle#submission}
   * says whether it was taken, and whatever isn't taken has ended at once. What only the engine can
   * know (an id that is in use, a request that its ranks could never run) ends it at the next step,
   * as {@link Ending.Refused} too.
   */
  public RequestHandle submit(Request request, SubmitOptions options) {
    return submit(request, new RequestHandle.Origin(this, options, Optional.empty()));
  }

  /**
   * In a generation worker with a transport: the same for a request whose prompt a context worker
   * has computed.
   *
   * @param kv where its KV can be fetched
   */
  public RequestHandle submit(Request request, SubmitOptions options, KvHandoff kv) {
    return submit(request, new RequestHandle.Origin(this, options, Optional.of(kv)));
  }

  private RequestHandle submit(Request request, RequestHandle.Origin origin) {
    var handle = new RequestHandle(origin, request);
    Phase at = phase;
    if (at != Phase.OPEN) {
      return handle.refuse(at == Phase.DRAINING ? Submission.DRAINING : Submission.CLOSED);
    }
    Submission verdict = examine(request);
    if (!(verdict instanceof Submission.Accepted)) {
      return handle.refuse(verdict);
    }
    if (!inbox.offer(handle)) {
      return handle.refuse(new Submission.QueueFull(inbox.capacity()));
    }
    if (released) { // nobody may be there to see it
      handle.end(ofClosing(), List.of());
    }
    return handle;
  }

  /** What a request itself says against it, whatever the ranks hold. In its submitter's time. */
  private Submission examine(Request request) {
    int prompt = request.promptTokens();
    if (prompt < 1) {
      return refused(Submission.Reason.PROMPT, 1, 0, "a prompt without a token");
    }
    long length = (long) prompt + request.maxNewTokens();
    if (length > longest) {
      return refused(
          Submission.Reason.LENGTH,
          length,
          longest,
          "prompt and output of %d tokens, a sequence has %d".formatted(length, longest));
    }
    int target = request.scheduling().targetRank();
    if (target >= targetRanks) {
      return refused(
          Submission.Reason.TARGET_RANK,
          target,
          targetRanks,
          "rank %d of %d".formatted(target, targetRanks));
    }
    if (request.children() > 0 && transports.isPresent()) {
      return refused(
          Submission.Reason.SEQUENCES,
          1L + request.children(),
          1,
          "%d sequences: the KV of one goes from worker to worker"
              .formatted(1L + request.children()));
    }
    return request.prompt().isUnknown() ? Submission.ACCEPTED : examine(request.prompt());
  }

  private Submission examine(Prompt prompt) {
    var adapter = prompt.adapter();
    if (adapter.isPresent() && !adapters.contains(adapter.getAsLong())) {
      return refused(Submission.Reason.ADAPTER, 0, 0, "adapter " + adapter.getAsLong());
    }
    int outside = prompt.firstOutside(vocabulary);
    if (outside >= 0) {
      int token = prompt.token(outside);
      return refused(
          Submission.Reason.TOKEN,
          token,
          vocabulary,
          "token %d at place %d, the model has %d".formatted(token, outside, vocabulary));
    }
    return Submission.ACCEPTED;
  }

  private static Submission refused(
      Submission.Reason reason, long required, long available, String detail) {
    return new Submission.Refused(reason, required, available, detail);
  }

  void cancel(RequestHandle handle) {
    inbox.cancel(handle);
  }

  void wake() {
    inbox.wake();
  }

  void receive(RequestHandle handle, KvHandoff kv) {
    control(() -> {
      LiveRequest live = handle.live();
      if (live == null || live.kv.isPresent() || handle.submittedHandoff().isPresent()) {
        return; // it is over, or has one
      }
      live.kv = Optional.of(kv);
      int row = handle.streams()[0].row;
      if (row >= 0 && !transceivers.isEmpty()) {
        transceivers.get(live.rank).fetch(row, handle.id(), kv);
      }
    });
  }

  /** Runs what belongs to a caller where callers' code runs. */
  void call(Runnable code) {
    try {
      callbacks.execute(code);
    } catch (RuntimeException e) {
      Thread.startVirtualThread(code);
    }
  }

  /** An adapter that requests may name from now on. */
  public void addAdapter(long id) {
    adapters.add(id);
  }

  /** An adapter that requests may no longer name. Those that were accepted go on. */
  public void removeAdapter(long id) {
    adapters.remove(id);
  }

  /** The limits as they were last set. */
  public Limits limits() {
    synchronized (ranksLock) {
      return limits;
    }
  }

  /**
   * Changes limits. A waiting request that doesn't fit in them any more is refused.
   *
   * @throws BerthException ARGUMENT for a limit outside its range
   */
  public void setLimits(Limits to) {
    int planned = config.plan().admissionCap();
    if (to.requestsPerRank() < 1 || to.requestsPerRank() > planned) {
      throw new BerthException(
          Code.ARGUMENT, "%d requests a rank: 1 to %d".formatted(to.requestsPerRank(), planned));
    }
    if (to.waiting() < 1 || to.waiting() > mostWaiting) {
      throw new BerthException(
          Code.ARGUMENT, "%d waiting requests: 1 to %d".formatted(to.waiting(), mostWaiting));
    }
    synchronized (ranksLock) {
      limits = to;
      inbox.limit(to.waiting());
      control(() -> {
        group.limit(to.requestsPerRank());
        refuseWhatNoLongerFits();
      });
    }
  }

  /**
   * From the next step on a rank takes no new requests; what it has runs to its end. A request that
   * insists on the rank waits.
   *
   * @return completes when the rank is empty, is opened again, or with the engine
   * @throws BerthException ARGUMENT if there is no such rank; STATE if it is the last one that
   *     takes requests: then it is the engine that drains
   */
  public CompletionStage<Void> drainRank(int rank) {
    requireRank(rank);
    synchronized (ranksLock) {
      if (!closedRanks.get(rank) && closedRanks.cardinality() == config.ranks() - 1) {
        throw new BerthException(
            Code.STATE, "rank " + rank + " is the last one that takes requests: drain the engine");
      }
      closedRanks.set(rank);
      var empty = new CompletableFuture<Void>();
      control(
          new Control() {
            @Override
            public void apply() {
              group.placement(rank, GroupTap.Placement.CLOSED);
              refuseWhatNoLongerFits();
              rankDrains.computeIfAbsent(rank, r -> new ArrayList<>()).add(empty);
            }

            @Override
            public void abandon() {
              complete(empty);
            }
          });
      return empty;
    }
  }

  /**
   * From the next step on a rank takes new requests again.
   *
   * @throws BerthException ARGUMENT if there is no such rank
   */
  public void reopenRank(int rank) {
    requireRank(rank);
    synchronized (ranksLock) {
      closedRanks.clear(rank);
      control(() -> {
        group.placement(rank, GroupTap.Placement.OPEN);
        completeAll(Objects.requireNonNullElse(rankDrains.remove(rank), List.of()));
      });
    }
  }

  private void requireRank(int rank) {
    if (rank < 0 || rank >= config.ranks()) {
      throw new BerthException(Code.ARGUMENT, "rank %d of %d".formatted(rank, config.ranks()));
    }
  }

  private void control(Control change) {
    controls.add(change);
    inbox.wake();
    if (released) { // nobody may be there to see it
      change.abandon();
    }
  }

  /**
   * Takes nothing new; what was accepted runs to its end.
   *
   * @return completes when nothing is left, or with the engine
   */
  public CompletionStage<Void> drain() {
    synchronized (ranksLock) {
      if (phase == Phase.OPEN) {
        phase = Phase.DRAINING;
      }
    }
    var done = new CompletableFuture<Void>();
    control(
        new Control() {
          @Override
          public void apply() {
            drains.add(done);
          }

          @Override
          public void abandon() {
            complete(done);
          }
        });
    return done;
  }

  /**
   * Ends the engine. With a thread of its own: takes nothing new, waits until what was accepted has
   * run to its end, then frees everything; a thread that is interrupted while it waits closes at
   * once. Without: as {@link #closeNow}, since nobody else can drive it ({@link #drain} first).
   * Idempotent.
   */
  @Override
  public void close() {
    EngineLoop mine = loop;
    if (mine == null) {
      closeNow();
      return;
    }
    drain();
    closeWhenDrained = true;
    inbox.wake();
    if (!mine.join()) {
      closeNow();
    }
  }

  /**
   * Ends the engine at once: every request that hasn't ended is cancelled. The iteration under way
   * comes to its end, then everything is freed; with a caller's own loop, by the commit of the plan
   * that is out. Idempotent.
   */
  public void closeNow() {
    phase = Phase.CLOSED;
    inbox.wake();
    EngineLoop mine = loop;
    if (mine != null) {
      mine.join();
    } else {
      releaseUnlessOut();
    }
  }

  /** True once nothing that was accepted is left, after {@link #drain} or when the engine ended. */
  public boolean drained() {
    return released || drained;
  }

  /** True once the engine has ended and everything is freed. */
  public boolean closed() {
    return released;
  }

  /** What ended the engine, if it couldn't go on. */
  public Optional<Throwable> failure() {
    return failure;
  }

  /**
   * Sequences on the ranks as of the last step or commit, those that are about to leave included.
   */
  public long live() {
    long all = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      all += live.get(rank);
    }
    return all;
  }

  /**
   * The same of one rank.
   *
   * @throws BerthException ARGUMENT if there is no such rank
   */
  public long liveOn(int rank) {
    requireRank(rank);
    return live.get(rank);
  }

  /** Requests that wait as of the last step. */
  public int waiting() {
    return waiting;
  }

  /**
   * What a caller's own loop needs of a rank: its KV cache and the table of its requests, to be
   * read between {@link #step} and {@link #commit}.
   *
   * @throws BerthException ARGUMENT if there is no such rank or stage
   */
  public RankSetup setup(int rank, int stage) {
    return group.engine(rank, stage).setup();
  }

  /** What the engine was made from. */
  public EngineConfig config() {
    return config;
  }

  // ------------------------------------------------------------------------------ the driver

  /**
   * The first half of an iteration: looks at what came, decides, and says what is to be run. One
   * thread at a time; whatever the plan asks for, {@link #commit} comes next unless it is idle.
   *
   * @param nowMicros the time, µs on any clock; one that goes backwards stands still
   * @return the engine's own, valid until it is committed
   * @throws BerthException STATE if a plan is out or the engine drives itself; CLOSED if it has
   *     ended. DIVERGED or INTERNAL if it can't go on: then it has ended
   */
  public StepPlan step(long nowMicros) {
    if (loop != null) {
      throw new BerthException(Code.STATE, "this engine drives itself");
    }
    return begin(nowMicros);
  }

  StepPlan begin(long nowMicros) {
    driving.lock();
    try {
      if (phase == Phase.CLOSED) {
        release();
      }
      requireOpen();
      if (out) {
        throw new BerthException(Code.STATE, "a plan is out: commit its result first");
      }
      try {
        decide(nowMicros);
        return plan;
      } catch (RuntimeException | Error e) {
        fail(e);
        throw e;
      }
    } finally {
      driving.unlock();
    }
  }

  /**
   * The second half of an iteration: takes what came of the plan, hands out tokens, ends what has
   * ended.
   *
   * @param of the plan's own {@link StepPlan#result}
   * @throws BerthException STATE if no plan is out, or the result is another engine's; CLOSED if
   *     the engine has ended. DIVERGED or INTERNAL if it can't go on: then it has ended
   */
  public void commit(StepResult of) {
    if (of != result) {
      throw new BerthException(Code.STATE, "the result of another engine");
    }
    finish(result.device());
  }

  void finish(LockstepGroup.Device device) {
    driving.lock();
    try {
      requireOpen();
      if (!out && plan.idle()) {
        return;
      }
      if (!out) {
        throw new BerthException(Code.STATE, "no plan is out");
      }
      try {
        carryOut(device);
      } catch (RuntimeException | Error e) {
        out = false;
        fail(e);
        throw e;
      }
      if (phase == Phase.CLOSED) {
        release();
      }
    } finally {
      driving.unlock();
    }
  }

  private void requireOpen() {
    if (released) {
      throw failure
          .map(cause -> new BerthException(Code.CLOSED, "the engine has failed", cause))
          .orElseGet(() -> new BerthException(Code.CLOSED, "the engine was closed"));
    }
  }

  /**
   * The last failure of the caller's own capacity policy, if it ever failed. The engine goes on: a
   * rank whose policy failed lets nobody in that iteration.
   */
  public Optional<BerthException> policyFailure() {
    return policyFailure;
  }

  /**
   * How long there is nothing to do after the last step or commit, µs; 0: step again at once.
   * {@link Long#MAX_VALUE}: until something comes.
   */
  public long pauseMicros() {
    return pauseMicros;
  }

  /**
   * Waits for {@link #pauseMicros} or until something comes: a request, a cancellation, a reader, a
   * change. For a caller's own loop; returns at once where there is something to do.
   */
  public void awaitWork() {
    long micros = pauseMicros;
    if (micros > 0 && phase != Phase.CLOSED && !released && controls.isEmpty()) {
      inbox.await(micros);
    }
  }

  private void decide(long nowMicros) {
    now = Math.max(now, nowMicros);
    takeControls();
    takeRequests();
    takeCancellations();
    endWhatIsLate();
    for (int rank = 0; rank < transceivers.size(); rank++) {
      transceivers.get(rank).poll(now);
    }
    mindReaders();
    boolean ran = group.begin();
    plan.begin(!ran);
    if (ran) {
      noteAdmitted();
      for (int stage = 0; stage < config.stages(); stage++) {
        for (int rank = 0; rank < config.ranks(); rank++) {
          RankEngine engine = group.engine(rank, stage);
          if (engine.launchSlot() >= 0) {
            plan.launch(engine.view(engine.launchSlot()));
          }
          if (engine.dueSlot() >= 0) {
            plan.due(engine.view(engine.dueSlot()));
          }
        }
      }
      result.begin(plan);
      out = true;
      pauseMicros = 0;
    } else {
      note(untilNextTime(Long.MAX_VALUE));
      completeDrains();
    }
    waiting = group.admission().waiting();
    inbox.release(stoppedWaiting);
    stoppedWaiting = 0;
  }

  private void carryOut(LockstepGroup.Device device) {
    delivery.inner = device;
    try {
      group.carryOut(delivery);
    } catch (BerthException e) {
      if (e.code() != Code.POLICY) {
        throw e;
      }
      policyFailure = Optional.of(e); // a rank let nobody in; the step is whole
    }
    out = false;
    result.close();
    VarHandle.fullFence(); // tokens before the look at who waits for them
    for (int i = 0; i < fresh.size(); i++) {
      fresh.get(i).tell();
    }
    fresh.clear();
    noteTransfers();
    boolean moved = endWhatHasEnded() | group.admission().admitted() > 0;
    moved |= group.admission().faulted() | anyReal(plan.launches()) | anyReal(plan.dues());
    if (group.pauseMicros() > 0) {
      note(untilNextTime(group.pauseMicros()));
    } else {
      note(moved ? 0 : untilNextTime(POLL_MICROS));
    }
    completeDrains();
  }

  /** Hands to the transports what this iteration asked for. */
  private void noteTransfers() {
    for (int rank = 0; rank < transceivers.size(); rank++) {
      RankEngine engine = group.engine(rank);
      Transceiver transceiver = transceivers.get(rank);
      for (int i = 0; i < engine.receives(); i++) {
        int row = engine.receiveRow(i);
        TokenStream stream = Objects.requireNonNull(byRow[rank][row]);
        LiveRequest live = Objects.requireNonNull(stream.handle().live());
        transceiver.expect(row, stream.handle().id(), now);
        live.kv
            .or(() -> stream.handle().submittedHandoff())
            .ifPresent(kv -> transceiver.fetch(row, stream.handle().id(), kv));
        if (live.told()) {
          transceiver.giveUp(row, stream.handle().id());
        }
      }
      for (int i = 0; i < engine.sends(); i++) {
        int row = engine.sendRow(i);
        TokenStream stream = Objects.requireNonNull(byRow[rank][row]);
        if (stream.handle().request().maxNewTokens() > 1) {
          stream.handle().offered(transceiver.offer(row, stream.last, now));
        } else {
          transceiver.keep(row);
        }
      }
    }
  }

  /** Is there more in these batches than padding? */
  private static boolean anyReal(List<BatchView> batches) {
    for (int i = 0; i < batches.size(); i++) {
      BatchView batch = batches.get(i);
      if (batch.size() > 1 || batch.kind(0) != Batch.Kind.DUMMY) {
        return true;
      }
    }
    return false;
  }

  private void note(long pause) {
    for (int rank = 0; rank < config.ranks(); rank++) {
      live.setRelease(rank, group.engine(rank).live());
    }
    pauseMicros = pause;
  }

  private long untilNextTime(long most) {
    long next = timers.next();
    return next == SubmitOptions.NO_LIMIT ? most : Math.clamp(next - now + 1, 0, most);
  }

  // ---- what came in

  private void takeControls() {
    Control change = controls.poll();
    while (change != null) {
      change.apply();
      change = controls.poll();
    }
  }

  private void takeRequests() {
    RequestHandle handle = inbox.poll();
    while (handle != null) {
      take(handle);
      handle = inbox.poll();
    }
  }

  private void take(RequestHandle handle) {
    if (handle.isCancelled()) {
      stoppedWaiting++;
      handle.end(new Ending.Cancelled(Ending.By.CALLER), List.of());
      return;
    }
    Request request = handle.request();
    if (byId.containsKey(request.id())) {
      stoppedWaiting++;
      handle.refuse(
          refused(Submission.Reason.DUPLICATE, 0, 0, "a request %d lives".formatted(request.id())));
      return;
    }
    int number = freeCount > 0 ? freeNumbers[freeCount - 1] : numbers;
    Submission verdict = offer(request.withTag(number));
    if (!(verdict instanceof Submission.Accepted)) {
      stoppedWaiting++;
      handle.refuse(verdict);
      return;
    }
    enter(new LiveRequest(handle, number));
  }

  private Submission offer(Request request) {
    if (request.encoderTokens() > 0 && config.role() != WorkerRole.GENERATION) {
      return refused(
          Submission.Reason.OTHER,
          request.encoderTokens(),
          0,
          "encoder input of %d tokens: an engine's runners run no encoders"
              .formatted(request.encoderTokens()));
    }
    try {
      return switch (group.offer(request)) {
        case Outcome.Queued ignored -> Submission.ACCEPTED;
        case Outcome.Duplicate ignored ->
            refused(Submission.Reason.DUPLICATE, 0, 0, "it waits already");
        case Outcome.Expired ignored ->
            refused(Submission.Reason.EXPIRED, 0, 0, "its deadline was over before it came");
        case Outcome.Refused no ->
            refused(
                Submission.Reason.of(no.reason()),
                no.required(),
                no.available(),
                "%s: %d of %d".formatted(no.reason(), no.required(), no.available()));
      };
    } catch (BerthException e) {
      if (e.code() != Code.ARGUMENT) {
        throw e;
      }
      return refused(Submission.Reason.OTHER, 0, 0, String.valueOf(e.getMessage()));
    }
  }

  private void enter(LiveRequest live) {
    if (freeCount > 0) {
      freeCount--;
    } else {
      numbers++;
    }
    if (live.number >= byNumber.length) {
      byNumber = Arrays.copyOf(byNumber, byNumber.length * 2);
      freeNumbers = Arrays.copyOf(freeNumbers, freeNumbers.length * 2);
    }
    byNumber[live.number] = live;
    byId.put(live.handle.id(), live);
    live.handle.live(live);
    SubmitOptions options = live.handle.options();
    live.totalDue = after(options.totalMicros());
    long queueDue = after(options.queueMicros());
    live.limit = queueDue < live.totalDue ? Ending.Limit.QUEUE : Ending.Limit.TOTAL;
    timers.set(live, Math.min(queueDue, live.totalDue));
  }

  private long after(long micros) {
    return micros >= SubmitOptions.NO_LIMIT - Math.max(0, now)
        ? SubmitOptions.NO_LIMIT
        : now + micros;
  }

  private void takeCancellations() {
    for (int i = untold.size() - 1; i >= 0; i--) {
      TokenStream stream = untold.remove(i);
      if (stream.row >= 0) {
        tell(stream);
      }
    }
    RequestHandle handle = inbox.takeCancelled();
    while (handle != null) {
      LiveRequest live = handle.live();
      if (live != null) {
        end(live, new Ending.Cancelled(Ending.By.CALLER));
      } // else it is still to be looked at, or over
      RequestHandle next = handle.nextCancelled();
      handle.nextCancelled(null);
      handle = next;
    }
  }

  private void endWhatIsLate() {
    while (timers.next() < now) {
      LiveRequest live = timers.first();
      timers.remove(live);
      end(live, new Ending.TimedOut(live.limit));
    }
  }

  /** Ends a request before its time, wherever it is. */
  private void end(LiveRequest live, Ending ending) {
    if (live.told()) {
      return;
    }
    live.ending = ending;
    if (live.place == LiveRequest.Place.WAITING) {
      group.cancel(live.handle.id());
      stoppedWaiting++;
      forget(live);
      live.handle.end(ending, List.of());
    } else {
      endRest(live);
    }
  }

  /** Ends the sequences of a request that haven't ended. */
  private void endRest(LiveRequest live) {
    int withdrawn = group.withdraw(live.rank, live.handle.id());
    for (TokenStream stream : live.handle.streams()) {
      if (stream.row >= 0) {
        tell(stream);
      } else if (withdrawn > 0 && !live.hasEnded(stream.child())) {
        withdrawn--;
        over(live, stream, EndKind.CANCELLED, 0);
      }
    }
  }

  /** Tells a sequence's row to end; nothing that it makes from now on is anybody's. */
  private void tell(TokenStream stream) {
    stream.closed = true;
    LiveRequest live = Objects.requireNonNull(stream.handle().live());
    if (group.engine(live.rank).changeRoom() == 0) {
      untold.add(stream);
      return;
    }
    for (int stage = 0; stage < config.stages(); stage++) {
      group.engine(live.rank, stage).cancel(stream.row, stream.handle().id());
    }
    if (!transceivers.isEmpty()) {
      transceivers.get(live.rank).giveUp(stream.row, stream.handle().id());
    }
  }

  private void refuseWhatNoLongerFits() {
    int capacity = group.admission().capacity();
    for (int number = 0; number < numbers; number++) {
      LiveRequest live = byNumber[number];
      if (live != null
          && live.place == LiveRequest.Place.WAITING
          && live.handle.request().admissionCost() > capacity) {
        int cost = live.handle.request().admissionCost();
        end(
            live,
            new Ending.Refused(
                refused(
                    Submission.Reason.SEQUENCES,
                    cost,
                    capacity,
                    "%d sequences, the ranks take %d now".formatted(cost, capacity))));
      }
    }
  }

  // ---- readers

  /** Holds sequences whose readers are behind, lets go on those whose readers caught up. */
  private void mindReaders() {
    for (int i = slow.size() - 1; i >= 0; i--) {
      TokenStream stream = slow.get(i);
      if (!mind(stream)) {
        stream.heldSince = -1;
        stream.minded = false;
        stream.await(false);
        slow.set(i, slow.getLast());
        slow.removeLast();
      }
    }
  }

  /** False: there is nothing to mind any more. */
  private boolean mind(TokenStream stream) {
    LiveRequest live = stream.handle().live();
    if (live == null || stream.closed && !stream.overrun || stream.row < 0) {
      return false;
    }
    var policy = stream.handle().options().slowReader();
    if (stream.overrun || !(policy instanceof SubmitOptions.SlowReader.Pause(long most))) {
      end(live, new Ending.Cancelled(Ending.By.SLOW_READER));
      return false;
    }
    RankEngine engine = group.engine(live.rank);
    if (stream.heldSince < 0) {
      stream.await(true);
      if (stream.free(live.room) > margin()) {
        return false;
      }
      if (engine.changeRoom() > 0) {
        for (int stage = 0; stage < config.stages(); stage++) {
          group.engine(live.rank, stage).hold(stream.row, stream.handle().id());
        }
        stream.heldSince = now;
      }
      return true;
    }
    if (stream.free(live.room) >= live.room / 2) {
      if (engine.changeRoom() == 0) {
        return true;
      }
      for (int stage = 0; stage < config.stages(); stage++) {
        group.engine(live.rank, stage).resume(stream.row, stream.handle().id());
      }
      return false;
    }
    if (now - stream.heldSince >= most) {
      end(live, new Ending.Cancelled(Ending.By.SLOW_READER));
      return false;
    }
    return true;
  }

  /** Places that a ring must have for tokens that are on their way when it is found to be full. */
  private int margin() {
    return config.loop() == Loop.OVERLAP ? 3 : 2;
  }

  // ---- what became of it

  private void landed(int rank, Request request, int child, int row) {
    LiveRequest live = Objects.requireNonNull(byNumber[(int) request.tag()]);
    TokenStream stream = live.handle.streams()[child];
    live.rank = rank;
    stream.row = row;
    byRow[rank][row] = stream;
  }

  private void noteAdmitted() {
    Admission admission = group.admission();
    if (admission.admitted() == 0) {
      return;
    }
    for (int rank = 0; rank < config.ranks(); rank++) {
      for (int i = 0; i < admission.assigned(rank); i++) {
        LiveRequest live =
            Objects.requireNonNull(byNumber[(int) admission.assigned(rank, i).tag()]);
        live.rank = rank;
        live.place = LiveRequest.Place.ON_RANK;
        live.limit = Ending.Limit.TOTAL;
        timers.set(live, live.totalDue);
        stoppedWaiting++;
      }
    }
  }

  /** Hands out what a batch made before the engine settles it. */
  private void deliver(RankEngine engine, Batch batch) {
    @Nullable TokenStream[] rows = byRow[engine.rank()];
    for (int i = 0; i < batch.size(); i++) {
      TokenStream stream = rows[batch.row(i)];
      if (stream == null || stream.closed || !batch.makesToken(i)) {
        continue;
      }
      if (batch.fails(i)) {
        stream.closed = true;
        continue;
      }
      LiveRequest live = Objects.requireNonNull(stream.handle().live());
      int token = batch.token(i);
      stream.made++;
      stream.last = token;
      if (token >= 0) {
        hand(stream, token, live);
      }
      if (batch.stops(i) || stream.made >= outputTokens(live.handle.request())) {
        stream.closed = true;
      }
    }
  }

  /** The results of a batch are lost: what its requests make in the batch behind it is nobody's. */
  private void closeAll(RankEngine engine, Batch batch) {
    @Nullable TokenStream[] rows = byRow[engine.rank()];
    for (int i = 0; i < batch.size(); i++) {
      TokenStream stream = rows[batch.row(i)];
      if (stream != null) {
        stream.closed = true;
      }
    }
  }

  private int outputTokens(Request request) {
    return config.role() == WorkerRole.CONTEXT ? 1 : request.maxNewTokens();
  }

  private void hand(TokenStream stream, int token, LiveRequest live) {
    if (stream.push(token, live.room)) {
      fresh.add(stream);
      int free = stream.free(live.room);
      int left = live.handle.request().maxNewTokens() - stream.made;
      boolean pauses =
          stream.handle().options().slowReader() instanceof SubmitOptions.SlowReader.Pause;
      if (pauses && free <= margin() && left > free && !stream.minded) {
        stream.minded = true;
        slow.add(stream);
      }
    } else {
      stream.overrun = true;
      stream.closed = true;
      slow.add(stream);
    }
  }

  private boolean endWhatHasEnded() {
    boolean any = false;
    for (int rank = 0; rank < config.ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      int n = engine.ended();
      any |= n > 0;
      for (int i = 0; i < n; i++) {
        int row = engine.endedRow(i);
        TokenStream stream = Objects.requireNonNull(byRow[rank][row]);
        byRow[rank][row] = null;
        stream.row = -1;
        LiveRequest live = Objects.requireNonNull(stream.handle().live());
        EndKind kind = engine.endedKind(i);
        boolean first = kind == EndKind.FAILED && !live.told();
        if (first) {
          live.ending = ofFailing(rank);
        }
        over(live, stream, kind, engine.endedTokens(i));
        if (first && live.left > 0) {
          endRest(live);
        }
      }
    }
    return any;
  }

  private Ending ofFailing(int rank) {
    BrokenBatchException cause = broken[rank];
    return cause == null
        ? new Ending.Failed("its model gave it up", Optional.empty())
        : new Ending.Failed(
            String.valueOf(cause.getMessage()), Optional.ofNullable(cause.getCause()));
  }

  private void over(LiveRequest live, TokenStream stream, EndKind kind, int outputTokens) {
    stream.closed = true;
    live.ended(stream.child(), kind, outputTokens);
    if (live.left == 0) {
      forget(live);
      live.handle.end(live.verdict(), live.outputTokens());
    }
    if (stream.ending().isEmpty()) {
      stream.end(live.endingOf(kind));
    }
  }

  private void forget(LiveRequest live) {
    timers.remove(live);
    byId.remove(live.handle.id());
    byNumber[live.number] = null;
    freeNumbers[freeCount++] = live.number;
    live.handle.live(null);
  }

  // ---- the end

  private void completeDrains() {
    drained = phase == Phase.DRAINING && byId.isEmpty() && inbox.drained();
    if (drained) {
      completeAll(drains);
      drains.clear();
    }
    if (!rankDrains.isEmpty()) {
      rankDrains
          .entrySet()
          .removeIf(e -> {
            boolean free = group.engine(e.getKey()).live() == 0;
            if (free) {
              completeAll(e.getValue());
            }
            return free;
          });
    }
  }

  private void completeAll(List<CompletableFuture<Void>> stages) {
    stages.forEach(this::complete);
  }

  private void complete(CompletableFuture<Void> stage) {
    call(() -> stage.complete(null));
  }

  /** True once its own thread has nothing more to do. */
  boolean over() {
    return phase == Phase.CLOSED || (closeWhenDrained && drained && inbox.drained());
  }

  void fail(Throwable cause) {
    failure = Optional.of(cause);
    phase = Phase.CLOSED;
    release();
  }

  private void releaseUnlessOut() {
    driving.lock();
    try {
      if (!out) {
        release();
      }
    } finally {
      driving.unlock();
    }
  }

  /** Ends what hasn't ended and frees everything. Idempotent. */
  void release() {
    driving.lock();
    try {
      if (released) {
        return;
      }
      phase = Phase.CLOSED;
      EngineLoop mine = loop;
      if (mine != null) {
        mine.closeRunners();
      }
      transceivers.forEach(Transceiver::close);
      group.close();
      released = true; // who submits from now on ends it himself
      Ending ending = ofClosing();
      while (!inbox.drained()) {
        RequestHandle handle = inbox.poll();
        if (handle == null) {
          Thread.onSpinWait(); // its submitter is on its way with it
        } else {
          handle.end(ending, List.of());
        }
      }
      for (LiveRequest live : List.copyOf(byId.values())) {
        forget(live);
        live.handle.end(live.told() ? live.ending : ending, made(live));
      }
      Control change = controls.poll();
      while (change != null) {
        change.abandon();
        change = controls.poll();
      }
      completeAll(drains);
      rankDrains.values().forEach(this::completeAll);
    } finally {
      driving.unlock();
    }
  }

  private static List<Integer> made(LiveRequest live) {
    var all = new ArrayList<Integer>();
    for (TokenStream stream : live.handle.streams()) {
      all.add(stream.made);
    }
    return Collections.unmodifiableList(all);
  }

  private Ending ofClosing() {
    return failure
        .<Ending>map(cause -> new Ending.Failed("the engine has failed: " + cause, failure))
        .orElseGet(() -> new Ending.Cancelled(Ending.By.CLOSE));
  }

  /** Collects what differs from the defaults. For one thread. */
  public static final class Builder {
    private final EngineConfig config;
    private final List<Long> adapters = new ArrayList<>();
    private MatchSource matches = MatchSource.NONE;
    private int waiting = 1 << 16;
    private int vocabulary = Integer.MAX_VALUE;
    private Executor callbacks = Thread::startVirtualThread;
    private SubmitOptions defaults = SubmitOptions.DEFAULT;
    private Optional<GroupTap> tap = Optional.empty();
    private Optional<TransportSetup> transports = Optional.empty();
    private LongSupplier clock = EngineLoop.CLOCK;
    private ThreadFactory threads = EngineLoop.THREADS;

    private Builder(EngineConfig config) {
      this.config = config;
    }

    /** Who knows what the ranks' caches hold, for routers that ask. */
    public Builder matches(MatchSource source) {
      matches = source;
      return this;
    }

    /**
     * Most requests that may wait, accepted and not on a rank yet; 65,536 unless set.
     *
     * @param requests 1 to {@link #MOST_WAITING}
     */
    public Builder waiting(int requests) {
      if (requests < 1 || requests > MOST_WAITING) {
        throw new BerthException(
            Code.ARGUMENT, "%d waiting requests: 1 to %d".formatted(requests, MOST_WAITING));
      }
      waiting = requests;
      return this;
    }

    /**
     * Token ids that the model has, from 0 on; every id that isn't negative unless set.
     *
     * @param tokens 1 or more
     */
    public Builder vocabulary(int tokens) {
      if (tokens < 1) {
        throw new BerthException(Code.ARGUMENT, "a vocabulary of " + tokens + ": 1 or more");
      }
      vocabulary = tokens;
      return this;
    }

    /** Adapters that requests may name; none unless set. */
    public Builder adapters(long... ids) {
      for (long id : ids) {
        adapters.add(id);
      }
      return this;
    }

    /**
     * Where results are completed, and so where callers' callbacks run; a virtual thread each
     * unless set. One that refuses is passed over, one that blocks holds up the engine.
     */
    public Builder callbacks(Executor executor) {
      callbacks = executor;
      return this;
    }

    /** Options of requests that come without. */
    public Builder defaults(SubmitOptions options) {
      defaults = options;
      return this;
    }

    /** Who hears what reaches the ranks and what they decide: a decision log. */
    public Builder tap(GroupTap listener) {
      tap = Optional.of(listener);
      return this;
    }

    /**
     * How KV goes from a context worker to a generation worker: one transport a rank, on the
     * engine's clock. The engine closes them.
     */
    public Builder transports(Transports factory, Transceiver.Options options) {
      if (!config.sends() && config.role() != WorkerRole.GENERATION) {
        throw new BerthException(
            Code.CONFIGURATION,
            "transports of a worker that is %s with transfer %s: a context-only worker with a"
                    .formatted(config.role(), config.transfer())
                + " transfer engine, or a generation-only one");
      }
      transports = Optional.of(new TransportSetup(factory, options));
      return this;
    }

    /** The clock of a thread of the engine's own, µs; the JVM's unless set. */
    public Builder clock(LongSupplier micros) {
      clock = micros;
      return this;
    }

    /** Makes the thread of the engine's own; a daemon unless set. */
    public Builder threads(ThreadFactory factory) {
      threads = factory;
      return this;
    }

    /**
     * An engine that its caller drives.
     *
     * @throws BerthException CONFIGURATION with every disagreement of the start-up validator
     */
    public Engine open() {
      return new Engine(this);
    }

    /**
     * An engine with a thread of its own, which runs these models.
     *
     * @throws BerthException CONFIGURATION with every disagreement of the start-up validator
     */
    public Engine start(ModelRunner.Factory models) {
      var engine = new Engine(this);
      try {
        var own = new EngineLoop(engine, new ModelRunners(engine.group, models), clock);
        engine.loop = own;
        own.start(threads);
      } catch (RuntimeException | Error e) {
        engine.release();
        throw e;
      }
      return engine;
    }
  }

  /** Hears how the transfers of a rank end. */
  private final class Transfers implements Transceiver.Listener {
    private final int rank;

    Transfers(int rank) {
      this.rank = rank;
    }

    @Override
    public void arrived(int row, long requestId, int firstToken) {
      TokenStream stream = Objects.requireNonNull(byRow[rank][row]);
      if (stream.closed) {
        return;
      }
      LiveRequest live = Objects.requireNonNull(stream.handle().live());
      stream.made++;
      if (firstToken >= 0) {
        hand(stream, firstToken, live);
      }
      stream.closed |= stream.made >= live.handle.request().maxNewTokens();
    }

    @Override
    public void notArrived(int row, long requestId, String why) {
      failed(row, "its KV didn't arrive: " + why);
    }

    @Override
    public void notSent(int row, long requestId, String why) {
      failed(row, "its KV wasn't taken: " + why);
    }

    private void failed(int row, String why) {
      LiveRequest live =
          Objects.requireNonNull(Objects.requireNonNull(byRow[rank][row]).handle().live());
      if (!live.told()) {
        live.ending = new Ending.Failed(why, Optional.empty());
      }
    }
  }

  /** The device of an iteration, and behind it whoever reads what it makes. */
  private final class Delivery implements LockstepGroup.Device {
    private LockstepGroup.Device inner = LockstepGroup.NO_DEVICE;

    @Override
    public void forward(long maxRankTokens, long totalTokens) {
      inner.forward(maxRankTokens, totalTokens);
    }

    @Override
    public void launch(RankEngine engine, Batch batch) {
      try {
        inner.launch(engine, batch);
      } catch (BrokenBatchException e) {
        broken[engine.rank()] = e;
        throw e;
      }
    }

    @Override
    public void collect(RankEngine engine, Batch batch) {
      try {
        inner.collect(engine, batch);
      } catch (BrokenBatchException e) {
        broken[engine.rank()] = e;
        closeAll(engine, batch);
        throw e;
      }
      if (engine.stage() == 0) {
        deliver(engine, batch);
      }
    }
  }
}
