// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/** How retiring requests enter the state that a rank reports. Source: spec 01 §2.1. */
public enum RetiringRule {
  /** They count as active, in requests and in tokens; none are reported as retiring. */
  CHARGED,
  /** They are left out of both and reported as retiring. Goes with seats for two batches. */
  EXCLUDED,
  /** What-if for evidence only: left out of the requests, but their tokens stay in the load. */
  EXCLUDED_TOKENS_CHARGED
}
