// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * The decode step in columns: for each sequence how far its history moves and how much room it gets
 * then. Off the heap, made once, used again and again.
 */
public final class KvSteps {
  private final int capacity;
  private final MemorySegment handles;
  private final MemorySegment grow;
  private final MemorySegment advance;
  private final MemorySegment statuses;
  private int size;

  private KvSteps(int capacity) {
    Arena arena = Arena.ofAuto();
    this.capacity = capacity;
    this.handles = arena.allocate(JAVA_LONG, capacity);
    this.grow = arena.allocate(JAVA_INT, capacity);
    this.advance = arena.allocate(JAVA_INT, capacity);
    this.statuses = arena.allocate(JAVA_INT, capacity);
  }

  /**
   * Room for steps.
   *
   * @param capacity 1 to 2^20
   * @throws BerthException ARGUMENT outside that
   */
  public static KvSteps ofCapacity(int capacity) {
    if (capacity < 1 || capacity > 1 << 20) {
      throw new BerthException(
          Code.ARGUMENT, capacity + " sequences of a step: 1 to 1048576 are possible");
    }
    return new KvSteps(capacity);
  }

  /** Forgets every step. */
  public void clear() {
    size = 0;
  }

  /**
   * Appends a step.
   *
   * @param advance tokens by which its history moves, 0 or more
   * @param grow tokens by which its capacity grows; negative: it shrinks
   * @throws BerthException ARGUMENT if there is no room
   */
  public void add(long sequence, int advance, int grow) {
    if (size == capacity) {
      throw new BerthException(Code.ARGUMENT, "the batch is full: " + capacity + " sequences");
    }
    handles.setAtIndex(JAVA_LONG, size, sequence);
    this.advance.setAtIndex(JAVA_INT, size, advance);
    this.grow.setAtIndex(JAVA_INT, size, grow);
    size++;
  }

  /** Steps. */
  public int size() {
    return size;
  }

  /** What came of step i. */
  public KvStatus status(int i) {
    return KvStatus.of(statuses.getAtIndex(JAVA_INT, Objects.checkIndex(i, size)));
  }

  MemorySegment handles() {
    return handles;
  }

  MemorySegment grow() {
    return grow;
  }

  MemorySegment advance() {
    return advance;
  }

  MemorySegment statuses() {
    return statuses;
  }
}
