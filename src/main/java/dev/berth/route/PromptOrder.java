// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.RequestBatch;
import dev.berth.request.RouteKey;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Batch indexes sorted so that prompts which begin alike lie side by side: by their first tokens
 * lexicographically, a shorter beginning before its extension, then by prompt length, longest
 * first; ties in the order in which they were added. Source: spec 01 §4.3.
 *
 * <p>A run whose prompts agree up to some token is sorted by the next two alone, by radix; what
 * still agrees is sorted again from where it first differs, so a prefix that all share is read
 * once.
 */
final class PromptOrder {
  private static final int DIGIT_BITS = 11;
  private static final int DIGITS = 1 << DIGIT_BITS;

  /** Up to this many an insertion sort is faster. */
  private static final int SMALL = 24;

  /** Tokens that a key holds beside its array. */
  private static final int AT_HAND = 4;

  private int[] items = new int[0];
  private int[] scratchItems = new int[0];
  private @Nullable RouteKey[] heads = new @Nullable RouteKey[0];
  private @Nullable RouteKey[] scratchHeads = new @Nullable RouteKey[0];
  private long[] keys = new long[0];
  private int[] positions = new int[0];
  private long[] scratchKeys = new long[0];
  private int[] scratchPositions = new int[0];
  private final int[] ends = new int[DIGITS];
  private int size;

  PromptOrder() {}

  void begin(int capacity) {
    if (items.length < capacity) {
      items = new int[capacity];
      scratchItems = new int[capacity];
      heads = new @Nullable RouteKey[capacity];
      scratchHeads = new @Nullable RouteKey[capacity];
      keys = new long[capacity];
      positions = new int[capacity];
      scratchKeys = new long[capacity];
      scratchPositions = new int[capacity];
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
    for (int i = 0; i < size; i++) {
      heads[i] = batch.route(items[i]);
    }
    sort(batch, 0, size, 0);
    Arrays.fill(heads, 0, size, null);
    Arrays.fill(scratchHeads, 0, size, null);
    return items;
  }

  private RouteKey head(int position) {
    RouteKey head = heads[position];
    return head == null ? RouteKey.NONE : head;
  }

  /** Sorts {@code [from, to)}, whose prompts agree in the tokens before {@code depth}. */
  private void sort(RequestBatch batch, int from, int to, int depth) {
    if (to - from <= SMALL) {
      insertionSort(batch, from, to, depth);
      return;
    }
    // The first tokens are at hand; behind them it pays to look for the first that differs.
    int common = depth < AT_HAND ? depth : common(from, to, depth);
    boolean alike = true;
    for (int i = from; i < to; i++) {
      RouteKey head = head(i);
      keys[i] = head.pair(common);
      alike &= common == head.headLength();
    }
    if (alike) {
      sortByLength(batch, from, to);
      return;
    }
    radixSort(from, to);
    int start = from;
    for (int i = from + 1; i <= to; i++) {
      if (i == to || keys[i] != keys[start]) {
        if ((int) keys[start] == 0) {
          sortByLength(batch, start, i);
        } else {
          sort(batch, start, i, common + 2);
        }
        start = i;
      }
    }
  }

  /** Sorts a run of prompts that are all known to the same end, the longest first. */
  private void sortByLength(RequestBatch batch, int from, int to) {
    if (to - from <= SMALL) {
      insertionSort(batch, from, to, head(from).headLength());
      return;
    }
    // The keys of this run aren't read again.
    for (int i = from; i < to; i++) {
      keys[i] = (long) Integer.MAX_VALUE - batch.promptTokens(items[i]);
    }
    radixSort(from, to);
  }

  /** Tokens in which all of a run agree; it may be called with what is known already. */
  private int common(int from, int to, int depth) {
    RouteKey first = head(from);
    int common = first.headLength();
    for (int i = from + 1; i < to && common > depth; i++) {
      common = Math.min(common, first.firstDifference(head(i), depth));
    }
    return common;
  }

  private void insertionSort(RequestBatch batch, int from, int to, int depth) {
    for (int i = from + 1; i < to; i++) {
      int item = items[i];
      RouteKey head = head(i);
      int tokens = batch.promptTokens(item);
      int at = i;
      while (at > from && before(head, tokens, head(at - 1), batch, items[at - 1], depth)) {
        items[at] = items[at - 1];
        heads[at] = heads[at - 1];
        at--;
      }
      items[at] = item;
      heads[at] = head;
    }
  }

  private static boolean before(
      RouteKey head, int tokens, RouteKey other, RequestBatch batch, int otherItem, int depth) {
    if (depth == 0) {
      int order = Long.compareUnsigned(head.pair(0), other.pair(0));
      order = order == 0 ? Long.compareUnsigned(head.pair(2), other.pair(2)) : order;
      if (order != 0) {
        return order < 0;
      }
    }
    int at = head.firstDifference(other, depth);
    boolean ended = at == head.headLength();
    boolean otherEnded = at == other.headLength();
    if (ended || otherEnded) {
      return ended == otherEnded ? tokens > batch.promptTokens(otherItem) : ended;
    }
    return head.headToken(at) < other.headToken(at);
  }

  /** Sorts items and heads of a run by their keys, as unsigned numbers; stable. */
  private void radixSort(int from, int to) {
    long differing = 0;
    for (int i = from; i < to; i++) {
      positions[i] = i;
      differing |= keys[i] ^ keys[from];
    }
    if (differing == 0) {
      return;
    }
    for (int shift = 0; shift < Long.SIZE; shift += DIGIT_BITS) {
      if ((differing >>> shift & DIGITS - 1) != 0) {
        scatter(from, to, shift);
      }
    }
    for (int i = from; i < to; i++) {
      scratchItems[i] = items[positions[i]];
      scratchHeads[i] = heads[positions[i]];
    }
    System.arraycopy(scratchItems, from, items, from, to - from);
    System.arraycopy(scratchHeads, from, heads, from, to - from);
  }

  private void scatter(int from, int to, int shift) {
    Arrays.fill(ends, 0);
    for (int i = from; i < to; i++) {
      ends[digit(keys[i], shift)]++;
    }
    int start = from;
    for (int digit = 0; digit < DIGITS; digit++) {
      int count = ends[digit];
      ends[digit] = start;
      start += count;
    }
    for (int i = from; i < to; i++) {
      int target = ends[digit(keys[i], shift)]++;
      scratchKeys[target] = keys[i];
      scratchPositions[target] = positions[i];
    }
    System.arraycopy(scratchKeys, from, keys, from, to - from);
    System.arraycopy(scratchPositions, from, positions, from, to - from);
  }

  private static int digit(long key, int shift) {
    return (int) (key >>> shift) & DIGITS - 1;
  }
}
