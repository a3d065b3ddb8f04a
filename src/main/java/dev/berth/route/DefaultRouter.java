// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.Relax;
import dev.berth.request.RequestBatch;
import dev.berth.request.SchedulingParams;

/**
 * Balances prompt tokens: the longest request first, each to the rank with the least load that is
 * still below the target E.
 *
 * <p>Explicit ranks are served first, strict wishes before relaxed ones, and bounded by K alone; a
 * full target sends its request, strict or not, to the balanced remainder (the strict test is the
 * waiting queue's, spec 01 §3.4). Tokens of explicitly placed requests don't enter the load.
 * Source: spec 01 §4.1, §4.2.
 */
public final class DefaultRouter implements AdpRouter {
  /** {@link #name()} of this policy. */
  public static final String NAME = "default";

  private static final double EVEN_SHARE = 1.0;

  private final RankCap rankCap;
  private final DescendingTokens order = new DescendingTokens();
  private final LeastLoaded leastLoaded = new LeastLoaded();
  private int[] active = new int[0];
  private long[] tokens = new long[0];

  /** The router with the hard cap. */
  public DefaultRouter() {
    this(RankCap.HARD);
  }

  /** The router with a choice of cap; everything but {@link RankCap#HARD} is for evidence arms. */
  public DefaultRouter(RankCap rankCap) {
    this.rankCap = rankCap;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public void route(RankLoads loads, RequestBatch batch, int cap, Assignment out) {
    requireRoutable(loads, batch, cap);
    int ranks = loads.ranks();
    if (active.length < ranks) {
      active = new int[ranks];
      tokens = new long[ranks];
    }
    loads.copyTo(active, tokens);
    out.begin(ranks, batch.size());
    order.begin(batch.size());

    placeExplicit(batch, cap, out);
    int expected = expectedActive(loads.routable() + batch.size() - order.size(), ranks, cap);
    balance(batch, ranks, expected, out);
    out.finish(expected);
  }

  /**
   * Serves explicit ranks in order of (relax, arrival); everything else goes to the remainder in
   * that order.
   */
  private void placeExplicit(RequestBatch batch, int cap, Assignment out) {
    int size = batch.size();
    if (batch.targeted() == 0) {
      for (int item = 0; item < size; item++) {
        order.add(item);
      }
      return;
    }
    for (int item = 0; item < size; item++) {
      if (isStrict(batch, item)) {
        placeOrKeep(batch, item, cap, out);
      }
    }
    for (int item = 0; item < size; item++) {
      if (!isStrict(batch, item)) {
        placeOrKeep(batch, item, cap, out);
      }
    }
  }

  /**
   * The ordering key "relax" is false only for a target rank with an explicit "no" (spec 01 §4.1).
   */
  private static boolean isStrict(RequestBatch batch, int item) {
    return batch.targetRank(item) != SchedulingParams.NO_RANK && batch.relax(item) == Relax.STRICT;
  }

  private void placeOrKeep(RequestBatch batch, int item, int cap, Assignment out) {
    int target = batch.targetRank(item);
    if (target != SchedulingParams.NO_RANK && (rankCap == RankCap.OFF || active[target] < cap)) {
      active[target]++;
      out.place(item, target);
    } else {
      order.add(item);
    }
  }

  private int expectedActive(long routable, int ranks, int cap) {
    int highest = 0;
    for (int rank = 0; rank < ranks; rank++) {
      highest = Math.max(highest, active[rank]);
    }
    return FairShare.target(routable, highest, order.size(), ranks, EVEN_SHARE, cap, rankCap);
  }

  /** Gives each request to the least loaded rank below E, while there is one. */
  private void balance(RequestBatch batch, int ranks, int expected, Assignment out) {
    leastLoaded.build(active, tokens, ranks, expected);
    int[] sorted = order.sort(batch);
    int remaining = order.size();
    for (int i = 0; i < remaining && !leastLoaded.isEmpty(); i++) {
      int item = sorted[i];
      out.place(item, leastLoaded.rank());
      leastLoaded.charge(batch.promptTokens(item), expected);
    }
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
