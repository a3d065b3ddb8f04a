// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.ArrayList;
import java.util.Arrays;

/**
 * Any number of pairing heaps over one set of entries, each known by its root: larger priority
 * first, equal ones by turn. An entry is in one heap at most. Adding takes constant time, taking
 * out logarithmic time on average over a sequence of calls. Nothing is allocated but by {@link
 * #grow}.
 */
final class EntryHeaps {
  private static final int NONE = WaitingQueue.NONE;

  private double[] priority = new double[WaitingQueue.INITIAL_CAPACITY];
  private long[] turn = new long[WaitingQueue.INITIAL_CAPACITY];

  /** First of an entry's children. */
  private int[] child = new int[WaitingQueue.INITIAL_CAPACITY];

  /** Next child of the same parent. */
  private int[] sibling = new int[WaitingQueue.INITIAL_CAPACITY];

  /** The sibling before, or the parent of a first child. */
  private int[] previous = new int[WaitingQueue.INITIAL_CAPACITY];

  /** Sets what an entry that is in no heap is ordered by. */
  void key(int entry, double newPriority, long newTurn) {
    priority[entry] = newPriority;
    turn[entry] = newTurn;
  }

  /** Adds an entry; gives the new root. */
  int add(int root, int entry) {
    child[entry] = NONE;
    sibling[entry] = NONE;
    previous[entry] = NONE;
    return root == NONE ? entry : join(root, entry);
  }

  /** Takes an entry out of the heap that it is in; gives the new root. */
  int remove(int root, int entry) {
    int orphans = joinAll(child[entry]);
    if (entry == root) {
      return orphans;
    }
    int before = previous[entry];
    int after = sibling[entry];
    if (child[before] == entry) {
      child[before] = after;
    } else {
      sibling[before] = after;
    }
    if (after != NONE) {
      previous[after] = before;
    }
    return orphans == NONE ? root : join(root, orphans);
  }

  /** The entries of a heap in order, in a new array. */
  int[] inOrder(int root) {
    var all = new ArrayList<Integer>();
    if (root != NONE) {
      all.add(root);
    }
    for (int i = 0; i < all.size(); i++) {
      for (int c = child[all.get(i)]; c != NONE; c = sibling[c]) {
        all.add(c);
      }
    }
    all.sort((a, b) -> before(a, b) ? -1 : 1);
    return all.stream().mapToInt(Integer::intValue).toArray();
  }

  void grow(int capacity) {
    priority = Arrays.copyOf(priority, capacity);
    turn = Arrays.copyOf(turn, capacity);
    child = Arrays.copyOf(child, capacity);
    sibling = Arrays.copyOf(sibling, capacity);
    previous = Arrays.copyOf(previous, capacity);
  }

  /** Numeric comparison, so that 0.0 and -0.0 are one priority. */
  private boolean before(int a, int b) {
    return priority[a] > priority[b] || (priority[a] == priority[b] && turn[a] < turn[b]);
  }

  /** Makes one heap of two; gives its root. */
  private int join(int a, int b) {
    int winner = before(a, b) ? a : b;
    int loser = winner == a ? b : a;
    int first = child[winner];
    sibling[loser] = first;
    if (first != NONE) {
      previous[first] = loser;
    }
    previous[loser] = winner;
    child[winner] = loser;
    sibling[winner] = NONE;
    previous[winner] = NONE;
    return winner;
  }

  /** Makes one heap of siblings: pairs from the left, then all of them from the right. */
  private int joinAll(int first) {
    int pairs = NONE; // the last pair, chained leftwards by sibling
    int next = first;
    while (next != NONE) {
      int a = next;
      int b = sibling[a];
      next = b == NONE ? NONE : sibling[b];
      int pair = b == NONE ? a : join(a, b);
      sibling[pair] = pairs;
      pairs = pair;
    }
    int root = NONE;
    while (pairs != NONE) {
      int pair = pairs;
      pairs = sibling[pair];
      root = root == NONE ? pair : join(root, pair);
    }
    if (root != NONE) {
      sibling[root] = NONE;
      previous[root] = NONE;
    }
    return root;
  }
}
