// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.plan.SeatPlan;
import java.util.Optional;

/**
 * What holds contexts back that could run, so that more of them run together (spec 01 §9): one rule
 * with attention DP, another one without, never both. Held contexts keep their place and give back
 * what they took in this iteration.
 */
public sealed interface ContextHold {
  /** Contexts run as soon as they can. */
  ContextHold NEVER = new Never();

  /** Nothing holds them. */
  record Never() implements ContextHold {}

  /** Until all attention-DP ranks have some. */
  record Balanced(BalanceGate.Rules rules) implements ContextHold {}

  /** Until enough tokens have come together: without attention DP. */
  record Batched(BatchWait.Rules rules) implements ContextHold {}

  /** In a few words after a comma, empty if contexts aren't held. */
  default String describe() {
    return switch (this) {
      case Never ignored -> "";
      case Balanced(var rules) ->
          ", balance gate %d/%d"
              .formatted(rules.timeoutIterations(), rules.batchingWaitIterations());
      case Batched(var rules) ->
          ", contexts wait for %s of the tokens".formatted(rules.tokenRatio());
    };
  }

  /** Why a worker of this plan can't hold its contexts so; empty if it can. */
  default Optional<String> impossible(SeatPlan plan) {
    boolean attentionDp = plan.shape().attentionDp();
    int positions = plan.batchPositions().count();
    int tokens = plan.shape().maxNumTokens();
    return switch (this) {
      case Never ignored -> Optional.empty();
      case Balanced ignored when !attentionDp ->
          Optional.of(
              "the balance gate compares attention-DP ranks and this worker has none: without"
                  + " them contexts wait for a share of the tokens");
      case Balanced(var rules) when rules.minGenerations() > positions ->
          Optional.of(
              "the balance gate looks for ranks with less than %d generations, the plan has %d"
                      .formatted(rules.minGenerations(), positions)
                  + " batch positions");
      case Balanced ignored -> Optional.empty();
      case Batched ignored when attentionDp ->
          Optional.of(
              "contexts of attention-DP ranks wait for each other (balance gate), not for a share"
                  + " of the tokens");
      case Batched ignored when tokens == 0 ->
          Optional.of(
              "contexts wait for a share of a batch's tokens, and the plan limits them by nothing");
      case Batched ignored -> Optional.empty();
    };
  }
}
