// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Off-heap memory that numbers are appended to. When a number doesn't fit, what is there goes to
 * the sink as one block, so that no number lies in two blocks. Allocates nothing once it is made.
 */
final class LogBuffer {
  /** Takes what was written. */
  interface Sink {
    /**
     * A block.
     *
     * @param memory room for a block header, then the payload; may be changed until this returns
     * @param end where the payload ends
     */
    void take(ByteBuffer memory, int end);
  }

  private final ByteBuffer memory;
  private final Sink sink;
  private int at = LogFormat.BLOCK_HEADER;

  LogBuffer(int capacity, Sink sink) {
    this.memory = ByteBuffer.allocateDirect(capacity).order(ByteOrder.LITTLE_ENDIAN);
    this.sink = sink;
  }

  /** Bytes that wait for the sink. */
  int waiting() {
    return at - LogFormat.BLOCK_HEADER;
  }

  /** Bytes until the next block. */
  int left() {
    return memory.capacity() - at;
  }

  void flush() {
    if (waiting() > 0) {
      sink.take(memory, at);
      at = LogFormat.BLOCK_HEADER;
    }
  }

  private void room(int bytes) {
    if (memory.capacity() - at < bytes) {
      flush();
    }
  }

  void octet(int value) {
    room(1);
    memory.put(at++, (byte) value);
  }

  /** Seven bits a byte, the lowest first; the top bit says that more follow. */
  void number(long value) {
    room(LogFormat.LONGEST);
    long rest = value;
    while ((rest & ~0x7fL) != 0) {
      memory.put(at++, (byte) (rest | 0x80));
      rest >>>= 7;
    }
    memory.put(at++, (byte) rest);
  }

  /** Small values of either sign as small numbers. */
  void signed(long value) {
    number(value << 1 ^ value >> 63);
  }

  void fixed(long value) {
    room(Long.BYTES);
    memory.putLong(at, value);
    at += Long.BYTES;
  }

  void text(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    number(bytes.length);
    for (byte b : bytes) {
      octet(b);
    }
  }
}
