// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.replay.Trace;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * The Azure LLM inference traces: a header, then {@code 2023-11-16 18:15:46.6805900,374,44}. Up to
 * seven digits of a second, UTC; {@code +00:00} behind them is allowed.
 */
final class AzureLines implements TraceReader.Lines {
  private static final String TIME = "TIMESTAMP";
  private static final String PROMPT = "ContextTokens";
  private static final String OUTPUT = "GeneratedTokens";
  static final List<String> COLUMNS = List.of(TIME, PROMPT, OUTPUT);
  private static final String TIME_FORM = "yyyy-MM-dd HH:mm:ss.fffffff";
  private static final byte[] UTC = "+00:00".getBytes(StandardCharsets.US_ASCII);
  private static final int FRACTION_DIGITS = 7;
  private static final long TICKS_A_SECOND = 10_000_000;

  private final String source;
  private final Trace.Builder builder;
  private boolean afterHeader;
  private final int[] ends = new int[COLUMNS.size()];

  /** Date of the last line and the ticks at its midnight: days change seldom. */
  private final byte[] date = new byte[10];

  private long midnight;

  AzureLines(String source, Trace.Builder builder) {
    this.source = source;
    this.builder = builder;
  }

  static boolean isHeader(byte[] bytes, int length) {
    var text = new String(bytes, 0, length, StandardCharsets.UTF_8);
    return text.strip().equals(String.join(",", COLUMNS));
  }

  @Override
  public void line(byte[] bytes, int length, int number) {
    if (!afterHeader) {
      afterHeader = true;
      return;
    }
    split(bytes, length, number);
    long ticks = ticks(bytes, ends[0], number);
    int prompt = length(bytes, ends[0] + 1, ends[1], number, PROMPT);
    int output = length(bytes, ends[1] + 1, ends[2], number, OUTPUT);
    TraceReader.add(builder, source, number, ticks, TIME, prompt, output, OUTPUT);
  }

  private void split(byte[] bytes, int length, int number) {
    int fields = 0;
    for (int i = 0; i <= length; i++) {
      if (i == length || bytes[i] == ',') {
        if (fields < ends.length) {
          ends[fields] = i;
        }
        fields++;
      }
    }
    if (fields != COLUMNS.size()) {
      throw new ConfigException(
          source,
          number,
          fields < COLUMNS.size() ? COLUMNS.get(fields) : "",
          "the line has %d of %d fields: '%s'"
              .formatted(fields, COLUMNS.size(), TraceReader.excerpt(bytes, length)));
    }
  }

  private int length(byte[] bytes, int from, int to, int number, String field) {
    long value = 0;
    for (int i = from; i < to && value <= Integer.MAX_VALUE; i++) {
      int digit = bytes[i] - '0';
      value = digit >= 0 && digit <= 9 ? 10 * value + digit : Long.MAX_VALUE;
    }
    if (from == to || value < 1 || value > Integer.MAX_VALUE) {
      throw new ConfigException(
          source,
          number,
          field,
          "found '%s'; allowed: an integer from 1 to %d"
              .formatted(text(bytes, from, to), Integer.MAX_VALUE));
    }
    return (int) value;
  }

  private static String text(byte[] bytes, int from, int to) {
    return TraceReader.excerpt(Arrays.copyOfRange(bytes, from, to), to - from);
  }

  private long ticks(byte[] bytes, int end, int number) {
    int to = hasOffset(bytes, end) ? end - UTC.length : end;
    if (to < 19
        || to == 20
        || to > 20 + FRACTION_DIGITS
        || bytes[10] != ' '
        || bytes[13] != ':'
        || bytes[16] != ':'
        || (to > 19 && bytes[19] != '.')) {
      throw badTime(bytes, end, number);
    }
    if (!Arrays.equals(bytes, 0, date.length, date, 0, date.length)) {
      midnight = midnight(bytes, end, number);
      System.arraycopy(bytes, 0, date, 0, date.length);
    }
    long hour = number(bytes, 11, 13);
    long minute = number(bytes, 14, 16);
    long second = number(bytes, 17, 19);
    long fraction = to > 20 ? number(bytes, 20, to) : 0;
    if (hour < 0
        || hour > 23
        || minute < 0
        || minute > 59
        || second < 0
        || second > 60
        || fraction < 0) {
      throw badTime(bytes, end, number);
    }
    for (int digits = Math.max(0, to - 20); digits < FRACTION_DIGITS; digits++) {
      fraction *= 10;
    }
    return midnight + ((hour * 60 + minute) * 60 + second) * TICKS_A_SECOND + fraction;
  }

  private static boolean hasOffset(byte[] bytes, int end) {
    int from = end - UTC.length;
    return from >= 19 && Arrays.equals(bytes, from, end, UTC, 0, UTC.length);
  }

  private long midnight(byte[] bytes, int end, int number) {
    try {
      if (bytes[4] == '-' && bytes[7] == '-') {
        LocalDate day =
            LocalDate.of(
                (int) number(bytes, 0, 4), (int) number(bytes, 5, 7), (int) number(bytes, 8, 10));
        if (day.getYear() >= 0) {
          return day.toEpochDay() * 86_400 * TICKS_A_SECOND;
        }
      }
    } catch (DateTimeException e) {
      // told below
    }
    throw badTime(bytes, end, number);
  }

  /** Digits as a number, -1 if there is anything else among them. */
  private static long number(byte[] bytes, int from, int to) {
    long value = 0;
    for (int i = from; i < to; i++) {
      int digit = bytes[i] - '0';
      if (digit < 0 || digit > 9) {
        return -1;
      }
      value = 10 * value + digit;
    }
    return value;
  }

  private ConfigException badTime(byte[] bytes, int end, int number) {
    return new ConfigException(
        source,
        number,
        TIME,
        "found '%s'; allowed: a time as %s".formatted(text(bytes, 0, end), TIME_FORM));
  }

  @Override
  public Optional<Trace.PrefixBlocks> end() {
    return Optional.empty();
  }
}
