// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/** How many leases stand beside the seats (DESIGN.md decision 4). */
public enum SeatPolicy {
  /** As many leases as seats; any inequality is an error. The default. */
  UNIFIED,
  /**
   * Seats carry no disaggregation term, leases do (spec 01 §6.2): less sampler memory. The surplus
   * of leases equals the allowances that the plan declares.
   */
  SPLIT
}
