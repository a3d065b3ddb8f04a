// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.Relax;
import dev.berth.request.RequestBatch;
import dev.berth.request.SchedulingParams;
import dev.berth.route.kernel.Kernels;
import dev.berth.route.kernel.RankKernels;
import dev.berth.route.kernel.ScalarKernels;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/**
 * Brings every turn of a conversation to the rank of its first one. A home takes its conversations
 * up to the hard cap K; what has no home, or a full one, is placed by a {@link NewConversation}
 * rule among the ranks below the soft cap E. Only a conversation without a home is bound: overflow
 * goes home the next time.
 *
 * <p>An explicit rank counts for what isn't bound yet, and binds it. Requests are served in order
 * of (relax, arrival); an unset relax counts as relaxed, where the published router fails on it. E
 * is raised to the largest count in the result, so that it covers every rank. Beyond the budget,
 * where the published router passes K, the rest is unassigned. The home of a closed rank is moved
 * with the next turn.
 *
 * <p>There is no expiry: of more than {@link Options#maxSessions} conversations the least recently
 * used is forgotten. Source: spec 01 §4.1, §4.4.
 */
public final class ConversationRouter implements AdpRouter {
  /** {@link #name()} of this policy. */
  public static final String NAME = "conversation";

  /**
   * What can be chosen.
   *
   * @param maxSessions conversations that are remembered, 1 .. {@value #MOST_SESSIONS}
   * @param fairShareMultiplier m of E (spec 01 §4.1), finite and above 0; below 1 it counts as 1
   * @param placement rule for what has no home
   * @param view which requests placement weighs
   * @param rankCap whether K binds; everything but {@link RankCap#HARD} is for evidence arms
   */
  public record Options(
      int maxSessions,
      double fairShareMultiplier,
      NewConversation placement,
      PlacementView view,
      RankCap rankCap) {
    /** Largest number of remembered conversations. */
    public static final int MOST_SESSIONS = 1 << 26;

    /** The published defaults (spec 01 §5). */
    public static final Options DEFAULTS =
        new Options(
            65_536, 2.0, NewConversation.ROUND_ROBIN, PlacementView.ADMISSION, RankCap.HARD);

    public Options {
      if (maxSessions < 1 || maxSessions > MOST_SESSIONS) {
        throw new BerthException(
            Code.ARGUMENT, "sessions must be 1 to " + MOST_SESSIONS + ", got " + maxSessions);
      }
      if (!(fairShareMultiplier > 0) || fairShareMultiplier == Double.POSITIVE_INFINITY) {
        throw new BerthException(
            Code.ARGUMENT,
            "the fair-share multiplier must be finite and above 0, got " + fairShareMultiplier);
      }
    }

    /** The same with another bound. */
    public Options withMaxSessions(int sessions) {
      return new Options(sessions, fairShareMultiplier, placement, view, rankCap);
    }

    /** The same with another multiplier. */
    public Options withMultiplier(double multiplier) {
      return new Options(maxSessions, multiplier, placement, view, rankCap);
    }

    /** The same with another rule. */
    public Options with(NewConversation rule) {
      return new Options(maxSessions, fairShareMultiplier, rule, view, rankCap);
    }

    /** The same with another view. */
    public Options with(PlacementView other) {
      return new Options(maxSessions, fairShareMultiplier, placement, other, rankCap);
    }

    /** The same with another cap. */
    public Options with(RankCap other) {
      return new Options(maxSessions, fairShareMultiplier, placement, view, other);
    }
  }

  private final Options options;
  private final double multiplier;
  private final RankTable table = new RankTable();
  private final ConversationHomes homes;
  private int[] remainder = new int[0];
  private int remaining;
  private long[] noLoad = new long[0];
  private int cursor;
  private RankKernels kernels = ScalarKernels.INSTANCE;

  /** The router with the published defaults. */
  public ConversationRouter() {
    this(Options.DEFAULTS);
  }

  /** The router with a choice of everything. */
  public ConversationRouter(Options options) {
    this.options = options;
    this.multiplier = Math.max(1, options.fairShareMultiplier());
    this.homes = new ConversationHomes(options.maxSessions());
  }

  @Override
  public String name() {
    return NAME;
  }

  /** What was chosen. */
  public Options options() {
    return options;
  }

  /** Conversations that have a home. */
  public int conversations() {
    return homes.size();
  }

  /** The rank that a conversation is bound to. Doesn't count as use. */
  public OptionalInt home(String affinity) {
    int entry = homes.find(affinity);
    return entry == ConversationHomes.NONE
        ? OptionalInt.empty()
        : OptionalInt.of(homes.rank(entry));
  }

  /** All conversations with their ranks, the least recently used first: a copy. */
  public List<Map.Entry<String, Integer>> bindings() {
    return homes.inOrderOfUse();
  }

  /** The rank that a cursor rule looks at next. */
  public int cursor() {
    return cursor;
  }

  @Override
  public void route(
      RankLoads loads, RequestBatch batch, PrefixMatches matches, int cap, Assignment out) {
    table.begin(loads, batch, cap, options.rankCap(), options.view());
    int ranks = table.ranks();
    kernels = Kernels.forSelection(ranks);
    cursor = cursor < ranks ? cursor : 0;
    int size = batch.size();
    if (remainder.length < size) {
      remainder = new int[size];
    }
    if (noLoad.length < ranks) {
      noLoad = new long[ranks];
    }
    remaining = 0;
    out.begin(ranks, size);

    for (int item = 0; item < size; item++) {
      if (batch.relax(item) == Relax.STRICT) {
        placeExplicit(batch, item, out);
      }
    }
    for (int item = 0; item < size; item++) {
      if (batch.relax(item) != Relax.STRICT) {
        placeExplicit(batch, item, out);
      }
    }
    int expected = table.target(remaining, multiplier);
    for (int i = 0; i < remaining; i++) {
      placeRemaining(batch, remainder[i], expected, out);
    }
    out.finish(Math.max(expected, table.highest()));
  }

  private void placeExplicit(RequestBatch batch, int item, Assignment out) {
    int target = batch.targetRank(item);
    if (target != SchedulingParams.NO_RANK && table.hasRoom(target)) {
      String key = batch.route(item).affinity();
      if (homeOf(key) == ConversationHomes.NONE) {
        place(batch, item, target, out);
        bind(key, target);
        return;
      }
    }
    remainder[remaining++] = item;
  }

  private void placeRemaining(RequestBatch batch, int item, int expected, Assignment out) {
    String key = batch.route(item).affinity();
    int home = homeOf(key);
    if (home != ConversationHomes.NONE && table.hasRoom(homes.rank(home))) {
      homes.touch(home);
      place(batch, item, homes.rank(home), out);
      return;
    }
    int rank = choose(expected);
    if (rank == ConversationHomes.NONE) {
      return; // over budget: it stays unassigned
    }
    place(batch, item, rank, out);
    if (home == ConversationHomes.NONE) {
      bind(key, rank);
    }
  }

  /** The entry of a conversation's home, {@code NONE} if it has none or its rank takes nothing. */
  private int homeOf(String key) {
    if (key.isEmpty()) {
      return ConversationHomes.NONE;
    }
    int entry = homes.find(key);
    if (entry == ConversationHomes.NONE) {
      return entry;
    }
    int rank = homes.rank(entry);
    boolean gone = rank >= table.ranks() || table.active[rank] == RankTable.CLOSED;
    return gone ? ConversationHomes.NONE : entry;
  }

  private void bind(String key, int rank) {
    if (!key.isEmpty()) {
      int entry = homes.find(key);
      if (entry == ConversationHomes.NONE) {
        homes.bind(key, rank);
      } else {
        homes.rebind(entry, rank);
      }
    }
  }

  private void place(RequestBatch batch, int item, int rank, Assignment out) {
    out.place(item, rank);
    table.place(rank);
    table.tokens[rank] += batch.promptTokens(item);
  }

  /** A rank below E by the rule, {@code NONE} if there is none. */
  private int choose(int expected) {
    return switch (options.placement()) {
      case ROUND_ROBIN -> nextFromCursor(expected);
      case LEAST_QUEUED -> leastQueued(expected);
      case LEAST_TOKENS -> leastTokens(expected);
    };
  }

  private int nextFromCursor(int expected) {
    int ranks = table.ranks();
    for (int i = 0; i < ranks; i++) {
      int rank = cursor;
      cursor = cursor + 1 == ranks ? 0 : cursor + 1;
      if (table.active[rank] < expected) {
        return rank;
      }
    }
    return ConversationHomes.NONE;
  }

  private int leastQueued(int expected) {
    int ranks = table.ranks();
    if (options.view() == PlacementView.RESIDENT) {
      return kernels.leastLoaded(noLoad, table.active, table.retiring, expected, 0, ranks);
    }
    int rank = kernels.least(table.active, ranks);
    return table.active[rank] < expected ? rank : ConversationHomes.NONE;
  }

  private int leastTokens(int expected) {
    int ranks = table.ranks();
    int late = leastFrom(cursor, ranks, expected);
    int early = leastFrom(0, cursor, expected);
    int rank =
        late == ConversationHomes.NONE || early != ConversationHomes.NONE && less(early, late)
            ? early
            : late;
    if (rank != ConversationHomes.NONE) {
      cursor = rank + 1 == ranks ? 0 : rank + 1;
    }
    return rank;
  }

  private int leastFrom(int from, int to, int expected) {
    return kernels.leastLoaded(table.tokens, table.active, table.retiring, expected, from, to);
  }

  private boolean less(int rank, int other) {
    long load = table.tokens[rank];
    long otherLoad = table.tokens[other];
    return load != otherLoad
        ? load < otherLoad
        : (long) table.active[rank] + table.retiring[rank]
            < (long) table.active[other] + table.retiring[other];
  }
}
