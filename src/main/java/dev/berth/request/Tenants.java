// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/**
 * Who was charged how much: virtual-token counters of the tenants that wait, and of those that left
 * with more than the floor. The floor is the counter at which the last request was taken, the
 * highest such so far. Nobody begins to wait below it, so a tenant that was away claims nothing for
 * that time; and one at or below it is as good as never seen, and is forgotten. What is kept
 * therefore doesn't grow with the tenants that ever were.
 */
final class Tenants {
  private static final int NONE = WaitingQueue.NONE;

  /** Virtual units that a token costs a tenant of weight 1. */
  private static final long SCALE = ServiceTerms.MAX_WEIGHT;

  /**
   * From here on counters are lowered together. Nobody is further above the floor than one charge,
   * at most 2^61 + 2^41, so that no sum reaches 2^63.
   */
  private static final long REBASE = 1L << 60;

  private final WaitingQueueIndex slots = new WaitingQueueIndex();
  private final TenantHeap waiting = new TenantHeap(this);
  private final TenantHeap departed = new TenantHeap(this);

  private long[] id = new long[WaitingQueue.INITIAL_CAPACITY];
  private long[] counter = new long[WaitingQueue.INITIAL_CAPACITY];
  private long[] turn = new long[WaitingQueue.INITIAL_CAPACITY];
  private int[] nextFree = new int[WaitingQueue.INITIAL_CAPACITY];
  private int firstFree = NONE;
  private int unusedFrom;

  private long floor;
  private long lastTurn;
  private long firstTurn = -1;

  /** What a request is charged: its tokens over its weight, in units, rounded up. */
  static long charge(Request request) {
    int weight = request.terms().weight();
    return (request.serviceTokens() * SCALE + weight - 1) / weight;
  }

  /** Slots ever in use at once. */
  int capacity() {
    return id.length;
  }

  /** Tenants that are known. */
  int size() {
    return slots.size();
  }

  /** The slot of a tenant, which is made if nobody knows it. */
  int slot(long tenant) {
    int known = slots.get(tenant);
    if (known != NONE) {
      return known;
    }
    int slot = firstFree;
    if (slot != NONE) {
      firstFree = nextFree[slot];
    } else {
      slot = unusedFrom++;
      if (slot == id.length) {
        grow(2 * slot);
      }
    }
    id[slot] = tenant;
    counter[slot] = floor;
    turn[slot] = lastTurn++;
    slots.put(tenant, slot);
    return slot;
  }

  /** The tenant whose turn it is, {@link #NONE} if nobody waits. */
  int first() {
    return waiting.top();
  }

  boolean waits(int slot) {
    return waiting.contains(slot);
  }

  /** It has something that waits, again or for the first time. */
  void join(int slot) {
    if (departed.contains(slot)) {
      departed.remove(slot);
    }
    counter[slot] = Math.max(counter[slot], floor);
    waiting.add(slot);
  }

  /** Nothing of it waits for now. */
  void pause(int slot) {
    waiting.remove(slot);
  }

  /** Nothing of it waits any more. */
  void depart(int slot) {
    departed.add(slot);
  }

  /** A request of the tenant is taken, which waits. */
  void charge(int slot, long units) {
    floor = Math.max(floor, counter[slot]);
    if (floor >= REBASE) {
      rebase();
    }
    counter[slot] += units;
    turn[slot] = lastTurn++;
    waiting.moved(slot);
  }

  /** A request of the tenant wasn't taken after all: the tenant goes before its equals. */
  void refund(int slot, long units) {
    counter[slot] = Math.max(counter[slot] - units, floor);
    turn[slot] = firstTurn--;
    if (waiting.contains(slot)) {
      waiting.moved(slot);
    } else if (departed.contains(slot)) {
      departed.moved(slot);
    }
  }

  /** Forgets who left and owes nothing. */
  void forget() {
    for (int slot = departed.top(); slot != NONE && counter[slot] <= floor; slot = departed.top()) {
      departed.remove(slot);
      slots.remove(id[slot]);
      nextFree[slot] = firstFree;
      firstFree = slot;
    }
  }

  long counter(int slot) {
    return counter[slot];
  }

  long turn(int slot) {
    return turn[slot];
  }

  boolean before(int a, int b) {
    return counter[a] < counter[b] || (counter[a] == counter[b] && turn[a] < turn[b]);
  }

  /** Only differences count. Free slots are lowered too, which nobody sees. */
  private void rebase() {
    for (int slot = 0; slot < unusedFrom; slot++) {
      counter[slot] -= floor;
    }
    floor = 0;
  }

  private void grow(int capacity) {
    id = Arrays.copyOf(id, capacity);
    counter = Arrays.copyOf(counter, capacity);
    turn = Arrays.copyOf(turn, capacity);
    nextFree = Arrays.copyOf(nextFree, capacity);
    waiting.grow(capacity);
    departed.grow(capacity);
  }
}
