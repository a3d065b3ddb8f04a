// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/**
 * Ranks below the target in a binary min-heap with the key (tokens, requests, place), where the
 * place of a rank is its distance from the first one. The key is a total order, so what comes out
 * doesn't depend on how the heap was built. Source: spec 01 §4.2.
 */
final class LeastLoaded {
  private long[] tokens = new long[0];

  /** Requests in the upper half, place in the lower: one comparison for both. */
  private long[] requestsAndRank = new long[0];

  /** Requests that count in the key, but not towards the target. */
  private int[] besides = new int[0];

  private int size;
  private int ranks;
  private int first;

  LeastLoaded() {}

  /**
   * Takes the ranks with {@code active[rank] < expected}.
   *
   * @param firstRank the rank that wins ties
   */
  void build(RankTable table, int expected, int firstRank) {
    ranks = table.ranks();
    first = firstRank;
    besides = table.retiring;
    if (tokens.length < ranks) {
      tokens = new long[ranks];
      requestsAndRank = new long[ranks];
    }
    size = 0;
    int rank = first;
    for (int place = 0; place < ranks; place++) {
      int active = table.active[rank];
      if (active < expected) {
        tokens[size] = table.tokens[rank];
        requestsAndRank[size] = ((long) active + besides[rank]) << 32 | place;
        size++;
      }
      rank = rank + 1 == ranks ? 0 : rank + 1;
    }
    for (int at = (size >>> 1) - 1; at >= 0; at--) {
      siftDown(at, tokens[at], requestsAndRank[at]);
    }
  }

  boolean isEmpty() {
    return size == 0;
  }

  /** The least loaded rank. */
  int rank() {
    int rank = (int) requestsAndRank[0] + first;
    return rank >= ranks ? rank - ranks : rank;
  }

  /** Gives the least loaded rank one request; at the target it leaves. */
  void charge(int promptTokens, int expected) {
    long counted = requestsAndRank[0] + (1L << 32);
    if ((counted >>> 32) - besides[rank()] < expected) {
      siftDown(0, tokens[0] + promptTokens, counted);
    } else {
      size--;
      siftDown(0, tokens[size], requestsAndRank[size]);
    }
  }

  private void siftDown(int from, long load, long counted) {
    int at = from;
    int child;
    while ((child = 2 * at + 1) < size) {
      int right = child + 1;
      if (right < size
          && less(tokens[right], requestsAndRank[right], tokens[child], requestsAndRank[child])) {
        child = right;
      }
      if (!less(tokens[child], requestsAndRank[child], load, counted)) {
        break;
      }
      tokens[at] = tokens[child];
      requestsAndRank[at] = requestsAndRank[child];
      at = child;
    }
    tokens[at] = load;
    requestsAndRank[at] = counted;
  }

  private static boolean less(long tokensA, long countedA, long tokensB, long countedB) {
    return tokensA != tokensB ? tokensA < tokensB : countedA < countedB;
  }
}
