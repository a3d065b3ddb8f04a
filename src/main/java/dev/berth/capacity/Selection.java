// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeTable;
import dev.berth.internal.NativeTable.Rows;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;

/** Takes the decisions of a {@link CapacityPolicy} and checks each. */
public final class Selection {
  private final SchedulingTable table;
  private final NativeTable memory;
  private final CapacityRules rules;
  private final int[] selectedIn;
  private int pass;
  private int admitted;

  Selection(SchedulingTable table, CapacityRules rules) {
    this.table = table;
    this.memory = table.memory();
    this.rules = rules;
    this.selectedIn = new int[table.shape().rows()];
  }

  void begin() {
    pass++;
    admitted = 0;
    memory.clearSelection();
  }

  /** Who wasn't let in waits at a gate: the policy's. */
  void end() {
    for (int place = 0; place < memory.activeSize(); place++) {
      int row = memory.active(place);
      boolean selected = selectedIn[row] == pass;
      memory.waitFor(row, selected ? WaitReason.NONE.ordinal() : WaitReason.GATE.ordinal());
    }
  }

  /** Requests selected so far, paused ones not counted. */
  public int admitted() {
    return admitted;
  }

  /**
   * This row has room.
   *
   * @throws BerthException ARGUMENT if it isn't an encoder request, context or generation of the state range; STATE if it
   *     was selected before or the request cap is reached
   */
  public void fit(int row) {
    int state = memory.state(row);
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
    if (memory.state(row) != RequestState.GENERATION_INIT.value()) {
      throw refused(row, "has no transfer to start");
    }
    admit(row);
    memory.append(Rows.RECEIVING, row);
  }

  /** This row gives up its pages. Errors as of {@link #fit}. */
  public void pause(int row) {
    int state = memory.state(row);
    if (state < RequestState.CONTEXT_INIT.value() || state > RequestState.RETIRING.value()) {
      throw refused(row, "holds nothing to give up");
    }
    once(row);
    memory.append(Rows.PAUSED, row);
  }

  private void admit(int row) {
    if (admitted >= rules.maxRequests()) {
      throw new BerthException(
          Code.STATE, "row %d is one more than the %d requests of an iteration".formatted(row, admitted));
    }
    once(row);
    admitted++;
  }

  private void once(int row) {
    if (!memory.checked(row)) {
      throw refused(row, "wasn't marked dirty after it was written");
    }
    if (selectedIn[row] == pass) {
      throw new BerthException(Code.STATE, "row " + row + " was selected before");
    }
    selectedIn[row] = pass;
  }

  private BerthException refused(int row, String why) {
    return new BerthException(
        Code.ARGUMENT, "row %d in state %s %s".formatted(row, table.state(row), why));
  }
}
