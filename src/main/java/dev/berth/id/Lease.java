// SPDX-License-Identifier: Apache-2.0
package dev.berth.id;

/**
 * Index slot: row of the page tables, held from KV creation to KV close.
 *
 * @param index 0-based, never negative
 */
public record Lease(int index) implements Comparable<Lease> {
  public Lease {
    if (index < 0) {
      throw new IllegalArgumentException("Lease index must be >= 0, got " + index);
    }
  }

  @Override
  public int compareTo(Lease other) {
    return Integer.compare(index, other.index);
  }
}
