// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.simulate.BrokenRule;
import dev.berth.simulate.Coverage;
import dev.berth.simulate.Failure;
import dev.berth.simulate.Fault;
import dev.berth.simulate.Invariant;
import dev.berth.simulate.Seen;
import dev.berth.simulate.Setting;
import dev.berth.simulate.SimulationReport;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** A simulation as text. */
final class SimulateText {
  private static final int NAMED_GAPS = 20;
  private static final int LEAST_RANKS = 3;
  private static final int LEAST_ITERATIONS = 100;
  private static final int LEAST_REQUESTS = 50;

  private SimulateText() {}

  /** What was required and isn't there. */
  static List<String> missing(
      SimulationReport report, long rankIterations, boolean coverageRequired) {
    var missing = new ArrayList<String>();
    if (report.rankIterations() < rankIterations) {
      missing.add(
          String.format(
              Locale.ROOT,
              "%,d rank-iterations of the %,d required",
              report.rankIterations(),
              rankIterations));
    }
    if (!coverageRequired) {
      return missing;
    }
    report.coverage().gaps().forEach(gap -> missing.add("never seen: " + gap));
    report.coverage().surprises().forEach(cell -> missing.add("thought impossible: " + cell));
    if (report.medianRanks() < LEAST_RANKS
        || report.medianIterations() < LEAST_ITERATIONS
        || report.medianRequests() < LEAST_REQUESTS) {
      missing.add(
          "the median world is below %d ranks, %d iterations or %d requests"
              .formatted(LEAST_RANKS, LEAST_ITERATIONS, LEAST_REQUESTS));
    }
    return missing;
  }

  static String of(SimulationReport report, List<String> missing, double seconds) {
    var text = new StringBuilder();
    line(
        text,
        "worlds      %,d from seed %d%s",
        report.worlds(),
        report.seed(),
        report.broken() == BrokenRule.NONE ? "" : "; broken on purpose: " + report.broken().text());
    line(
        text,
        "iterations  %,d of ranks in %.1f s, %,.0f a second",
        report.rankIterations(),
        seconds,
        report.rankIterations() / seconds);
    line(
        text,
        "median      %d ranks, %d iterations, %d requests",
        report.medianRanks(),
        report.medianIterations(),
        report.medianRequests());
    line(
        text,
        "ended       %,d with everything over, %,d with a dead rank that all others named, %,d with a fill out of reach",
        report.done(),
        report.stalled(),
        report.outOfReach());
    line(text, "rules       %d checked after every iteration", Invariant.values().length);
    table(text, report.coverage());
    missing.stream().limit(NAMED_GAPS).forEach(what -> line(text, "missing     %s", what));
    if (missing.size() > NAMED_GAPS) {
      line(text, "missing     and %d more", missing.size() - NAMED_GAPS);
    }
    report.failure().ifPresent(failure -> failure(text, failure));
    text.append(
        report.failure().isPresent()
            ? "FAILED"
            : missing.isEmpty() ? "every world held every rule" : "NOT ENOUGH");
    return text.toString();
  }

  /** States by faults: the fewest worlds over all settings that are possible there. */
  private static void table(StringBuilder text, Coverage coverage) {
    line(text, "");
    line(
        text,
        "coverage    %d cells of state × fault × setting, %d empty; fewest worlds of the %d settings:",
        Coverage.size(),
        coverage.gaps().size(),
        Setting.values().length);
    var head = new StringBuilder(" ".repeat(23));
    for (Seen state : Seen.values()) {
      head.append(String.format(Locale.ROOT, "%9s", brief(state)));
    }
    line(text, "%s", head);
    for (Fault fault : Fault.values()) {
      var row = new StringBuilder(String.format(Locale.ROOT, "  %-21s", fault.word()));
      for (Seen state : Seen.values()) {
        row.append(
            String.format(
                Locale.ROOT,
                "%9s",
                somewhere(state, fault) ? String.valueOf(coverage.fewest(state, fault)) : "-"));
      }
      line(text, "%s", row);
    }
    line(text, "");
  }

  private static boolean somewhere(Seen state, Fault fault) {
    for (Setting setting : Setting.values()) {
      if (Coverage.possible(state, fault, setting)) {
        return true;
      }
    }
    return false;
  }

  private static String brief(Seen state) {
    return switch (state) {
      case WAITING -> "waiting";
      case CONTEXT -> "context";
      case CHUNKED_CONTEXT -> "chunked";
      case TRANSFER_DUE -> "due";
      case IN_TRANSFER -> "transfer";
      case TRANSFER_COMPLETE -> "complete";
      case GENERATION -> "generat.";
      case RETIRING -> "retiring";
      case GAVE_WAY -> "gave way";
      case ENDING -> "ending";
    };
  }

  private static void failure(StringBuilder text, Failure failure) {
    line(text, "world       %s", failure.world());
    line(text, "violated    %s", failure.violation());
    line(
        text,
        "shrunk      to %s of a world of %s: %s",
        Words.count(failure.kept().size(), "event"),
        Words.count(failure.requests(), "request"),
        failure.shrunk());
    failure.events().forEach(event -> line(text, "  event     %s", event));
    failure.history().forEach(entry -> line(text, "  %s", entry));
    line(text, "reproduce   %s", failure.reproduction());
  }

  private static void line(StringBuilder text, String format, Object... values) {
    text.append(String.format(Locale.ROOT, format, values)).append('\n');
  }
}
