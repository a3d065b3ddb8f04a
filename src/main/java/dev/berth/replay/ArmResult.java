// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.WaitReason;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * What an arm measured and how its checks came out.
 *
 * @param arm the arm
 * @param run totals
 * @param histograms {@code assigned}, {@code batch}, {@code states}, {@code gate}, {@code
 *     tokens_in}, {@code steady_batch}, {@code steady_contexts}
 * @param numbers everything that is a single number
 * @param expectations each with what was measured
 * @param checks every check, in the order of {@link Check}
 * @param forwardHash sizes of all launched forwards, in order
 */
public record ArmResult(
    Arm arm,
    RunResult run,
    Map<String, Histogram> histograms,
    Map<String, Double> numbers,
    List<Met> expectations,
    List<CheckOutcome> checks,
    long forwardHash) {
  /** Names of the histograms. */
  public static final List<String> HISTOGRAMS =
      List.of(
          "assigned", "batch", "gate", "states", "tokens_in", "steady_batch", "steady_contexts");

  /** Names of the single numbers, deferrals by reason aside. */
  public static final List<String> NUMBERS =
      List.of(
          "requests",
          "done",
          "refused",
          "unaccounted",
          "iterations",
          "forwards",
          "mean_batch",
          "steady_mean_batch",
          "mean_real_per_record",
          "virtual_seconds",
          "tokens_per_second",
          "peak_resident",
          "peak_rank_load",
          "paused",
          "resident",
          "generating",
          "init",
          "fetched",
          "waiting",
          "gate_open",
          "gate_iteration",
          "gate_missing",
          "validator_disagreements");

  /** True if a name can be measured. */
  public static boolean isNumber(String name) {
    return NUMBERS.contains(name)
        || java.util.Arrays.stream(WaitReason.values())
            .anyMatch(reason -> name.equals(deferrals(reason)));
  }

  private static String deferrals(WaitReason reason) {
    return "deferrals." + reason.name().toLowerCase(Locale.ROOT);
  }

  /** An expectation and what came out. */
  public record Met(Expectation expectation, OptionalDouble measured, boolean met) {}

  /** How a check came out. */
  public enum Status {
    PASSED,
    /** It failed, with the count that the arm declares. */
    FAILED_AS_DECLARED,
    /** It has nothing to look at here. */
    SKIPPED,
    /** It failed undeclared or with another count, or a declared failure didn't come. */
    FAILED
  }

  /**
   * A check on an arm.
   *
   * @param violations what it counted
   * @param declared what the arm declared, 0 for a pass
   */
  public record CheckOutcome(Check check, Status status, long violations, long declared) {}

  static ArmResult of(Arm arm, RunResult run, ArmRecorder recorder) {
    long validatorDisagreements = run.startUp().disagreements().size();
    var histograms = new LinkedHashMap<String, Histogram>();
    histograms.put("assigned", recorder.assignedVectors);
    histograms.put("batch", recorder.batches);
    histograms.put("gate", recorder.gates);
    histograms.put("states", recorder.states);
    histograms.put("tokens_in", recorder.tokenVectors);
    histograms.put("steady_batch", recorder.steadyBatches());
    histograms.put("steady_contexts", recorder.steadyContexts());

    var numbers = new LinkedHashMap<String, Double>();
    numbers.put("requests", (double) run.requests());
    numbers.put("done", (double) run.done());
    numbers.put("refused", (double) run.totals().refused());
    numbers.put("unaccounted", (double) run.unaccounted());
    numbers.put("iterations", (double) run.iterations());
    numbers.put("forwards", (double) run.forwards().forwards());
    numbers.put("mean_batch", run.totals().meanBatch());
    numbers.put("steady_mean_batch", recorder.steadyMeanBatch());
    numbers.put("mean_real_per_record", meanReal(run));
    numbers.put("virtual_seconds", run.micros() / 1e6);
    numbers.put("tokens_per_second", run.tokensPerSecond());
    numbers.put("peak_resident", (double) recorder.peakResident());
    numbers.put("peak_rank_load", (double) recorder.peakRankLoad());
    numbers.put("paused", (double) run.totals().paused());
    for (WaitReason reason : WaitReason.values()) {
      if (reason != WaitReason.NONE) {
        numbers.put(deferrals(reason), (double) run.totals().deferrals(reason));
      }
    }
    numbers.put("resident", (double) run.resident());
    numbers.put("generating", (double) run.generating());
    numbers.put("init", (double) run.init());
    numbers.put("fetched", (double) run.fetched());
    numbers.put("waiting", (double) run.waiting());
    if (arm.engine().gate().active()) {
      numbers.put("gate_open", run.gateOpen() ? 1.0 : 0.0);
      numbers.put("gate_iteration", (double) recorder.gateOpenedAt());
      numbers.put("gate_missing", (double) (arm.engine().gate().target() - run.generating()));
    }
    numbers.put("validator_disagreements", (double) validatorDisagreements);

    var partial =
        new ArmResult(arm, run, histograms, numbers, List.of(), List.of(), recorder.forwardHash());
    List<Met> met =
        arm.expect().stream()
            .map(e -> {
              OptionalDouble measured = partial.metric(e.metric());
              return new Met(e, measured, e.met(measured));
            })
            .toList();
    List<CheckOutcome> checks =
        java.util.Arrays.stream(Check.values())
            .map(check -> outcome(arm, check, run, recorder, validatorDisagreements))
            .toList();
    return new ArmResult(arm, run, histograms, numbers, met, checks, recorder.forwardHash());
  }

  /** Requests launched on a rank and settled for good, a record. */
  private static double meanReal(RunResult run) {
    long records = run.iterations() * run.config().ranks();
    return records == 0 ? 0 : (double) run.totals().tokens() / records;
  }

  private static CheckOutcome outcome(
      Arm arm, Check check, RunResult run, ArmRecorder recorder, long validatorDisagreements) {
    boolean applies =
        switch (check) {
          case STAGES_AGREE -> arm.engine().stages() > 1;
          case GATE_OPENS -> arm.engine().gate().active();
          default -> true;
        };
    long declared = arm.mustFail().getOrDefault(check, 0L);
    if (!applies) {
      return new CheckOutcome(check, declared == 0 ? Status.SKIPPED : Status.FAILED, 0, declared);
    }
    long violations =
        switch (check) {
          case ACCOUNTED -> run.unaccounted();
          case NO_LEAK -> run.leaked();
          case STAGES_AGREE -> run.ending() == RunResult.Ending.DIVERGED ? 1 : 0;
          case VALIDATOR_ACCEPTS -> validatorDisagreements;
          case LIVE -> run.ending() == RunResult.Ending.STALLED ? 1 : 0;
          case NO_DEFERRAL ->
              run.totals().deferrals(WaitReason.SEAT)
                  + run.totals().deferrals(WaitReason.LEASE)
                  + run.totals().deferrals(WaitReason.PAGES);
          case NO_WASTED_POSITION ->
              run.ending() == RunResult.Ending.DONE ? run.totals().wastedPositions() : 0;
          case GATE_OPENS -> run.gateOpen() ? 0 : 1;
          case WITHIN_CAP, WITHIN_POOLS, NO_VETO, FULL_BATCHES -> recorder.violations(check);
        };
    Status status =
        violations != declared
            ? Status.FAILED
            : violations == 0 ? Status.PASSED : Status.FAILED_AS_DECLARED;
    return new CheckOutcome(check, status, violations, declared);
  }

  /** One of {@link #HISTOGRAMS}. */
  public Histogram histogram(String name) {
    Histogram histogram = histograms.get(name);
    if (histogram == null) {
      throw new IllegalArgumentException("there is no histogram " + name);
    }
    return histogram;
  }

  /**
   * A measured figure: the name of a number, or {@code histogram[value]} for a count.
   *
   * @return empty if there is no such figure
   */
  public OptionalDouble metric(String name) {
    int bracket = name.indexOf('[');
    if (bracket > 0 && name.endsWith("]")) {
      Histogram histogram = histograms.get(name.substring(0, bracket));
      return histogram == null
          ? OptionalDouble.empty()
          : OptionalDouble.of(histogram.count(name.substring(bracket + 1, name.length() - 1)));
    }
    Double number = numbers.get(name);
    return number == null ? OptionalDouble.empty() : OptionalDouble.of(number);
  }

  /** True if every expectation is met and every check came out as declared. */
  public boolean asDeclared() {
    return expectations.stream().allMatch(Met::met)
        && checks.stream().noneMatch(c -> c.status() == Status.FAILED);
  }
}
