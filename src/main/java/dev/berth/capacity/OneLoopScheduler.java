// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.internal.NativeRules;
import dev.berth.internal.NativeTable;

/**
 * One loop that allocates while it schedules: generations first, then contexts, caches suspended or dropped where room is
 * needed (spec 02 §9). The caches are counted in the table. One native call; allocates nothing on the heap.
 */
public final class OneLoopScheduler {
  private final SchedulingTable table;
  private final NativeTable memory;
  private final NativeRules rules;
  private final LoopPlan plan;

  private OneLoopScheduler(SchedulingTable table, LoopRules rules) {
    this.table = table;
    this.memory = table.memory();
    this.plan = new LoopPlan(memory);
    this.rules =
        rules.into(
            new NativeRules(CapacityRules.nativeSet(rules.batch().set()), NativeRules.ONE_LOOP));
    memory.check(this.rules);
  }

  /**
   * A scheduler.
   *
   * @throws BerthException CONFIGURATION, naming the rule that can't work
   */
  public static OneLoopScheduler of(SchedulingTable table, LoopRules rules) {
    return new OneLoopScheduler(table, rules);
  }

  /**
   * Schedules an iteration and moves the table's caches and cursors along.
   *
   * @throws BerthException ARGUMENT, naming row and field, if a row isn't fit to be scheduled
   */
  public LoopPlan schedule() {
    table.settleOrder();
    memory.schedule(rules);
    return plan;
  }
}
