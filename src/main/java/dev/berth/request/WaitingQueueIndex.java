// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/**
 * Request id to entry, any id: open addressing with linear probes, at most half full; removal
 * closes the gap, so nothing accumulates.
 */
final class WaitingQueueIndex {
  private long[] ids = new long[2 * WaitingQueue.INITIAL_CAPACITY];
  private int[] entries = new int[2 * WaitingQueue.INITIAL_CAPACITY];
  private int size;

  WaitingQueueIndex() {
    Arrays.fill(entries, WaitingQueue.NONE);
  }

  int size() {
    return size;
  }

  /** The entry of an id, {@link WaitingQueue#NONE} if there is none. */
  int get(long id) {
    return entries[slot(id)];
  }

  /** Adds an id that isn't there. */
  void put(long id, int entry) {
    if (2 * (size + 1) > ids.length) {
      grow();
    }
    int slot = slot(id);
    ids[slot] = id;
    entries[slot] = entry;
    size++;
  }

  /** Removes an id that is there. */
  void remove(long id) {
    int mask = ids.length - 1;
    int gap = slot(id);
    for (int slot = gap + 1 & mask; entries[slot] != WaitingQueue.NONE; slot = slot + 1 & mask) {
      int distance = slot - home(ids[slot]) & mask;
      if (distance >= (slot - gap & mask)) {
        ids[gap] = ids[slot];
        entries[gap] = entries[slot];
        gap = slot;
      }
    }
    entries[gap] = WaitingQueue.NONE;
    size--;
  }

  /** Where an id stands, or the free slot where it would. */
  private int slot(long id) {
    int mask = ids.length - 1;
    int slot = home(id);
    while (entries[slot] != WaitingQueue.NONE && ids[slot] != id) {
      slot = slot + 1 & mask;
    }
    return slot;
  }

  /**
   * Multiplication by the golden ratio and the high bits: spreads sequential ids and strides alike.
   */
  private int home(long id) {
    long mixed = (id ^ id >>> 32) * 0x9E3779B97F4A7C15L;
    return (int) (mixed >>> Long.numberOfLeadingZeros(ids.length) + 1);
  }

  private void grow() {
    long[] oldIds = ids;
    int[] oldEntries = entries;
    ids = new long[2 * oldIds.length];
    entries = new int[2 * oldEntries.length];
    Arrays.fill(entries, WaitingQueue.NONE);
    for (int i = 0; i < oldIds.length; i++) {
      if (oldEntries[i] != WaitingQueue.NONE) {
        int slot = slot(oldIds[i]);
        ids[slot] = oldIds[i];
        entries[slot] = oldEntries[i];
      }
    }
  }
}
