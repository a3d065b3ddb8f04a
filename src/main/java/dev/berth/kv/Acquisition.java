// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/**
 * What came of asking for one slot.
 *
 * @param <S> {@link dev.berth.id.Seat} or {@link dev.berth.id.Lease}
 */
public sealed interface Acquisition<S> {
  /**
   * The id holds the slot from now on.
   *
   * @param slot the lowest that was free
   * @param handle what every later call takes; never 0, stale once released
   */
  record Acquired<S>(S slot, long handle) implements Acquisition<S> {}

  /**
   * The id held a slot before; nothing changed.
   *
   * @param slot that slot
   * @param handle its handle
   */
  record Already<S>(S slot, long handle) implements Acquisition<S> {}

  /**
   * There is no free slot; nothing changed.
   *
   * @param usage the pool at that moment
   * @param message one sentence for an operator
   */
  record Exhausted<S>(SlotUsage usage, String message) implements Acquisition<S> {}
}
