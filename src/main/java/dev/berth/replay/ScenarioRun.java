// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.GroupTap;
import dev.berth.plan.ConfigClass;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.function.Function;

/** Runs the arms of a scenario and judges them. */
public final class ScenarioRun {
  private ScenarioRun() {}

  /**
   * What all arms gave.
   *
   * @param scenario what ran
   * @param arms in the scenario's order
   * @param comparisons verdicts on the scenario's comparisons
   * @param problems what doesn't add up beyond single figures
   */
  public record Result(
      Scenario scenario,
      List<ArmResult> arms,
      List<Comparison.Verdict> comparisons,
      List<String> problems) {
    /** True if everything came out as the scenario says. */
    public boolean asExpected() {
      return problems.isEmpty()
          && arms.stream().allMatch(ArmResult::asDeclared)
          && comparisons.stream().allMatch(Comparison.Verdict::met);
    }
  }

  /**
   * Runs all arms.
   *
   * @param progress told about every arm as it goes; an interrupted arm is the last one
   * @throws BerthException CONFIGURATION if arms that are declared different are not, or if the
   *     start-up validator refuses an arm that doesn't override it
   */
  public static Result run(Scenario scenario, Progress progress) {
    return run(scenario, progress, arm -> GroupTap.NONE);
  }

  /**
   * Runs all arms and lets somebody listen to each.
   *
   * @param taps asked once for every arm that runs
   * @throws BerthException as {@link #run(Scenario, Progress)}
   */
  public static Result run(Scenario scenario, Progress progress, Function<Arm, GroupTap> taps) {
    Scenario.twins(scenario.arms())
        .ifPresent(twins -> {
          throw new BerthException(Code.CONFIGURATION, twins.message());
        });
    Map<String, ArmResult> results = new LinkedHashMap<>();
    for (Arm arm : scenario.arms()) {
      progress.begin(arm.name(), scenario.load().requests());
      results.put(arm.name(), run(scenario, arm, progress, taps.apply(arm)));
      if (progress.interrupted()) {
        break;
      }
    }
    var verdicts = new ArrayList<Comparison.Verdict>();
    for (Arm arm : scenario.arms()) {
      arm.sameAs()
          .map(base -> new Comparison.SameDecisions(base, arm.name()))
          .filter(comparison -> ran(comparison, results))
          .ifPresent(comparison -> verdicts.add(judge(comparison, results)));
    }
    scenario.comparisons().stream()
        .filter(comparison -> ran(comparison, results))
        .forEach(comparison -> verdicts.add(judge(comparison, results)));
    var problems = new ArrayList<String>();
    for (ArmResult result : results.values()) {
      requireCollected(result, problems);
    }
    scenario.expectedClass().ifPresent(expected -> requireClass(scenario, expected, problems));
    return new Result(scenario, List.copyOf(results.values()), List.copyOf(verdicts), problems);
  }

  private static boolean ran(Comparison comparison, Map<String, ArmResult> results) {
    return results.containsKey(comparison.base()) && results.containsKey(comparison.other());
  }

  private static ArmResult run(Scenario scenario, Arm arm, Progress progress, GroupTap tap) {
    var recorder = new ArmRecorder(arm, scenario.load(), tap);
    RunResult run =
        FleetRun.run(
            arm.engine(),
            scenario.load().arrivals(),
            scenario.cost(),
            scenario.transferMicros(),
            recorder,
            progress);
    return ArmResult.of(arm, run, recorder);
  }

  private static void requireClass(
      Scenario scenario, Scenario.ExpectedClass expected, List<String> problems) {
    ConfigClass found = scenario.classOf(expected.arm());
    if (found != expected.is()) {
      problems.add(
          "arm %s is %s, %s was expected"
              .formatted(expected.arm(), found.title(), expected.is().title()));
    }
  }

  /** Every check ran on every arm: what was collected has passed (as declared) or was skipped. */
  private static void requireCollected(ArmResult result, List<String> problems) {
    long good = result.checks().stream().filter(c -> c.status() != ArmResult.Status.FAILED).count();
    if (result.checks().size() != Check.values().length || good != result.checks().size()) {
      problems.add(
          "arm %s: %d checks collected, %d passed, failed as declared or were skipped"
              .formatted(result.arm().name(), result.checks().size(), good));
    }
    for (Check declared : result.arm().mustFail().keySet()) {
      if (declared.invariant() && !mayBreak(result, declared)) {
        problems.add(
            "arm %s declares that the invariant %s fails"
                .formatted(result.arm().name(), declared.id()));
      }
    }
  }

  /**
   * A run that was stopped on purpose leaves work undone; a router without its cap passes the cap.
   */
  private static boolean mayBreak(ArmResult result, Check invariant) {
    return switch (invariant) {
      case ACCOUNTED -> result.run().ending() != RunResult.Ending.DONE;
      case STAGES_AGREE -> result.run().ending() == RunResult.Ending.DIVERGED;
      case WITHIN_CAP -> result.arm().engine().cap() == dev.berth.route.RankCap.OFF;
      default -> false;
    };
  }

  private static Comparison.Verdict judge(Comparison comparison, Map<String, ArmResult> results) {
    ArmResult base = arm(results, comparison.base());
    ArmResult other = arm(results, comparison.other());
    return switch (comparison) {
      case Comparison.Throughput t -> {
        double percent = (other.run().tokensPerSecond() / base.run().tokensPerSecond() - 1) * 100;
        yield new Comparison.Verdict(
            t,
            Math.abs(percent - t.percent()) <= t.within(),
            OptionalDouble.of(percent),
            "throughput %s against %s: predicted %+.2f %%, published %+.2f %% (within %.1f points)"
                .formatted(t.other(), t.base(), percent, t.percent(), t.within()));
      }
      case Comparison.SameForwards s ->
          verdict(s, base.forwardHash() == other.forwardHash(), "the same forward batches");
      case Comparison.SameDecisions s ->
          verdict(s, base.run().decisions() == other.run().decisions(), "the same decisions");
      case Comparison.SameMetric s -> {
        OptionalDouble a = base.metric(s.metric());
        OptionalDouble b = other.metric(s.metric());
        boolean same =
            a.isPresent()
                && b.isPresent()
                && Math.abs(a.getAsDouble() - b.getAsDouble()) <= s.within();
        String bound = s.within() == 0 ? "" : " (within %s: %s)".formatted(s.within(), s.why());
        yield verdict(s, same, "the same " + s.metric() + bound);
      }
    };
  }

  private static Comparison.Verdict verdict(Comparison comparison, boolean met, String what) {
    return new Comparison.Verdict(
        comparison,
        met,
        OptionalDouble.empty(),
        "%s and %s %s %s"
            .formatted(comparison.base(), comparison.other(), met ? "have" : "don't have", what));
  }

  private static ArmResult arm(Map<String, ArmResult> results, String name) {
    ArmResult result = results.get(name);
    if (result == null) {
      throw new BerthException(Code.CONFIGURATION, "there is no arm " + name);
    }
    return result;
  }
}
