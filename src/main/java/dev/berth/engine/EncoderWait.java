// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * How long encoder work waits for more of it, so that more runs as one batch (spec 01 §9).
 *
 * @param rules how long, and for which share of the tokens
 * @param maxTokens encoder input of a batch in tokens, 1 or more
 */
public record EncoderWait(BatchWait.Rules rules, int maxTokens) {
  /** It begins at once. */
  public static final EncoderWait NONE = new EncoderWait(BatchWait.Rules.NONE, 1);

  public EncoderWait {
    if (maxTokens < 1) {
      throw new BerthException(
          Code.CONFIGURATION, "encoder wait: the token budget must be >= 1, got " + maxTokens);
    }
  }
}
