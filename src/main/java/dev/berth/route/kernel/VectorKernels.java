// SPDX-License-Identifier: Apache-2.0
package dev.berth.route.kernel;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * As many ranks at once as a vector has lanes. Each lane keeps the best of its ranks by value and
 * index in one pass; the lanes are compared at the end, what doesn't fill a vector is done one rank
 * after the other. Lane operations are those of the scalar code in the same order, so every bit is
 * the same. The only class that touches the incubating module: {@link Kernels} loads it by name.
 */
final class VectorKernels implements RankKernels {
  private static final VectorSpecies<Double> DOUBLES = DoubleVector.SPECIES_PREFERRED;
  private static final VectorSpecies<Integer> INTS = IntVector.SPECIES_PREFERRED;
  private static final VectorSpecies<Long> LONGS = LongVector.SPECIES_PREFERRED;

  /** Ints in as many lanes as a vector of doubles, or of longs, has. */
  private static final VectorSpecies<Integer> HALF =
      VectorSpecies.of(int.class, VectorShape.forBitSize(DOUBLES.vectorBitSize() / 2));

  private static final int LANES = DOUBLES.length();

  /** No rank, tied or not. */
  private static final int NONE = Integer.MIN_VALUE;

  private static final IntVector INT_PLACES = IntVector.zero(INTS).addIndex(1);
  private static final LongVector LONG_PLACES = LongVector.zero(LONGS).addIndex(1);

  VectorKernels() {}

  /** Width of a vector. */
  static int bits() {
    return DOUBLES.vectorBitSize();
  }

  @Override
  public int least(int[] values, int ranks) {
    int whole = INTS.loopBound(ranks);
    int best = 0;
    if (whole > 0) {
      IntVector least = IntVector.fromArray(INTS, values, 0);
      IntVector places = INT_PLACES;
      IntVector at = INT_PLACES;
      for (int rank = INTS.length(); rank < whole; rank += INTS.length()) {
        at = at.add(INTS.length());
        IntVector its = IntVector.fromArray(INTS, values, rank);
        VectorMask<Integer> less = its.compare(VectorOperators.LT, least);
        least = least.blend(its, less);
        places = places.blend(at, less);
      }
      int value = least.reduceLanes(VectorOperators.MIN);
      best = places.reduceLanes(VectorOperators.MIN, least.compare(VectorOperators.EQ, value));
    }
    for (int rank = whole; rank < ranks; rank++) {
      if (values[rank] < values[best]) {
        best = rank;
      }
    }
    return best;
  }

  @Override
  public int leastLoaded(long[] load, int[] active, int[] extra, int limit, int from, int to) {
    int whole = from + LONGS.loopBound(to - from);
    LongVector leastLoad = LongVector.broadcast(LONGS, Long.MAX_VALUE);
    LongVector leastRequests = leastLoad;
    LongVector places = LongVector.broadcast(LONGS, -1);
    LongVector at = LONG_PLACES.add(from);
    for (int rank = from; rank < whole; rank += LONGS.length()) {
      LongVector its = LongVector.fromArray(LONGS, load, rank);
      LongVector count = longs(active, rank);
      LongVector requests = count.add(longs(extra, rank));
      VectorMask<Long> better =
          its.compare(VectorOperators.LT, leastLoad)
              .or(
                  its.compare(VectorOperators.EQ, leastLoad)
                      .and(requests.compare(VectorOperators.LT, leastRequests)))
              .and(count.compare(VectorOperators.LT, limit));
      leastLoad = leastLoad.blend(its, better);
      leastRequests = leastRequests.blend(requests, better);
      places = places.blend(at, better);
      at = at.add(LONGS.length());
    }
    VectorMask<Long> found = places.compare(VectorOperators.GE, 0);
    int best = -1;
    if (found.anyTrue()) {
      long value = leastLoad.reduceLanes(VectorOperators.MIN, found);
      found = found.and(leastLoad.compare(VectorOperators.EQ, value));
      long requests = leastRequests.reduceLanes(VectorOperators.MIN, found);
      found = found.and(leastRequests.compare(VectorOperators.EQ, requests));
      best = (int) places.reduceLanes(VectorOperators.MIN, found);
    }
    for (int rank = whole; rank < to; rank++) {
      if (active[rank] < limit && (best < 0 || less(load, active, extra, rank, best))) {
        best = rank;
      }
    }
    return best;
  }

  private static LongVector longs(int[] values, int at) {
    return (LongVector)
        IntVector.fromArray(HALF, values, at).convertShape(VectorOperators.I2L, LONGS, 0);
  }

  private static boolean less(long[] load, int[] active, int[] extra, int rank, int other) {
    return load[rank] != load[other]
        ? load[rank] < load[other]
        : (long) active[rank] + extra[rank] < (long) active[other] + extra[other];
  }

  /**
   * Two passes: the least score, then who has it. Mostly that is one rank, and the loads decide
   * between more of them.
   */
  @Override
  public int leastScore(
      int[] matches,
      int row,
      double[] load,
      int ranks,
      double size,
      double weight,
      double total,
      double[] its) {
    if (size == 0 || weight == 0) {
      // Infinity times nothing is no number.
      return ScalarKernels.INSTANCE.leastScore(matches, row, load, ranks, size, weight, total, its);
    }
    int whole = DOUBLES.loopBound(ranks);
    DoubleVector lanes = DoubleVector.broadcast(DOUBLES, Double.POSITIVE_INFINITY);
    for (int rank = 0; rank < whole; rank += LANES) {
      DoubleVector score =
          DoubleVector.fromArray(DOUBLES, load, rank)
              .div(total)
              .mul(size)
              .mul(weight)
              .add(doubles(matches, row + rank).neg().add(size));
      score.intoArray(its, rank);
      lanes = lanes.blend(score, score.compare(VectorOperators.LT, lanes));
    }
    double least = whole == 0 ? Double.POSITIVE_INFINITY : lanes.reduceLanes(VectorOperators.MIN);
    for (int rank = whole; rank < ranks; rank++) {
      its[rank] = ScalarKernels.score(size, matches[row + rank], weight, load[rank], total);
      least = Math.min(least, its[rank]);
    }
    return holder(its, load, ranks, whole, least);
  }

  /** The rank with that score and the least load, {@code ~rank} if there are several. */
  private static int holder(double[] its, double[] load, int ranks, int whole, double least) {
    int holder = NONE;
    for (int rank = 0; rank < whole; rank += LANES) {
      long bits =
          DoubleVector.fromArray(DOUBLES, its, rank).compare(VectorOperators.EQ, least).toLong();
      for (; bits != 0; bits &= bits - 1) {
        holder = lighter(holder, rank + Long.numberOfTrailingZeros(bits), load);
      }
    }
    for (int rank = whole; rank < ranks; rank++) {
      if (its[rank] == least) {
        holder = lighter(holder, rank, load);
      }
    }
    return holder;
  }

  /** Of the holder so far, complemented if it is tied, and another: the lighter one. */
  private static int lighter(int holder, int other, double[] load) {
    if (holder == NONE) {
      return other;
    }
    int rank = holder < 0 ? ~holder : holder;
    if (load[other] == load[rank]) {
      return ~rank;
    }
    return load[other] < load[rank] ? other : holder;
  }

  private static DoubleVector doubles(int[] values, int at) {
    return (DoubleVector)
        IntVector.fromArray(HALF, values, at).convertShape(VectorOperators.I2D, DOUBLES, 0);
  }

  @Override
  public int mostMatched(int[] matches, int row, double[] load, int ranks) {
    int whole = DOUBLES.loopBound(ranks);
    DoubleVector most = DoubleVector.zero(DOUBLES);
    for (int rank = 0; rank < whole; rank += LANES) {
      DoubleVector its = DoubleVector.fromArray(DOUBLES, load, rank);
      DoubleVector match = doubles(matches, row + rank);
      most =
          most.blend(
              match,
              match
                  .compare(VectorOperators.GT, most)
                  .and(its.compare(VectorOperators.LT, Double.POSITIVE_INFINITY)));
    }
    int best = (int) most.reduceLanes(VectorOperators.MAX);
    for (int rank = whole; rank < ranks; rank++) {
      if (matches[row + rank] > best && load[rank] != Double.POSITIVE_INFINITY) {
        best = matches[row + rank];
      }
    }
    return best;
  }

  @Override
  public String describe() {
    return "vectors of " + bits() + " bits";
  }
}
