// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Requests by the time at which it is over, the earliest first; equal ones by number. */
final class TimerHeap {
  private @Nullable LiveRequest[] heap = new @Nullable LiveRequest[16];
  private int size;

  int size() {
    return size;
  }

  /** When the first time is over; NO_LIMIT if there is none. */
  long next() {
    return size == 0 ? SubmitOptions.NO_LIMIT : at(0).due;
  }

  LiveRequest first() {
    return at(0);
  }

  /** Puts a request where its time says; out if it has none any more. */
  void set(LiveRequest request, long due) {
    remove(request);
    request.due = due;
    if (due == SubmitOptions.NO_LIMIT) {
      return;
    }
    if (size == heap.length) {
      heap = Arrays.copyOf(heap, size * 2);
    }
    put(size++, request);
    up(request.timer);
  }

  void remove(LiveRequest request) {
    int hole = request.timer;
    if (hole < 0) {
      return;
    }
    request.timer = -1;
    LiveRequest last = at(--size);
    heap[size] = null;
    if (last != request) {
      put(hole, last);
      up(hole);
      down(last.timer);
    }
  }

  private LiveRequest at(int index) {
    return Objects.requireNonNull(heap[index]);
  }

  private void put(int index, LiveRequest request) {
    heap[index] = request;
    request.timer = index;
  }

  private static boolean before(LiveRequest a, LiveRequest b) {
    return a.due != b.due ? a.due < b.due : a.number < b.number;
  }

  private void up(int index) {
    LiveRequest moved = at(index);
    int to = index;
    while (to > 0 && before(moved, at((to - 1) / 2))) {
      put(to, at((to - 1) / 2));
      to = (to - 1) / 2;
    }
    put(to, moved);
  }

  private void down(int index) {
    LiveRequest moved = at(index);
    int to = index;
    while (2 * to + 1 < size) {
      int child = 2 * to + 1;
      if (child + 1 < size && before(at(child + 1), at(child))) {
        child++;
      }
      if (!before(at(child), moved)) {
        break;
      }
      put(to, at(child));
      to = child;
    }
    put(to, moved);
  }
}
