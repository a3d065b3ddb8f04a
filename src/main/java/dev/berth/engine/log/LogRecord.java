// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.engine.GroupTap.Change;
import dev.berth.engine.Outcome;
import dev.berth.engine.WarmUp;
import dev.berth.request.Request;

/** One record of a log. */
sealed interface LogRecord {
  /** What came in between two steps, or during one. */
  sealed interface Input extends LogRecord {}

  record Offer(Request request, Outcome outcome) implements Input {}

  record Withdraw(long id, boolean waited) implements Input {}

  record Changed(int frame, Change change, int row, long id) implements Input {}

  record WarmedUp(WarmUp phase) implements Input {}

  record Stop(int frame, int position) implements Input {}

  /** What follows came during the n-th call of the device in this step. */
  record Call(int number) implements LogRecord {}

  /** A step; what it decided stands in the {@link GroupState} now. */
  record Step() implements LogRecord {}

  /** A step that threw. */
  record Failed(String code, String message) implements LogRecord {}

  /** The log was closed. */
  record End(long steps) implements LogRecord {}
}
