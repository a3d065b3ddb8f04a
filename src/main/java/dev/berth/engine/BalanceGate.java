// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * Holds contexts back until all attention-DP ranks have some, so that no rank computes prompts
 * while the others generate: a forward takes as long as its slowest rank. A function of what
 * collective B gathered and of two counters, hence alike on every rank. Under a hold no rank runs a
 * context in this iteration. Without attention DP {@link BatchWait} takes its place. Not
 * thread-safe.
 *
 * <p>An iteration is {@link #begin}, {@link #rank} for every rank, {@link #decide}. Source: spec 01
 * §9.
 */
public final class BalanceGate {
  /** What an iteration's contexts do. */
  public enum Decision {
    /** They run. */
    RUN,
    /** No rank runs one. */
    HOLD
  }

  /**
   * What can be chosen.
   *
   * @param timeoutIterations iterations that an unbalanced fleet is held for, 0 or more
   * @param batchingWaitIterations iterations that a balanced fleet is held for, so that more
   *     contexts come together, 0 or more
   * @param minGenerations below this many generations on a rank (padding not counted) the fleet's
   *     occupancy is low, 0 .. B of the plan
   * @param lowOccupancyTimeoutIterations the timeout at low occupancy, 0 .. {@code
   *     timeoutIterations}
   */
  public record Rules(
      int timeoutIterations,
      int batchingWaitIterations,
      int minGenerations,
      int lowOccupancyTimeoutIterations) {
    public Rules {
      require("timeoutIterations", timeoutIterations, 0, Integer.MAX_VALUE);
      require("batchingWaitIterations", batchingWaitIterations, 0, Integer.MAX_VALUE);
      require("minGenerations", minGenerations, 0, Integer.MAX_VALUE);
      require("lowOccupancyTimeoutIterations", lowOccupancyTimeoutIterations, 0, timeoutIterations);
    }

    /** The published defaults (spec 01 §5): 50 and 10 iterations, no low occupancy. */
    public static final Rules DEFAULT = new Rules(50, 10, 0, 0);

    private static void require(String field, int value, int least, int most) {
      if (value < least || value > most) {
        throw new BerthException(
            Code.CONFIGURATION,
            "balance gate: %s must be %d to %d, got %d".formatted(field, least, most, value));
      }
    }
  }

  private final Rules rules;
  private final int batchPositions;
  private int waited;
  private int batchingWaited;

  private int ranks;
  private boolean allHavePlace;
  private boolean allHaveContexts;
  private boolean allHaveGenerations;
  private int fewestRealGenerations;

  /**
   * A gate that has held nothing yet.
   *
   * @param batchPositions B of a rank, 1 or more
   * @throws BerthException {@code CONFIGURATION} if the rules don't go with it
   */
  public BalanceGate(Rules rules, int batchPositions) {
    Rules.require("batchPositions", batchPositions, 1, Integer.MAX_VALUE);
    Rules.require("minGenerations", rules.minGenerations(), 0, batchPositions);
    this.rules = rules;
    this.batchPositions = batchPositions;
  }

  /** Starts an iteration. */
  public void begin() {
    ranks = 0;
    allHavePlace = true;
    allHaveContexts = true;
    allHaveGenerations = true;
    fewestRealGenerations = Integer.MAX_VALUE;
  }

  /**
   * Takes what a rank has scheduled.
   *
   * @param contexts 0 or more
   * @param generations padding counted, 0 or more
   * @param realGenerations padding not counted, 0 .. {@code generations}
   */
  public void rank(int contexts, int generations, int realGenerations) {
    if (contexts < 0 || realGenerations < 0 || generations < realGenerations) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d contexts, %d generations of which %d are real"
              .formatted(contexts, generations, realGenerations));
    }
    ranks++;
    allHavePlace &= generations < batchPositions;
    allHaveContexts &= contexts > 0;
    allHaveGenerations &= generations > 0;
    fewestRealGenerations = Math.min(fewestRealGenerations, realGenerations);
  }

  /**
   * Decides the iteration.
   *
   * @throws BerthException {@code STATE} if no rank was taken since {@link #begin}
   */
  public Decision decide() {
    if (ranks == 0) {
      throw new BerthException(Code.STATE, "no rank's batch was taken");
    }
    ranks = 0;
    return allHavePlace && allHaveContexts ? balanced() : unbalanced();
  }

  /** Every rank has a context and a place for it: wait a little for more of them. */
  private Decision balanced() {
    waited = 0;
    if (!allHaveGenerations) {
      return Decision.RUN; // holding would leave a rank without work
    }
    if (batchingWaited < rules.batchingWaitIterations()) {
      batchingWaited++;
      return Decision.HOLD;
    }
    batchingWaited = 0;
    return Decision.RUN;
  }

  private Decision unbalanced() {
    waited++;
    int timeout =
        fewestRealGenerations < rules.minGenerations()
            ? rules.lowOccupancyTimeoutIterations()
            : rules.timeoutIterations();
    if (waited >= timeout || !allHaveGenerations) {
      waited = 0;
      return Decision.RUN;
    }
    return Decision.HOLD;
  }

  /** Iterations that the fleet has been held for because it is unbalanced. */
  public int waitedIterations() {
    return waited;
  }

  /** Iterations that the balanced fleet has been held for, so that more contexts come together. */
  public int batchingWaitedIterations() {
    return batchingWaited;
  }
}
