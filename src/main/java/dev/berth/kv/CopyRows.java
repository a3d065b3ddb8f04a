// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * The copy rows of one batch: {@code int32[capacity]} outside the heap, made once by the caller.
 * Every launched batch needs its own until the device has read it; a map never keeps one. The
 * garbage collector frees it.
 */
public final class CopyRows {
  private final MemorySegment segment;
  private final int capacity;
  private int size;

  private CopyRows(int capacity) {
    this.segment = Arena.ofAuto().allocate(JAVA_INT, capacity);
    this.capacity = capacity;
  }

  /**
   * Room for rows.
   *
   * @param capacity most rows, 1 to 2^20
   * @throws BerthException ARGUMENT outside that
   */
  public static CopyRows ofCapacity(int capacity) {
    if (capacity < 1 || capacity > 1 << 20) {
      throw new BerthException(Code.ARGUMENT, capacity + " copy rows: 1 to 1048576 are possible");
    }
    return new CopyRows(capacity);
  }

  /** Rows that the last call wrote. */
  public int size() {
    return size;
  }

  /** Most rows. */
  public int capacity() {
    return capacity;
  }

  /** Row i, of 0 to {@link #size()} - 1. */
  public int row(int i) {
    return segment.getAtIndex(JAVA_INT, Objects.checkIndex(i, size));
  }

  /** All of the memory, {@code int32[capacity]}, to be copied to a device without a detour. */
  public MemorySegment segment() {
    return segment;
  }

  void size(int rows) {
    size = rows;
  }
}
