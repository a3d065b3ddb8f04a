// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/** Outcome of a batch, or of one item of it. */
public enum SlotStatus {
  /** Done. */
  OK(0),
  /** No free slot. */
  EXHAUSTED(2),
  /** The id already holds a slot; nothing changed. */
  ALREADY(3),
  /** An unknown id, one released before, or a number that never was a handle; nothing changed. */
  NOT_FOUND(4),
  /** The handle was released; nothing changed. */
  STALE(5),
  /** All or nothing: undone or not tried, because another item failed. */
  SKIPPED(9);

  private static final SlotStatus[] BY_CODE = new SlotStatus[10];

  static {
    for (SlotStatus status : values()) {
      BY_CODE[status.code] = status;
    }
  }

  private final int code;

  SlotStatus(int code) {
    this.code = code;
  }

  /** The status of a {@code berth_status_code}. */
  static SlotStatus of(int code) {
    SlotStatus status = code >= 0 && code < BY_CODE.length ? BY_CODE[code] : null;
    if (status == null) {
      throw new BerthException(Code.INTERNAL, "status " + code + " from a slot map");
    }
    return status;
  }
}
