// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * Holds contexts, or encoder work, back until enough tokens have come together or enough iterations
 * have passed. Used where there is no attention DP ({@link BalanceGate} is the rule there, never
 * both) and for encoders. A function of its arguments and of one counter. Not thread-safe.
 *
 * <p>Source: spec 01 §9 (token ratio and iterations); the order of the tests is that of the
 * published options: a wait is over as soon as either bound is reached.
 */
public final class BatchWait {
  /**
   * What can be chosen.
   *
   * @param timeoutIterations most iterations to wait, 0 or more; 0 never waits
   * @param tokenRatio share of the token budget at which a batch is worth running, 0 .. 1; 0 never
   *     waits
   */
  public record Rules(int timeoutIterations, double tokenRatio) {
    /** Nothing waits. */
    public static final Rules NONE = new Rules(0, 0);

    public Rules {
      if (timeoutIterations < 0) {
        throw wrong("iterations must be >= 0, got " + timeoutIterations);
      }
      if (!(tokenRatio >= 0 && tokenRatio <= 1)) {
        throw wrong("the token ratio must be 0 to 1, got " + tokenRatio);
      }
    }

    private static BerthException wrong(String what) {
      return new BerthException(Code.CONFIGURATION, "batch wait: " + what);
    }

    /** True if anything can ever be held. */
    public boolean active() {
      return timeoutIterations > 0 && tokenRatio > 0;
    }
  }

  private final Rules rules;
  private final int maxTokens;
  private int waited;

  /**
   * A wait that has held nothing yet.
   *
   * @param maxTokens the token budget of a batch, 1 or more
   * @throws BerthException {@code CONFIGURATION} for a budget below 1
   */
  public BatchWait(Rules rules, int maxTokens) {
    if (maxTokens < 1) {
      throw Rules.wrong("the token budget must be >= 1, got " + maxTokens);
    }
    this.rules = rules;
    this.maxTokens = maxTokens;
  }

  /**
   * Decides about the contexts of an iteration. Without generations there is nothing else to run,
   * so contexts run.
   *
   * @param contexts scheduled contexts
   * @param generations scheduled generations
   * @param tokens of both in this iteration, drafts included
   */
  public BalanceGate.Decision contexts(long contexts, long generations, long tokens) {
    requireCounts(contexts, generations, tokens);
    return contexts == 0 || generations == 0 ? BalanceGate.Decision.RUN : decide(tokens);
  }

  /**
   * Decides about pending encoder work. It is held by itself: whatever else is scheduled runs.
   *
   * @param items pending encoder inputs
   * @param tokens their tokens
   */
  public BalanceGate.Decision encoder(int items, long tokens) {
    requireCounts(items, 0, tokens);
    return items == 0 ? BalanceGate.Decision.RUN : decide(tokens);
  }

  private BalanceGate.Decision decide(long tokens) {
    if (waited < rules.timeoutIterations() && tokens < rules.tokenRatio() * maxTokens) {
      waited++;
      return BalanceGate.Decision.HOLD;
    }
    waited = 0;
    return BalanceGate.Decision.RUN;
  }

  private static void requireCounts(long a, long b, long c) {
    if (a < 0 || b < 0 || c < 0) {
      throw new BerthException(
          Code.ARGUMENT, "counts must be >= 0, got %d, %d, %d".formatted(a, b, c));
    }
  }

  /** Iterations that the present batch has been held for. */
  public int waitedIterations() {
    return waited;
  }
}
