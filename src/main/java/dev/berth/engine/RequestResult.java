// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.List;

/**
 * What came of a request.
 *
 * @param id the request's
 * @param tag the caller's number of it
 * @param ending how it ended; with several sequences the worst of theirs: failed, late, cancelled,
 *     finished
 * @param outputTokens tokens that each sequence made, the first sequence first
 */
public record RequestResult(long id, long tag, Ending ending, List<Integer> outputTokens) {
  public RequestResult {
    outputTokens = List.copyOf(outputTokens);
  }

  /** Whether it ran to its end. */
  public boolean finished() {
    return ending instanceof Ending.Finished;
  }
}
