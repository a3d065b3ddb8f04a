// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.RequestBatch;

/**
 * A router's working copy of the gathered states: it counts up as requests are placed. Grows to the
 * largest group and allocates nothing after that.
 */
final class RankTable {
  /** n of a closed rank: at or above every limit. */
  static final int CLOSED = Integer.MAX_VALUE;

  /** n, the requests placed so far included. */
  int[] active = new int[0];

  /** Load that placement goes by, {@code 0 .. RankState.MAX_TOKENS} at the start of a call. */
  long[] tokens = new long[0];

  /** Retiring requests that placement counts beside n. */
  int[] retiring = new int[0];

  private int ranks;
  private int open;
  private int cap;
  private int limit;
  private long routable;
  private RankCap rankCap = RankCap.HARD;

  RankTable() {}

  /**
   * Takes the states of a call.
   *
   * @throws BerthException ARGUMENT if there are no ranks, the cap is below 1, or a request names a
   *     rank that doesn't exist
   */
  void begin(
      RankLoads loads, RequestBatch batch, int newCap, RankCap newRankCap, PlacementView view) {
    requireRoutable(loads, batch, newCap);
    ranks = loads.ranks();
    if (active.length < ranks) {
      active = new int[ranks];
      tokens = new long[ranks];
      retiring = new int[ranks];
    }
    open = loads.openRanks();
    cap = newCap;
    rankCap = newRankCap;
    limit = newRankCap == RankCap.HARD ? newCap : CLOSED;
    loads.copyTo(active, tokens);
    routable = loads.routable();
    if (view == PlacementView.RESIDENT) {
      countRetiring(loads, batch);
    } else {
      java.util.Arrays.fill(retiring, 0, ranks, 0);
    }
    for (int rank = 0; open < ranks && rank < ranks; rank++) {
      if (loads.isClosed(rank)) {
        routable -= active[rank];
        active[rank] = CLOSED;
      }
    }
  }

  private void countRetiring(RankLoads loads, RequestBatch batch) {
    long others = meanLoad(loads, batch);
    for (int rank = 0; rank < ranks; rank++) {
      retiring[rank] =
          Math.clamp(CLOSED - (long) active[rank] - batch.size(), 0, loads.retiringRequests(rank));
      long each = active[rank] > 0 ? tokens[rank] / active[rank] : others;
      long room = RankState.MAX_TOKENS - tokens[rank];
      tokens[rank] += each > 0 && retiring[rank] > room / each ? room : each * retiring[rank];
    }
  }

  /** Mean load of a routable request of any rank; without one the mean prompt of the batch. */
  private long meanLoad(RankLoads loads, RequestBatch batch) {
    double total = 0;
    if (loads.routable() > 0) {
      for (int rank = 0; rank < ranks; rank++) {
        total += tokens[rank];
      }
      return (long) (total / loads.routable());
    }
    for (int item = 0; item < batch.size(); item++) {
      total += batch.promptTokens(item);
    }
    return batch.size() == 0 ? 0 : (long) (total / batch.size());
  }

  int ranks() {
    return ranks;
  }

  /** Ranks that take requests. */
  int open() {
    return open;
  }

  /** True if a rank takes a request that asks for it: open and below K. */
  boolean hasRoom(int rank) {
    return active[rank] < limit;
  }

  /** Counts a request on a rank. */
  void place(int rank) {
    active[rank]++;
    routable++;
  }

  /** Largest n of an open rank. */
  int highest() {
    int highest = 0;
    for (int rank = 0; rank < ranks; rank++) {
      if (active[rank] != CLOSED) {
        highest = Math.max(highest, active[rank]);
      }
    }
    return highest;
  }

  /** E for the requests that are left (spec 01 §4.1). */
  int target(int remaining, double multiplier) {
    return open == 0
        ? 0
        : FairShare.target(routable, highest(), remaining, open, multiplier, cap, rankCap);
  }

  private static void requireRoutable(RankLoads loads, RequestBatch batch, int cap) {
    if (loads.ranks() < 1) {
      throw new BerthException(Code.ARGUMENT, "no rank states were gathered");
    }
    if (cap < 1) {
      throw new BerthException(Code.ARGUMENT, "the cap per rank must be >= 1, got " + cap);
    }
    if (batch.highestTarget() >= loads.ranks()) {
      for (int item = 0; item < batch.size(); item++) {
        if (batch.targetRank(item) >= loads.ranks()) {
          throw new BerthException(
              Code.ARGUMENT,
              "request "
                  + batch.get(item).id()
                  + " names the target rank "
                  + batch.targetRank(item)
                  + ", but there are "
                  + loads.ranks()
                  + " ranks");
        }
      }
    }
  }
}
