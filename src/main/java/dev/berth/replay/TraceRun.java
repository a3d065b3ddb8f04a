// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Sends a trace through a fleet: one stage of servers, or context servers and then generation
 * servers. Contexts never wait for generations, so the second stage runs when the first is over;
 * what left the first arrives in the order of its end.
 */
public final class TraceRun {
  private TraceRun() {}

  /**
   * Runs to the end.
   *
   * @param stages one, or a context stage and a generation stage
   * @param source tags count from 0 in the order of sending
   */
  public static TraceResult run(
      Trace trace, List<ServerStage> stages, Arrivals source, Progress progress) {
    if (stages.isEmpty() || stages.size() > 2) {
      throw new IllegalArgumentException("one stage or two, got " + stages.size());
    }
    int total = source.total();
    var times = new RequestTimes(total);
    var results = new ArrayList<StageResult>();
    results.add(run(stages.getFirst(), source, times, total, progress));
    if (stages.size() == 1) {
      return new TraceResult(trace, results, total, results.getFirst().done(), times);
    }
    int[] left = byEnd(times, total);
    int[] sent = Arrays.stream(left).filter(tag -> hasMore(trace, tag)).toArray();
    var after = new RequestTimes(total);
    var handOver = new HandOver(trace, sent, times);
    results.add(run(stages.getLast(), handOver, after, total, progress));
    long done = left.length - sent.length + results.getLast().done();
    return new TraceResult(trace, results, total, done, RequestTimes.chained(times, after, sent));
  }

  private static StageResult run(
      ServerStage stage, Arrivals source, RequestTimes times, int tags, Progress progress) {
    progress.begin(stage.name(), source.total());
    try (var pool = new ServerPool(stage, source, times, tags)) {
      return pool.run(progress);
    }
  }

  /** Tags of the requests that ended, in the order of their ends, equal ends by tag. */
  private static int[] byEnd(RequestTimes times, int total) {
    return IntStream.range(0, total)
        .filter(tag -> !Double.isNaN(times.endedAt(tag)))
        .boxed()
        .sorted((a, b) -> Double.compare(times.endedAt(a), times.endedAt(b)))
        .mapToInt(Integer::intValue)
        .toArray();
  }

  /** The context worker makes the first token; a request that wants no other is done with it. */
  private static boolean hasMore(Trace trace, int tag) {
    return trace.outputTokens(tag % trace.requests()) > 1;
  }

  /** What left the context servers, at the time it did. */
  private static final class HandOver extends ScheduledArrivals {
    private final Trace trace;
    private final int[] tags;
    private final RequestTimes times;

    HandOver(Trace trace, int[] tags, RequestTimes times) {
      super(tags.length);
      this.trace = trace;
      this.tags = tags;
      this.times = times;
    }

    @Override
    Request request(int number) {
      return trace.request(tags[number]);
    }

    @Override
    double at(int number) {
      return arrivedAt(tags[number]);
    }

    @Override
    public double arrivedAt(int tag) {
      return times.endedAt(tag);
    }
  }
}
