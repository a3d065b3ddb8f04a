// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.internal.NativeTable;
import dev.berth.internal.NativeTable.Rows;
import dev.berth.request.WaitReason;

/**
 * What the capacity stage decided: rows, in scheduling order. A view over the scheduler's memory, overwritten by the next
 * call.
 */
public final class CapacityPlan {
  private final NativeTable table;

  CapacityPlan(NativeTable table) {
    this.table = table;
  }

  /** Requests that fit, those in state 8 not counted. */
  public int fitting() {
    return table.count(Rows.FITTING);
  }

  /** The row of one of them. */
  public int fitting(int place) {
    return table.at(Rows.FITTING, place);
  }

  /** Copies their rows; {@code to} must have room for {@link #fitting()}. Returns how many. */
  public int fitting(int[] to) {
    return table.copy(Rows.FITTING, to);
  }

  /** Requests in state 8 whose transfer may start. */
  public int receiving() {
    return table.count(Rows.RECEIVING);
  }

  /** The row of one of them. */
  public int receiving(int place) {
    return table.at(Rows.RECEIVING, place);
  }

  /** Requests that give up their pages and compute them again later. */
  public int paused() {
    return table.count(Rows.PAUSED);
  }

  /** The row of one of them. */
  public int paused(int place) {
    return table.at(Rows.PAUSED, place);
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
