// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/** Whether the per-rank cap K binds the router. */
public enum RankCap {
  /** No rank is given a request past K. */
  HARD,
  /**
   * What-if for evidence only: neither the target E nor explicit ranks are limited by K, as before
   * the cap existed.
   */
  OFF
}
