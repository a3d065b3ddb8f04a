// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/**
 * Where state 14 is set under pipeline parallelism. Without a pipeline all three but NEVER are the
 * same.
 */
public enum RetiringMark {
  /** Nowhere: overlap is off. */
  NEVER,
  /**
   * On the last stage only, as upstream does: retiring counts then differ between stages (spec 01
   * §1, §11.4).
   */
  LAST_STAGE,
  /** On every stage alike. */
  EVERY_STAGE
}
