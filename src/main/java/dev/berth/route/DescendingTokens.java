// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.RequestBatch;
import java.util.Arrays;

/**
 * Batch indexes sorted by prompt tokens, longest first, ties in the order in which they were added:
 * a radix sort from the low digit up, over as many digits as the longest prompt has.
 */
final class DescendingTokens {
  private static final int DIGIT_BITS = 8;
  private static final int DIGITS = 1 << DIGIT_BITS;

  /** Below this an insertion sort is faster. */
  private static final int SMALL = 48;

  private int[] items = new int[0];
  private int[] scratch = new int[0];
  private final int[] ends = new int[DIGITS];
  private int size;

  DescendingTokens() {}

  void begin(int capacity) {
    if (items.length < capacity) {
      items = new int[capacity];
      scratch = new int[capacity];
    }
    size = 0;
  }

  void add(int item) {
    items[size++] = item;
  }

  int size() {
    return size;
  }

  /** Sorts and lends the array, valid in {@code [0, size)} until the next call. */
  int[] sort(RequestBatch batch) {
    if (size < SMALL) {
      insertionSort(batch);
    } else {
      radixSort(batch);
    }
    return items;
  }

  private void insertionSort(RequestBatch batch) {
    for (int i = 1; i < size; i++) {
      int item = items[i];
      int tokens = batch.promptTokens(item);
      int at = i;
      while (at > 0 && batch.promptTokens(items[at - 1]) < tokens) {
        items[at] = items[at - 1];
        at--;
      }
      items[at] = item;
    }
  }

  private void radixSort(RequestBatch batch) {
    int longest = 0;
    for (int i = 0; i < size; i++) {
      longest = Math.max(longest, batch.promptTokens(items[i]));
    }
    for (int shift = 0; shift < Integer.SIZE && longest >>> shift != 0; shift += DIGIT_BITS) {
      Arrays.fill(ends, 0);
      for (int i = 0; i < size; i++) {
        ends[digit(batch, items[i], shift)]++;
      }
      int start = 0;
      for (int digit = DIGITS - 1; digit >= 0; digit--) {
        int count = ends[digit];
        ends[digit] = start;
        start += count;
      }
      for (int i = 0; i < size; i++) {
        int item = items[i];
        scratch[ends[digit(batch, item, shift)]++] = item;
      }
      int[] swap = items;
      items = scratch;
      scratch = swap;
    }
  }

  private static int digit(RequestBatch batch, int item, int shift) {
    return batch.promptTokens(item) >>> shift & (DIGITS - 1);
  }
}
