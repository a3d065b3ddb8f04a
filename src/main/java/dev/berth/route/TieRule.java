// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/** Which of equally loaded ranks is chosen. */
public enum TieRule {
  /** The lowest: the published rule. */
  LOWEST_RANK,
  /** The first one after the rank that was chosen last, round and round: for gateways. */
  ROTATING
}
