// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import java.util.Arrays;
import java.util.Optional;

/** The two designs of an iteration. */
public enum SchedulerKind {
  /** A capacity stage, by a {@link CapacityRule} or a {@link CapacityPolicy}, and a batch stage. */
  TWO_STAGE,
  /**
   * One loop that allocates while it schedules: generations first, then contexts (spec 02 §9). It
   * knows {@link CapacityRule#MAX_UTILIZATION} only.
   */
  ONE_LOOP;

  /** The design of that name, as configurations spell it. */
  public static Optional<SchedulerKind> byName(String name) {
    return Arrays.stream(values()).filter(value -> value.name().equals(name)).findFirst();
  }
}
