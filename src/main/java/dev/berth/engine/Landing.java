// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.request.Request;
import java.util.ArrayDeque;

/**
 * Sequences that were placed on a rank and have no row yet, in the order of their placement. A
 * request counts as one where it is placed, and its children come with it: a rank may get more
 * sequences than it has rows for. They count in what the rank tells the others, as those that have
 * a row do. Allocates nothing while nothing is placed.
 */
final class Landing {
  private record Placed(Request request, int load) {}

  private final ArrayDeque<Placed> placed = new ArrayDeque<>();
  private int child; // of the first: those before it have landed
  private int size;
  private long tokens;

  void add(Request request, int load) {
    placed.add(new Placed(request, load));
    size += 1 + request.children();
    tokens += (1L + request.children()) * load;
  }

  boolean isEmpty() {
    return size == 0;
  }

  /** Sequences. */
  int size() {
    return size;
  }

  /** What they add to the rank's token load. */
  long tokens() {
    return tokens;
  }

  /** Whose the next sequence is. */
  Request request() {
    return placed.getFirst().request;
  }

  /** Which of its sequences. */
  int child() {
    return child;
  }

  /** Its load. */
  int load() {
    return placed.getFirst().load;
  }

  /** The next one has landed. */
  void remove() {
    Placed first = placed.getFirst();
    size--;
    tokens -= first.load;
    child++;
    if (child > first.request.children()) {
      placed.removeFirst();
      child = 0;
    }
  }

  /** Takes out what is left of a request; how many sequences that were. */
  int withdraw(long id) {
    int before = size;
    boolean first = true;
    for (var all = placed.iterator(); all.hasNext(); first = false) {
      Placed next = all.next();
      if (next.request.id() == id) {
        int left = 1 + next.request.children() - (first ? child : 0);
        size -= left;
        tokens -= (long) left * next.load;
        child = first ? 0 : child;
        all.remove();
      }
    }
    return before - size;
  }
}
