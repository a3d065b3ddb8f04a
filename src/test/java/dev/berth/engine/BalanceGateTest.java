// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.engine.BalanceGate.Decision;
import dev.berth.engine.BalanceGate.Rules;
import dev.berth.route.AllocatedBytes;
import dev.berth.route.Golden;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** When contexts are held: recorded sequences, single rules, and what is refused. */
class BalanceGateTest {
  static Stream<Golden> lines() {
    return Golden.lines("adp_balance_gate.jsonl", 160).stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("lines")
  void holdsAsRecorded(Golden line) {
    Golden config = line.at("config");
    var gate =
        new BalanceGate(
            new Rules(
                config.integer("timeout_iters"),
                config.integer("batching_wait_iters"),
                config.integer("min_generation_requests"),
                config.integer("low_occupancy_timeout_iters")),
            config.integer("max_batch_size"));
    for (Golden iteration : line.list("iterations")) {
      gate.begin();
      for (Golden rank : iteration.list("ranks")) {
        gate.rank(
            rank.integer("num_context"),
            rank.integer("num_generation"),
            rank.integer("num_real_generation"));
      }

      Decision decision = gate.decide();

      Golden expected = iteration.at("expected");
      assertThat(decision == Decision.HOLD).isEqualTo(expected.flag("context_held"));
      assertThat(gate.waitedIterations()).isEqualTo(expected.integer("ctx_waiting_iters"));
      assertThat(gate.batchingWaitedIterations())
          .isEqualTo(expected.integer("ctx_batching_wait_iters"));
    }
  }

  @Test
  void anUnbalancedFleetIsHeldUntilItsTimeout() {
    var gate = new BalanceGate(new Rules(3, 0, 0, 0), 4);

    assertThat(Stream.generate(() -> twoRanks(gate, 1, 0, 2)).limit(6))
        .containsExactly(
            Decision.HOLD, Decision.HOLD, Decision.RUN, Decision.HOLD, Decision.HOLD, Decision.RUN);
  }

  @Test
  void atLowOccupancyTheTimeoutIsShorter() {
    var gate = new BalanceGate(new Rules(50, 0, 2, 1), 4);

    assertThat(twoRanks(gate, 1, 0, 1)).isEqualTo(Decision.RUN);
    assertThat(twoRanks(gate, 1, 0, 2)).isEqualTo(Decision.HOLD);
  }

  @Test
  void aRankWithoutGenerationsIsNeverLeftWithoutWork() {
    var gate = new BalanceGate(new Rules(50, 10, 0, 0), 4);

    assertThat(twoRanks(gate, 1, 0, 0)).isEqualTo(Decision.RUN);
    assertThat(twoRanks(gate, 1, 1, 0)).isEqualTo(Decision.RUN);
  }

  @Test
  void aBalancedFleetWaitsForMoreContexts() {
    var gate = new BalanceGate(new Rules(50, 2, 0, 0), 4);

    assertThat(Stream.generate(() -> twoRanks(gate, 1, 1, 2)).limit(4))
        .containsExactly(Decision.HOLD, Decision.HOLD, Decision.RUN, Decision.HOLD);
  }

  private static Decision twoRanks(BalanceGate gate, int one, int other, int generations) {
    gate.begin();
    gate.rank(one, generations, generations);
    gate.rank(other, generations, generations);
    return gate.decide();
  }

  @Test
  void wrongRulesAndCountsAreRefused() {
    assertRefused(() -> new BalanceGate(Rules.DEFAULT, 0), "batchPositions");
    assertRefused(() -> new Rules(-1, 1, 0, 0), "timeoutIterations");
    assertRefused(() -> new Rules(1, -1, 0, 0), "batchingWait");
    assertRefused(
        () -> new BalanceGate(new Rules(1, 1, 5, 0), 4), "minGenerations must be 0 to 4, got 5");
    assertRefused(() -> new Rules(1, 1, 0, 2), "lowOccupancyTimeoutIterations");
    var gate = new BalanceGate(Rules.DEFAULT, 4);
    assertRefused(gate::decide, "no rank");
    gate.begin();
    assertRefused(gate::decide, "no rank");
    assertRefused(() -> gate.rank(-1, 0, 0), "-1 contexts");
    assertRefused(() -> gate.rank(0, 1, 2), "of which 2");
  }

  @Test
  void decidingAllocatesNothing() {
    var gate = new BalanceGate(Rules.DEFAULT, 4);

    assertThat(AllocatedBytes.by(() -> twoRanks(gate, 1, 0, 2))).isZero();
  }

  // ------------------------------------------------------------------------------ batch waiting

  /** Budget 1000 tokens, half of it is worth running, at most 3 iterations. */
  @ParameterizedTest(name = "{0} contexts, {1} generations, {2} tokens: {3}")
  @CsvSource({
    "1, 4, 104, HOLD",
    "1, 4, 499, HOLD",
    "1, 4, 500, RUN",
    "2, 4, 904, RUN",
    "1, 0, 100, RUN",
    "0, 4, 4, RUN",
  })
  void contextsWaitForAShareOfTheTokenBudget(
      int contexts, int generations, long tokens, Decision expected) {
    var wait = new BatchWait(new BatchWait.Rules(3, 0.5), 1000);

    assertThat(wait.contexts(contexts, generations, tokens)).isEqualTo(expected);
  }

  @Test
  void theWaitEndsAfterItsIterationsAndStartsAnew() {
    var wait = new BatchWait(new BatchWait.Rules(2, 1), 1000);

    assertThat(Stream.generate(() -> wait.contexts(1, 1, 11)).limit(5))
        .containsExactly(Decision.HOLD, Decision.HOLD, Decision.RUN, Decision.HOLD, Decision.HOLD);
    assertThat(wait.waitedIterations()).isEqualTo(2);
  }

  @Test
  void encoderWorkWaitsWhateverElseIsScheduled() {
    var wait = new BatchWait(new BatchWait.Rules(2, 0.5), 1000);

    assertThat(wait.encoder(0, 0)).isEqualTo(Decision.RUN);
    assertThat(wait.encoder(1, 499)).isEqualTo(Decision.HOLD);
    assertThat(wait.encoder(2, 500)).isEqualTo(Decision.RUN);
    assertThat(Stream.generate(() -> wait.encoder(1, 1)).limit(3))
        .containsExactly(Decision.HOLD, Decision.HOLD, Decision.RUN);
  }

  @Test
  void aWaitWithoutABoundHoldsNothing() {
    assertThat(new BatchWait.Rules(0, 1).active()).isFalse();
    assertThat(new BatchWait.Rules(5, 0).active()).isFalse();
    assertThat(new BatchWait(new BatchWait.Rules(0, 1), 10).contexts(1, 1, 2))
        .isEqualTo(Decision.RUN);
    assertThat(new BatchWait(new BatchWait.Rules(5, 0), 10).encoder(1, 1)).isEqualTo(Decision.RUN);
  }

  @Test
  void wrongWaitsAreRefused() {
    assertRefused(() -> new BatchWait.Rules(-1, 0), "iterations");
    assertRefused(() -> new BatchWait.Rules(1, 1.1), "ratio");
    assertRefused(() -> new BatchWait.Rules(1, Double.NaN), "ratio");
    assertRefused(() -> new BatchWait(new BatchWait.Rules(1, 1), 0), "budget");
    var wait = new BatchWait(new BatchWait.Rules(1, 1), 1);
    assertRefused(() -> wait.contexts(1, 1, -1), "-1");
    assertRefused(() -> wait.encoder(-1, 1), "-1");
  }

  private static void assertRefused(Runnable call, String with) {
    assertThatThrownBy(call::run).isInstanceOf(BerthException.class).hasMessageContaining(with);
  }
}
