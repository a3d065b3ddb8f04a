// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/** What a worker does with a request. */
public enum WorkerRole {
  /** Prefill and decode. */
  AGGREGATED,
  /** Prefill only: every request ends with its first token. */
  CONTEXT,
  /** Decode only: the KV of every request is received first. */
  GENERATION
}
