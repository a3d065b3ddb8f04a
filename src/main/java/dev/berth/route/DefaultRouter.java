// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

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
  private final PlacementView view;
  private final TieRule ties;
  private final RankTable table = new RankTable();
  private final DescendingTokens order = new DescendingTokens();
  private final LeastLoaded leastLoaded = new LeastLoaded();
  private int firstRank;

  /** The published router: hard cap, admission view, ties to the lowest rank. */
  public DefaultRouter() {
    this(RankCap.HARD);
  }

  /** The router with a choice of cap; everything but {@link RankCap#HARD} is for evidence arms. */
  public DefaultRouter(RankCap rankCap) {
    this(rankCap, PlacementView.ADMISSION, TieRule.LOWEST_RANK);
  }

  /** The router with every choice. */
  public DefaultRouter(RankCap rankCap, PlacementView view, TieRule ties) {
    this.rankCap = rankCap;
    this.view = view;
    this.ties = ties;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public void route(
      RankLoads loads, RequestBatch batch, PrefixMatches matches, int cap, Assignment out) {
    table.begin(loads, batch, cap, rankCap, view);
    out.begin(loads.ranks(), batch.size());
    order.begin(batch.size());

    placeExplicit(batch, out);
    int expected = table.target(order.size(), EVEN_SHARE);
    balance(batch, expected, out);
    out.finish(expected);
  }

  /**
   * Serves explicit ranks in order of (relax, arrival); everything else goes to the remainder in
   * that order.
   */
  private void placeExplicit(RequestBatch batch, Assignment out) {
    int size = batch.size();
    if (batch.targeted() == 0) {
      for (int item = 0; item < size; item++) {
        order.add(item);
      }
      return;
    }
    for (int item = 0; item < size; item++) {
      if (isStrict(batch, item)) {
        placeOrKeep(batch, item, out);
      }
    }
    for (int item = 0; item < size; item++) {
      if (!isStrict(batch, item)) {
        placeOrKeep(batch, item, out);
      }
    }
  }

  /**
   * The ordering key "relax" is false only for a target rank with an explicit "no" (spec 01 §4.1).
   */
  static boolean isStrict(RequestBatch batch, int item) {
    return batch.targetRank(item) != SchedulingParams.NO_RANK && batch.relax(item) == Relax.STRICT;
  }

  private void placeOrKeep(RequestBatch batch, int item, Assignment out) {
    int target = batch.targetRank(item);
    if (target != SchedulingParams.NO_RANK && table.hasRoom(target)) {
      table.place(target);
      out.place(item, target);
    } else {
      order.add(item);
    }
  }

  /** Gives each request to the least loaded rank below E, while there is one. */
  private void balance(RequestBatch batch, int expected, Assignment out) {
    int ranks = table.ranks();
    leastLoaded.build(table, expected, firstRank < ranks ? firstRank : 0);
    int[] sorted = order.sort(batch);
    int remaining = order.size();
    int rank = -1;
    for (int i = 0; i < remaining && !leastLoaded.isEmpty(); i++) {
      int item = sorted[i];
      rank = leastLoaded.rank();
      out.place(item, rank);
      leastLoaded.charge(batch.promptTokens(item), expected);
    }
    if (ties == TieRule.ROTATING && rank >= 0) {
      firstRank = (rank + 1) % ranks;
    }
  }
}
