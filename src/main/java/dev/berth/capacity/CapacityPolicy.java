// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

/**
 * A capacity policy of one's own, in place of a {@link CapacityRule}. It must be a pure function of the table, or ranks
 * that should decide alike won't.
 */
@FunctionalInterface
public interface CapacityPolicy {
  /**
   * Says which rows of the table's order fit, may receive and are to be paused. What it selects is checked: a row that
   * can't be selected is an exception, and the iteration schedules nothing. Who isn't selected waits with the reason
   * {@link dev.berth.request.WaitReason#GATE}.
   *
   * @param table to read; it must not be written
   * @param selection takes the decisions, in scheduling order
   */
  void select(SchedulingTable table, Selection selection);
}
