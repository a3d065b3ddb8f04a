// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.regex.Pattern;

/** Amounts of memory as text. */
public final class Bytes {
  private static final Pattern AMOUNT =
      Pattern.compile("([0-9]{1,19}(?:\\.[0-9]{1,19})?)\\s*([A-Za-z]*)");
  private static final BigDecimal GIB = BigDecimal.valueOf(1L << 30);
  private static final Map<String, Long> UNITS =
      Map.ofEntries(
          Map.entry("", 1L),
          Map.entry("b", 1L),
          Map.entry("kb", 1_000L),
          Map.entry("mb", 1_000_000L),
          Map.entry("gb", 1_000_000_000L),
          Map.entry("tb", 1_000_000_000_000L),
          Map.entry("kib", 1L << 10),
          Map.entry("mib", 1L << 20),
          Map.entry("gib", 1L << 30),
          Map.entry("tib", 1L << 40));

  private Bytes() {}

  /**
   * The amount in whole bytes, rounded down; empty if the text is no amount or passes the range of
   * long.
   */
  public static OptionalLong parse(String text) {
    var match = AMOUNT.matcher(text.strip());
    if (!match.matches()) {
      return OptionalLong.empty();
    }
    var unit = UNITS.get(match.group(2).toLowerCase(Locale.ROOT));
    if (unit == null) {
      return OptionalLong.empty();
    }
    var bytes = new BigDecimal(match.group(1)).multiply(BigDecimal.valueOf(unit)).toBigInteger();
    return bytes.bitLength() < Long.SIZE
        ? OptionalLong.of(bytes.longValue())
        : OptionalLong.empty();
  }

  /** The amount in GiB with two digits. */
  public static String text(long bytes) {
    return BigDecimal.valueOf(bytes).divide(GIB, 2, RoundingMode.HALF_UP).toPlainString() + " GiB";
  }
}
