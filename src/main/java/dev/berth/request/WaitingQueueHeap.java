// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/**
 * A queue that is a binary heap over entries, ordered by a key and then by turn. Arrivals take
 * turns 0, 1, 2…; requests put back take turns below everything that waits. A blocked request
 * leaves the heap for the rest of a pop and returns with the key and turn it had, which is its old
 * place. The order is total.
 */
abstract sealed class WaitingQueueHeap extends WaitingQueue
    permits WaitingQueuePriority, WaitingQueueDeadline {
  private long[] turn = new long[INITIAL_CAPACITY];

  /** Where in the heap an entry stands. */
  private int[] place = new int[INITIAL_CAPACITY];

  private int[] heap = new int[INITIAL_CAPACITY];
  private int heapSize;

  /** Blocked entries of the pop under way. */
  private int[] aside = new int[INITIAL_CAPACITY];

  private int asideSize;
  private long lastTurn;
  private long firstTurn = -1;

  WaitingQueueHeap(int ranks) {
    super(ranks);
  }

  /** Negative if the key of {@code a} goes first, 0 if the keys are equal. */
  abstract int compareKeys(int a, int b);

  /** Sets the key of an entry that arrives. */
  abstract void keyOfArrival(int entry);

  /** Sets the key of an entry that is put back. */
  abstract void keyOfReturn(int entry);

  @Override
  final void linkLast(int entry) {
    keyOfArrival(entry);
    turn[entry] = lastTurn++;
    siftUp(heapSize++, entry);
  }

  @Override
  final void linkFirst(int entry) {
    keyOfReturn(entry);
    turn[entry] = firstTurn--;
    siftUp(heapSize++, entry);
  }

  @Override
  final void unlink(int entry) {
    int at = place[entry];
    int moved = heap[--heapSize];
    if (moved != entry) {
      if (before(moved, entry)) {
        siftUp(at, moved);
      } else {
        siftDown(at, moved);
      }
    }
  }

  @Override
  int scanFirst() {
    return top();
  }

  /** The entry whose turn it is, {@link #NONE} if there is none. */
  final int top() {
    return heapSize == 0 ? NONE : heap[0];
  }

  /** The key of the top has become larger: it goes where it belongs. */
  final void topMovesBack() {
    siftDown(0, heap[0]);
  }

  @Override
  final int scanTake(int entry) {
    unlink(entry);
    return scanFirst();
  }

  @Override
  final int scanSkip(int entry) {
    unlink(entry);
    aside[asideSize++] = entry;
    return scanFirst();
  }

  @Override
  final void scanEnd() {
    while (asideSize > 0) {
      siftUp(heapSize++, aside[--asideSize]);
    }
  }

  @Override
  final int[] entriesInOrder() {
    int[] order = new int[heapSize];
    int entry = scanFirst();
    for (int i = 0; i < order.length; i++) {
      order[i] = entry;
      entry = scanSkip(entry);
    }
    scanEnd();
    return order;
  }

  @Override
  void grow(int capacity) {
    turn = Arrays.copyOf(turn, capacity);
    place = Arrays.copyOf(place, capacity);
    heap = Arrays.copyOf(heap, capacity);
    aside = Arrays.copyOf(aside, capacity);
  }

  private boolean before(int a, int b) {
    int keys = compareKeys(a, b);
    return keys < 0 || (keys == 0 && turn[a] < turn[b]);
  }

  private void siftUp(int from, int entry) {
    int at = from;
    while (at > 0) {
      int parent = (at - 1) >>> 1;
      if (!before(entry, heap[parent])) {
        break;
      }
      put(at, heap[parent]);
      at = parent;
    }
    put(at, entry);
  }

  private void siftDown(int from, int entry) {
    int at = from;
    int child;
    while ((child = 2 * at + 1) < heapSize) {
      if (child + 1 < heapSize && before(heap[child + 1], heap[child])) {
        child++;
      }
      if (!before(heap[child], entry)) {
        break;
      }
      put(at, heap[child]);
      at = child;
    }
    put(at, entry);
  }

  private void put(int at, int entry) {
    heap[at] = entry;
    place[entry] = at;
  }
}
