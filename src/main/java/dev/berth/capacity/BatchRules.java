// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.internal.NativeRules;
import dev.berth.plan.PolicySet;

/**
 * What the batch stage goes by (spec 02 §6). Immutable.
 *
 * @param set parity or our own
 * @param maxBatchSize places of a batch, 1 or more
 * @param maxTokens tokens of a batch, or {@link #NO_LIMIT}
 * @param maxContextTokens tokens of one context, or {@link #NO_LIMIT}
 * @param chunking how contexts share the tokens
 * @param chunkUnit tokens; every chunk but the last of a prompt is a multiple
 * @param rangeBegin first schedulable state: 10, or 1 where encoders run
 * @param rangeEnd state behind the last schedulable one: 14
 */
public record BatchRules(
    PolicySet set,
    int maxBatchSize,
    int maxTokens,
    int maxContextTokens,
    Chunking chunking,
    int chunkUnit,
    int rangeBegin,
    int rangeEnd) {
  /** As many tokens as there are. */
  public static final int NO_LIMIT = 0;

  /** The rules of {@link PolicySet#BERTH_1}, contexts in one piece, no longer than a batch. */
  public static BatchRules of(int maxBatchSize, int maxTokens) {
    return new BatchRules(
        PolicySet.BERTH_1,
        maxBatchSize,
        maxTokens,
        maxTokens,
        Chunking.NONE,
        1,
        CapacityRules.CONTEXT_INIT,
        CapacityRules.RETIRING);
  }

  /** The rules of {@link PolicySet#TRTLLM_2026_09}. */
  public static BatchRules parity(int maxBatchSize, int maxTokens) {
    return of(maxBatchSize, maxTokens).withSet(PolicySet.TRTLLM_2026_09);
  }

  public BatchRules withSet(PolicySet value) {
    return new BatchRules(
        value,
        maxBatchSize,
        maxTokens,
        maxContextTokens,
        chunking,
        chunkUnit,
        rangeBegin,
        rangeEnd);
  }

  public BatchRules withMaxContextTokens(int value) {
    return new BatchRules(
        set, maxBatchSize, maxTokens, value, chunking, chunkUnit, rangeBegin, rangeEnd);
  }

  public BatchRules withChunking(Chunking value, int unit) {
    return new BatchRules(
        set, maxBatchSize, maxTokens, maxContextTokens, value, unit, rangeBegin, rangeEnd);
  }

  public BatchRules withRange(int begin, int end) {
    return new BatchRules(
        set, maxBatchSize, maxTokens, maxContextTokens, chunking, chunkUnit, begin, end);
  }

  NativeRules into(NativeRules rules) {
    return rules.batch(
        rangeBegin,
        rangeEnd,
        maxBatchSize,
        maxTokens,
        maxContextTokens,
        chunking.ordinal(),
        chunkUnit);
  }
}
