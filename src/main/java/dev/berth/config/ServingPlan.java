// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.config.Finding.Severity;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/**
 * A whole configuration as planned.
 *
 * @param config as the file has it
 * @param deployments in the file's order
 * @param findings about the file as a whole, worst first
 */
public record ServingPlan(
    ServingConfig config, List<DeploymentPlan> deployments, List<Finding> findings) {
  public ServingPlan {
    deployments = List.copyOf(deployments);
    findings = List.copyOf(findings);
  }

  /** Plans every deployment of a configuration. */
  public static ServingPlan of(ServingConfig config, PlanOptions options) {
    var planner = new Planner(options);
    return new ServingPlan(
        config, config.deployments().stream().map(planner::plan).toList(), unknownKeys(config));
  }

  private static List<Finding> unknownKeys(ServingConfig config) {
    return config.unknown().stream()
        .map(key ->
            Finding.warning(
                "unknown-key",
                "",
                "line "
                    + key.line()
                    + ": "
                    + config.engine().title()
                    + " key "
                    + key.path()
                    + " is not known"
                    + key.closest().map(near -> "; did you mean '" + near + "'?").orElse("")))
        .toList();
  }

  /** All findings, of the deployments and of the file, worst first. */
  public List<Finding> allFindings() {
    var all = new ArrayList<Finding>();
    deployments.forEach(plan -> all.addAll(plan.findings()));
    all.addAll(findings);
    all.sort(Comparator.comparing(Finding::severity));
    return List.copyOf(all);
  }

  /** The worst severity; empty if there is nothing to say. */
  public Optional<Severity> worst() {
    return allFindings().stream().map(Finding::severity).findFirst();
  }
}
