// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;

/**
 * What a caller asked about placement.
 *
 * @param targetRank attention-DP rank wanted, or {@link #NO_RANK}
 * @param relax whether another rank is acceptable
 */
public record SchedulingParams(int targetRank, Relax relax) {
  public SchedulingParams {
    if (targetRank < -1) {
      throw new BerthException(
          BerthException.Code.ARGUMENT,
          "target rank must be >= 0, or -1 for none, got " + targetRank);
    }
  }

  /** No target rank. */
  public static final int NO_RANK = -1;

  /**
   * The request carries no scheduling parameters at all, which is not the same as parameters left
   * unset.
   */
  public static final SchedulingParams NONE = new SchedulingParams(NO_RANK, Relax.UNSET);

  /** True unless this is {@link #NONE} itself. */
  @SuppressWarnings("ReferenceEquality")
  public boolean present() {
    return this != NONE;
  }

  /** Parameters object with no target. */
  public static SchedulingParams untargeted(Relax relax) {
    return new SchedulingParams(NO_RANK, relax);
  }

  /** A target rank; negative ranks are refused. */
  public static SchedulingParams target(int rank, Relax relax) {
    if (rank < 0) {
      throw new BerthException(
          BerthException.Code.ARGUMENT, "target rank must be >= 0, got " + rank);
    }
    return new SchedulingParams(rank, relax);
  }
}
