// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EndKind;
import dev.berth.engine.LockstepGroup;
import dev.berth.request.Request;

/** Looks at a fleet around every iteration. */
public interface RunObserver {
  /** Looks at nothing. */
  RunObserver NONE = new RunObserver() {};

  /** Before anything is offered to the fleet. */
  default void begin(LockstepGroup group) {}

  /** Before the gather: states are those of the last settle. */
  default void beforeStep(LockstepGroup group) {}

  /** After the settle. */
  default void afterStep(LockstepGroup group, double startedAtMicros) {}

  /**
   * A request ended, at a virtual time in µs that is never before that of the one reported last.
   */
  default void ended(int tag, EndKind kind, double atMicros) {}

  /** A request was refused as soon as the fleet looked at it. */
  default void refused(Request request, double atMicros) {}
}
