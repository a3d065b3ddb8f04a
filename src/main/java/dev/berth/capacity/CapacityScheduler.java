// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.internal.NativeRules;
import dev.berth.internal.NativeTable;
import org.jspecify.annotations.Nullable;

/**
 * Stage 1 of an iteration: which requests of the order have pages, adapter pages and a place, and
 * who is paused for them (spec 02 §3). One native call, or a policy of the user's own. Allocates
 * nothing.
 */
public final class CapacityScheduler {
  private final SchedulingTable table;
  private final NativeTable memory;
  private final NativeRules rules;
  private final CapacityPlan plan;
  private final @Nullable CapacityPolicy own;
  private final Selection selection;

  private CapacityScheduler(
      SchedulingTable table, CapacityRules rules, @Nullable CapacityPolicy own) {
    this.table = table;
    this.memory = table.memory();
    this.plan = new CapacityPlan(memory);
    this.rules =
        rules.into(new NativeRules(CapacityRules.nativeSet(rules.set()), NativeRules.CAPACITY));
    this.own = own;
    this.selection = new Selection(memory, rules, NativeTable.Rows.RECEIVING);
    memory.check(this.rules);
  }

  /**
   * A scheduler with a built-in policy.
   *
   * @throws BerthException CONFIGURATION, naming the rule that can't work
   */
  public static CapacityScheduler of(SchedulingTable table, CapacityRules rules) {
    return new CapacityScheduler(table, rules, null);
  }

  /**
   * A scheduler with a policy of one's own; of the rules, the request cap and the state range hold.
   */
  public static CapacityScheduler of(
      SchedulingTable table, CapacityRules rules, CapacityPolicy own) {
    return new CapacityScheduler(table, rules, own);
  }

  /**
   * Schedules.
   *
   * @throws BerthException ARGUMENT, naming row and field, if a row isn't fit to be scheduled;
   *     nothing is scheduled then
   */
  public CapacityPlan schedule() {
    table.settleOrder();
    if (own == null) {
      memory.schedule(rules);
    } else {
      select(table, own, selection);
    }
    return plan;
  }

  /** Runs a policy of the user's; what it selected before it failed is forgotten. */
  static void select(SchedulingTable table, CapacityPolicy own, Selection selection) {
    selection.begin();
    boolean whole = false;
    try {
      own.select(table, selection);
      selection.end();
      whole = true;
    } finally {
      selection.close();
      if (!whole) {
        selection.forget();
      }
    }
  }
}
