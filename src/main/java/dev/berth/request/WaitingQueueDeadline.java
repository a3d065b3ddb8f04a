// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/**
 * Earliest due first, equal ones by turn. A request is due at its deadline; without one, patience
 * after it arrived; and once it is late, patience after its deadline, so that it lets those pass
 * that can still be in time. What is put back is due at its deadline if that is open, else at once.
 */
final class WaitingQueueDeadline extends WaitingQueueHeap {
  private final long patience;

  /** Iteration in which an entry is due. */
  private long[] due = new long[INITIAL_CAPACITY];

  /** Whether {@link #due} is the deadline itself, to be looked at again once it is over. */
  private boolean[] bound = new boolean[INITIAL_CAPACITY];

  WaitingQueueDeadline(int ranks, long patience) {
    super(ranks);
    this.patience = patience;
  }

  @Override
  public Policy policy() {
    return Policy.DEADLINE;
  }

  @Override
  boolean expired(Request request) {
    return request.terms().at(now()) == ServiceTerms.Timeliness.LATE;
  }

  @Override
  int compareKeys(int a, int b) {
    return Long.compare(due[a], due[b]);
  }

  @Override
  void keyOfArrival(int entry) {
    key(entry, later(now()));
  }

  @Override
  void keyOfReturn(int entry) {
    key(entry, Long.MIN_VALUE);
  }

  private void key(int entry, long otherwise) {
    ServiceTerms terms = requestOf(entry).terms();
    bound[entry] = terms.at(now()) == ServiceTerms.Timeliness.OPEN;
    due[entry] = bound[entry] ? terms.deadline() : otherwise;
  }

  /**
   * Whatever is late and has a claim left stands before everything in time, so it is enough to look
   * at the head.
   */
  @Override
  int scanFirst() {
    int head = top();
    while (head != NONE && bound[head] && due[head] < now()) {
      bound[head] = false;
      due[head] = later(due[head]);
      topMovesBack();
      head = top();
    }
    return head;
  }

  private long later(long iteration) {
    return iteration > Long.MAX_VALUE - patience ? Long.MAX_VALUE : iteration + patience;
  }

  @Override
  void grow(int capacity) {
    super.grow(capacity);
    due = Arrays.copyOf(due, capacity);
    bound = Arrays.copyOf(bound, capacity);
  }
}
