// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.engine.FillWarmUp;
import dev.berth.engine.GroupTap.Change;
import dev.berth.engine.GroupTap.Fault;
import dev.berth.engine.GroupTap.Hold;
import dev.berth.engine.GroupTap.Placement;
import dev.berth.engine.Outcome;
import dev.berth.request.Request;

/** One record of a log. */
sealed interface LogRecord {
  /** What came in between two steps, or during one. */
  sealed interface Input extends LogRecord {}

  record Offer(Request request, Outcome outcome) implements Input {}

  record Withdraw(long id, boolean waited) implements Input {}

  record Changed(int frame, Change change, int row, long id) implements Input {}

  record WarmedUp(FillWarmUp phase) implements Input {}

  record Stop(int frame, int position) implements Input {}

  /** The request at a batch position failed. */
  record Lost(int frame, int position) implements Input {}

  /** A rank's batch broke. */
  record Faulted(int rank, Fault kind) implements Input {}

  record Held(int frame, Hold change, int row, long id) implements Input {}

  /** Sequences without a row were taken back. */
  record TakenBack(int rank, long id) implements Input {}

  record Limited(int admissionCap) implements Input {}

  record Placed(int rank, Placement change) implements Input {}

  /** What follows came during the n-th call of the device in this step. */
  record Call(int number) implements LogRecord {}

  /** A step; what it decided stands in the {@link GroupState} now. */
  record Step() implements LogRecord {}

  /** A step that threw. */
  record Failed(String code, String message) implements LogRecord {}

  /** The log was closed. */
  record End(long steps) implements LogRecord {}
}
