// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/**
 * How full a pool is, in slots.
 *
 * @param capacity handed out at most
 * @param reserved behind them, never handed out
 * @param used held by an id
 * @param quarantined released, their fence not complete
 * @param highWater most that were ever used at once
 */
public record SlotUsage(int capacity, int reserved, int used, int quarantined, int highWater) {
  /** Slots that can be handed out now. */
  public int free() {
    return capacity - used - quarantined;
  }

  /** As a sentence: {@code 12 of 16 used, 1 in quarantine, 2 more reserved}. */
  String describe() {
    return "%d of %d used%s, %s reserved"
        .formatted(
            used,
            capacity,
            quarantined == 0 ? "" : ", " + quarantined + " in quarantine",
            reserved == 0 ? "none" : reserved + " more");
  }
}
