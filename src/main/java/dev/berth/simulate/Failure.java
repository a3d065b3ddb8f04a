// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.BitSet;
import java.util.List;
import java.util.StringJoiner;

/**
 * A world in which an invariant didn't hold, and the smallest one found that shows it.
 *
 * @param seed of the world
 * @param broken the rule that it breaks
 * @param world its configuration in words
 * @param violation in the world as it was drawn
 * @param shrunk in the smaller one
 * @param requests of the world as it was drawn
 * @param kept numbers of the events that the smaller one has
 * @param events these in words
 * @param history what happened in the smaller one, the last lines
 */
public record Failure(
    long seed,
    BrokenRule broken,
    String world,
    Violation violation,
    Violation shrunk,
    int requests,
    List<Integer> kept,
    List<String> events,
    List<String> history) {

  /** The command that runs the smaller world again. */
  public String reproduction() {
    var text = new StringBuilder("berth simulate --worlds 1 --seed " + seed);
    if (broken != BrokenRule.NONE) {
      text.append(" --break ").append(broken.id());
    }
    return text.append(" --only ").append(ranges(kept)).toString();
  }

  /** Numbers as {@code 1-4,9}. */
  static String ranges(List<Integer> numbers) {
    var text = new StringJoiner(",");
    int i = 0;
    while (i < numbers.size()) {
      int first = numbers.get(i);
      int last = first;
      while (++i < numbers.size() && numbers.get(i) == last + 1) {
        last++;
      }
      text.add(first == last ? String.valueOf(first) : first + "-" + last);
    }
    return text.length() == 0 ? "none" : text.toString();
  }

  /** The set of {@code 1-4,9}. */
  static BitSet numbers(String ranges) {
    var set = new BitSet();
    if (ranges.equals("none")) {
      return set;
    }
    for (String range : ranges.split(",", -1)) {
      int dash = range.indexOf('-');
      int first = Integer.parseInt(dash < 0 ? range : range.substring(0, dash));
      int last = dash < 0 ? first : Integer.parseInt(range.substring(dash + 1));
      if (first < 0 || last < first || last > 1 << 20) {
        throw new NumberFormatException(range);
      }
      set.set(first, last + 1);
    }
    return set;
  }
}
