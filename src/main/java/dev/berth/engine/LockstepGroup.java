// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.exchange.FrameBoard;
import dev.berth.exchange.FrameBoard.Op;
import dev.berth.request.Request;
import dev.berth.request.WaitingQueue;
import dev.berth.route.MatchSource;
import java.util.Arrays;
import java.util.Optional;

/**
 * Drives all ranks and stages of one worker in one thread, an iteration at a time. It holds no
 * rule: it exchanges frames and carries out effects. Time is the caller's.
 *
 * <p>Ranks of one stage share an {@link Admission}: what they would all compute alike is computed
 * once.
 */
public final class LockstepGroup implements AutoCloseable {
  /** Runs forwards for {@link #step}. */
  public interface Device {
    /**
     * The fleet agreed to launch; comes before any {@link #launch} of the iteration.
     *
     * @param maxRankTokens most tokens of one rank
     * @param totalTokens tokens of all ranks
     */
    default void forward(long maxRankTokens, long totalTokens) {}

    /**
     * Starts the forward of a rank's batch.
     *
     * @throws BrokenBatchException if it can't be started: then its requests fail, and nothing else
     */
    default void launch(RankEngine engine, Batch batch) {}

    /**
     * Delivers the results of a batch started before.
     *
     * @throws BrokenBatchException if they are lost: then its requests fail, and nothing else
     */
    default void collect(RankEngine engine, Batch batch) {}
  }

  /** A device that computes nothing. */
  public static final Device NO_DEVICE = new Device() {};

  private final EngineConfig config;
  private final Admission[] admissions;
  private final RankEngine[] engines;
  private final Effect[] effects;

  /** By rank: the batch that the device was just called for is lost. */
  private final boolean[] faulted;

  private final FrameBoard gatherBoard;
  private final FrameBoard voteBoard;
  private final Event gathered;
  private final Event voted;
  private long sequence;
  private long steps;
  private long pauseMicros;
  private boolean launched;
  private boolean stepping;
  private GroupTap tap = GroupTap.NONE;
  private boolean touched;
  private Optional<BerthException> policyFailure = Optional.empty();

  /**
   * All engines of a worker, with empty tables.
   *
   * @throws BerthException CONFIGURATION with every disagreement of the start-up validator
   */
  public LockstepGroup(EngineConfig config) {
    this(config, MatchSource.NONE);
  }

  /**
   * The same for a router that weighs what caches hold.
   *
   * @param matches as {@link Admission#Admission(EngineConfig, int, MatchSource)} has it
   */
  public LockstepGroup(EngineConfig config, MatchSource matches) {
    this.config = config;
    int world = Math.multiplyExact(config.ranks(), config.stages());
    this.admissions = new Admission[config.stages()];
    this.engines = new RankEngine[world];
    this.effects = new Effect[world];
    this.faulted = new boolean[config.ranks()];
    this.gatherBoard = new FrameBoard(Op.GATHER, world, Payload.GATHER_WORDS);
    this.voteBoard = new FrameBoard(Op.VOTE, world, Payload.VOTE_WORDS);
    this.gathered = new Event.Gathered(gatherBoard);
    this.voted = new Event.Voted(voteBoard);
    for (int stage = 0; stage < config.stages(); stage++) {
      admissions[stage] = new Admission(config, stage, matches);
      for (int rank = 0; rank < config.ranks(); rank++) {
        RankEngine engine = new RankEngine(config, rank, stage, admissions[stage]);
        engines[stage * config.ranks() + rank] = engine;
        effects[stage * config.ranks() + rank] = engine.start();
      }
    }
  }

  /**
   * Lets somebody listen from now on, which must be the beginning.
   *
   * @throws BerthException STATE once a request was offered or a step made, or if somebody listens
   */
  public void listen(GroupTap listener) {
    if (touched) {
      throw new BerthException(Code.STATE, "a group is listened to from its beginning, by one");
    }
    touched = true;
    tap = listener;
    for (RankEngine engine : engines) {
      engine.listen(listener);
    }
    tap.begin(this);
  }

  /** What the group was made from. */
  public EngineConfig config() {
    return config;
  }

  /** The engine of a rank on the first stage. */
  public RankEngine engine(int rank) {
    return engine(rank, 0);
  }

  /** The engine of a rank on a stage. */
  public RankEngine engine(int rank, int stage) {
    if (rank < 0 || rank >= config.ranks() || stage < 0 || stage >= config.stages()) {
      throw new BerthException(
          Code.ARGUMENT,
          "rank %d of %d, stage %d of %d".formatted(rank, config.ranks(), stage, config.stages()));
    }
    return engines[stage * config.ranks() + rank];
  }

  /** The decisions of the first stage. */
  public Admission admission() {
    return admissions[0];
  }

  /**
   * Offers a request to every rank, unless it could never run. The caller keeps ids of live
   * requests distinct.
   */
  public Outcome offer(Request request) {
    touched = true;
    Outcome outcome = take(request);
    tap.offered(request, outcome);
    return outcome;
  }

  private Outcome take(Request request) {
    Outcome fit = engines[0].fits(request);
    if (fit instanceof Outcome.Refused) {
      return fit;
    }
    WaitingQueue.Offer offer = WaitingQueue.Offer.QUEUED;
    for (Admission admission : admissions) {
      offer = admission.offer(request); // alike on every stage
    }
    return switch (offer) {
      case QUEUED -> Outcome.QUEUED;
      case DUPLICATE -> Outcome.DUPLICATE;
      case EXPIRED -> Outcome.EXPIRED;
    };
  }

  /** Whether what is offered from now on only warms the worker up. */
  public void warmUp(FillWarmUp phase) {
    touched = true;
    for (RankEngine engine : engines) {
      engine.warmUp(phase);
    }
    tap.warmUp(phase);
  }

  /**
   * Takes a waiting request out again, on every stage.
   *
   * @return true if it waited
   */
  public boolean cancel(long id) {
    touched = true;
    boolean waited = false;
    for (Admission admission : admissions) {
      waited |= admission.cancel(id);
    }
    tap.cancelled(id, waited);
    return waited;
  }

  /**
   * Takes back the sequences of a request on a rank that have no row there yet, on every stage.
   *
   * @return how many there were
   */
  public int withdraw(int rank, long id) {
    int withdrawn = 0;
    for (int stage = 0; stage < config.stages(); stage++) {
      withdrawn = engine(rank, stage).withdraw(id);
    }
    if (withdrawn > 0) {
      tap.withdrawn(rank, id);
    }
    return withdrawn;
  }

  /**
   * From the next step on each rank takes at most that many requests; those that it has stay.
   *
   * @param admissionCap 1 to the plan's
   */
  public void limit(int admissionCap) {
    touched = true;
    for (Admission admission : admissions) {
      admission.limit(admissionCap);
    }
    tap.limited(admissionCap);
  }

  /**
   * From the next step on a rank takes no new requests, or takes them again; those that it has go
   * on.
   */
  public void placement(int rank, GroupTap.Placement change) {
    touched = true;
    engine(rank);
    for (Admission admission : admissions) {
      switch (change) {
        case OPEN -> admission.openRank(rank);
        case CLOSED -> admission.closeRank(rank);
      }
    }
    tap.placement(rank, change);
  }

  /**
   * Runs one iteration on all ranks. A step that throws leaves the ranks in the middle of an
   * iteration: the group can then be looked at and closed, nothing else, but for a failed policy.
   *
   * @throws BerthException DIVERGED if ranks or stages disagree, CLOSED after {@link #close}, STATE
   *     after a step that threw or inside one; POLICY if the caller's own policy failed on a rank:
   *     that rank let nobody in, the step is whole, and the group goes on with the next
   * @return true if an iteration ran; false if nothing lives and nothing waits
   */
  public boolean step(Device device) {
    if (!begin()) {
      return false;
    }
    carryOut(device);
    return true;
  }

  /**
   * The part of an iteration before the device has its say: gather, admission, schedule, vote.
   *
   * @return false if nothing lives and nothing waits: then there is nothing to carry out
   */
  boolean begin() {
    if (stepping) {
      throw new BerthException(Code.STATE, "a step is under way or has failed");
    }
    stepping = true;
    touched = true;
    tap.stepping();
    boolean ran;
    try {
      ran = decide();
    } catch (RuntimeException e) {
      tap.failed(e);
      throw e;
    }
    if (!ran) {
      stepping = false;
      tap.stepped(false);
    }
    return ran;
  }

  /** The rest of it: launches, results, teardown. */
  void carryOut(Device device) {
    try {
      drive(device);
    } catch (RuntimeException e) {
      tap.failed(e);
      throw e;
    }
    stepping = false;
    tap.stepped(true);
    if (policyFailure.isPresent()) {
      throw policyFailure.get();
    }
  }

  private boolean decide() {
    pauseMicros = 0;
    launched = false;
    policyFailure = Optional.empty();
    Arrays.fill(faulted, false);
    for (int i = 0; i < engines.length; i++) {
      Effect effect =
          effects[i] instanceof Effect.Idle ? engines[i].advance(Event.WOKEN) : effects[i];
      gatherBoard.put(i, ((Effect.NeedGather) effect).frame());
    }
    gatherBoard.verify(0, sequence);
    boolean idle = false;
    boolean votes = false;
    for (int i = 0; i < engines.length; i++) {
      effects[i] = gathered(engines[i]);
      switch (effects[i]) {
        case Effect.NeedVote vote -> {
          voteBoard.put(i, vote.frame());
          votes = true;
        }
        case Effect.Idle ignored -> idle = true;
        default -> {} // a batch broke: on to the next gather
      }
    }
    if (idle || !votes) {
      sequence++;
      steps += idle ? 0 : 1;
      return !idle;
    }
    voteBoard.verify(0, sequence);
    for (int i = 0; i < engines.length; i++) {
      effects[i] = engines[i].advance(voted);
    }
    sequence++;
    steps++;
    return true;
  }

  /** The others must not wait for a rank whose policy failed: it votes like everybody. */
  private Effect gathered(RankEngine engine) {
    try {
      return engine.advance(gathered);
    } catch (BerthException e) {
      if (e.code() != Code.POLICY) {
        throw e;
      }
      if (policyFailure.isEmpty()) {
        policyFailure = Optional.of(e);
      }
      return engine.pending();
    }
  }

  private void drive(Device device) {
    announceForward(device);
    for (int i = 0; i < engines.length; i++) {
      if (effects[i] instanceof Effect.Launch(Batch batch) && !faulted[engines[i].rank()]) {
        call(GroupTap.Fault.LAUNCH, engines[i], batch, device);
      }
    }
    answer(Effect.Launch.class, Event.LAUNCHED, Event.LAUNCH_FAILED);
    for (int i = 0; i < engines.length; i++) {
      if (effects[i] instanceof Effect.Collect(Batch batch) && !faulted[engines[i].rank()]) {
        call(GroupTap.Fault.COLLECT, engines[i], batch, device);
      }
    }
    answer(Effect.Collect.class, Event.COLLECTED, Event.COLLECT_FAILED);
    for (Effect effect : effects) {
      if (effect instanceof Effect.Idle(long micros)) {
        pauseMicros = micros;
      }
    }
  }

  private void call(GroupTap.Fault kind, RankEngine engine, Batch batch, Device device) {
    tap.calling();
    try {
      switch (kind) {
        case LAUNCH -> device.launch(engine, batch);
        case COLLECT -> device.collect(engine, batch);
      }
    } catch (BrokenBatchException e) {
      faulted[engine.rank()] = true;
      tap.faulted(engine.rank(), kind);
    }
  }

  /** A rank's stages run one batch: what breaks on one of them is broken on all. */
  private void answer(Class<? extends Effect> kind, Event done, Event failed) {
    for (int i = 0; i < engines.length; i++) {
      if (kind.isInstance(effects[i])) {
        effects[i] = engines[i].advance(faulted[engines[i].rank()] ? failed : done);
      }
    }
    Arrays.fill(faulted, false);
  }

  /**
   * The time of a forward depends on all ranks, so the device hears of all before the first starts.
   */
  private void announceForward(Device device) {
    long most = 0;
    long total = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      if (effects[rank] instanceof Effect.Launch) {
        launched = true;
        most = Math.max(most, engines[rank].batchTokens());
        total += engines[rank].batchTokens();
      }
    }
    if (launched) {
      tap.calling();
      device.forward(most, total);
    }
  }

  /** Pause that the ranks asked for after the last step, in µs; 0 if they want to go on at once. */
  public long pauseMicros() {
    return pauseMicros;
  }

  /** Whether the last step launched a forward. */
  public boolean launched() {
    return launched;
  }

  /** Iterations stepped, idle ones not counted. */
  public long steps() {
    return steps;
  }

  @Override
  public void close() {
    for (RankEngine engine : engines) {
      engine.close();
    }
  }
}
