// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * What came of one operation on a KV cache. Anything but OK and PENDING changed nothing of the
 * sequence.
 */
public enum KvStatus {
  /** Done. */
  OK(0),
  /** An argument outside its range, for this sequence in its present state. */
  ARGUMENT(1),
  /** Too few pages, sequences or pins: try again when some came back. */
  EXHAUSTED(2),
  /** The table row belongs to another sequence. */
  ALREADY(3),
  /** A number that never was a handle. */
  NOT_FOUND(4),
  /** The handle's sequence was closed, or its pin let go. */
  STALE(5),
  /** An output is too small, or no more retention ranges fit. */
  CAPACITY(7),
  /** Not in the sequence's present state. */
  STATE(8),
  /** Pages that it needs come from the disk level: again, when the ticket is done. */
  PENDING(11),
  /**
   * Pages were lost on their way: the sequence has as many tokens left as were matched, and is
   * suspended. Said once.
   */
  MISSING(12);

  private static final KvStatus[] BY_CODE = new KvStatus[13];

  static {
    for (KvStatus status : values()) {
      BY_CODE[status.code] = status;
    }
  }

  private final int code;

  KvStatus(int code) {
    this.code = code;
  }

  /** The status of a {@code berth_status_code}. */
  static KvStatus of(int code) {
    KvStatus status = code >= 0 && code < BY_CODE.length ? BY_CODE[code] : null;
    if (status == null) {
      throw new BerthException(Code.INTERNAL, "status " + code + " from a KV cache");
    }
    return status;
  }
}
