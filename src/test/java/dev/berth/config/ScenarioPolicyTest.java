// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.EngineConfig;
import dev.berth.replay.Progress;
import dev.berth.replay.Scenario;
import dev.berth.replay.ScenarioRun;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** The scheduling policy, chosen by name in a scenario file. */
class ScenarioPolicyTest {
  private static Scenario scenario(String role, String... worker) {
    return ScenarioReader.read(
        "policies",
        ConfigNode.parse(
            "p.yaml",
            """
            scenario: 1
            title: a policy
            worker:
              role: %s
              max_batch_size: 4
              transfer: NIXL
              tokens_per_block: 4
              kv_pages: 14
            %sload:
              requests: 30
              input_tokens: 8
              output_tokens: 20
            arms:
              only:
                title: the only one
            """
                .formatted(role, lines(worker))));
  }

  private static String lines(String... worker) {
    var text = new StringBuilder();
    List.of(worker).forEach(line -> text.append("  ").append(line).append('\n'));
    return text.toString();
  }

  private static EngineConfig engine(Scenario scenario) {
    return scenario.arms().getFirst().engine();
  }

  private static void runs(Scenario scenario) {
    ScenarioRun.Result result = ScenarioRun.run(scenario, Progress.NONE);
    assertThat(result.arms().getFirst().run().done()).isEqualTo(30);
  }

  @ParameterizedTest
  @EnumSource
  void everyCapacityPolicyHasAName(CapacityRule rule) {
    var scenario = scenario("aggregated", "capacity: " + rule.name().toLowerCase(Locale.ROOT));
    assertThat(engine(scenario).capacity()).isEqualTo(rule);
    assertThat(engine(scenario).scheduler()).isEqualTo(SchedulerKind.TWO_STAGE);
    runs(scenario);
  }

  @Test
  void soHasTheOneLoopWhichBringsItsPolicy() {
    var scenario = scenario("aggregated", "scheduler: one-loop");
    assertThat(engine(scenario).scheduler()).isEqualTo(SchedulerKind.ONE_LOOP);
    assertThat(engine(scenario).capacity()).isEqualTo(CapacityRule.MAX_UTILIZATION);
    assertThat(scenario.arms().getFirst().describe()).contains("one loop");
    runs(scenario);
    runs(scenario("generation", "scheduler: one-loop", "capacity: max_utilization"));
    assertThat(SchedulerKind.byName("ONE_LOOP")).contains(SchedulerKind.ONE_LOOP);
    assertThat(SchedulerKind.byName("one loop")).isEmpty();
  }

  @Test
  void armsThatDifferInTheSchedulerOnlyAreTwo() {
    var two = scenario("aggregated", "capacity: max_utilization");
    var one = scenario("aggregated", "scheduler: one-loop");
    assertThat(one.arms().getFirst().effective()).isNotEqualTo(two.arms().getFirst().effective());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "aggregated | capacity: best | capacity: found best; allowed: one of max-requests,",
        "aggregated | scheduler: three-stage | allowed: one of two-stage, one-loop",
        "generation | capacity: max_requests | MAX_REQUESTS starts no KV transfer",
      })
  void aBadValueIsNamed(String role, String line, String message) {
    assertThatThrownBy(() -> scenario(role, line))
        .isInstanceOf(ConfigException.class)
        .hasMessageStartingWith("p.yaml:")
        .hasMessageContaining(message);
  }

  @Test
  void theOneLoopWithAnotherPolicyIsRefused() {
    assertThatThrownBy(
            () -> scenario("aggregated", "scheduler: one-loop", "capacity: static_batch"))
        .isInstanceOf(ConfigException.class)
        .hasMessageContaining("STATIC_BATCH")
        .hasMessageContaining("MAX_UTILIZATION");
  }
}
