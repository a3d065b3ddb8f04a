// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

/** Told about a run as it goes. */
@FunctionalInterface
public interface Progress {
  /** Tells nobody. */
  Progress NONE = ended -> {};

  /**
   * So many requests have ended in this run; called after every iteration.
   *
   * @param ended refused ones included
   */
  void ended(long ended);

  /** A further run begins. */
  default void begin(String name, long requests) {}

  /** Asked after every iteration: true ends the run with what is known so far. */
  default boolean interrupted() {
    return false;
  }
}
