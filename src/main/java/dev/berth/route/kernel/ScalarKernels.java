// SPDX-License-Identifier: Apache-2.0
package dev.berth.route.kernel;

/** One rank after the other: the specification. */
public final class ScalarKernels implements RankKernels {
  /** The only one. */
  public static final RankKernels INSTANCE = new ScalarKernels();

  private ScalarKernels() {}

  @Override
  public int least(int[] values, int ranks) {
    int best = 0;
    for (int rank = 1; rank < ranks; rank++) {
      if (values[rank] < values[best]) {
        best = rank;
      }
    }
    return best;
  }

  @Override
  public int leastLoaded(long[] load, int[] active, int[] extra, int limit, int from, int to) {
    int best = -1;
    long bestLoad = 0;
    long bestRequests = 0;
    for (int rank = from; rank < to; rank++) {
      if (active[rank] < limit) {
        long requests = (long) active[rank] + extra[rank];
        if (best < 0
            || load[rank] < bestLoad
            || load[rank] == bestLoad && requests < bestRequests) {
          best = rank;
          bestLoad = load[rank];
          bestRequests = requests;
        }
      }
    }
    return best;
  }

  @Override
  public int leastScore(
      int[] matches,
      int row,
      double[] load,
      int ranks,
      double size,
      double weight,
      double total,
      double[] scratch) {
    int best = -1;
    double bestScore = Double.POSITIVE_INFINITY;
    double bestLoad = Double.POSITIVE_INFINITY;
    boolean tied = false;
    for (int rank = 0; rank < ranks; rank++) {
      double its = load[rank];
      if (its == Double.POSITIVE_INFINITY) {
        continue;
      }
      double score = score(size, matches[row + rank], weight, its, total);
      if (score < bestScore || score == bestScore && its < bestLoad) {
        best = rank;
        bestScore = score;
        bestLoad = its;
        tied = false;
      } else if (score == bestScore && its == bestLoad) {
        tied = true;
      }
    }
    return tied ? ~best : best;
  }

  @Override
  public int mostMatched(int[] matches, int row, double[] load, int ranks) {
    int most = 0;
    for (int rank = 0; rank < ranks; rank++) {
      if (matches[row + rank] > most && load[rank] != Double.POSITIVE_INFINITY) {
        most = matches[row + rank];
      }
    }
    return most;
  }

  /** The score of one rank (spec 01 §4.3). */
  public static double score(double size, int match, double weight, double load, double total) {
    return (size - match) + weight * (load / total * size);
  }

  @Override
  public String describe() {
    return "scalar";
  }
}
