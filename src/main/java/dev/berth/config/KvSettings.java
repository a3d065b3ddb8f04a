// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.math.BigDecimal;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * KV cache settings of a worker.
 *
 * @param fraction share of memory for the KV pool, 0 to 1, digit for digit; empty if the file names
 *     none
 * @param fractionOf what the share is of
 * @param dtype the engine's name of the value type, {@code auto} if the file names none
 * @param tokenLimit most tokens of the pool whatever the memory; empty if unlimited
 * @param reservedPages pages that the engine keeps for itself and never hands out (vLLM: the null
 *     block)
 * @param reuse whether finished blocks are kept for later requests
 * @param hostCacheBytes host tier in bytes, 0 or more
 */
public record KvSettings(
    Optional<BigDecimal> fraction,
    FractionOf fractionOf,
    String dtype,
    OptionalLong tokenLimit,
    int reservedPages,
    boolean reuse,
    long hostCacheBytes) {
  /** What a memory share is of. */
  public enum FractionOf {
    /** Memory that is free once the weights are loaded. */
    FREE_MEMORY,
    /** All memory of the device, weights and activations included. */
    ALL_MEMORY
  }
}
