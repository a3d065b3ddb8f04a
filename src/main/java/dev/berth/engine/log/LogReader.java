// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.engine.log.LogException.Kind;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** Takes a file apart into blocks, each of which is whole or refused. */
final class LogReader implements LogInput.Source {
  private static final byte[] NOTHING = {};

  private final InputStream in;
  private long at;
  private long payloadAt;
  private int blocks;

  LogReader(InputStream in) {
    this.in = in;
    byte[] header = read(LogFormat.FILE_HEADER);
    if (header.length < LogFormat.MAGIC.length
        || !Arrays.equals(LogFormat.MAGIC, Arrays.copyOf(header, LogFormat.MAGIC.length))) {
      throw new LogException(Kind.NOT_A_LOG, 0, "the file doesn't begin as a decision log does");
    }
    if (header.length < LogFormat.FILE_HEADER) {
      throw new LogException(Kind.TRUNCATED, header.length, "the file ends inside its header");
    }
    ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
    if (fields.getInt(12) != LogFormat.checksum(header, 0, 12)) {
      throw new LogException(Kind.CHECKSUM, 12, "the checksum of the file's header is wrong");
    }
    int version = fields.getShort(8) & 0xffff;
    if (version != LogFormat.VERSION || fields.getShort(10) != 0) {
      throw new LogException(
          Kind.VERSION,
          8,
          "the log has version %d, this Berth reads version %d"
              .formatted(version, LogFormat.VERSION));
    }
    at = header.length;
    payloadAt = at;
  }

  private byte[] read(int bytes) {
    try {
      return in.readNBytes(bytes);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public byte[] next() {
    byte[] header = read(LogFormat.BLOCK_HEADER);
    if (header.length == 0) {
      payloadAt = at;
      return NOTHING;
    }
    if (header.length < LogFormat.BLOCK_HEADER) {
      throw new LogException(
          Kind.TRUNCATED, at + header.length, "the log ends inside the header of a block");
    }
    ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
    int length = fields.getInt(4);
    if (length < 1 || length > LogFormat.MAX_BLOCK) {
      throw new LogException(
          Kind.MALFORMED,
          at + 4,
          "a block of %d bytes, allowed: 1 to %d".formatted(length, LogFormat.MAX_BLOCK));
    }
    byte[] payload = read(length);
    if (payload.length < length) {
      throw new LogException(
          Kind.TRUNCATED,
          at + header.length + payload.length,
          "the log ends inside a block of %d bytes".formatted(length));
    }
    byte[] covered = new byte[8 + length];
    System.arraycopy(header, 4, covered, 0, 8);
    System.arraycopy(payload, 0, covered, 8, length);
    if (fields.getInt(0) != LogFormat.checksum(covered, 0, covered.length)) {
      throw new LogException(Kind.CHECKSUM, at, "the checksum of block " + blocks + " is wrong");
    }
    if (fields.getInt(8) != blocks) {
      throw new LogException(
          Kind.MALFORMED,
          at + 8,
          "block %d stands where block %d should".formatted(fields.getInt(8), blocks));
    }
    blocks++;
    payloadAt = at + header.length;
    at = payloadAt + length;
    return payload;
  }

  @Override
  public long offset() {
    return payloadAt;
  }
}
