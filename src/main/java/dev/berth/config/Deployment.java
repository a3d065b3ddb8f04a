// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.List;
import java.util.Optional;

/**
 * Workers that serve together: one aggregated kind, or context and generation workers.
 *
 * @param name its name in the file, or the file's own
 * @param workers one of each role at most
 * @param workloads the loads it is meant for; at least one, {@link Workload#UNKNOWN} if the file
 *     names none
 * @param benchmarkFill whether generation starts only once every request is resident (mode
 *     gen_only)
 */
public record Deployment(
    String name, List<WorkerConfig> workers, List<Workload> workloads, boolean benchmarkFill) {
  public Deployment {
    workers = List.copyOf(workers);
    workloads = workloads.isEmpty() ? List.of(Workload.UNKNOWN) : List.copyOf(workloads);
  }

  /** The worker of a role. */
  public Optional<WorkerConfig> worker(Role role) {
    return workers.stream().filter(worker -> worker.role() == role).findFirst();
  }

  /** The worker that runs prompts: the context worker or the aggregated one. */
  public Optional<WorkerConfig> prompts() {
    return worker(Role.CONTEXT).or(() -> worker(Role.AGGREGATED));
  }

  /** The worker that generates: the generation worker or the aggregated one. */
  public Optional<WorkerConfig> generations() {
    return worker(Role.GENERATION).or(() -> worker(Role.AGGREGATED));
  }
}
