// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import java.util.Arrays;
import java.util.Optional;

/** The built-in capacity policies (spec 02 §3). The order is {@code berth_capacity_policy}'s. */
public enum CapacityRule {
  /** A number of requests, whatever they hold. What a table without pools gets. */
  MAX_REQUESTS,
  /** Who is let in has its pages up to its last token: nobody is ever paused. */
  GUARANTEED_NO_EVICT,
  /** Who has pages for its next step runs; the last in the list is paused when pages run out. */
  MAX_UTILIZATION,
  /** A batch is filled when nothing runs, and then runs to its end. */
  STATIC_BATCH;

  /** The policy of that name, as configurations spell it. */
  public static Optional<CapacityRule> byName(String name) {
    return Arrays.stream(values()).filter(value -> value.name().equals(name)).findFirst();
  }
}
