// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/** Larger priority first, equal ones by turn. */
final class WaitingQueuePriority extends WaitingQueueHeap {
  private double[] priority = new double[INITIAL_CAPACITY];

  WaitingQueuePriority(int ranks) {
    super(ranks);
  }

  @Override
  public Policy policy() {
    return Policy.PRIORITY;
  }

  /** Numeric comparison, so that 0.0 and -0.0 are one priority. */
  @Override
  int compareKeys(int a, int b) {
    if (priority[a] == priority[b]) {
      return 0;
    }
    return priority[a] > priority[b] ? -1 : 1;
  }

  @Override
  void keyOfArrival(int entry) {
    priority[entry] = requestOf(entry).priority();
  }

  @Override
  void keyOfReturn(int entry) {
    keyOfArrival(entry);
  }

  @Override
  void grow(int capacity) {
    super.grow(capacity);
    priority = Arrays.copyOf(priority, capacity);
  }
}
