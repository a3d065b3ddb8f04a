// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/**
 * First come, first served: a doubly linked list over entries, so that blocked requests keep their
 * place by standing still.
 */
final class WaitingQueueFcfs extends WaitingQueue {
  private int[] next = new int[INITIAL_CAPACITY];
  private int[] previous = new int[INITIAL_CAPACITY];
  private int first = NONE;
  private int last = NONE;

  WaitingQueueFcfs(int ranks) {
    super(ranks);
  }

  @Override
  public Policy policy() {
    return Policy.FCFS;
  }

  @Override
  void linkLast(int entry) {
    previous[entry] = last;
    next[entry] = NONE;
    if (last == NONE) {
      first = entry;
    } else {
      next[last] = entry;
    }
    last = entry;
  }

  @Override
  void linkFirst(int entry) {
    previous[entry] = NONE;
    next[entry] = first;
    if (first == NONE) {
      last = entry;
    } else {
      previous[first] = entry;
    }
    first = entry;
  }

  @Override
  void unlink(int entry) {
    int before = previous[entry];
    int after = next[entry];
    if (before == NONE) {
      first = after;
    } else {
      next[before] = after;
    }
    if (after == NONE) {
      last = before;
    } else {
      previous[after] = before;
    }
  }

  @Override
  int scanFirst() {
    return first;
  }

  @Override
  int scanTake(int entry) {
    int after = next[entry];
    unlink(entry);
    return after;
  }

  @Override
  int scanSkip(int entry) {
    return next[entry];
  }

  @Override
  void scanEnd() {}

  @Override
  int[] entriesInOrder() {
    int[] order = new int[size()];
    int entry = first;
    for (int i = 0; i < order.length; i++) {
      order[i] = entry;
      entry = next[entry];
    }
    return order;
  }

  @Override
  void grow(int capacity) {
    next = Arrays.copyOf(next, capacity);
    previous = Arrays.copyOf(previous, capacity);
  }
}
