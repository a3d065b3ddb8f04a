// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import java.util.Arrays;

/**
 * What a ledger holds, by request id: open addressing over columns, at most half full; removal
 * closes the gap, so nothing accumulates and nothing is allocated once it has grown to its largest
 * size.
 */
final class LedgerEntries {
  static final int NONE = -1;

  private static final int INITIAL = 32;

  private long[] ids = new long[INITIAL];
  private int[] ranks = filled(INITIAL);
  private int[] costs = new int[INITIAL];
  private long[] tokens = new long[INITIAL];
  private long[] numbers = new long[INITIAL];
  private long[] since = new long[INITIAL];
  private int size;

  LedgerEntries() {}

  private static int[] filled(int length) {
    int[] ranks = new int[length];
    Arrays.fill(ranks, NONE);
    return ranks;
  }

  int size() {
    return size;
  }

  /** Places that {@link #taken} tells about. */
  int places() {
    return ids.length;
  }

  boolean taken(int place) {
    return ranks[place] != NONE;
  }

  /** The place of an id, {@link #NONE} if it isn't held. */
  int find(long id) {
    int place = place(id);
    return ranks[place] == NONE ? NONE : place;
  }

  long id(int place) {
    return ids[place];
  }

  int rank(int place) {
    return ranks[place];
  }

  int cost(int place) {
    return costs[place];
  }

  long tokens(int place) {
    return tokens[place];
  }

  /** Number of the dispatch among those to its rank, from 1. */
  long number(int place) {
    return numbers[place];
  }

  /** When it was dispatched. */
  long since(int place) {
    return since[place];
  }

  /** Adds an id that isn't held. */
  void add(long id, int rank, int cost, long load, long number, long now) {
    if (2 * (size + 1) > ids.length) {
      grow();
    }
    set(place(id), id, rank, cost, load, number, now);
    size++;
  }

  private void set(int place, long id, int rank, int cost, long load, long number, long now) {
    ids[place] = id;
    ranks[place] = rank;
    costs[place] = cost;
    tokens[place] = load;
    numbers[place] = number;
    since[place] = now;
  }

  /** Removes what stands at a place; another may stand there afterwards. */
  void remove(int place) {
    int mask = ids.length - 1;
    int gap = place;
    for (int at = gap + 1 & mask; ranks[at] != NONE; at = at + 1 & mask) {
      if ((at - home(ids[at]) & mask) >= (at - gap & mask)) {
        set(gap, ids[at], ranks[at], costs[at], tokens[at], numbers[at], since[at]);
        gap = at;
      }
    }
    ranks[gap] = NONE;
    size--;
  }

  private int place(long id) {
    int mask = ids.length - 1;
    int place = home(id);
    while (ranks[place] != NONE && ids[place] != id) {
      place = place + 1 & mask;
    }
    return place;
  }

  private int home(long id) {
    long mixed = (id ^ id >>> 32) * 0x9E3779B97F4A7C15L;
    return (int) (mixed >>> Long.numberOfLeadingZeros(ids.length) + 1);
  }

  private void grow() {
    LedgerEntries larger = new LedgerEntries();
    int length = 2 * ids.length;
    larger.ids = new long[length];
    larger.ranks = filled(length);
    larger.costs = new int[length];
    larger.tokens = new long[length];
    larger.numbers = new long[length];
    larger.since = new long[length];
    for (int at = 0; at < ids.length; at++) {
      if (ranks[at] != NONE) {
        int place = larger.place(ids[at]);
        larger.set(place, ids[at], ranks[at], costs[at], tokens[at], numbers[at], since[at]);
      }
    }
    ids = larger.ids;
    ranks = larger.ranks;
    costs = larger.costs;
    tokens = larger.tokens;
    numbers = larger.numbers;
    since = larger.since;
  }
}
