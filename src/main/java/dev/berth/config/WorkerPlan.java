// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.plan.HeadroomGate;
import dev.berth.plan.KvBudget;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.WorkerShape;
import java.util.Optional;

/**
 * One worker of a deployment as planned.
 *
 * @param worker as the file has it
 * @param shape what was planned, with assumptions applied
 * @param policy the seat policy that was used
 * @param outcome the plan, or why there is none
 * @param headroom the headroom gate, told even where there is no plan
 * @param publishedCap ranks·B of one server
 * @param stepTokens tokens of one step of one rank with a full batch of generations
 * @param kv what the KV pool holds; empty if model or memory isn't known
 */
public record WorkerPlan(
    WorkerConfig worker,
    WorkerShape shape,
    SeatPolicy policy,
    PlanOutcome outcome,
    HeadroomGate headroom,
    long publishedCap,
    long stepTokens,
    Optional<KvBudget> kv) {
  /** The plan, if there is one. */
  public Optional<SeatPlan> plan() {
    return outcome instanceof PlanOutcome.Planned(var plan) ? Optional.of(plan) : Optional.empty();
  }
}
