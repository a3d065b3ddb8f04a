// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.util.Locale;

/** How reports and JSON spell what has a name in the code. */
final class Words {
  private Words() {}

  /** A constant in lower case. */
  static String lower(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT);
  }

  /** A number and what is counted, in the plural unless it is one. */
  static String count(long number, String what) {
    return number + " " + what + (number == 1 ? "" : "s");
  }
}
