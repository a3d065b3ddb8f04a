// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * The per-rank target that the balancing part of every router fills up to. Source: spec 01 §4.1.
 */
public final class FairShare {
  private FairShare() {}

  /**
   * {@code E = min(max(ceil(m * F), max n), K)} with {@code F = ceil((sum n + remaining) / ranks)}.
   * K is applied last, so E can be below the count of an overloaded rank. Without the cap E
   * saturates at {@link Integer#MAX_VALUE}.
   *
   * @param routable sum of n over all ranks after explicit placement, 0 or more
   * @param highest largest n after explicit placement, 0 or more
   * @param remaining requests still to place, 0 or more
   * @param ranks number of ranks, 1 or more
   * @param multiplier m, finite and above 0; 1 for an even share
   * @param cap K, 1 or more
   * @param rankCap whether K applies
   * @return E, 0 or more
   * @throws BerthException {@code ARGUMENT} if the multiplier is outside its range
   */
  public static int target(
      long routable,
      int highest,
      int remaining,
      int ranks,
      double multiplier,
      int cap,
      RankCap rankCap) {
    if (!(multiplier > 0) || multiplier == Double.POSITIVE_INFINITY) {
      throw new BerthException(
          Code.ARGUMENT, "the fair-share multiplier must be finite and above 0, got " + multiplier);
    }
    long evenShare = Math.ceilDiv(routable + remaining, (long) ranks);
    double soft = Math.max(Math.ceil(multiplier * evenShare), highest);
    int limit =
        switch (rankCap) {
          case HARD -> cap;
          case OFF -> Integer.MAX_VALUE;
        };
    return (int) Math.min(soft, limit);
  }
}
