// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.LockstepGroup;

/** Looks at a fleet around every iteration. */
public interface RunObserver {
  /** Looks at nothing. */
  RunObserver NONE = new RunObserver() {};

  /** Before the gather: states are those of the last settle. */
  default void beforeStep(LockstepGroup group) {}

  /** After the settle. */
  default void afterStep(LockstepGroup group, double startedAtMicros) {}
}
