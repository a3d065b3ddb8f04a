// SPDX-License-Identifier: Apache-2.0
package dev.berth.route.kernel;

/**
 * Loops over ranks. Arrays aren't changed; nothing is checked, the callers own the arrays. Every
 * implementation gives what {@link ScalarKernels} gives, bit for bit.
 */
public interface RankKernels {
  /**
   * The first index of the least value.
   *
   * @param values {@code int32[ranks]}
   * @param ranks 1 or more
   */
  int least(int[] values, int ranks);

  /**
   * The first index in {@code [from, to)} of the least pair (load, requests) among those with fewer
   * requests than the limit.
   *
   * @param active {@code int32[ranks]}, compared with the limit
   * @param extra {@code int32[ranks]}: the pair's requests are {@code active + extra}, as a 64-bit
   *     sum
   * @return -1 if there is none
   */
  int leastLoaded(long[] load, int[] active, int[] extra, int limit, int from, int to);

  /**
   * The rank of the least pair (score, load), where {@code score = (size - match) + weight * (load
   * / total * size)} in doubles, evaluated in this order (spec 01 §4.3).
   *
   * @param matches {@code int32[ranks]} from {@code row} on
   * @param load {@code double[ranks]}, whole numbers; infinite for ranks that can't be chosen, one
   *     of them at least can
   * @param size tokens of the request, 0 or more
   * @param weight 0 or more, finite
   * @param total above 0
   * @param scratch {@code double[ranks]} for the call's use
   * @return the rank, or {@code ~rank} if another has the same score and load
   */
  int leastScore(
      int[] matches,
      int row,
      double[] load,
      int ranks,
      double size,
      double weight,
      double total,
      double[] scratch);

  /**
   * The largest match of a rank that can be chosen, 0 if there is none.
   *
   * @param matches {@code int32[ranks]} from {@code row} on, 0 or more
   * @param load as in {@link #leastScore}
   */
  int mostMatched(int[] matches, int row, double[] load, int ranks);

  /** What this is, for people. */
  String describe();
}
