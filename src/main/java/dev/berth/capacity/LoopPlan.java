// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.internal.NativeTable;
import dev.berth.internal.NativeTable.Rows;
import dev.berth.request.WaitReason;

/** What the one loop decided and did. A view over the scheduler's memory, overwritten by the next call. */
public final class LoopPlan {
  private final NativeTable table;
  private final MicroBatch batch;

  LoopPlan(NativeTable table) {
    this.table = table;
    this.batch = new MicroBatch(table);
  }

  /** What runs. */
  public MicroBatch batch() {
    return batch;
  }

  /** Requests in state 8 whose transfer may start; their caches are there. */
  public int receiving() {
    return table.count(Rows.RECEIVING);
  }

  /** The row of one of them. */
  public int receiving(int place) {
    return table.at(Rows.RECEIVING, place);
  }

  /** Requests whose caches were suspended: they go on where they are. */
  public int suspended() {
    return table.count(Rows.PAUSED);
  }

  /** The row of one of them. */
  public int suspended(int place) {
    return table.at(Rows.PAUSED, place);
  }

  /** Requests whose caches were dropped: they start again. */
  public int recomputed() {
    return table.count(Rows.RECOMPUTED);
  }

  /** The row of one of them. */
  public int recomputed(int place) {
    return table.at(Rows.RECOMPUTED, place);
  }

  /** Nothing moved although something could have; many in a row are a deadlock (spec 02 §9.8). */
  public boolean stalled() {
    return table.stalled();
  }

  /** Requests that wait, for a reason. */
  public int deferred(WaitReason reason) {
    return table.deferred(reason.ordinal());
  }

  /** Those that lack pages of a pool. */
  public int shortOf(int pool) {
    return table.shortOf(pool);
  }
}
