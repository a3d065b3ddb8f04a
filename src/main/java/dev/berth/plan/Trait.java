// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/** A yes-or-no property of a worker that sizes depend on. */
public enum Trait {
  /** Attention data parallelism: every rank seats its own requests. */
  ATTENTION_DP,
  /** The overlap scheduler really runs: the effective setting, not the requested one. */
  OVERLAP,
  /** Hybrid model with recurrent (SSM) state. */
  HYBRID,
  /** The model keeps an MRoPE delta cache, whose rows are keyed by seat. */
  MROPE_DELTA,
  /**
   * Confidence-scheduled speculation: it keeps a padding pair of target and draft instead of one
   * padding request.
   */
  CONFIDENCE_SCHEDULING
}
