// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

/** How a worker promises KV pages, by TensorRT-LLM's names. */
public enum CapacityPolicy {
  GUARANTEED_NO_EVICT,
  MAX_UTILIZATION,
  STATIC_BATCH
}
