// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import java.util.Arrays;

/**
 * Pages of each pool group on each level.
 *
 * @param pages {@code [levels][groups]}
 */
public record KvSizes(long[][] pages) {
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

  long[] flat() {
    return Arrays.stream(pages).flatMapToLong(Arrays::stream).toArray();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KvSizes that && Arrays.deepEquals(pages, that.pages);
  }

  @Override
  public int hashCode() {
    return Arrays.deepHashCode(pages);
  }

  @Override
  public String toString() {
    return Arrays.deepToString(pages);
  }
}
