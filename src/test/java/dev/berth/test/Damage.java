// SPDX-License-Identifier: Apache-2.0
package dev.berth.test;

import java.util.random.RandomGenerator;

/** Damages files: a few wounds each, by what is known to hurt readers of YAML, JSON and CSV. */
public final class Damage {
  private static final String[] PIECES = {
    "-1",
    "0",
    "99999999999999999999",
    "4294967297",
    "2147483647",
    "2147483648",
    "1048577",
    ".nan",
    "NaN",
    "1e309",
    "1e-400",
    "''",
    "null",
    "~",
    "true",
    "[",
    "]",
    "{",
    "}",
    ": ",
    ",",
    ",,",
    "- ",
    "&a ",
    "*a",
    "<<: *a",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "%YAML 1.2\n",
    "---\n",
    "...\n",
    "!!int ",
    "|",
    ">",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "#",
    "?",
    "\u0000",
    "\uD800",
    "\uFEFF",
    "😀",
    "\u2028"
  };

  private Damage() {}

  /** The text with one to three wounds. */
  public static String wound(String text, RandomGenerator random) {
    var damaged = new StringBuilder(text);
    int wounds = random.nextInt(1, 4);
    for (int i = 0; i < wounds; i++) {
      int at = random.nextInt(damaged.length());
      String piece = PIECES[random.nextInt(PIECES.length)];
      switch (random.nextInt(7)) {
        case 0 -> damaged.insert(at, piece);
        case 1 -> damaged.deleteCharAt(at);
        case 2 -> damaged.delete(at, Math.min(damaged.length(), at + random.nextInt(1, 60)));
        case 3 -> damaged.setCharAt(at, (char) random.nextInt(0x20, 0x7f));
        case 4 -> damaged.setLength(Math.max(1, at));
        case 5 -> repeatLine(damaged, at);
        default -> replaceValue(damaged, at, piece);
      }
      if (damaged.isEmpty()) {
        return "x";
      }
    }
    return damaged.toString();
  }

  /** Puts a piece in place of a value: of a YAML key, a JSON field or a CSV column. */
  private static void replaceValue(StringBuilder text, int from, String piece) {
    int start = after(text, from, ": ");
    if (start < 0) {
      start = after(text, from, ",");
    }
    if (start < 0) {
      return;
    }
    int end = start;
    while (end < text.length() && ",}]\n".indexOf(text.charAt(end)) < 0) {
      end++;
    }
    text.replace(start, end, piece);
  }

  private static int after(StringBuilder text, int from, String mark) {
    int at = text.indexOf(mark, from);
    return at < 0 ? -1 : at + mark.length();
  }

  private static void repeatLine(StringBuilder text, int from) {
    int start = text.indexOf("\n", from) + 1;
    int end = start == 0 ? -1 : text.indexOf("\n", start);
    if (end > 0) {
      text.insert(start, text.substring(start, end + 1));
    }
  }
}
