// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import java.util.Arrays;

/**
 * Pages of each pool group on each level.
 *
 * @param pages {@code [levels][groups]}
 * @param most what {@link KvCache#adjust} may give of them, in the same shape
 */
public record KvSizes(long[][] pages, long[][] most) {
  /** With pools that are as large as they can be. */
  public KvSizes(long[][] pages) {
    this(pages, pages);
  }

  /** Only device pages, one number a group. */
  public static KvSizes device(long... pages) {
    return new KvSizes(
        new long[][] {pages.clone(), new long[pages.length], new long[pages.length]});
  }

  /** With that many pages on a level. */
  public KvSizes with(KvLevel level, long... count) {
    long[][] copy = Arrays.stream(pages).map(long[]::clone).toArray(long[][]::new);
    copy[level.ordinal()] = count.clone();
    return new KvSizes(copy);
  }

  /**
   * The same pages, and on each level room for any other split of its bytes among the groups; the
   * disk level's stays as it is.
   */
  public KvSizes withRoomToBalance(KvLayout layout) {
    long[][] room = Arrays.stream(pages).map(long[]::clone).toArray(long[][]::new);
    for (int level = 0; level < KvLevel.DISK.ordinal(); level++) {
      for (int g = 0; g < room[level].length; g++) {
        long most = KvBalance.bytes(layout, pages[level]) / layout.slotBytes(g);
        room[level][g] = Math.max(pages[level][g], Math.min(most, layout.maxSlots(g)));
      }
    }
    return new KvSizes(pages, room);
  }

  /** Another split of a level, within the same room. */
  KvSizes split(KvLevel level, long[] count) {
    return new KvSizes(with(level, count).pages, most);
  }

  long[] flat() {
    return flat(pages);
  }

  long[] flatMost() {
    return flat(most);
  }

  private static long[] flat(long[][] counts) {
    return Arrays.stream(counts).flatMapToLong(Arrays::stream).toArray();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KvSizes that
        && Arrays.deepEquals(pages, that.pages)
        && Arrays.deepEquals(most, that.most);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.deepHashCode(pages) + Arrays.deepHashCode(most);
  }

  @Override
  public String toString() {
    return Arrays.deepToString(pages);
  }
}
