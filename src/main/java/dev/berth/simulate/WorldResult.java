// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.Optional;

/**
 * What a world came to.
 *
 * @param violation what didn't hold, if anything
 * @param ending how it ended otherwise
 * @param iterations of the fleet, idle ones not counted
 * @param rankIterations of all ranks, pipeline stages not counted
 * @param struck for each fault, where requests were when it struck, a bit each of {@link Seen}; 0
 *     if it didn't strike
 */
record WorldResult(
    Optional<Violation> violation,
    Ending ending,
    long iterations,
    long rankIterations,
    int[] struck) {
  /** How a world ends that holds every invariant. */
  enum Ending {
    /** Everything that came is over. */
    DONE,
    /** A rank died, and every other one said so in time. */
    STALLED_BY_NAME,
    /** A fill waits for requests that will never come. */
    FILL_OUT_OF_REACH,
    /** It didn't end well. */
    VIOLATED
  }
}
