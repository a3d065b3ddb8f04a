// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.plan.ConfigClass;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * What a load meets in a deployment.
 *
 * @param load the load, with what the user gave in place of what the file says
 * @param configClass whether the worker that runs prompts can respond; {@link ConfigClass#UNKNOWN}
 *     without one
 * @param classIfOverlapped the same with overlap on
 * @param batchByTokens prompts that one of its steps carries; empty if the prompt length isn't
 *     known
 * @param capacity servers·ranks·B of the worker that generates; empty without one
 * @param overflow clients beyond that capacity; empty if either isn't known
 */
public record LoadPlan(
    Workload load,
    ConfigClass configClass,
    ConfigClass classIfOverlapped,
    OptionalInt batchByTokens,
    OptionalLong capacity,
    OptionalLong overflow) {
  /**
   * Requests of a benchmark fill: as many as fit and as clients send (spec 06 BC-40); empty if
   * either isn't known.
   */
  public OptionalLong fillTarget() {
    return capacity.isPresent() && load.concurrency().isPresent()
        ? OptionalLong.of(Math.min(capacity.getAsLong(), load.concurrency().getAsInt()))
        : OptionalLong.empty();
  }
}
