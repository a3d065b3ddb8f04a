// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.capacity.SchedulerKind;
import dev.berth.replay.Occupancy;
import dev.berth.replay.RequestTimes;
import dev.berth.replay.RunResult;
import dev.berth.replay.RunTotals;
import dev.berth.replay.ServerStage;
import dev.berth.replay.StageResult;
import dev.berth.replay.Trace;
import dev.berth.replay.TraceResult;
import dev.berth.request.WaitReason;
import java.io.PrintWriter;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** A trace replay as text: the trace, one block a stage, then what requests saw. */
final class TraceReport {
  /** Shown of every distribution. */
  static final List<Integer> PERCENTILES = List.of(50, 90, 99);

  /** More ranks than these in all are summed up instead of listed. */
  private static final int LISTED_RANKS = 16;

  private final PrintWriter out;

  TraceReport(PrintWriter out) {
    this.out = out;
  }

  void print(TraceReplay replay) {
    TraceResult result = replay.result();
    Trace trace = result.trace();
    line(
        "trace %s (%s): %,d requests in %s, prompts %.1f tokens (most %,d), outputs %.1f (most %,d)",
        trace.name(),
        trace.format().title(),
        trace.requests(),
        span(trace.spanMicros()),
        trace.meanPromptTokens(),
        trace.longestPrompt(),
        trace.meanOutputTokens(),
        trace.longestOutput());
    trace
        .prefixes()
        .ifPresent(prefixes ->
            line(
                "shared prefixes: %.4f of %,d blocks would be in a cache without end",
                prefixes.idealHitRate(), prefixes.ids()));
    line(
        switch (replay.arrivals()) {
          case TRACE ->
              "arrivals: the trace's"
                  + (replay.speedup() == 1 ? "" : ", %s times faster".formatted(replay.speedup()));
          case CLOSED ->
              String.format(
                  Locale.ROOT, "arrivals: closed, %,d in the system", replay.concurrency());
        });
    line("configuration %s, deployment %s", replay.config(), replay.setup().deployment());
    result.stages().stream()
        .map(stage -> "pools: " + ReplayReport.pools(stage.servers().getFirst().startUp()))
        .distinct()
        .forEach(out::println);
    replay.setup().warnings().forEach(warning -> line("  warning     %s", warning));
    result.stages().forEach(this::stage);
    line("");
    line("all");
    line(
        "  requests    %,d of %,d done, %,d refused%s",
        result.done(),
        result.requests(),
        result.refused(),
        result.unaccounted() > 0
            ? String.format(Locale.ROOT, ", %,d left undone", result.unaccounted())
            : "");
    line("  %-11s %10s %10s %10s", "", "p50", "p90", "p99");
    distribution("TTFT", result.times().timeToFirstToken());
    distribution("TPOT", result.times().timePerOutputToken());
    distribution("end to end", result.times().endToEnd());
    line(
        "  throughput  %,.0f output tokens/s, %,.2f requests/s in %s of virtual time",
        result.outputTokensPerSecond(), result.requestsPerSecond(), span(result.micros()));
    line(
        "  wall time   %.2f s, %,.0f output tokens a second of it",
        replay.wallSeconds(), result.outputTokens() / replay.wallSeconds());
    result.stages().forEach(stage -> stage.waits().forEach(wait -> line("  waits       %s", wait)));
    if (result.ending() == RunResult.Ending.INTERRUPTED) {
      line("interrupted: this is what was known by then");
    } else if (result.ending() == RunResult.Ending.STALLED) {
      line("STALLED: no rank can make progress");
    }
  }

  private void stage(StageResult result) {
    ServerStage stage = result.stage();
    RunTotals totals = result.totals();
    line("");
    line(
        "%s: %s, %s of %s",
        stage.name(),
        Words.lower(stage.engine().role()),
        Words.count(stage.servers(), "server"),
        Words.count(stage.engine().ranks(), "rank"));
    line("  plan        %s", stage.engine().plan().describe());
    line(
        "  scheduling  %s of %s%s",
        stage.engine().capacity(),
        stage.engine().policies().id(),
        stage.engine().scheduler() == SchedulerKind.ONE_LOOP ? ", one loop" : "");
    line(
        "  KV pages    %s",
        stage.engine().pages() < 0
            ? "not limited"
            : String.format(Locale.ROOT, "%,d a rank", stage.engine().pages()));
    line(
        "  cost        %s µs a token of the fullest rank, %s a token of all, %s a forward",
        ReplayReport.number(stage.cost().alphaMicros()),
        ReplayReport.number(stage.cost().betaMicros()),
        ReplayReport.number(stage.cost().fixedMicros()));
    line(
        "  requests    %,d of %,d done, %,d iterations, %,d forwards, mean batch %.3f",
        result.done(),
        result.requests(),
        result.iterations(),
        result.forwards(),
        totals.meanBatch());
    totals
        .refusedByReason()
        .forEach((reason, count) -> line("  refused     %,d for %s", count, reason));
    totals.refusals().forEach(refusal -> line("              %s", refusal));
    line(
        "  throughput  %,.0f tokens/s computed in %s of virtual time",
        result.tokensPerSecond(), span(result.micros()));
    String deferrals =
        Arrays.stream(WaitReason.values())
            .filter(reason -> totals.deferrals(reason) > 0 && reason != WaitReason.NONE)
            .map(reason ->
                String.format(Locale.ROOT, "%s %,d", Words.lower(reason), totals.deferrals(reason)))
            .collect(Collectors.joining(", "));
    line("  waiting     %s", deferrals.isEmpty() ? "nothing had to wait" : deferrals);
    if (totals.paused() > 0) {
      line("  gave way    %,d times, to begin again", totals.paused());
    }
    if (totals.askedTokens() > 0) {
      line(
          "  prefixes    %,d of %,d prompt tokens reused (%.1f %%), %,d blocks evicted",
          totals.foundTokens(),
          totals.askedTokens(),
          100.0 * totals.foundTokens() / totals.askedTokens(),
          totals.evictedBlocks());
    }
    occupancy(result.occupancy());
  }

  private void occupancy(List<Occupancy> servers) {
    double least = Double.POSITIVE_INFINITY;
    double most = 0;
    double sum = 0;
    int ranks = 0;
    for (Occupancy server : servers) {
      for (int rank = 0; rank < server.ranks(); rank++) {
        least = Math.min(least, server.occupancy(rank));
        most = Math.max(most, server.occupancy(rank));
        sum += server.occupancy(rank);
        ranks++;
      }
    }
    line(
        "  occupancy   %.1f %% of batch positions (%.1f to %.1f over %d ranks)",
        100 * sum / ranks, 100 * least, 100 * most, ranks);
    if (ranks > LISTED_RANKS) {
      return;
    }
    line("  %-11s %9s %10s %13s %8s", "", "occupancy", "mean batch", "mean resident", "padded");
    for (int number = 0; number < servers.size(); number++) {
      Occupancy server = servers.get(number);
      for (int rank = 0; rank < server.ranks(); rank++) {
        line(
            "  %-11s %7.1f %% %10.2f %13.2f %8d",
            servers.size() == 1 ? "rank " + rank : "server %d.%d".formatted(number, rank),
            100 * server.occupancy(rank),
            server.meanBatch(rank),
            server.meanResident(rank),
            server.padded(rank));
      }
    }
  }

  private void distribution(String name, double[] ascending) {
    line(
        "  %-11s %s  (%,d requests)",
        name,
        PERCENTILES.stream()
            .map(percent -> "%10s".formatted(span(RequestTimes.percentile(ascending, percent))))
            .collect(Collectors.joining(" ")),
        ascending.length);
  }

  /** A length of time in the unit that suits it. */
  static String span(double micros) {
    if (Double.isNaN(micros)) {
      return "-";
    } else if (micros < 1e3) {
      return String.format(Locale.ROOT, "%.1f µs", micros);
    } else if (micros < 1e6) {
      return String.format(Locale.ROOT, "%.2f ms", micros / 1e3);
    } else if (micros < 600e6) {
      return String.format(Locale.ROOT, "%.2f s", micros / 1e6);
    }
    return String.format(Locale.ROOT, "%.1f min", micros / 60e6);
  }

  private void line(String format, Object... values) {
    out.println(values.length == 0 ? format : String.format(Locale.ROOT, format, values));
  }
}
