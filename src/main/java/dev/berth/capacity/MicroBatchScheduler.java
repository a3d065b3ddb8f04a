// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.internal.NativeRules;
import dev.berth.internal.NativeTable;

/**
 * Stage 2 of an iteration: which of the requests run in this batch, and how many tokens of each context (spec 02 §6). One
 * native call. Allocates nothing.
 */
public final class MicroBatchScheduler {
  private final SchedulingTable table;
  private final NativeTable memory;
  private final NativeRules ofFitting;
  private final NativeRules ofAll;
  private final MicroBatch batch;

  private MicroBatchScheduler(SchedulingTable table, BatchRules rules) {
    this.table = table;
    this.memory = table.memory();
    this.batch = new MicroBatch(memory);
    int set = CapacityRules.nativeSet(rules.set());
    this.ofFitting = rules.into(new NativeRules(set, NativeRules.BATCH));
    this.ofAll = rules.into(new NativeRules(set, NativeRules.BATCH_ACTIVE));
    memory.check(ofAll);
  }

  /**
   * A scheduler.
   *
   * @throws BerthException CONFIGURATION, naming the rule that can't work
   */
  public static MicroBatchScheduler of(SchedulingTable table, BatchRules rules) {
    return new MicroBatchScheduler(table, rules);
  }

  /**
   * Batches the whole order.
   *
   * @throws BerthException ARGUMENT, naming row and field, if a row isn't fit to be scheduled, or under parity is longer
   *     than a context may be; nothing is scheduled then
   */
  public MicroBatch schedule() {
    table.settleOrder();
    memory.schedule(ofAll);
    return batch;
  }

  /** Batches what the capacity stage of the same table let through. Errors as of {@link #schedule()}. */
  public MicroBatch scheduleFitting() {
    table.settleOrder();
    memory.schedule(ofFitting);
    return batch;
  }
}
