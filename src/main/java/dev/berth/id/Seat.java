// SPDX-License-Identifier: Apache-2.0
package dev.berth.id;

/**
 * Sequence slot: index of everything keyed by a live, schedulable sequence (sampler state, draft
 * probabilities, guided decoding).
 *
 * @param index 0-based, never negative
 */
public record Seat(int index) implements Comparable<Seat> {
  public Seat {
    if (index < 0) {
      throw new IllegalArgumentException("Seat index must be >= 0, got " + index);
    }
  }

  @Override
  public int compareTo(Seat other) {
    return Integer.compare(index, other.index);
  }
}
