// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeTable;
import dev.berth.internal.NativeTable.Rows;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;

/**
 * Takes the decisions of a {@link CapacityPolicy} and checks each. Of use while the policy decides.
 */
public final class Selection {
  private final NativeTable memory;
  private final CapacityRules rules;
  private final Rows receiving;
  private final int[]
      seenIn; // pass in which the row was found in the order; selected: its negative
  private int pass;
  private int admitted;
  private boolean open;

  /**
   * @param receiving where requests in state 8 go: to their own list, or among those that fit, in
   *     the order of all
   */
  Selection(NativeTable memory, CapacityRules rules, Rows receiving) {
    this.memory = memory;
    this.rules = rules;
    this.receiving = receiving;
    this.seenIn = new int[memory.rows()];
  }

  void begin() {
    pass++;
    admitted = 0;
    memory.clearSelection();
    for (int place = 0; place < memory.activeSize(); place++) {
      int row = memory.active(place);
      seenIn[row] = pass;
      memory.waitFor(row, WaitReason.GATE.ordinal());
    }
    open = true;
  }

  /** Who wasn't let in waits: at a gate, the policy's, unless the policy said for what. */
  void end() {
    for (int place = 0; place < memory.activeSize(); place++) {
      int row = memory.active(place);
      if (seenIn[row] == -pass) {
        memory.waitFor(row, WaitReason.NONE.ordinal());
      }
    }
  }

  void close() {
    open = false;
  }

  /** As if nobody had been selected. */
  void forget() {
    memory.clearSelection();
  }

  /** Requests selected so far, paused ones not counted. */
  public int admitted() {
    return admitted;
  }

  /**
   * This row has room.
   *
   * @throws BerthException ARGUMENT if it isn't in the order, or not an encoder request, context or
   *     generation of the state range; STATE if it was selected before or the request cap is
   *     reached
   */
  public void fit(int row) {
    int state = state(row);
    boolean kind =
        state == RequestState.ENCODER_INIT.value()
            || (state >= RequestState.CONTEXT_INIT.value()
                && state <= RequestState.RETIRING.value());
    if (!kind || state < rules.rangeBegin() || state >= rules.rangeEnd()) {
      throw refused(row, "can't be scheduled");
    }
    admit(row);
    memory.append(Rows.FITTING, row);
  }

  /** This row in state 8 may start its transfer. Errors as of {@link #fit}. */
  public void receive(int row) {
    if (state(row) != RequestState.GENERATION_INIT.value()) {
      throw refused(row, "has no transfer to start");
    }
    admit(row);
    memory.append(receiving, row);
  }

  /**
   * This row gives up its pages. Errors as of {@link #fit}; ARGUMENT too if {@link
   * SchedulingTable#mayPause} says that it can't.
   */
  public void pause(int row) {
    int state = state(row);
    if (state < RequestState.CONTEXT_INIT.value()
        || state > RequestState.RETIRING.value()
        || !memory.mayPause(row)) {
      throw refused(row, "holds nothing to give up");
    }
    once(row);
    memory.append(Rows.PAUSED, row);
  }

  /**
   * This row isn't let in, and this is what it waits for, of the first pool if it is pages. A row
   * that is let in nevertheless runs or waits for what the batch lacks.
   *
   * @throws BerthException ARGUMENT if the row isn't in the order or nothing is waited for
   */
  public void defer(int row, WaitReason reason) {
    state(row);
    if (reason == WaitReason.NONE) {
      throw new BerthException(Code.ARGUMENT, "row " + row + " is to wait for nothing");
    }
    memory.waitFor(row, reason.ordinal());
  }

  /**
   * The same for pages of a pool.
   *
   * @throws BerthException ARGUMENT if there is no such row in the order or no such pool
   */
  public void deferForPages(int row, int pool) {
    state(row);
    if (pool < 0 || pool >= memory.pools()) {
      throw new BerthException(
          Code.ARGUMENT, "pool %d of %d, of row %d".formatted(pool, memory.pools(), row));
    }
    memory.waitFor(row, WaitReason.PAGES.ordinal() | pool << 8);
  }

  private int state(int row) {
    if (!open) {
      throw new BerthException(Code.STATE, "a selection is made while the policy is asked for it");
    }
    if (row < 0 || row >= seenIn.length || Math.abs(seenIn[row]) != pass) {
      throw new BerthException(Code.ARGUMENT, "row " + row + " isn't in the table's order");
    }
    return memory.state(row);
  }

  private void admit(int row) {
    if (admitted >= rules.maxRequests()) {
      throw new BerthException(
          Code.STATE,
          "row %d is one more than the %d requests of an iteration".formatted(row, admitted));
    }
    once(row);
    admitted++;
  }

  private void once(int row) {
    if (!memory.checked(row)) {
      throw refused(row, "wasn't marked dirty after it was written");
    }
    if (seenIn[row] == -pass) {
      throw new BerthException(Code.STATE, "row " + row + " was selected before");
    }
    seenIn[row] = -pass;
  }

  private BerthException refused(int row, String why) {
    return new BerthException(
        Code.ARGUMENT,
        "row %d in state %s %s".formatted(row, RequestState.of(memory.state(row)), why));
  }
}
