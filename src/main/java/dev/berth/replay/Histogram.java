// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How often each value came up. */
public final class Histogram {
  private final Map<String, long[]> counts = new HashMap<>();

  /** Counts a value once. */
  public void add(String value) {
    add(value, 1);
  }

  /** Counts a value {@code times} times. */
  public void add(String value, long times) {
    counts.computeIfAbsent(value, v -> new long[1])[0] += times;
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
