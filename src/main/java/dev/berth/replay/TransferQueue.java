// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.PriorityQueue;

/**
 * KV transfers on the way and encoders that run, the earliest first; equal times in the order of
 * their start.
 */
final class TransferQueue {
  /** What ends. */
  enum Kind {
    TRANSFER,
    ENCODER
  }

  private record Transfer(double at, long order, Kind kind, int rank, int row, long request)
      implements Comparable<Transfer> {
    @Override
    public int compareTo(Transfer other) {
      int byTime = Double.compare(at, other.at);
      return byTime != 0 ? byTime : Long.compare(order, other.order);
    }
  }

  private final PriorityQueue<Transfer> queue = new PriorityQueue<>();
  private long started;

  void add(double at, Kind kind, int rank, int row, long request) {
    queue.add(new Transfer(at, started++, kind, rank, row, request));
  }

  /** Arrival time of the earliest, positive infinity if none is on the way. */
  double nextAt() {
    Transfer head = queue.peek();
    return head == null ? Double.POSITIVE_INFINITY : head.at;
  }

  Kind kind() {
    return head().kind;
  }

  int rank() {
    return head().rank;
  }

  int row() {
    return head().row;
  }

  long request() {
    return head().request;
  }

  void remove() {
    queue.remove();
  }

  private Transfer head() {
    return queue.element();
  }
}
