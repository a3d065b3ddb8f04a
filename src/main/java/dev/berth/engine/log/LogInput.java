// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.engine.log.LogException.Kind;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Reads numbers out of blocks, and keeps the bytes read since a mark. */
final class LogInput {
  /** Gives blocks. */
  interface Source {
    /** The payload of the next block, empty if there is none. */
    byte[] next();

    /** Where in the file the payload of the last block begins. */
    long offset();
  }

  private static final int LONGEST_TEXT = 1 << 16;

  private final Source source;
  private byte[] block = new byte[0];
  private int at;
  private int mark;
  private final ByteArrayOutputStream kept = new ByteArrayOutputStream();

  LogInput(Source source) {
    this.source = source;
  }

  /** Whether nothing follows. */
  boolean ended() {
    if (at == block.length) {
      kept.write(block, mark, at - mark);
      block = source.next();
      at = 0;
      mark = 0;
    }
    return block.length == 0;
  }

  long offset() {
    return source.offset() + at;
  }

  void mark() {
    kept.reset();
    mark = at;
  }

  /** What was read since the mark, without block headers. */
  byte[] sinceMark() {
    kept.write(block, mark, at - mark);
    mark = at;
    return kept.toByteArray();
  }

  int octet() {
    if (ended()) {
      throw new LogException(Kind.TRUNCATED, offset(), "the log ends inside a record");
    }
    return block[at++] & 0xff;
  }

  long number() {
    long begin = offset();
    long value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      int b = octet();
      value |= (b & 0x7fL) << shift;
      if (b < 0x80) {
        if (shift == 63 && b > 1) {
          break;
        }
        return value;
      }
    }
    throw new LogException(Kind.MALFORMED, begin, "a number of more than 64 bits");
  }

  /** A number of a range, both ends included. */
  long number(String what, long least, long most) {
    long begin = offset();
    long value = number();
    if (value < least || value > most) {
      throw new LogException(
          Kind.MALFORMED,
          begin,
          "%s is %s, allowed: %d to %d".formatted(what, Long.toUnsignedString(value), least, most));
    }
    return value;
  }

  int index(String what, int size) {
    return (int) number(what, 0, size - 1L);
  }

  /** A count, with nothing said of its limits but that it is an int. */
  int count(String what) {
    return (int) number(what, 0, Integer.MAX_VALUE);
  }

  long signed() {
    long value = number();
    return value >>> 1 ^ -(value & 1);
  }

  long fixed() {
    long value = 0;
    for (int shift = 0; shift < 64; shift += 8) {
      value |= (long) octet() << shift;
    }
    return value;
  }

  String text(String what) {
    byte[] bytes = new byte[(int) number("the length of " + what, 0, LONGEST_TEXT)];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) octet();
    }
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
