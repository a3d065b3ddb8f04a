// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

/**
 * Virtual time of a forward: {@code alpha · (tokens of the fullest rank) + beta · (tokens of all
 * ranks) + fixed}. A vetoed iteration costs nothing.
 *
 * <p>The fullest rank sets the pace of attention and of the slowest expert; the total is what all
 * ranks share (dispatch, all-to-all).
 *
 * @param alphaMicros µs a token of the fullest rank
 * @param betaMicros µs a token of all ranks
 * @param fixedMicros µs a forward
 * @param encoderMicros µs a token of encoder input, beside the forwards
 */
public record CostModel(
    double alphaMicros, double betaMicros, double fixedMicros, double encoderMicros) {
  /**
   * beta / alpha, fitted on one published figure alone: evidence E1's throughput with overlap on
   * against off, -8.49 %. The fit is repeated by a test.
   */
  public static final double FITTED_BETA_OVER_ALPHA = 0.1347;

  public CostModel {
    require("alpha", alphaMicros);
    require("beta", betaMicros);
    require("fixed", fixedMicros);
    require("encoder", encoderMicros);
    if (alphaMicros + betaMicros + fixedMicros <= 0) {
      throw new IllegalArgumentException("a forward must cost something");
    }
  }

  /** Encoders take no time. */
  public CostModel(double alphaMicros, double betaMicros, double fixedMicros) {
    this(alphaMicros, betaMicros, fixedMicros, 0);
  }

  /** The fitted model for a machine of one speed. */
  public static CostModel fitted(double alphaMicros) {
    return new CostModel(alphaMicros, alphaMicros * FITTED_BETA_OVER_ALPHA, 0);
  }

  private static void require(String name, double value) {
    if (!(value >= 0 && value < 1e12)) {
      throw new IllegalArgumentException(name + " must be from 0 to 1e12 µs, got " + value);
    }
  }

  /** Virtual time of one forward in µs. */
  public double forwardMicros(long maxRankTokens, long totalTokens) {
    return alphaMicros * maxRankTokens + betaMicros * totalTokens + fixedMicros;
  }

  /**
   * beta / alpha such that two runs of the same requests differ in throughput as published, fixed
   * cost left out.
   *
   * @param ratio published throughput of {@code changed} over that of {@code base}
   */
  public static double fit(ForwardTotals base, ForwardTotals changed, double ratio) {
    // time(base) = ratio · time(changed), both linear in alpha and beta
    return (base.maxRankTokens() - ratio * changed.maxRankTokens())
        / (ratio * changed.totalTokens() - base.totalTokens());
  }

  /**
   * What the forwards of a run add up to.
   *
   * @param forwards how many
   * @param maxRankTokens sum over forwards of the fullest rank's tokens
   * @param totalTokens sum over forwards of all ranks' tokens
   */
  public record ForwardTotals(long forwards, long maxRankTokens, long totalTokens) {}
}
