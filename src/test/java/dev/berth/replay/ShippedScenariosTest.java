// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.berth.config.ShippedScenarios;
import dev.berth.engine.EngineConfig;
import dev.berth.plan.WhatIf;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** The scenarios that come with Berth, and how they are judged. */
class ShippedScenariosTest {
  private static final Map<String, ScenarioRun.Result> RESULTS = new ConcurrentHashMap<>();

  private static ScenarioRun.Result result(String name) {
    return RESULTS.computeIfAbsent(
        name, n -> ScenarioRun.run(ShippedScenarios.load(n), done -> {}));
  }

  private static ArmResult arm(String scenario, String arm) {
    return result(scenario).arms().stream()
        .filter(a -> a.arm().name().equals(arm))
        .findFirst()
        .orElseThrow();
  }

  static List<String> names() {
    return ShippedScenarios.names();
  }

  static Stream<String> namesWithBrokenArms() {
    return names().stream()
        .filter(
            n -> ShippedScenarios.load(n).arms().stream().anyMatch(a -> !a.mustFail().isEmpty()));
  }

  @ParameterizedTest
  @MethodSource("names")
  void comesOutAsExpected(String name) {
    ScenarioRun.Result result = result(name);
    assertThat(result.problems()).isEmpty();
    for (ArmResult arm : result.arms()) {
      assertThat(arm.expectations()).as("%s", arm.arm().name()).allMatch(ArmResult.Met::met);
      assertThat(arm.checks())
          .as("%s", arm.arm().name())
          .noneMatch(c -> c.status() == ArmResult.Status.FAILED);
      long total = arm.run().requests();
      assertThat(arm.run().done() + arm.run().totals().refused() + arm.run().unaccounted())
          .as("N of N")
          .isEqualTo(total);
    }
    assertThat(result.comparisons()).allMatch(Comparison.Verdict::met);
    assertThat(result.asExpected()).isTrue();
  }

  @Test
  void theIndexIsTheFolder() throws IOException, URISyntaxException {
    URI index =
        Objects.requireNonNull(getClass().getResource("/dev/berth/scenarios/index.txt")).toURI();
    try (Stream<Path> files = Files.list(Objects.requireNonNull(Path.of(index).getParent()))) {
      List<String> inFolder =
          files
              .map(f -> Objects.toString(f.getFileName()))
              .filter(f -> f.endsWith(".yaml"))
              .map(f -> f.substring(0, f.length() - ".yaml".length()))
              .sorted()
              .toList();
      assertThat(names().stream().sorted().toList()).isEqualTo(inFolder).doesNotHaveDuplicates();
    }
  }

  /** The ladder: each published bug's broken arm gives the published bad numbers. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "deepseek-r1-ctx-dep4 | charged | assigned[[1,0,0,0]] | 2926 | 0",
        "deepseek-r1-ctx-dep4 | charged | assigned[[0,2,2,2]] | 2924 | 0",
        "deepseek-r1-ctx-dep4 | charged | batch[2] | 8775 | 0",
        "deepseek-r1-ctx-dep4 | charged | batch[1] | 5862 | 0",
        "deepseek-r1-ctx-dep4 | charged | states[(14)x2] | 8775 | 0",
        "deepseek-r1-ctx-dep4 | charged | states[(14)x1] | 2930 | 0",
        "deepseek-r1-ctx-dep4 | charged | states[(10)x1(14)x1] | 2925 | 0",
        "deepseek-r1-ctx-dep4 | charged | iterations | 5854 | 1",
        "deepseek-r1-ctx-dep4 | range-end-20 | mean_real_per_record | 1 | 0.01",
        "glm-5-ctx-leases | one-batch-of-leases | deferrals.lease | 3412 | 0",
        "glm-5-ctx-leases | one-batch-of-leases | mean_batch | 1.5 | 0.002",
        "gen-fill-early-end | count-gate | generating | 8191 | 0",
        "gen-fill-early-end | count-gate | gate_open | 0 | 0",
        "gen-fill-overloaded-rank | state-gate-no-cap | init | 1 | 0",
        "gen-fill-overloaded-rank | state-gate-no-cap | peak_rank_load | 257 | 0",
        "gen-fill-overloaded-rank | count-gate-no-cap | gate_open | 0 | 0",
      })
  void theBrokenArmGivesThePublishedBadNumbers(
      String scenario, String arm, String metric, double published, double bound) {
    assertThat(arm(scenario, arm).metric(metric).orElseThrow()).isCloseTo(published, within(bound));
    assertThat(arm(scenario, arm).arm().mustFail()).as("and says what it breaks").isNotEmpty();
  }

  @Test
  void theStageDivergenceOfE3IsDetectedAndNamed() {
    ArmResult broken = arm("glm-5-tp2-pp2", "last-stage-marks");
    assertThat(broken.run().ending()).isEqualTo(RunResult.Ending.DIVERGED);
    assertThat(broken.run().detail()).contains("stage 0", "stage 1", "rank");
  }

  @Test
  void aStalledFillNamesTheRankAndWhatIsMissing() {
    RunResult run = arm("gen-fill-early-end", "count-gate").run();
    assertThat(run.ending()).isEqualTo(RunResult.Ending.STALLED);
    assertThat(run.detail()).contains("count gate is closed", "255 generating, 1 short of 256");
  }

  // ------------------------------------------------------------------------------ how arms are
  // judged

  /**
   * A broken arm's declaration is exact: another count, one left out, or one too many fails the
   * run.
   */
  @ParameterizedTest
  @MethodSource("namesWithBrokenArms")
  void declaredFailuresAreExhaustive(String name) {
    for (ArmResult result : result(name).arms()) {
      Map<Check, Long> declared = result.arm().mustFail();
      if (declared.isEmpty()) {
        continue;
      }
      assertThat(rejudged(name, declared(result.arm(), declared)).asDeclared()).isTrue();
      for (Check check : Check.values()) {
        if (declared.containsKey(check)) {
          assertThat(judgedWith(name, result.arm(), check, declared.get(check) + 1)).isFalse();
          assertThat(judgedWith(name, result.arm(), check, declared.get(check) - 1)).isFalse();
          assertThat(judgedWith(name, result.arm(), check, 0)).isFalse();
        } else {
          assertThat(judgedWith(name, result.arm(), check, 1)).isFalse();
        }
      }
    }
  }

  private static boolean judgedWith(String scenario, Arm arm, Check check, long count) {
    var changed = new EnumMap<Check, Long>(Check.class);
    changed.putAll(arm.mustFail());
    changed.put(check, count);
    changed.values().removeIf(c -> c == 0);
    return rejudged(scenario, declared(arm, changed)).asDeclared();
  }

  private static Arm declared(Arm arm, Map<Check, Long> mustFail) {
    return new Arm(arm.name(), arm.title(), arm.engine(), arm.expect(), mustFail, arm.sameAs());
  }

  private static Arm expecting(Arm arm, List<Expectation> expect) {
    return new Arm(arm.name(), arm.title(), arm.engine(), expect, arm.mustFail(), arm.sameAs());
  }

  private record Recorded(RunResult run, ArmRecorder recorder) {}

  private static final Map<String, Recorded> RECORDED = new ConcurrentHashMap<>();

  /** The same run, judged by other declarations. */
  private static ArmResult rejudged(String scenario, Arm arm) {
    Recorded recorded =
        RECORDED.computeIfAbsent(
            scenario + "/" + arm.name(),
            key -> {
              Scenario s = ShippedScenarios.load(scenario);
              var recorder = new ArmRecorder(arm, s.load());
              return new Recorded(
                  FleetRun.run(
                      arm.engine(),
                      s.load().arrivals(),
                      s.cost(),
                      s.transferMicros(),
                      recorder,
                      done -> {}),
                  recorder);
            });
    return ArmResult.of(arm, recorded.run, recorded.recorder);
  }

  private static Scenario with(Scenario s, List<Arm> arms, List<Comparison> comparisons) {
    return new Scenario(
        s.name(),
        s.title(),
        s.source(),
        s.notes(),
        s.load(),
        s.cost(),
        s.transferMicros(),
        arms,
        comparisons,
        Optional.empty());
  }

  private static Arm renamed(Arm arm, String name, Optional<String> sameAs) {
    return new Arm(name, arm.title(), arm.engine(), List.of(), Map.of(), sameAs);
  }

  /** A scenario that runs in no time. */
  private static Scenario small() {
    return ShippedScenarios.load("deepseek-v4-pro-ctx-con8");
  }

  @Test
  void anExpectationThatIsNotMetIsSeen() {
    Scenario s = small();
    Arm first = s.arms().getFirst();
    assertThat(ScenarioRun.run(with(s, List.of(first), List.of()), n -> {}).asExpected()).isTrue();
    var expect = new ArrayList<>(first.expect());
    expect.add(
        new Expectation("iterations", 1, 0, java.util.OptionalDouble.empty(), Optional.empty()));
    ScenarioRun.Result result =
        ScenarioRun.run(with(s, List.of(expecting(first, expect)), List.of()), n -> {});
    assertThat(result.asExpected()).isFalse();
    assertThat(result.arms().getFirst().expectations().getLast().met()).isFalse();
  }

  @Test
  void anExpectationOfNothingMeasuredIsNotMet() {
    Scenario s = small();
    var unknown =
        new Expectation("gate_missing", 0, 1e9, java.util.OptionalDouble.empty(), Optional.empty());
    Arm arm = expecting(s.arms().getFirst(), List.of(unknown));
    assertThat(ScenarioRun.run(with(s, List.of(arm), List.of()), n -> {}).asExpected()).isFalse();
  }

  @Test
  void twoArmsDeclaredDifferentWithEqualPlansAreRefused() {
    Scenario s = small();
    Arm arm = s.arms().getFirst();
    Arm twin = renamed(arm, "twin", Optional.empty());
    assertThatThrownBy(() -> ScenarioRun.run(with(s, List.of(arm, twin), List.of()), n -> {}))
        .hasMessageContaining(arm.name())
        .hasMessageContaining("twin")
        .hasMessageContaining("effective plans are equal");
  }

  @Test
  void anArmDeclaredTheSameMustDecideTheSame() {
    Scenario s = ShippedScenarios.load("glm-5-ctx-con512");
    Arm arm = renamed(s.arms().getFirst(), "one", Optional.empty());
    Arm twin = renamed(arm, "twin", Optional.of("one"));
    assertThat(ScenarioRun.run(with(s, List.of(arm, twin), List.of()), n -> {}).comparisons())
        .singleElement()
        .matches(Comparison.Verdict::met);
    Arm other = renamed(s.arms().get(1), "other", Optional.of("one"));
    assertThat(other.effective()).isNotEqualTo(arm.effective());
    assertThat(ScenarioRun.run(with(s, List.of(arm, other), List.of()), n -> {}).asExpected())
        .isFalse();
  }

  /**
   * What decides about a run is part of the effective plan, token budgets and pages of tokens
   * included.
   */
  @Test
  void armsThatDifferInTokensAloneAreDifferent() {
    Scenario s = small();
    Arm arm = s.arms().getFirst();
    var shape = arm.engine().plan().shape();
    var wider =
        dev.berth.plan.SeatPlan.of(
                shape.toBuilder().maxNumTokens(shape.maxNumTokens() + 1).build(),
                arm.engine().plan().policy())
            .orThrow()
            .withWhatIf(arm.engine().plan().whatIf());
    assertThat(wider.effective()).isEqualTo(arm.engine().plan().effective());
    var engine = arm.engine().toBuilder().plan(wider).build();
    Arm other = new Arm("wider", arm.title(), engine, List.of(), Map.of(), Optional.empty());
    assertThat(other.effective()).isNotEqualTo(arm.effective());
  }

  @Test
  void anInvariantCantBeDeclaredAway() {
    Scenario s = small();
    Arm arm = declared(s.arms().getFirst(), Map.of(Check.NO_LEAK, 1L));
    ScenarioRun.Result result = ScenarioRun.run(with(s, List.of(arm), List.of()), n -> {});
    assertThat(result.asExpected()).isFalse();
    assertThat(result.problems()).anyMatch(p -> p.contains("no-leak"));
  }

  @Test
  void aPlanThatTheValidatorRefusesNeedsAnOverride() {
    Scenario s = ShippedScenarios.load("glm-5-ctx-leases");
    Arm arm = s.arms().getFirst();
    WhatIf departures = arm.engine().plan().whatIf();
    assertThat(departures.has(WhatIf.Switch.VALIDATOR_OVERRIDDEN)).isTrue();
    var without =
        WhatIf.builder()
            .leases(departures.leases().orElseThrow())
            .with(WhatIf.Switch.RESERVED_SPENDABLE)
            .build();
    var strict =
        new Arm(
            arm.name(),
            arm.title(),
            EngineConfig.of(arm.engine().plan().withWhatIf(without), arm.engine().role()),
            arm.expect(),
            arm.mustFail(),
            arm.sameAs());
    assertThatThrownBy(() -> ScenarioRun.run(with(s, List.of(strict), List.of()), n -> {}))
        .hasMessage("there are 4 seats and 2 leases: unified seats need as many leases as seats");
  }

  // ------------------------------------------------------------------------------ cost model

  /** Evidence: beta / alpha is fitted on the off-to-on difference of E1 and on nothing else. */
  @Test
  void theCostModelIsTheFitOfE1() {
    CostModel.ForwardTotals off = arm("deepseek-r1-ctx-dep4", "off").run().forwards();
    CostModel.ForwardTotals on = arm("deepseek-r1-ctx-dep4", "charged").run().forwards();
    double fit = CostModel.fit(off, on, 1 - 0.0849);
    assertThat(fit).isCloseTo(CostModel.FITTED_BETA_OVER_ALPHA, within(0.00005));
    var model = CostModel.fitted(3);
    double slower =
        time(model, off) / time(model, on); // the same requests: throughput is the inverse of time
    assertThat(slower - 1).isCloseTo(-0.0849, within(1e-5));
  }

  private static double time(CostModel model, CostModel.ForwardTotals totals) {
    return model.forwardMicros(totals.maxRankTokens(), totals.totalTokens());
  }

  /** The other published differences, predicted. */
  @ParameterizedTest
  @CsvSource({
    "deepseek-r1-ctx-dep4, charged, fixed, 11.38",
    "glm-5-ctx-con1024, off, charged, -20.40",
    "glm-5-ctx-con1024, charged, fixed, 26.04",
    "glm-5-ctx-con512, charged, fixed, 28.08"
  })
  void predictedDifferencesLieWithinThreePoints(
      String scenario, String base, String other, double published) {
    List<String> arms = result(scenario).arms().stream().map(a -> a.arm().name()).toList();
    assertThat(arms).contains(base, other);
    double percent =
        (arm(scenario, other).run().tokensPerSecond() / arm(scenario, base).run().tokensPerSecond()
                - 1)
            * 100;
    assertThat(percent).isCloseTo(published, within(3.0));
  }

  @Test
  void costsAreFiniteAndNotAllZero() {
    for (double wrong : new double[] {-1, Double.NaN, Double.POSITIVE_INFINITY, 1e12}) {
      assertThatThrownBy(() -> new CostModel(wrong, 1, 1)).hasMessageContaining("alpha");
      assertThatThrownBy(() -> new CostModel(1, wrong, 1)).hasMessageContaining("beta");
      assertThatThrownBy(() -> new CostModel(1, 1, wrong)).hasMessageContaining("fixed");
    }
    assertThatThrownBy(() -> new CostModel(0, 0, 0)).hasMessageContaining("cost something");
    assertThat(new CostModel(2, 3, 5).forwardMicros(7, 11)).isEqualTo(2 * 7 + 3 * 11 + 5);
  }
}
