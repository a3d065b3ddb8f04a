// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.BerthException;

/** A file that is no decision log, or one that was cut short or damaged. */
public final class LogException extends BerthException {
  private static final long serialVersionUID = 1L;

  /** What is wrong. */
  public enum Kind {
    /** The file begins otherwise. */
    NOT_A_LOG,
    /** A format that this Berth doesn't read. */
    VERSION,
    /** The file ends inside a block. */
    TRUNCATED,
    /** A checksum doesn't match its bytes. */
    CHECKSUM,
    /** The bytes are whole and say something impossible. */
    MALFORMED
  }

  private final Kind kind;
  private final long offset;

  LogException(Kind kind, long offset, String problem) {
    super(Code.ARGUMENT, "decision log, byte " + offset + ": " + problem);
    this.kind = kind;
    this.offset = offset;
  }

  LogException(Kind kind, long offset, String problem, Throwable cause) {
    super(Code.ARGUMENT, "decision log, byte " + offset + ": " + problem, cause);
    this.kind = kind;
    this.offset = offset;
  }

  /** What is wrong. */
  public Kind kind() {
    return kind;
  }

  /** Where, in bytes from the beginning of the file. */
  public long offset() {
    return offset;
  }
}
