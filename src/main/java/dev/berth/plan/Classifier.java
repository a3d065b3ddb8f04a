// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import java.util.OptionalInt;

/** The published predicate of evidence E6. Pure. */
public final class Classifier {
  private Classifier() {}

  /**
   * The class of a worker that runs prompts. Guard wins over con ≤ cap, and that over
   * token-limited.
   *
   * @param shape the worker, with overlap as it runs or as it is assumed
   * @param concurrency requests that clients keep in flight; empty if unknown
   * @param inputTokens prompt length; empty if unknown
   */
  public static ConfigClass classify(
      WorkerShape shape, OptionalInt concurrency, OptionalInt inputTokens) {
    if (!shape.overlap()) {
      return ConfigClass.GUARD;
    }
    if (concurrency.isEmpty()) {
      return ConfigClass.UNKNOWN;
    }
    if (concurrency.getAsInt() <= publishedCap(shape)) {
      return ConfigClass.INERT_CONCURRENCY;
    }
    if (inputTokens.isEmpty()) {
      return ConfigClass.UNKNOWN;
    }
    boolean fullBatch =
        shape.maxNumTokens() == 0
            || shape.maxNumTokens() >= (long) shape.maxBatchSize() * inputTokens.getAsInt();
    return fullBatch ? ConfigClass.MOVABLE : ConfigClass.INERT_TOKEN_LIMITED;
  }

  /**
   * Ranks·B of one worker, the cap of the published predicate. It isn't {@link
   * SeatPlan#fleetCapacity}: pipeline stages and the step's tokens don't enter it.
   */
  public static long publishedCap(WorkerShape shape) {
    return (long) shape.seatingRanks() * shape.maxBatchSize();
  }

  /**
   * Prompts that one step of one rank carries: min(B, ⌊max_num_tokens / prompt⌋); empty if the
   * prompt is unknown.
   */
  public static OptionalInt batchByTokens(WorkerShape shape, OptionalInt inputTokens) {
    if (inputTokens.isEmpty()) {
      return OptionalInt.empty();
    }
    return OptionalInt.of(
        shape.maxNumTokens() == 0
            ? shape.maxBatchSize()
            : Math.min(shape.maxBatchSize(), shape.maxNumTokens() / inputTokens.getAsInt()));
  }

  /** Tokens of one step of one rank with a full batch of generations: B·(1 + draft). */
  public static long stepTokens(WorkerShape shape) {
    return (long) shape.maxBatchSize() * shape.tokensPerGeneration();
  }
}
