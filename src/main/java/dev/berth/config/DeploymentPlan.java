// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.List;
import java.util.Optional;

/**
 * A deployment as planned.
 *
 * @param deployment as the file has it
 * @param workers in the deployment's order
 * @param loads at least one
 * @param findings worst first
 */
public record DeploymentPlan(
    Deployment deployment, List<WorkerPlan> workers, List<LoadPlan> loads, List<Finding> findings) {
  public DeploymentPlan {
    workers = List.copyOf(workers);
    loads = List.copyOf(loads);
    findings = List.copyOf(findings);
  }

  /** The worker of a role. */
  public Optional<WorkerPlan> worker(Role role) {
    return workers.stream().filter(plan -> plan.worker().role() == role).findFirst();
  }

  /** The worker that runs prompts. */
  public Optional<WorkerPlan> prompts() {
    return worker(Role.CONTEXT).or(() -> worker(Role.AGGREGATED));
  }

  /** The worker that generates. */
  public Optional<WorkerPlan> generations() {
    return worker(Role.GENERATION).or(() -> worker(Role.AGGREGATED));
  }
}
