// SPDX-License-Identifier: Apache-2.0
package dev.berth.id;

/**
 * Attention-data-parallel rank.
 *
 * @param index 0-based, never negative
 */
public record RankId(int index) implements Comparable<RankId> {
  public RankId {
    if (index < 0) {
      throw new IllegalArgumentException("RankId index must be >= 0, got " + index);
    }
  }

  @Override
  public int compareTo(RankId other) {
    return Integer.compare(index, other.index);
  }
}
