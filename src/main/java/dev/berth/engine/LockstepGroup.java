// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.exchange.FrameBoard;
import dev.berth.exchange.FrameBoard.Op;
import dev.berth.request.Request;
import dev.berth.request.WaitingQueue;
import dev.berth.route.MatchSource;

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

    /** Starts the forward of a rank's batch. */
    default void launch(RankEngine engine, Batch batch) {}

    /** Delivers the results of a batch started before. */
    default void collect(RankEngine engine, Batch batch) {}
  }

  /** A device that computes nothing. */
  public static final Device NO_DEVICE = new Device() {};

  private final EngineConfig config;
  private final Admission[] admissions;
  private final RankEngine[] engines;
  private final Effect[] effects;
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
  public void warmUp(WarmUp phase) {
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
   * Runs one iteration on all ranks. A step that throws leaves the ranks in the middle of an
   * iteration: the group can then be looked at and closed, nothing else.
   *
   * @throws BerthException DIVERGED if ranks or stages disagree, CLOSED after {@link #close}, STATE
   *     after a step that threw or inside one
   * @return true if an iteration ran; false if nothing lives and nothing waits
   */
  public boolean step(Device device) {
    if (stepping) {
      throw new BerthException(Code.STATE, "a step is under way or has failed");
    }
    stepping = true;
    touched = true;
    tap.stepping();
    boolean ran;
    try {
      ran = iterate(device);
    } catch (RuntimeException e) {
      tap.failed(e);
      throw e;
    }
    stepping = false;
    tap.stepped(ran);
    return ran;
  }

  private boolean iterate(Device device) {
    pauseMicros = 0;
    launched = false;
    for (int i = 0; i < engines.length; i++) {
      Effect effect =
          effects[i] instanceof Effect.Idle ? engines[i].advance(Event.WOKEN) : effects[i];
      gatherBoard.put(i, ((Effect.NeedGather) effect).frame());
    }
    gatherBoard.verify(0, sequence);
    boolean idle = false;
    for (int i = 0; i < engines.length; i++) {
      effects[i] = engines[i].advance(gathered);
      if (effects[i] instanceof Effect.NeedVote vote) {
        voteBoard.put(i, vote.frame());
      } else {
        idle = true;
      }
    }
    if (idle) {
      sequence++;
      return false;
    }
    voteBoard.verify(0, sequence);
    for (int i = 0; i < engines.length; i++) {
      effects[i] = engines[i].advance(voted);
    }
    announceForward(device);
    for (int i = 0; i < engines.length; i++) {
      effects[i] = carryOut(engines[i], effects[i], device);
    }
    sequence++;
    steps++;
    return true;
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

  private Effect carryOut(RankEngine engine, Effect first, Device device) {
    Effect effect = first;
    while (true) {
      switch (effect) {
        case Effect.Launch launch -> {
          tap.calling();
          device.launch(engine, launch.batch());
          effect = engine.advance(Event.LAUNCHED);
        }
        case Effect.Collect collect -> {
          tap.calling();
          device.collect(engine, collect.batch());
          effect = engine.advance(Event.COLLECTED);
        }
        case Effect.Idle idle -> {
          pauseMicros = idle.pauseMicros();
          return idle;
        }
        case Effect.NeedGather next -> {
          return next;
        }
        case Effect.NeedVote vote -> throw new AssertionError(vote);
      }
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
