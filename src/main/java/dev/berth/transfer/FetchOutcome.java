// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/** Whether a fetch was begun. */
public sealed interface FetchOutcome {
  /** It was: a completion will come. */
  record Started(TransferId id) implements FetchOutcome {}

  /**
   * As much is on the way from that peer as may be: ask again after a completion. That isn't
   * exhaustion: the pages are there.
   *
   * @param inFlight bytes on the way
   * @param limit most bytes
   */
  record Deferred(long inFlight, long limit) implements FetchOutcome {}
}
