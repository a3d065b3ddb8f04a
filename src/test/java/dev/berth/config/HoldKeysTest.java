// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.engine.BalanceGate;
import dev.berth.engine.BatchWait;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EncoderWait;
import dev.berth.engine.EngineConfig;
import dev.berth.replay.CostModel;
import dev.berth.replay.TransferModel;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What holds contexts and encoder work back, by the keys of scenarios and of serving files. */
class HoldKeysTest {
  private static final String SCENARIO =
      """
      scenario: 1
      title: holds
      worker: {role: aggregated, ranks: 2, attention_dp: %s, max_batch_size: 8, max_num_tokens: 256, %s}
      load: {requests: 4, input_tokens: 8, output_tokens: 4, encoder_tokens: 20}
      arms: {one: {title: one}}
      """;

  private static EngineConfig scenario(String attentionDp, String keys) {
    String text = SCENARIO.formatted(attentionDp, keys);
    return ScenarioReader.read("holds", ConfigNode.parse("holds.yaml", text))
        .arms()
        .getFirst()
        .engine();
  }

  @Test
  void aScenarioNamesThem() {
    assertThat(scenario("on", "balance: {}").hold())
        .isEqualTo(new ContextHold.Balanced(BalanceGate.Rules.DEFAULT));
    assertThat(
            scenario(
                    "on",
                    "balance: {timeout_iters: 7, batching_wait_iters: 3, min_generation_requests: 2, low_occupancy_timeout_iters: 5}")
                .hold())
        .isEqualTo(new ContextHold.Balanced(new BalanceGate.Rules(7, 3, 2, 5)));
    assertThat(scenario("off", "batch_wait: {iterations: 9, token_ratio: 0.25}").hold())
        .isEqualTo(new ContextHold.Batched(new BatchWait.Rules(9, 0.25)));
    assertThat(
            scenario("on", "encoder_wait: {iterations: 2, token_ratio: 1, max_tokens: 90}")
                .encoderWait())
        .isEqualTo(new EncoderWait(new BatchWait.Rules(2, 1), 90));
    assertThat(scenario("on", "overlap: on").hold()).isEqualTo(ContextHold.NEVER);
  }

  @ParameterizedTest(name = "{1}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          on  | 'balance: {timeout_iters: -1}'                                     | timeout_iters
          on  | 'balance: {min_generation_requests: 9}'                            | min_generation_requests
          on  | 'balance: {timeout_iters: 4, low_occupancy_timeout_iters: 5}'      | low_occupancy_timeout_iters
          on  | 'balance: {patience: 4}'                                           | patience
          off | 'balance: {}'                                                      | compares attention-DP ranks
          on  | 'batch_wait: {iterations: 1, token_ratio: 0.5}'                    | not for a share of the tokens
          off | 'batch_wait: {iterations: 1, token_ratio: 1.5}'                    | token_ratio
          off | 'batch_wait: {iterations: 1}'                                      | token_ratio
          on  | 'balance: {}, batch_wait: {iterations: 1, token_ratio: 0.5}'       | goes without 'balance'
          on  | 'encoder_wait: {iterations: 1, token_ratio: 0.5, max_tokens: 0}'   | max_tokens
          on  | 'encoder_wait: {iterations: 1, token_ratio: 0.5}'                  | max_tokens
          """)
  void whatIsWrongIsNamed(String attentionDp, String keys, String named) {
    assertThatThrownBy(() -> scenario(attentionDp, keys))
        .isInstanceOf(ConfigException.class)
        .hasMessageContaining("holds.yaml:")
        .hasMessageContaining(named);
  }

  @Test
  void aServingFileNamesThem() {
    String ranks = "enable_attention_dp: true\ntensor_parallel_size: 4\n";
    String balance = "attention_dp_config: {enable_balance: true, timeout_iters: 60}\n";
    String wait = "batch_wait_timeout_iters: 20\nbatch_wait_max_tokens_ratio: 0.5\n";
    String tokens = "max_num_tokens: 512\n";

    assertThat(hold(serving(ranks + balance)))
        .isEqualTo(new ContextHold.Balanced(new BalanceGate.Rules(60, 10, 0, 0)));
    assertThat(hold(serving(balance))).as("one rank").isEqualTo(ContextHold.NEVER);
    assertThat(hold(serving(tokens + wait)))
        .isEqualTo(new ContextHold.Batched(new BatchWait.Rules(20, 0.5)));
    FleetSetup both = serving(ranks + tokens + wait);
    assertThat(hold(both)).isEqualTo(ContextHold.NEVER);
    assertThat(both.warnings()).anyMatch(w -> w.contains("batch_wait_* is for workers without"));
    FleetSetup unlimited = serving(wait);
    assertThat(hold(unlimited)).isEqualTo(ContextHold.NEVER);
    assertThat(unlimited.warnings()).anyMatch(w -> w.contains("which the file doesn't name"));
  }

  @ParameterizedTest
  @CsvSource({
    "batch_wait_timeout_iters: -1, batch_wait_timeout_iters",
    "batch_wait_max_tokens_ratio: 1.2, batch_wait_max_tokens_ratio",
    "attention_dp_config: {timeout_iters: -4}, timeout_iters",
  })
  void whatIsWrongInAServingFileIsNamed(String keys, String named) {
    assertThatThrownBy(() -> serving(keys + "\n"))
        .isInstanceOf(ConfigException.class)
        .hasMessageContaining("serve.yaml:2")
        .hasMessageContaining(named);
  }

  private static ContextHold hold(FleetSetup setup) {
    return setup.stages().getFirst().engine().hold();
  }

  private static FleetSetup serving(String keys) {
    ServingConfig config = ServingConfig.parse("serve.yaml", "max_batch_size: 8\n" + keys);
    return FleetSetup.of(
        config,
        new FleetSetup.Options(
            Optional.empty(),
            FleetSetup.Workers.ALL,
            PlanOptions.NONE,
            OptionalLong.empty(),
            FleetSetup.PrefixReuse.FILE,
            OptionalInt.empty(),
            OptionalInt.empty(),
            CostModel.fitted(1),
            TransferModel.fixed(0)));
  }
}
