// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import java.util.zip.CRC32C;

/** The numbers of the format, as docs/decision-log.md has them. */
final class LogFormat {
  /** First bytes of a log. */
  static final byte[] MAGIC = {'B', 'R', 'T', 'H', 'D', 'L', 'O', 'G'};

  /** Raised by every change of what a byte means. */
  static final int VERSION = 1;

  /** Magic, version u16, zero u16, CRC-32C of these 12 bytes. */
  static final int FILE_HEADER = 16;

  /** CRC-32C of what follows, payload bytes u32, number of the block u32. */
  static final int BLOCK_HEADER = 12;

  /** Most bytes of a block's payload. */
  static final int MAX_BLOCK = 1 << 24;

  /** Bytes of the longest number: a u64 of 7 bits a byte. */
  static final int LONGEST = 10;

  // ---- records
  static final int CONFIG = 0x01;
  static final int OFFER = 0x10;
  static final int WITHDRAW = 0x11;
  static final int CHANGE = 0x12;
  static final int STOP = 0x13;

  static final int LOST = 0x15;
  static final int FAULT = 0x16;
  static final int HOLD = 0x17;
  static final int TAKE_BACK = 0x18;
  static final int LIMIT = 0x19;
  static final int PLACEMENT = 0x1a;

  /** What follows came while the device was called for the n-th time in this step. */
  static final int CALL = 0x14;

  /** An engine was told about a row what {@link #CHANGE} has no number for. */
  static final int OTHER_CHANGE = 0x1b;

  /** A warm-up begins or ends. */
  static final int WARM_UP = 0x1c;

  /** Changes that {@link #CHANGE} has numbers for. */
  static final int FIRST_CHANGES = 3;

  /** Flag of an offer. */
  static final int NOT_QUEUED = 1 << 6;

  // ---- outcomes of an offer that was not queued
  static final int DUPLICATE = 0;
  static final int EXPIRED = 1;

  /** And the ordinal of the reason. */
  static final int REFUSED = 2;

  // ---- steps
  static final int STEP = 0x20;
  static final int FAILED = 0x21;
  static final int END = 0x7f;

  // ---- flags of a step
  static final int RAN = 1;
  static final int HELD = 1 << 1;
  static final int GATE_OPEN = 1 << 2;
  static final int PROGRESS = 1 << 3;
  static final int LAUNCHED = 1 << 4;
  static final int NUMBERS = 1 << 5;

  /** All of them. */
  static final int STEP_FLAGS = (1 << 6) - 1;

  // ---- sections of a frame
  static final int BATCH = 1;
  static final int BITS = 1 << 1;
  static final int ENDED = 1 << 2;
  static final int RECEIVES = 1 << 3;
  static final int DEFERRED = 1 << 4;
  static final int POOLS = 1 << 5;

  /** All of them. */
  static final int SECTIONS = (1 << 6) - 1;

  // ---- bits of a frame
  static final int PADDED = 1;
  static final int FRAME_LAUNCHED = 1 << 1;
  static final int CAN_QUEUE = 1 << 2;

  // ---- how a batch follows from the rank's last one: low two bits of each number
  static final int DONE = 0;
  static final int COPY = 1;
  static final int DROP = 2;
  static final int ADD = 3;

  private LogFormat() {}

  /** One step of the hash over the decisions of all frames. */
  static long mixed(long hash, long value) {
    long h = (hash ^ value) * 0x9E3779B97F4A7C15L;
    return h ^ h >>> 32;
  }

  static int checksum(byte[] bytes, int from, int length) {
    var crc = new CRC32C();
    crc.update(bytes, from, length);
    return (int) crc.getValue();
  }
}
