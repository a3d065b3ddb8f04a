// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.RequestBatch;
import dev.berth.request.SchedulingParams;
import dev.berth.route.kernel.Kernels;
import dev.berth.route.kernel.RankKernels;
import dev.berth.route.kernel.ScalarKernels;
import java.util.Arrays;

/**
 * Weighs what a rank's cache holds of a prompt against the rank's load. Each request of the
 * remainder, in order of how its prompt begins, goes to the rank below E with the least score
 *
 * <pre>  (size - match) + loadWeight * (load / total load * size)</pre>
 *
 * where a match counts only if the best one among the ranks below E is more than a share of the
 * prompt. Exact ties of score and load go by a permutation seeded with the request's id; it is made
 * only then. The load grows by what the chosen rank doesn't hold of the prompt, whether the match
 * counted or not; explicitly placed requests grow it too.
 *
 * <p>Scores are doubles: a call whose loads and prompts add up to 2^53 tokens or more is refused.
 * Where nothing is loaded and a prompt is empty the published rule divides 0 by 0; here the load
 * counts nothing then. Source: spec 01 §4.1, §4.3.
 */
public final class KvAwareRouter implements AdpRouter {
  /** {@link #name()} of this policy. */
  public static final String NAME = "kv-aware";

  private static final double EXACT_TOKENS = 0x1p53;
  private static final int ROWS_AHEAD = 6;
  private static final int INTS_A_LINE = 16;

  /** Whether ranks with empty caches are given one request each before scores are trusted. */
  public enum ColdStart {
    /** Scores from the first request on. */
    SCORED,
    /**
     * Each rank's first request is placed there whatever the scores say, lowest rank first: with
     * nothing cached anywhere all scores tie, and the rank that wins once would win for ever.
     */
    ONE_EACH
  }

  /** Whether a rank's state charges requests that left its batch and still send their KV. */
  public enum InTransfer {
    /** They are nobody's load. */
    LEFT_OUT,
    /** They count in requests and in tokens ({@link RankTally#addInTransfer}). */
    CHARGED
  }

  /**
   * What can be chosen.
   *
   * @param loadWeight weight of a rank's share of the load, 0 .. {@value #MAX_WEIGHT}
   * @param matchRateThreshold share of the prompt above which (strictly) a match counts, 0 or more;
   *     0 for any match that isn't 0
   * @param fairShareMultiplier m of E (spec 01 §4.1), finite and above 0
   * @param coldStart what happens before a rank had its first request
   * @param inTransfer what a rank's state charges
   * @param view which requests placement weighs
   * @param rankCap whether K binds; everything but {@link RankCap#HARD} is for evidence arms
   */
  public record Options(
      double loadWeight,
      double matchRateThreshold,
      double fairShareMultiplier,
      ColdStart coldStart,
      InTransfer inTransfer,
      PlacementView view,
      RankCap rankCap) {
    /** Largest load weight. */
    public static final double MAX_WEIGHT = 1e12;

    /** The published defaults (spec 01 §5). */
    public static final Options DEFAULTS =
        new Options(
            1.0,
            0.1,
            2.0,
            ColdStart.SCORED,
            InTransfer.LEFT_OUT,
            PlacementView.ADMISSION,
            RankCap.HARD);

    public Options {
      if (!(loadWeight >= 0 && loadWeight <= MAX_WEIGHT)) {
        throw new BerthException(
            Code.ARGUMENT, "the load weight must be 0 to " + MAX_WEIGHT + ", got " + loadWeight);
      }
      if (!(matchRateThreshold >= 0)) {
        throw new BerthException(
            Code.ARGUMENT, "the match-rate threshold must be >= 0, got " + matchRateThreshold);
      }
      if (!(fairShareMultiplier > 0) || fairShareMultiplier == Double.POSITIVE_INFINITY) {
        throw new BerthException(
            Code.ARGUMENT,
            "the fair-share multiplier must be finite and above 0, got " + fairShareMultiplier);
      }
    }

    /** The same with other weights. */
    public Options withWeights(double load, double threshold, double multiplier) {
      return new Options(load, threshold, multiplier, coldStart, inTransfer, view, rankCap);
    }

    /** The same with another cold start. */
    public Options with(ColdStart other) {
      return new Options(
          loadWeight, matchRateThreshold, fairShareMultiplier, other, inTransfer, view, rankCap);
    }

    /** The same with another charge for requests in transfer. */
    public Options with(InTransfer other) {
      return new Options(
          loadWeight, matchRateThreshold, fairShareMultiplier, coldStart, other, view, rankCap);
    }

    /** The same with another view. */
    public Options with(PlacementView other) {
      return new Options(
          loadWeight,
          matchRateThreshold,
          fairShareMultiplier,
          coldStart,
          inTransfer,
          other,
          rankCap);
    }

    /** The same with another cap. */
    public Options with(RankCap other) {
      return new Options(
          loadWeight, matchRateThreshold, fairShareMultiplier, coldStart, inTransfer, view, other);
    }
  }

  private final Options options;
  private final RankTable table = new RankTable();
  private final PromptOrder order = new PromptOrder();
  private final SeededShuffle shuffle = new SeededShuffle();

  /** Load of ranks below E, infinite for the others. */
  private double[] load = new double[0];

  /** For the kernels' use. */
  private double[] scores = new double[0];

  private int[] unmatched = new int[0];
  private int[] shuffled = new int[0];

  /** Ranks that wait for their first request; as many as there have ever been. */
  private boolean[] pending = new boolean[0];

  private int pendingRanks;
  private int knownRanks;

  private RankKernels kernels = ScalarKernels.INSTANCE;
  private double total;
  private int eligible;

  /** Kept so that touching isn't left out. */
  @SuppressWarnings("UnusedVariable")
  private int touched;

  /** The router with the published defaults. */
  public KvAwareRouter() {
    this(Options.DEFAULTS);
  }

  /** The router with a choice of everything. */
  public KvAwareRouter(Options options) {
    this.options = options;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public boolean usesMatches() {
    return true;
  }

  /** What was chosen. */
  public Options options() {
    return options;
  }

  /**
   * Ranks that still wait for their first request, ascending; none unless cold start is {@link
   * ColdStart#ONE_EACH}, and none that no call has seen yet.
   */
  public int[] pendingWarmUp() {
    int[] ranks = new int[pendingRanks];
    int at = 0;
    for (int rank = 0; rank < pending.length; rank++) {
      if (pending[rank]) {
        ranks[at++] = rank;
      }
    }
    return ranks;
  }

  /**
   * Goes on with a cold start: the first {@code ranks} ranks are known, and of those only the given
   * ones wait for their first request. Ranks that a later call sees for the first time will wait.
   *
   * @throws BerthException {@code STATE} if cold start is {@link ColdStart#SCORED}, {@code
   *     ARGUMENT} if a rank is outside of {@code 0 .. ranks - 1}
   */
  public void resumeWarmUp(int ranks, int... waiting) {
    if (options.coldStart() == ColdStart.SCORED) {
      throw new BerthException(Code.STATE, "this router scores from the first request on");
    }
    for (int rank : waiting) {
      if (rank < 0 || rank >= ranks) {
        throw new BerthException(Code.ARGUMENT, "rank " + rank + " is outside of " + ranks);
      }
    }
    pending = new boolean[ranks];
    knownRanks = ranks;
    pendingRanks = 0;
    for (int rank : waiting) {
      pendingRanks += pending[rank] ? 0 : 1;
      pending[rank] = true;
    }
  }

  @Override
  public void route(
      RankLoads loads, RequestBatch batch, PrefixMatches matches, int cap, Assignment out) {
    matches.requireFor(batch.size(), loads.ranks());
    table.begin(loads, batch, cap, options.rankCap(), options.view());
    requireExactLoads(batch);
    meet(table.ranks());
    out.begin(table.ranks(), batch.size());
    order.begin(batch.size());

    placeFirst(batch, matches, out);
    int expected = table.target(order.size(), options.fairShareMultiplier());
    score(batch, matches, expected, out);
    out.finish(expected);
  }

  private void requireExactLoads(RequestBatch batch) {
    double sum = 0;
    for (int rank = 0; rank < table.ranks(); rank++) {
      sum += table.tokens[rank];
    }
    for (int item = 0; item < batch.size(); item++) {
      sum += batch.promptTokens(item);
    }
    if (sum >= EXACT_TOKENS) {
      throw new BerthException(
          Code.ARGUMENT, "loads and prompts add up to " + sum + " tokens, 2^53 or more");
    }
  }

  private void meet(int ranks) {
    kernels = Kernels.forScores(ranks);
    if (load.length < ranks) {
      load = new double[ranks];
      scores = new double[ranks];
      unmatched = new int[ranks];
      shuffled = new int[ranks];
    }
    if (ranks > knownRanks) {
      if (options.coldStart() == ColdStart.ONE_EACH) {
        pending = Arrays.copyOf(pending, ranks);
        Arrays.fill(pending, knownRanks, ranks, true);
        pendingRanks += ranks - knownRanks;
      }
      knownRanks = ranks;
    }
  }

  /** Explicit ranks and first requests, in order of (relax, arrival); the rest is kept. */
  private void placeFirst(RequestBatch batch, PrefixMatches matches, Assignment out) {
    int size = batch.size();
    if (batch.targeted() == 0 && pendingRanks == 0) {
      for (int item = 0; item < size; item++) {
        order.add(item);
      }
      return;
    }
    for (int item = 0; item < size; item++) {
      if (DefaultRouter.isStrict(batch, item)) {
        placeOrKeep(batch, matches, item, out);
      }
    }
    for (int item = 0; item < size; item++) {
      if (!DefaultRouter.isStrict(batch, item)) {
        placeOrKeep(batch, matches, item, out);
      }
    }
  }

  private void placeOrKeep(RequestBatch batch, PrefixMatches matches, int item, Assignment out) {
    int target = batch.targetRank(item);
    if (target == SchedulingParams.NO_RANK) {
      target = firstPending();
    }
    if (target == SchedulingParams.NO_RANK || !table.hasRoom(target)) {
      order.add(item);
      return;
    }
    out.place(item, target);
    table.place(target);
    table.tokens[target] += missing(batch, matches, item, target);
    if (pendingRanks > 0 && pending[target]) {
      pending[target] = false;
      pendingRanks--;
    }
  }

  /** The lowest rank that waits for its first request, {@code NO_RANK} if none does. */
  private int firstPending() {
    if (pendingRanks > 0) {
      for (int rank = 0; rank < table.ranks(); rank++) {
        if (pending[rank] && table.active[rank] != RankTable.CLOSED) {
          return rank;
        }
      }
    }
    return SchedulingParams.NO_RANK;
  }

  private static int missing(RequestBatch batch, PrefixMatches matches, int item, int rank) {
    int match = matches.requests() == 0 ? 0 : matches.get(item, rank);
    return Math.max(batch.promptTokens(item) - match, 0);
  }

  private void score(RequestBatch batch, PrefixMatches matches, int expected, Assignment out) {
    int ranks = table.ranks();
    total = 0;
    eligible = 0;
    for (int rank = 0; rank < ranks; rank++) {
      boolean below = table.active[rank] < expected;
      load[rank] = below ? table.tokens[rank] : Double.POSITIVE_INFINITY;
      total += below ? table.tokens[rank] : 0;
      eligible += below ? 1 : 0;
    }
    boolean gathered = matches.requests() > 0;
    int[] rows = matches.table();
    int[] sorted = order.sort(batch);
    int remaining = order.size();
    for (int i = 0; i < remaining && eligible > 0; i++) {
      int item = sorted[i];
      int size = batch.promptTokens(item);
      if (gathered && i + ROWS_AHEAD < remaining) {
        touched += touch(rows, sorted[i + ROWS_AHEAD] * ranks, ranks);
      }
      boolean counts = gathered && matchCounts(matches, item, size);
      int[] used = counts ? rows : unmatched;
      int row = counts ? item * ranks : 0;
      int rank = choose(batch, item, used, row, size);
      out.place(item, rank);
      charge(rank, gathered ? Math.max(size - rows[item * ranks + rank], 0) : size, expected);
    }
  }

  /**
   * Reads a line of each 64 bytes of a row that is due soon: rows come in no order that a processor
   * foresees.
   */
  private static int touch(int[] rows, int row, int ranks) {
    int sum = 0;
    for (int at = row; at < row + ranks; at += INTS_A_LINE) {
      sum += rows[at];
    }
    return sum;
  }

  /** Is the best match of a rank below E more than the threshold's share of the prompt? */
  private boolean matchCounts(PrefixMatches matches, int item, int size) {
    double tokens = Math.max(size, 1);
    if (matches.best(item) / tokens <= options.matchRateThreshold()) {
      return false;
    }
    int ranks = table.ranks();
    int best = kernels.mostMatched(matches.table(), item * ranks, load, ranks);
    return best / tokens > options.matchRateThreshold();
  }

  private int choose(RequestBatch batch, int item, int[] matches, int row, int size) {
    double share = Math.max(Math.max(total, size), 1);
    int rank =
        kernels.leastScore(
            matches, row, load, table.ranks(), size, options.loadWeight(), share, scores);
    return rank >= 0 ? rank : breakTie(batch.get(item).id(), ~rank, matches, row, size, share);
  }

  /** Of the ranks with the score and the load of one: the first in the order that the id gives. */
  private int breakTie(long id, int one, int[] matches, int row, int size, double share) {
    double least = scoreOf(one, matches, row, size, share);
    int count = 0;
    for (int rank = 0; rank < table.ranks(); rank++) {
      if (load[rank] != Double.POSITIVE_INFINITY) {
        shuffled[count++] = rank;
      }
    }
    shuffle.shuffle(id, shuffled, count);
    int at = 0;
    while (load[shuffled[at]] != load[one]
        || scoreOf(shuffled[at], matches, row, size, share) != least) {
      at++;
    }
    return shuffled[at];
  }

  private double scoreOf(int rank, int[] matches, int row, int size, double share) {
    return ScalarKernels.score(size, matches[row + rank], options.loadWeight(), load[rank], share);
  }

  /** Counts a request on a rank; at E it leaves. */
  private void charge(int rank, int tokens, int expected) {
    table.place(rank);
    load[rank] += tokens;
    total += tokens;
    if (table.active[rank] >= expected) {
      total -= load[rank];
      load[rank] = Double.POSITIVE_INFINITY;
      eligible--;
    }
  }
}
