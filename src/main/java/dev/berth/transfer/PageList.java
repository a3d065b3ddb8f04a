// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.Arrays;
import java.util.Objects;

/**
 * Pages of a pool, each once, in an order: page i of one list goes to page i of another. Immutable.
 */
public final class PageList {
  private final int[] pages;

  private PageList(int[] pages) {
    this.pages = pages;
  }

  /**
   * A list of pages.
   *
   * @throws BerthException ARGUMENT for a number below 0, or a page that stands there twice
   */
  public static PageList of(int... pages) {
    for (int page : pages) {
      if (page < 0) {
        throw new BerthException(Code.ARGUMENT, "page " + page + ": 0 or more");
      }
    }
    int[] sorted = pages.clone();
    Arrays.sort(sorted);
    for (int i = 1; i < sorted.length; i++) {
      if (sorted[i] == sorted[i - 1]) {
        throw new BerthException(Code.ARGUMENT, "page " + sorted[i] + " stands there twice");
      }
    }
    return new PageList(pages.clone());
  }

  /** How many. */
  public int size() {
    return pages.length;
  }

  /** One of them. */
  public int get(int index) {
    return pages[Objects.checkIndex(index, pages.length)];
  }

  /** The largest number, -1 of none. */
  int last() {
    return Arrays.stream(pages).max().orElse(-1);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PageList list && Arrays.equals(pages, list.pages);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(pages);
  }

  @Override
  public String toString() {
    return Arrays.toString(pages);
  }
}
