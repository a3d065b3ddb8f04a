// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.Batch;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import java.util.Arrays;
import java.util.function.LongConsumer;

/**
 * Runs the ranks of one worker on virtual time until every request of an {@link Arrivals} is done or nothing can happen
 * any more. It decides nothing: it brings requests and transfers when their time has come, and lets the engines work.
 */
public final class FleetRun implements LockstepGroup.Device {
  /** Iterations without any event after which a fleet counts as stopped: more than any pipeline is deep. */
  private static final int STILL = 256;

  private final EngineConfig config;
  private final Arrivals arrivals;
  private final CostModel cost;
  private final double transferMicros;
  private final RunObserver observer;
  private final RequestTimes times;
  private final LockstepGroup group;
  private final TransferQueue transfers = new TransferQueue();

  /** End of the forward of each rank's launched batches, by slot. */
  private final double[][] slotEnd;

  /** End of the forward whose results each rank settles in this step. */
  private final double[] dueEnds;

  private double now;
  private double forwardEnd;
  private long ended;
  private long gathers;
  private long forwards;
  private long maxRankTokens;
  private long totalTokens;
  private final RunTotals totals = new RunTotals();

  private FleetRun(
      EngineConfig config,
      Arrivals arrivals,
      CostModel cost,
      double transferMicros,
      RunObserver observer) {
    this.config = config;
    this.arrivals = arrivals;
    this.cost = cost;
    this.transferMicros = transferMicros;
    this.observer = observer;
    this.times = new RequestTimes(arrivals.total());
    this.group = new LockstepGroup(config);
    this.slotEnd = new double[config.ranks()][config.stages() + 2];
    this.dueEnds = new double[config.ranks()];
  }

  /** Runs to the end. */
  public static RunResult run(
      EngineConfig config,
      Arrivals arrivals,
      CostModel cost,
      double transferMicros,
      RunObserver observer,
      LongConsumer progress) {
    FleetRun run = new FleetRun(config, arrivals, cost, transferMicros, observer);
    try (run.group) {
      return run.toTheEnd(progress);
    }
  }

  private RunResult toTheEnd(LongConsumer progress) {
    int still = 0;
    try {
      while (true) {
        int arrived = offerWhatIsDue();
        int transferred = deliverTransfers();
        observer.beforeStep(group);
        double before = now;
        Arrays.fill(dueEnds, now);
        boolean ran = group.step(this);
        gathers++;
        if (!ran) {
          if (arrivals.due(gathers, now, ended) > 0) {
            continue;
          }
          double next = Math.min(arrivals.nextAtMicros(gathers), transfers.nextAt());
          if (next == Double.POSITIVE_INFINITY) {
            return result(RunResult.Ending.DONE, "");
          }
          now = Math.max(now, next);
          continue;
        }
        long endedBefore = ended;
        settle();
        observer.afterStep(group, before);
        progress.accept(ended);
        boolean moved =
            arrived + transferred > 0
                || group.launched()
                || ended > endedBefore
                || group.admission().admitted() > 0
                || receives() > 0;
        if (group.launched()) {
          now = forwardEnd;
        } else if (!moved) {
          double next = Math.min(timed(arrivals.nextAtMicros(gathers)), transfers.nextAt());
          if (next != Double.POSITIVE_INFINITY) {
            now = Math.max(now, next);
            moved = true;
          }
        }
        if (group.pauseMicros() > 0) {
          now += group.pauseMicros();
        }
        still = moved ? 0 : still + 1;
        if (still >= STILL) {
          return result(RunResult.Ending.STALLED, StallReport.describe(group));
        }
      }
    } catch (BerthException e) {
      if (e.code() == Code.DIVERGED) {
        return result(RunResult.Ending.DIVERGED, String.valueOf(e.getMessage()));
      }
      throw e;
    }
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
      RankEngine engine = group.engine(transfers.rank());
      times.firstToken((int) engine.table().tag(transfers.row()), transfers.nextAt());
      for (int stage = 0; stage < config.stages(); stage++) {
        group.engine(transfers.rank(), stage).transferArrived(transfers.row(), transfers.request());
      }
      transfers.remove();
      delivered++;
    }
    return delivered;
  }

  private int receives() {
    int n = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      n += group.engine(rank).receives();
    }
    return n;
  }

  private void settle() {
    for (int rank = 0; rank < config.ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      for (int i = 0; i < engine.receives(); i++) {
        int row = engine.receiveRow(i);
        transfers.add(now + transferMicros, rank, row, engine.table().id(row));
      }
      int n = engine.ended();
      for (int i = 0; i < n; i++) {
        int tag = (int) engine.endedTag(i);
        times.ended(tag, dueEnds[rank], engine.endedTokens(i));
        totals.end(engine.endedKind(i));
      }
      ended += n;
      totals.add(engine);
    }
  }

  // ------------------------------------------------------------------------------ the device

  @Override
  public void forward(long most, long total) {
    forwards++;
    maxRankTokens += most;
    totalTokens += total;
    forwardEnd = now + cost.forwardMicros(most, total);
  }

  @Override
  public void launch(RankEngine engine, Batch batch) {
    if (engine.stage() != 0) {
      return;
    }
    slotEnd[engine.rank()][batch.slot()] = forwardEnd;
    // Contexts stand at the end of a batch.
    for (int i = batch.size() - 1; i >= 0 && batch.kind(i) == Batch.Kind.CONTEXT; i--) {
      if (batch.makesToken(i)) {
        times.firstToken((int) engine.table().tag(batch.row(i)), forwardEnd);
      } else {
        totals.partialContext();
      }
    }
  }

  @Override
  public void collect(RankEngine engine, Batch batch) {
    if (engine.stage() == 0) {
      dueEnds[engine.rank()] = slotEnd[engine.rank()][batch.slot()];
    }
  }

  private RunResult result(RunResult.Ending ending, String detail) {
    long resident = 0;
    long generating = 0;
    long init = 0;
    long held = 0;
    long[] hashes = new long[config.ranks()];
    for (int rank = 0; rank < config.ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      int live = 0;
      for (RequestState state : RequestState.values()) {
        live += engine.count(state);
      }
      resident += live;
      generating +=
          (long) engine.count(RequestState.GENERATION) + engine.count(RequestState.GENERATION_TRANSFER_COMPLETE);
      init += engine.count(RequestState.GENERATION_INIT);
      held += Math.max(0, engine.seatsUsed() - live) + Math.max(0, engine.leasesUsed() - live);
      hashes[rank] = engine.decisionHash();
    }
    return new RunResult(
        config,
        ending,
        detail,
        arrivals.total(),
        arrivals.sent(),
        totals,
        group.steps(),
        new CostModel.ForwardTotals(forwards, maxRankTokens, totalTokens),
        now,
        resident,
        generating,
        init,
        held,
        group.admission().waiting(),
        group.admission().fetched(),
        group.admission().gateOpen(),
        Arrays.hashCode(hashes),
        times);
  }
}
