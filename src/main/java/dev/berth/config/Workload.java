// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.OptionalInt;

/**
 * A load that a file says its deployment is meant for.
 *
 * @param inputTokens prompt length in tokens; empty if lengths vary or are not given
 * @param outputTokens output length in tokens; empty likewise
 * @param concurrency requests that clients keep in flight; empty if not given
 */
public record Workload(OptionalInt inputTokens, OptionalInt outputTokens, OptionalInt concurrency) {
  /** Nothing is known. */
  public static final Workload UNKNOWN =
      new Workload(OptionalInt.empty(), OptionalInt.empty(), OptionalInt.empty());

  /** Prompt and output together, if both are known. */
  public OptionalInt sequenceTokens() {
    return inputTokens.isPresent() && outputTokens.isPresent()
        ? OptionalInt.of(inputTokens.getAsInt() + outputTokens.getAsInt())
        : OptionalInt.empty();
  }
}
