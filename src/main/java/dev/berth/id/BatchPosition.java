// SPDX-License-Identifier: Apache-2.0
package dev.berth.id;

/**
 * Row of the scheduled batch; changes every iteration.
 *
 * @param index 0-based, never negative
 */
public record BatchPosition(int index) implements Comparable<BatchPosition> {
  public BatchPosition {
    if (index < 0) {
      throw new IllegalArgumentException("BatchPosition index must be >= 0, got " + index);
    }
  }

  @Override
  public int compareTo(BatchPosition other) {
    return Integer.compare(index, other.index);
  }
}
