// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Cuts a stream into lines that end in LF or CRLF, as bytes. A byte-order mark at the beginning is
 * left out. Memory is that of the longest line.
 */
final class LineSplitter {
  /** Longer lines are refused: 16 MiB. */
  static final int MAX_LINE = 1 << 24;

  private static final byte[] MARK = {(byte) 0xEF, (byte) 0xBB, (byte) 0xBF};

  private final String source;
  private final InputStream in;
  private final byte[] buffer = new byte[1 << 16];
  private int at;
  private int end;
  private byte[] line = new byte[512];
  private int length;
  private int number;

  LineSplitter(String source, InputStream in) {
    this.source = source;
    this.in = in;
  }

  /** Reads the next line, the last one even without an end. */
  boolean next() throws IOException {
    length = 0;
    boolean any = false;
    while (true) {
      if (at == end) {
        at = 0;
        end = in.read(buffer);
        if (end < 0) {
          end = 0;
          if (!any) {
            return false;
          }
          break;
        }
        continue;
      }
      any = true;
      int stop = at;
      while (stop < end && buffer[stop] != '\n') {
        stop++;
      }
      append(stop);
      if (stop < end) {
        at = stop + 1;
        break;
      }
      at = stop;
    }
    number++;
    if (length > 0 && line[length - 1] == '\r') {
      length--;
    }
    if (number == 1
        && length >= MARK.length
        && Arrays.equals(line, 0, MARK.length, MARK, 0, MARK.length)) {
      length -= MARK.length;
      System.arraycopy(line, MARK.length, line, 0, length);
    }
    return true;
  }

  private void append(int stop) {
    int more = stop - at;
    if (more > MAX_LINE - length) {
      throw new ConfigException(
          source, number + 1, "", "the line is longer than " + MAX_LINE + " bytes");
    }
    if (length + more > line.length) {
      line = Arrays.copyOf(line, Math.max(length + more, 2 * line.length));
    }
    System.arraycopy(buffer, at, line, length, more);
    length += more;
  }

  String source() {
    return source;
  }

  /** The line's bytes in {@code [0, length)}, valid until {@link #next()}. */
  byte[] bytes() {
    return line;
  }

  int length() {
    return length;
  }

  /** 1-based. */
  int number() {
    return number;
  }

  /** Nothing but blanks. */
  boolean isBlank() {
    return start() == length;
  }

  /** Index of the first byte that isn't a blank. */
  int start() {
    int i = 0;
    while (i < length && (line[i] == ' ' || line[i] == '\t')) {
      i++;
    }
    return i;
  }
}
