// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.ModelRunners;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.kv.KvUsage;
import dev.berth.kv.KvView;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import java.util.Arrays;
import java.util.Optional;

/**
 * Runs the ranks of one worker on virtual time until every request of an {@link Arrivals} is done
 * or nothing can happen any more. It decides nothing: it brings requests and transfers when their
 * time has come, and lets the engines work.
 */
public final class FleetRun implements AutoCloseable {
  /**
   * Iterations without any event after which a fleet counts as stopped: more than any pipeline is
   * deep.
   */
  private static final int STILL = 256;

  private final EngineConfig config;
  private final Arrivals arrivals;
  private final CostRunners cost;
  private final ModelRunners runners;
  private final TransferModel transfer;
  private final RunObserver observer;
  private final RequestTimes times;
  private final LockstepGroup group;
  private final TransferQueue transfers = new TransferQueue();

  /** Most requests that the ranks of one process make room for: some 8 GiB of native memory. */
  private static final long MOST_ROWS = 1L << 24;

  private double now;

  /** Nothing happens before the next arrival or transfer. */
  private boolean asleep;

  private int still;
  private long ended;
  private long gathers;
  private final RunTotals totals = new RunTotals();

  /** What an iteration came to. */
  enum Pace {
    /** The next iteration is due at {@link #nextAt()}. */
    GOING,
    /** Nothing lives, nothing waits, nothing is known to arrive. */
    IDLE,
    /** Something lives or waits, and nothing known can change that. */
    STALLED
  }

  /**
   * A fleet that hasn't begun.
   *
   * @param times receives the times of every request, by tag; several fleets may share it
   */
  FleetRun(
      EngineConfig config,
      Arrivals arrivals,
      RequestTimes times,
      CostModel cost,
      TransferModel transfer,
      RunObserver observer) {
    requireRoom(config, 1);
    this.config = config;
    this.arrivals = arrivals;
    this.cost = new CostRunners(config, cost, times, totals);
    this.transfer = transfer;
    this.observer = observer;
    this.times = times;
    this.group = new LockstepGroup(config);
    this.runners =
        new ModelRunners(
            group,
            this.cost,
            broken -> {
              throw new BerthException(Code.INTERNAL, "a cost model that fails", broken);
            });
    observer.begin(group);
  }

  /**
   * Refuses what one process can't hold.
   *
   * @throws BerthException CONFIGURATION with both numbers
   */
  static void requireRoom(EngineConfig engine, int servers) {
    if (engine.workerRows() > MOST_ROWS / servers) {
      throw new BerthException(
          Code.CONFIGURATION,
          "%d server%s of %d rank%s and %d stage%s make room for %d requests each; a replay makes"
                  .formatted(
                      servers,
                      servers == 1 ? "" : "s",
                      engine.ranks(),
                      engine.ranks() == 1 ? "" : "s",
                      engine.stages(),
                      engine.stages() == 1 ? "" : "s",
                      engine.workerRows())
              + " room for "
              + MOST_ROWS
              + " in all: lower the batch size, the ranks or the servers");
    }
  }

  /** Runs to the end. */
  public static RunResult run(
      EngineConfig config,
      Arrivals arrivals,
      CostModel cost,
      double transferMicros,
      RunObserver observer,
      Progress progress) {
    try (var run =
        new FleetRun(
            config,
            arrivals,
            new RequestTimes(arrivals.total()),
            cost,
            TransferModel.fixed(transferMicros),
            observer)) {
      return run.toTheEnd(progress);
    }
  }

  private RunResult toTheEnd(Progress progress) {
    try {
      while (true) {
        Pace pace = advance();
        progress.ended(ended);
        if (pace == Pace.IDLE) {
          return result(RunResult.Ending.DONE);
        } else if (pace == Pace.STALLED) {
          return result(RunResult.Ending.STALLED);
        } else if (progress.interrupted()) {
          return result(RunResult.Ending.INTERRUPTED);
        }
      }
    } catch (BerthException e) {
      if (e.code() == Code.DIVERGED) {
        return result(RunResult.Ending.DIVERGED, String.valueOf(e.getMessage()));
      } else if (e.code() == Code.STALLED) {
        return result(RunResult.Ending.STALLED, String.valueOf(e.getMessage()));
      }
      throw e;
    }
  }

  /** One iteration, at {@link #nextAt()}. */
  Pace advance() {
    now = nextAt();
    asleep = false;
    int arrived = offerWhatIsDue();
    int transferred = deliverTransfers();
    observer.beforeStep(group);
    double before = now;
    cost.begin(now);
    boolean ran = group.step(runners);
    gathers++;
    if (!ran) {
      if (arrivals.due(gathers, now, ended) > 0
          || arrivals.nextAtMicros(gathers) == Double.NEGATIVE_INFINITY) {
        return Pace.GOING;
      }
      asleep = true;
      return nextAt() == Double.POSITIVE_INFINITY ? Pace.IDLE : Pace.GOING;
    }
    long endedBefore = ended;
    long positionsBefore = totals.launchedPositions();
    int receives = settle();
    observer.afterStep(group, before);
    // A forward of padding alone brings no request further.
    boolean moved =
        arrived + transferred > 0
            || totals.launchedPositions() > positionsBefore
            || ended > endedBefore
            || group.admission().admitted() > 0
            || receives > 0;
    double next = Math.min(timed(arrivals.nextAtMicros(gathers)), transfers.nextAt());
    boolean awaited = next != Double.POSITIVE_INFINITY;
    if (group.launched()) {
      now = cost.forwardEnd();
    } else if (!moved && awaited) {
      asleep = group.pauseMicros() == 0;
      now = asleep ? now : Math.max(now, next);
    }
    if (group.pauseMicros() > 0) {
      now += group.pauseMicros();
    }
    still = moved || awaited ? 0 : still + 1;
    return still < STILL ? Pace.GOING : Pace.STALLED;
  }

  /**
   * When the next iteration begins, virtual µs; positive infinity if the fleet waits for an arrival
   * that nobody knows.
   */
  double nextAt() {
    return asleep
        ? Math.max(now, Math.min(timed(arrivals.nextAtMicros(gathers)), transfers.nextAt()))
        : now;
  }

  /** Virtual time of the end of the last iteration, µs. */
  double now() {
    return now;
  }

  /** A request that is due at a gather to come isn't due at a time. */
  private static double timed(double at) {
    return at == Double.NEGATIVE_INFINITY ? Double.POSITIVE_INFINITY : at;
  }

  private int offerWhatIsDue() {
    int due = arrivals.due(gathers, now, ended);
    for (int i = 0; i < due; i++) {
      Request request = arrivals.next();
      times.arrived((int) request.tag(), Math.min(now, arrivedAt(request)));
      if (group.offer(request) instanceof Outcome.Refused refused) {
        totals.refuse(request, refused);
        observer.refused(request, now);
        ended++;
      }
    }
    return due;
  }

  private double arrivedAt(Request request) {
    return arrivals instanceof TimedArrivals timed ? timed.arrivedAt((int) request.tag()) : now;
  }

  private int deliverTransfers() {
    int delivered = 0;
    while (transfers.nextAt() <= now) {
      RankEngine first = group.engine(transfers.rank());
      if (transfers.kind() == TransferQueue.Kind.TRANSFER) {
        times.firstToken((int) first.table().tag(transfers.row()), transfers.nextAt());
      }
      for (int stage = 0; stage < config.stages(); stage++) {
        RankEngine engine = group.engine(transfers.rank(), stage);
        switch (transfers.kind()) {
          case TRANSFER -> engine.transferArrived(transfers.row(), transfers.request());
          case ENCODER -> engine.encoded(transfers.row(), transfers.request());
        }
      }
      transfers.remove();
      delivered++;
    }
    return delivered;
  }

  /** Starts transfers and encoders and writes down who ended; how many were started. */
  private int settle() {
    int receives = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      int started = engine.receives();
      for (int i = 0; i < started; i++) {
        int row = engine.receiveRow(i);
        double at = now + transfer.micros(engine.table().promptTokens(row));
        transfers.add(at, TransferQueue.Kind.TRANSFER, rank, row, engine.table().id(row));
      }
      receives += started + startEncoders(engine);
      int n = engine.ended();
      for (int i = 0; i < n; i++) {
        int tag = (int) engine.endedTag(i);
        times.ended(tag, cost.settledAt(rank), engine.endedTokens(i));
        totals.end(engine.endedKind(i));
        observer.ended(tag, engine.endedKind(i), cost.settledAt(rank));
      }
      ended += n;
      totals.add(engine);
    }
    return receives;
  }

  /** Those of one iteration are one batch: all of it is there at once. */
  private int startEncoders(RankEngine engine) {
    int started = engine.encodes();
    double at = now + cost.encoderMicros(engine.encoderTokens());
    for (int i = 0; i < started; i++) {
      int row = engine.encodeRow(i);
      transfers.add(at, TransferQueue.Kind.ENCODER, engine.rank(), row, engine.table().id(row));
    }
    return started;
  }

  /** What came of it so far; who waits for what, if not all is done. */
  RunResult result(RunResult.Ending ending) {
    return result(ending, ending == RunResult.Ending.DONE ? "" : StallReport.describe(group));
  }

  private void countCaches() {
    long asked = 0;
    long found = 0;
    long evicted = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      Optional<KvView> kv = group.engine(rank).kv();
      if (kv.isPresent()) {
        KvUsage usage = kv.get().usage();
        asked += usage.askedTokens();
        found += usage.hitTokens();
        evicted += usage.evicted();
      }
    }
    totals.caches(asked, found, evicted);
  }

  private RunResult result(RunResult.Ending ending, String detail) {
    countCaches();
    long resident = 0;
    long generating = 0;
    long init = 0;
    long leaked = 0;
    long[] hashes = new long[config.ranks()];
    for (int rank = 0; rank < config.ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      int live = 0;
      for (RequestState state : RequestState.values()) {
        live += engine.count(state);
      }
      resident += live;
      generating +=
          (long) engine.count(RequestState.GENERATION)
              + engine.count(RequestState.GENERATION_TRANSFER_COMPLETE);
      init += engine.count(RequestState.GENERATION_INIT);
      for (int stage = 0; stage < config.stages(); stage++) {
        leaked += Holdings.of(group.engine(rank, stage)).leaked();
      }
      hashes[rank] = engine.decisionHash();
    }
    return new RunResult(
        config,
        group.engine(0).startUp(),
        ending,
        detail,
        arrivals.total(),
        arrivals.sent(),
        totals,
        group.steps(),
        cost.forwards(),
        now,
        resident,
        generating,
        init,
        leaked,
        group.admission().waiting(),
        group.admission().fetched(),
        group.admission().gateOpen(),
        Arrays.hashCode(hashes),
        times);
  }

  @Override
  public void close() {
    runners.close();
    group.close();
  }
}
