// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.internal.NativeRules;

/**
 * What the one loop goes by beside the batch's own rules (spec 02 §9). Immutable.
 *
 * @param batch places, tokens, chunking, states
 * @param prefixSharing whether requests wait for a prefix
 * @param reuse whether and when blocks are found again
 * @param adapterPages device pages for adapters, or {@link CapacityRules#NO_ADAPTERS}
 * @param recompute whether a cache may be dropped and computed again
 * @param tier where suspended caches go
 * @param tokensPerBlock page size in tokens
 * @param gpuPages pages on the device
 * @param leases caches at a time: each holds a lease
 */
public record LoopRules(
    BatchRules batch,
    PrefixSharing prefixSharing,
    Reuse reuse,
    int adapterPages,
    Recompute recompute,
    Tier tier,
    int tokensPerBlock,
    int gpuPages,
    int leases) {
  /** When later requests find a block. */
  public enum Reuse {
    OFF,
    /** When the request that made it is over: waiting for it doesn't pay. */
    LATE,
    /** As soon as it is computed. */
    AT_ONCE
  }

  /** What may be done when suspending isn't enough. */
  public enum Recompute {
    OFF,
    /** A cache may be dropped; its request starts again. */
    ON
  }

  /** Where the pages of suspended caches are. */
  public enum Tier {
    /** On the device: suspending frees nothing. */
    NONE,
    /** Below the device. */
    BELOW
  }

  NativeRules into(NativeRules rules) {
    rules.capacity(
        CapacityRule.MAX_UTILIZATION.ordinal(),
        batch.maxBatchSize(),
        1,
        batch.rangeBegin(),
        batch.rangeEnd(),
        prefixSharing.ordinal(),
        reuse == Reuse.OFF ? 0 : 1,
        0,
        adapterPages);
    batch.into(rules);
    return rules.caches(
        tokensPerBlock,
        gpuPages,
        leases,
        tier.ordinal(),
        recompute.ordinal(),
        reuse == Reuse.LATE ? 1 : 0);
  }
}
