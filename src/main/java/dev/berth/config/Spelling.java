// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.Collection;
import java.util.Comparator;
import java.util.Optional;

/** Nearness of two words, for "did you mean". */
final class Spelling {
  private static final int MAX_LENGTH = 80;

  private Spelling() {}

  /** The word that is nearest by edits, if it is near at all. */
  static Optional<String> closest(String word, Collection<String> known) {
    return known.stream()
        .filter(other -> near(word, other))
        .min(Comparator.comparingInt((String other) -> edits(word, other)).thenComparing(o -> o));
  }

  /** At most two edits, or one in three letters. */
  static boolean near(String a, String b) {
    if (a.length() > MAX_LENGTH || b.length() > MAX_LENGTH) {
      return false;
    }
    return edits(a, b) <= Math.max(2, Math.min(a.length(), b.length()) / 3);
  }

  /** Levenshtein distance. */
  static int edits(String a, String b) {
    var previous = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) {
      previous[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      var row = new int[b.length() + 1];
      row[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int change = previous[j - 1] + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(change, Math.min(previous[j], row[j - 1]) + 1);
      }
      previous = row;
    }
    return previous[b.length()];
  }
}
