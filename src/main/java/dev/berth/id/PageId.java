// SPDX-License-Identifier: Apache-2.0
package dev.berth.id;

/**
 * KV page of tokensPerBlock tokens.
 *
 * @param index 0-based, never negative
 */
public record PageId(int index) implements Comparable<PageId> {
  public PageId {
    if (index < 0) {
      throw new IllegalArgumentException("PageId index must be >= 0, got " + index);
    }
  }

  @Override
  public int compareTo(PageId other) {
    return Integer.compare(index, other.index);
  }
}
