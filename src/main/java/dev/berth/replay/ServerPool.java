// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EndKind;
import dev.berth.request.Request;
import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;

/**
 * Runs the servers of a stage side by side, each on its own virtual clock, always the one that is
 * furthest behind. A request goes, when it arrives, to the server with the fewest tokens (prompt
 * and output) of requests that haven't ended by then, the lowest number among equals.
 */
final class ServerPool implements AutoCloseable {
  private final ServerStage stage;
  private final Arrivals source;
  private final RequestTimes times;
  private final List<FleetRun> runs = new ArrayList<>();
  private final List<Inbox> inboxes = new ArrayList<>();
  private final List<Occupancy> occupancies = new ArrayList<>();
  private final long[] outstanding;
  private final FleetRun.Pace[] paces;

  /** Tokens of every request that was sent to a server. */
  private final int[] tokens;

  /** Ends that lie after the pool's clock. */
  private final PriorityQueue<End> ends = new PriorityQueue<>();

  private long order;
  private double clock;
  private long ended;
  private long reported;

  private record End(double at, long order, int server, int tag) implements Comparable<End> {
    @Override
    public int compareTo(End other) {
      int byTime = Double.compare(at, other.at);
      return byTime != 0 ? byTime : Long.compare(order, other.order);
    }
  }

  /**
   * A pool that hasn't begun.
   *
   * @param times of all requests, by tag
   * @param tags one more than the highest tag
   */
  ServerPool(ServerStage stage, Arrivals source, RequestTimes times, int tags) {
    this.stage = stage;
    this.source = source;
    this.times = times;
    this.tokens = new int[tags];
    this.outstanding = new long[stage.servers()];
    this.paces = new FleetRun.Pace[stage.servers()];
    int ranks = stage.engine().ranks();
    int batch = stage.engine().plan().batchPositions().count();
    for (int server = 0; server < stage.servers(); server++) {
      var inbox = new Inbox();
      var occupancy = new Occupancy(ranks, batch);
      inboxes.add(inbox);
      occupancies.add(occupancy);
      paces[server] = FleetRun.Pace.IDLE;
      runs.add(
          new FleetRun(
              stage.engine(),
              inbox,
              times,
              stage.cost(),
              stage.transfer(),
              occupancy.observer(endsOf(server))));
    }
  }

  private RunObserver endsOf(int server) {
    return new RunObserver() {
      @Override
      public void ended(int tag, EndKind kind, double atMicros) {
        ends.add(new End(atMicros, order++, server, tag));
        reported++;
      }

      @Override
      public void refused(Request request, double atMicros) {
        ends.add(new End(atMicros, order++, server, (int) request.tag()));
        reported++;
      }
    };
  }

  /** Runs until nothing more happens, or until somebody interrupts. */
  StageResult run(Progress progress) {
    while (!progress.interrupted()) {
      int server = furthestBehind();
      double step = server < 0 ? Double.POSITIVE_INFINITY : runs.get(server).nextAt();
      double next = Math.min(step, source.nextAtMicros(0));
      if (!ends.isEmpty()) {
        next = Math.min(next, ends.element().at);
      }
      if (next == Double.POSITIVE_INFINITY && source.due(0, clock, ended) == 0) {
        break;
      }
      clock = next == Double.POSITIVE_INFINITY ? clock : Math.max(clock, next);
      takeEnds();
      int due = source.due(0, clock, ended);
      if (due > 0) {
        dispatch(due);
      } else if (server >= 0 && step <= clock) {
        paces[server] = runs.get(server).advance();
      }
      progress.ended(reported);
    }
    return result(progress.interrupted());
  }

  /** The server whose next iteration comes first, -1 if none has anything to do. */
  private int furthestBehind() {
    int first = -1;
    double at = Double.POSITIVE_INFINITY;
    for (int server = 0; server < runs.size(); server++) {
      if (paces[server] == FleetRun.Pace.GOING && runs.get(server).nextAt() < at) {
        first = server;
        at = runs.get(server).nextAt();
      }
    }
    return first;
  }

  private void takeEnds() {
    while (!ends.isEmpty() && ends.element().at <= clock) {
      End end = ends.remove();
      outstanding[end.server] -= tokens[end.tag];
      ended++;
    }
  }

  private void dispatch(int due) {
    for (int i = 0; i < due; i++) {
      Request request = source.next();
      int tag = (int) request.tag();
      double at = source instanceof TimedArrivals timed ? timed.arrivedAt(tag) : clock;
      times.arrived(tag, at);
      int server = leastQueued();
      tokens[tag] =
          (int)
              Math.min(
                  Integer.MAX_VALUE,
                  stage.sequenceTokens(request.promptTokens(), request.maxNewTokens()));
      outstanding[server] += tokens[tag];
      inboxes.get(server).add(request, at);
      paces[server] = FleetRun.Pace.GOING;
    }
  }

  private int leastQueued() {
    int least = 0;
    for (int server = 1; server < outstanding.length; server++) {
      if (outstanding[server] < outstanding[least]) {
        least = server;
      }
    }
    return least;
  }

  private StageResult result(boolean interrupted) {
    var servers = new ArrayList<RunResult>();
    for (int server = 0; server < runs.size(); server++) {
      RunResult.Ending ending =
          switch (paces[server]) {
            case IDLE -> RunResult.Ending.DONE;
            case STALLED -> RunResult.Ending.STALLED;
            case GOING -> RunResult.Ending.INTERRUPTED;
          };
      servers.add(runs.get(server).result(ending));
    }
    RunResult.Ending ending = RunResult.Ending.DONE;
    if (interrupted) {
      ending = RunResult.Ending.INTERRUPTED;
    } else if (servers.stream().anyMatch(s -> s.ending() == RunResult.Ending.STALLED)) {
      ending = RunResult.Ending.STALLED;
    }
    return StageResult.of(stage, ending, servers, occupancies, source);
  }

  @Override
  public void close() {
    runs.forEach(FleetRun::close);
  }
}
