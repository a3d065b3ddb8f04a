// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How often each value came up. A value is a short vector of counts; its text is made once, when it
 * first comes up.
 */
public final class Histogram {
  /** Writes a vector as text. */
  interface Text {
    String of(int[] vector, int length);
  }

  private final Text text;
  private final Map<String, long[]> counts = new HashMap<>();
  private int[][] vectors = new int[64][];
  private long[][] cells = new long[64][];
  private int size;

  Histogram(Text text) {
    this.text = text;
  }

  /** A histogram of single numbers. */
  static Histogram ofNumbers() {
    return new Histogram((vector, length) -> Integer.toString(vector[0]));
  }

  /** Counts a vector once; the array stays the caller's. */
  void add(int[] vector, int length) {
    int mask = vectors.length - 1;
    int at = hash(vector, length) & mask;
    while (vectors[at] != null) {
      if (equal(vectors[at], vector, length)) {
        cells[at][0]++;
        return;
      }
      at = (at + 1) & mask;
    }
    vectors[at] = java.util.Arrays.copyOf(vector, length);
    cells[at] = counts.computeIfAbsent(text.of(vector, length), v -> new long[1]);
    cells[at][0]++;
    if (++size * 2 > vectors.length) {
      grow();
    }
  }

  private void grow() {
    int[][] oldVectors = vectors;
    long[][] oldCells = cells;
    vectors = new int[oldVectors.length * 2][];
    cells = new long[vectors.length][];
    int mask = vectors.length - 1;
    for (int i = 0; i < oldVectors.length; i++) {
      if (oldVectors[i] != null) {
        int at = hash(oldVectors[i], oldVectors[i].length) & mask;
        while (vectors[at] != null) {
          at = (at + 1) & mask;
        }
        vectors[at] = oldVectors[i];
        cells[at] = oldCells[i];
      }
    }
  }

  private static int hash(int[] vector, int length) {
    int h = length;
    for (int i = 0; i < length; i++) {
      h = (h ^ vector[i]) * 0x9E3779B1;
      h ^= h >>> 15;
    }
    return h;
  }

  private static boolean equal(int[] known, int[] vector, int length) {
    return known.length == length && java.util.Arrays.equals(known, 0, length, vector, 0, length);
  }

  /** How often a value came up. */
  public long count(String value) {
    long[] count = counts.get(value);
    return count == null ? 0 : count[0];
  }

  /** Everything, most frequent first, ties by name. */
  public Map<String, Long> sorted() {
    List<Map.Entry<String, long[]>> entries = new ArrayList<>(counts.entrySet());
    entries.sort(
        Comparator.comparingLong((Map.Entry<String, long[]> e) -> -e.getValue()[0])
            .thenComparing(Map.Entry::getKey));
    var sorted = new LinkedHashMap<String, Long>();
    entries.forEach(e -> sorted.put(e.getKey(), e.getValue()[0]));
    return sorted;
  }
}
