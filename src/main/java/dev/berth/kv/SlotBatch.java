// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeSlots;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * The items of one call on a {@link SeatPool} or {@link LeaseMap}: columns {@code ids}, {@code
 * handles} and {@code statuses} outside the heap, made once by the caller and used again and again.
 * A call reads and writes the first {@link #size()} rows and allocates nothing. Not for two threads
 * at once; the garbage collector frees it.
 */
public final class SlotBatch {
  private final int capacity;
  private final MemorySegment ids;
  private final MemorySegment handles;
  private final MemorySegment statuses;
  private int size;

  private SlotBatch(int capacity) {
    Arena arena = Arena.ofAuto();
    this.capacity = capacity;
    this.ids = arena.allocate(JAVA_LONG, capacity);
    this.handles = arena.allocate(JAVA_LONG, capacity);
    this.statuses = arena.allocate(JAVA_INT, capacity);
  }

  /**
   * An empty batch.
   *
   * @param capacity most items, 1 to 2^20
   * @throws BerthException ARGUMENT outside that
   */
  public static SlotBatch ofCapacity(int capacity) {
    if (capacity < 1 || capacity > NativeSlots.MAX) {
      throw new BerthException(
          Code.ARGUMENT,
          "a batch of " + capacity + " items: 1 to " + NativeSlots.MAX + " are possible");
    }
    return new SlotBatch(capacity);
  }

  /** Forgets every item. */
  public void clear() {
    size = 0;
  }

  /**
   * Appends an item by id; it has no handle yet.
   *
   * @throws BerthException ARGUMENT if the batch is full
   */
  public void add(long id) {
    int i = next();
    ids.setAtIndex(JAVA_LONG, i, id);
    size = i + 1;
  }

  /**
   * Appends an item by handle; its id is unknown.
   *
   * @throws BerthException ARGUMENT if the batch is full
   */
  public void addHandle(long handle) {
    int i = next();
    handles.setAtIndex(JAVA_LONG, i, handle);
    size = i + 1;
  }

  /**
   * Makes it that many items, of which the ids or handles are to be set.
   *
   * @param items 0 to {@link #capacity()}
   * @throws IndexOutOfBoundsException outside that
   */
  public void resize(int items) {
    size = Objects.checkIndex(items, capacity + 1);
  }

  /** Sets the id of item i, of 0 to {@link #size()} - 1. Cheaper than {@link #add} in a loop. */
  public void id(int i, long id) {
    ids.setAtIndex(JAVA_LONG, Objects.checkIndex(i, size), id);
  }

  /** Sets the handle of item i, of 0 to {@link #size()} - 1. */
  public void handle(int i, long handle) {
    handles.setAtIndex(JAVA_LONG, Objects.checkIndex(i, size), handle);
  }

  /** Number of items. */
  public int size() {
    return size;
  }

  /** Most items. */
  public int capacity() {
    return capacity;
  }

  /** The id of item i, of 0 to {@link #size()} - 1. Unspecified if it was added by handle. */
  public long id(int i) {
    return ids.getAtIndex(JAVA_LONG, Objects.checkIndex(i, size));
  }

  /** The handle of item i, of 0 to {@link #size()} - 1; 0 after a call that gave it none. */
  public long handle(int i) {
    return handles.getAtIndex(JAVA_LONG, Objects.checkIndex(i, size));
  }

  /** What the last call did with item i, of 0 to {@link #size()} - 1. */
  public SlotStatus status(int i) {
    return SlotStatus.of(statuses.getAtIndex(JAVA_INT, Objects.checkIndex(i, size)));
  }

  MemorySegment ids() {
    return ids;
  }

  MemorySegment handles() {
    return handles;
  }

  MemorySegment statuses() {
    return statuses;
  }

  void size(int items) {
    size = items;
  }

  private int next() {
    if (size == capacity) {
      throw new BerthException(Code.ARGUMENT, "the batch is full: " + capacity + " items");
    }
    return size;
  }
}
