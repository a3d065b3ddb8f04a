// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/** Which of the three loops a worker runs (spec 01 §10). */
public enum Loop {
  /** A batch is settled in the iteration that launches it. */
  NON_OVERLAP,
  /** A batch is settled while the next one runs. */
  OVERLAP,
  /** As many micro-batches in flight as there are pipeline stages. */
  PIPELINE
}
