// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.internal.NativeRules;
import dev.berth.internal.NativeTable;
import org.jspecify.annotations.Nullable;

/** Both stages of an iteration in one native call (spec 02 §2). Allocates nothing. */
public final class TwoStageScheduler {
  private final SchedulingTable table;
  private final NativeTable memory;
  private final NativeRules rules;
  private final CapacityPlan capacity;
  private final MicroBatch batch;
  private final @Nullable CapacityPolicy own;
  private final Selection selection;

  private TwoStageScheduler(
      SchedulingTable table,
      CapacityRules capacity,
      BatchRules batch,
      @Nullable CapacityPolicy own) {
    if (capacity.set() != batch.set() || capacity.rangeBegin() != batch.rangeBegin()) {
      throw new BerthException(
          BerthException.Code.CONFIGURATION,
          "the stages disagree: policy set %s and %s, range from state %d and %d"
              .formatted(capacity.set(), batch.set(), capacity.rangeBegin(), batch.rangeBegin()));
    }
    this.table = table;
    this.memory = table.memory();
    this.capacity = new CapacityPlan(memory);
    this.batch = new MicroBatch(memory);
    int stages = own == null ? NativeRules.CAPACITY | NativeRules.BATCH : NativeRules.BATCH;
    NativeRules compiled = new NativeRules(CapacityRules.nativeSet(capacity.set()), stages);
    this.rules = batch.into(capacity.into(compiled));
    this.own = own;
    this.selection = new Selection(memory, capacity, NativeTable.Rows.RECEIVING);
    memory.check(rules);
  }

  /**
   * A scheduler with a built-in policy.
   *
   * @throws BerthException CONFIGURATION, naming the rule that can't work
   */
  public static TwoStageScheduler of(
      SchedulingTable table, CapacityRules capacity, BatchRules batch) {
    return new TwoStageScheduler(table, capacity, batch, null);
  }

  /** A scheduler whose first stage is a policy of one's own. */
  public static TwoStageScheduler of(
      SchedulingTable table, CapacityRules capacity, BatchRules batch, CapacityPolicy own) {
    return new TwoStageScheduler(table, capacity, batch, own);
  }

  /**
   * Schedules an iteration; {@link #capacity()} says who was let in and who gives way.
   *
   * @throws BerthException ARGUMENT, naming row and field, if a row isn't fit to be scheduled;
   *     nothing is scheduled then
   */
  public MicroBatch schedule() {
    table.settleOrder();
    if (own != null) {
      CapacityScheduler.select(table, own, selection);
    }
    memory.schedule(rules);
    return batch;
  }

  /** What the first stage decided in the last call. */
  public CapacityPlan capacity() {
    return capacity;
  }
}
