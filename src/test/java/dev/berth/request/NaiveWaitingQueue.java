// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.ArrayList;
import java.util.List;

/**
 * The waiting queue once more, as spec 01 §3.4 and §3.5 tell it, in one list: blocked requests are
 * taken out and put back at the front, on a private copy of the counts.
 */
final class NaiveWaitingQueue {
  private final WaitingQueue.Policy policy;
  private final List<Request> waiting = new ArrayList<>();

  NaiveWaitingQueue(WaitingQueue.Policy policy) {
    this.policy = policy;
  }

  boolean offer(Request request) {
    if (contains(request.id())) {
      return false;
    }
    int at = waiting.size();
    if (policy == WaitingQueue.Policy.PRIORITY) {
      while (at > 0 && waiting.get(at - 1).priority() < request.priority()) {
        at--;
      }
    }
    waiting.add(at, request);
    return true;
  }

  boolean cancel(long id) {
    return waiting.removeIf(request -> request.id() == id);
  }

  boolean contains(long id) {
    return waiting.stream().anyMatch(request -> request.id() == id);
  }

  List<Request> waiting() {
    return waiting;
  }

  void putBack(List<Request> batch) {
    for (int i = batch.size() - 1; i >= 0; i--) {
      Request request = batch.get(i);
      int at = 0;
      if (policy == WaitingQueue.Policy.PRIORITY) {
        while (at < waiting.size() && waiting.get(at).priority() > request.priority()) {
          at++;
        }
      }
      waiting.add(at, request);
    }
  }

  List<Request> pop(int budget, long[] counts, int cap) {
    long[] active = counts.clone();
    List<Request> popped = new ArrayList<>();
    List<Request> aside = new ArrayList<>();
    long cost = 0;
    while (cost < budget && !waiting.isEmpty()) {
      Request head = waiting.getFirst();
      if (cost + 1 + head.children() > budget) {
        break;
      }
      waiting.removeFirst();
      int target = head.scheduling().targetRank();
      boolean strict =
          active.length > 0
              && head.scheduling().present()
              && target != SchedulingParams.NO_RANK
              && head.scheduling().relax() != Relax.RELAXED;
      if (strict && active[target] >= cap) {
        aside.add(head);
      } else {
        if (strict) {
          active[target]++;
        }
        cost += 1 + head.children();
        popped.add(head);
      }
    }
    putBack(aside);
    return popped;
  }
}
