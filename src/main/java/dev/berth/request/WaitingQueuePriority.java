// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/**
 * Larger priority first: a binary heap over entries with the key (priority descending, turn
 * ascending). Arrivals take turns 0, 1, 2…; requests put back take turns below everything that
 * waits. A blocked request leaves the heap for the rest of a pop and returns with the turn it had,
 * which is its old place. The key is a total order.
 */
final class WaitingQueuePriority extends WaitingQueue {
  private double[] priority = new double[INITIAL_CAPACITY];
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

  WaitingQueuePriority(int ranks) {
    super(ranks);
  }

  @Override
  public Policy policy() {
    return Policy.PRIORITY;
  }

  @Override
  void linkLast(int entry) {
    insert(entry, lastTurn++);
  }

  @Override
  void linkFirst(int entry) {
    insert(entry, firstTurn--);
  }

  @Override
  void unlink(int entry) {
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
    return heapSize == 0 ? NONE : heap[0];
  }

  @Override
  int scanTake(int entry) {
    unlink(entry);
    return scanFirst();
  }

  @Override
  int scanSkip(int entry) {
    unlink(entry);
    aside[asideSize++] = entry;
    return scanFirst();
  }

  @Override
  void scanEnd() {
    while (asideSize > 0) {
      siftUp(heapSize++, aside[--asideSize]);
    }
  }

  @Override
  int[] entriesInOrder() {
    int[] order = new int[heapSize];
    for (int i = 0; i < order.length; i++) {
      order[i] = heap[0];
      scanSkip(heap[0]);
    }
    scanEnd();
    return order;
  }

  @Override
  void grow(int capacity) {
    priority = Arrays.copyOf(priority, capacity);
    turn = Arrays.copyOf(turn, capacity);
    place = Arrays.copyOf(place, capacity);
    heap = Arrays.copyOf(heap, capacity);
    aside = Arrays.copyOf(aside, capacity);
  }

  private void insert(int entry, long newTurn) {
    priority[entry] = requestOf(entry).priority();
    turn[entry] = newTurn;
    siftUp(heapSize++, entry);
  }

  /** Numeric comparison, so that 0.0 and -0.0 are one priority. */
  private boolean before(int a, int b) {
    return priority[a] > priority[b] || (priority[a] == priority[b] && turn[a] < turn[b]);
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
