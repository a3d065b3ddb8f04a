// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.engine.BatchWait;

/**
 * How long contexts wait for each other where there is no attention DP (spec 01 §9).
 *
 * @param iterations most iterations, 0 or more
 * @param tokenRatio share of the token budget at which a batch is worth running, 0 to 1
 */
public record ContextWait(int iterations, double tokenRatio) {
  /** They don't. */
  public static final ContextWait NONE = new ContextWait(0, 0);

  /** The engine's rules. */
  public BatchWait.Rules rules() {
    return new BatchWait.Rules(iterations, tokenRatio);
  }

  /** Is anything ever held? */
  public boolean active() {
    return rules().active();
  }
}
