// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.plan.StartupValidator;
import dev.berth.replay.ArmResult;
import dev.berth.replay.Comparison;
import dev.berth.replay.Expectation;
import dev.berth.replay.Histogram;
import dev.berth.replay.RunResult;
import dev.berth.replay.ScenarioRun;
import dev.berth.request.WaitReason;
import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** A scenario's result as text: one block an arm, then what the arms say about each other. */
final class ReplayReport {
  private static final int SHOWN = 5;
  private static final int WIDTH = 100;

  private final PrintWriter out;

  ReplayReport(PrintWriter out) {
    this.out = out;
  }

  void print(ScenarioRun.Result result) {
    out.println(result.scenario().title());
    result.scenario().source().ifPresent(s -> out.println("figures: " + s));
    result.arms().stream()
        .map(arm -> "pools: " + pools(arm.run().startUp()))
        .distinct()
        .forEach(out::println);
    result.arms().forEach(this::printArm);
    if (!result.comparisons().isEmpty()) {
      out.println();
      out.println("arms compared");
      for (Comparison.Verdict verdict : result.comparisons()) {
        out.println(mark(verdict.met()) + verdict.text());
      }
    }
    result.problems().forEach(problem -> out.println(mark(false) + problem));
    out.println();
    if (result.asExpected()) {
      out.println("as expected: every figure, check and comparison");
    } else {
      out.println("NOT as expected:");
      result.arms().forEach(this::printDifferences);
      result.comparisons().stream()
          .filter(verdict -> !verdict.met())
          .forEach(verdict -> out.println("  " + verdict.text()));
      result.problems().forEach(problem -> out.println("  " + problem));
    }
  }

  private void printDifferences(ArmResult result) {
    String arm = result.arm().name();
    for (ArmResult.Met met : result.expectations()) {
      if (!met.met()) {
        out.println("  " + arm + ": " + expectation(met));
      }
    }
    for (ArmResult.CheckOutcome check : result.checks()) {
      if (check.status() == ArmResult.Status.FAILED) {
        out.println("  " + arm + ": " + failure(check));
      }
    }
  }

  private static String failure(ArmResult.CheckOutcome check) {
    return "%s: %d %s, declared %d"
        .formatted(check.check().id(), check.violations(), check.check().unit(), check.declared());
  }

  private void printArm(ArmResult result) {
    RunResult run = result.run();
    out.println();
    out.println(result.arm().name() + ": " + result.arm().title());
    out.println("  plan        " + result.arm().describe());
    run.startUp()
        .disagreements()
        .forEach(d -> out.println("  validator   " + d.message() + " (overridden)"));
    out.printf(
        Locale.ROOT,
        "  requests    %d of %d done%s, %d iterations, %d forwards, mean batch %.3f%n",
        run.done(),
        run.requests(),
        run.totals().refused() > 0 ? ", " + run.totals().refused() + " refused" : "",
        run.iterations(),
        run.forwards().forwards(),
        run.totals().meanBatch());
    out.printf(
        Locale.ROOT,
        "  throughput  %,.0f tokens/s in %.1f s of virtual time%n",
        run.tokensPerSecond(),
        run.micros() / 1e6);
    histogram("assigned", result.histogram("assigned"));
    histogram("forward bs", result.histogram("batch"));
    histogram("gate", result.histogram("gate"));
    histogram("states", result.histogram("states"));
    String deferrals =
        java.util.Arrays.stream(WaitReason.values())
            .filter(r -> run.totals().deferrals(r) > 0 && r != WaitReason.NONE)
            .map(r -> Words.lower(r) + " " + run.totals().deferrals(r))
            .collect(Collectors.joining(", "));
    out.println("  waiting     " + (deferrals.isEmpty() ? "nothing had to wait" : deferrals));
    if (run.totals().paused() > 0) {
      out.println("  gave way    " + run.totals().paused() + " times, to begin again");
    }
    if (run.ending() != RunResult.Ending.DONE) {
      out.println("  " + run.ending() + "     " + run.detail());
    }
    run.totals().refusals().forEach(r -> out.println("  refused     " + r));
    printExact(result);
    for (ArmResult.Met met : result.expectations()) {
      if (!exact(met)) {
        out.println(mark(met.met()) + expectation(met));
      }
    }
    for (ArmResult.CheckOutcome check : result.checks()) {
      switch (check.status()) {
        case PASSED, SKIPPED -> {}
        case FAILED_AS_DECLARED ->
            out.printf(
                "  broken      %s fails as declared: %d %s%n",
                check.check().id(), check.violations(), check.check().unit());
        case FAILED -> out.println(mark(false) + failure(check));
      }
    }
    out.printf(
        "  checks      %d collected: %d passed, %d failed as declared, %d skipped%n",
        result.checks().size(),
        count(result, ArmResult.Status.PASSED),
        count(result, ArmResult.Status.FAILED_AS_DECLARED),
        count(result, ArmResult.Status.SKIPPED));
  }

  /** Figures that came out exactly as published, in as few lines as they need. */
  private void printExact(ArmResult result) {
    var line = new StringBuilder();
    for (ArmResult.Met met : result.expectations()) {
      if (!exact(met)) {
        continue;
      }
      String figure = expectation(met);
      if (!line.isEmpty() && line.length() + figure.length() > WIDTH) {
        out.println("  exact       " + line);
        line.setLength(0);
      }
      line.append(line.isEmpty() ? "" : ", ").append(figure);
    }
    if (!line.isEmpty()) {
      out.println("  exact       " + line);
    }
  }

  static String pools(StartupValidator.Verdict startUp) {
    return pools(startUp.checked(), startUp.skipped());
  }

  /** Which pools the start-up validator compares with the plan, and which it can't. */
  static String pools(List<String> compared, List<String> skipped) {
    return String.join(", ", compared)
        + " compared with the plan"
        + (skipped.isEmpty() ? "" : "; skipped, without a bound: " + String.join(", ", skipped));
  }

  private static boolean exact(ArmResult.Met met) {
    Expectation e = met.expectation();
    return met.met() && e.within() == 0 && e.published().isEmpty();
  }

  private static long count(ArmResult result, ArmResult.Status status) {
    return result.checks().stream().filter(c -> c.status() == status).count();
  }

  private void histogram(String name, Histogram histogram) {
    Map<String, Long> sorted = histogram.sorted();
    if (sorted.isEmpty()) {
      return;
    }
    String text =
        sorted.entrySet().stream()
            .limit(SHOWN)
            .map(e -> e.getKey() + " ×" + e.getValue())
            .collect(Collectors.joining("  "));
    int more = sorted.size() - SHOWN;
    out.printf("  %-11s %s%s%n", name, text, more > 0 ? "  (" + more + " more)" : "");
  }

  private static String expectation(ArmResult.Met met) {
    Expectation e = met.expectation();
    var text = new StringBuilder(e.metric()).append(' ');
    text.append(met.measured().isPresent() ? number(met.measured().getAsDouble()) : "not measured");
    if (!met.met()) {
      text.append(", expected ").append(number(e.value()));
    }
    if (e.published().isPresent()) {
      text.append(", published ").append(number(e.published().getAsDouble()));
    }
    if (e.within() > 0) {
      text.append(" (within ").append(number(e.within())).append(": ");
      text.append(e.why().orElse("")).append(')');
    }
    return text.toString();
  }

  static String number(double value) {
    return value == Math.rint(value) && Math.abs(value) < 1e15
        ? Long.toString((long) value)
        : String.format(Locale.ROOT, "%.4g", value);
  }

  private static String mark(boolean good) {
    return good ? "  ok          " : "  FAIL        ";
  }
}
