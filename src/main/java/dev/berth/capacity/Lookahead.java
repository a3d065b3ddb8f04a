// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

/** Steps for which {@link CapacityRule#MAX_UTILIZATION} provides pages (spec 02 §4.2). */
public enum Lookahead {
  ONE_STEP,
  /** For pipelines, where the next step is launched before the pages of this one are settled. */
  TWO_STEPS
}
