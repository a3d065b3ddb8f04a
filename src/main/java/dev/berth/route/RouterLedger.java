// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.RankOccupancy;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitingQueue;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.LongConsumer;

/**
 * The routers without an engine: for a gateway in front of serving processes, each of them (or each
 * of their attention-DP ranks) a rank of the ledger.
 *
 * <p>A request is <b>reserved</b> on its rank when it is dispatched and <b>released</b> exactly
 * once, by its terminal event; age raises an alarm ({@link #overdue}), never a release. Load is
 * what a rank reported, plus what was dispatched to it and the report hasn't seen, minus what of
 * the seen has ended since: a rank's reports and its terminal events are to arrive in the order in
 * which it sends them. A rank that hasn't reported within the staleness bound is <b>unknown</b>,
 * which is not full: the {@link Unknown} policy says what to do about it, and what the ledger holds
 * there is its load.
 *
 * <p>Owns no clock and no thread: the caller passes the time, in any unit, never backwards.
 * Allocates nothing once it has grown, but for outcomes of single requests. Not thread-safe.
 */
public final class RouterLedger {
  /** What becomes of ranks that nothing recent is known of. */
  public enum Unknown {
    /** They take nothing until they report. */
    HOLD,
    /** They take their share by what the ledger holds on them. */
    USE_LEDGER
  }

  /** What is known of a rank. */
  public enum Standing {
    /** Its last report is within the staleness bound. */
    KNOWN,
    /** It hasn't reported, or not within the bound. */
    UNKNOWN,
    /** It finishes what it has and takes nothing new. */
    DRAINING,
    /** It is gone. */
    DOWN
  }

  /** What became of a report. */
  public enum Report {
    /** It is the rank's load now. */
    TAKEN,
    /** Refused: a later one was taken, or it is of an earlier incarnation. */
    OUTDATED,
    /** Refused: the rank is down. */
    DOWN
  }

  /** What became of a terminal event. */
  public enum Release {
    /** The reservation is gone. */
    RELEASED,
    /** There is none: the request was released or reported as lost before, or never dispatched. */
    NOT_HELD
  }

  /** Why a request isn't dispatched now. */
  public enum Wait {
    /** Every rank that may take it is at its cap. */
    FULL,
    /** A rank that nothing recent is known of might take it. */
    UNKNOWN,
    /** Every rank that may take it is down or drains. */
    UNAVAILABLE
  }

  /** What became of a single request. */
  public sealed interface Dispatch {
    /**
     * It is reserved.
     *
     * @param rank where it goes
     * @param number of this dispatch among those to this rank, from 1: what the rank's reports
     *     count by
     */
    record Dispatched(int rank, long number) implements Dispatch {}

    /** Not now; nothing was changed. */
    record Deferred(Wait reason) implements Dispatch {}

    /** Never as long as that is so: a request of this id is in flight on a rank. */
    record Duplicate(int rank) implements Dispatch {}
  }

  /**
   * What can be chosen.
   *
   * @param ranks 1 or more
   * @param cap K: a rank that holds as many requests, children counted, takes no more; 1 or more
   * @param staleness longest time after a report for which it counts, 1 or more
   * @param unknown what becomes of ranks beyond it
   * @param load what a request weighs: its prompt, or what its rank doesn't hold of it
   */
  public record Options(int ranks, int cap, long staleness, Unknown unknown, TokenLoad load) {
    public Options {
      if (ranks < 1 || cap < 1 || staleness < 1) {
        throw new BerthException(
            Code.CONFIGURATION,
            "a ledger needs ranks, cap and staleness of 1 or more, got %d, %d, %d"
                .formatted(ranks, cap, staleness));
      }
    }

    /**
     * Says that ranks would be unknown most of the time.
     *
     * @param refresh time between two reports of a rank
     * @return a sentence if it is longer than the staleness bound
     */
    public Optional<String> warning(long refresh) {
      return refresh <= staleness
          ? Optional.empty()
          : Optional.of(
              "ranks report every %d, but a report counts for %d: they are unknown %.1f %% of the time"
                  .formatted(refresh, staleness, 100.0 * (refresh - staleness) / refresh));
    }
  }

  /** What is held on a rank, as columns of counts. */
  private static final class Held {
    final int[] requests;
    final long[] tokens;

    Held(int ranks) {
      requests = new int[ranks];
      tokens = new long[ranks];
    }

    void add(int rank, int count, long load) {
      requests[rank] += count;
      tokens[rank] += load;
    }

    void clear(int rank) {
      requests[rank] = 0;
      tokens[rank] = 0;
    }
  }

  /** In place of a rank: a request of this id is in flight, it must not go again. */
  public static final int REFUSED = -1;

  private static final int WORDS = RankState.RETIRING_REQUESTS + 1;
  private static final long NEVER = Long.MIN_VALUE;

  private final AdpRouter router;
  private final Options options;
  private final LedgerEntries entries = new LedgerEntries();
  private final RankLoads loads = new RankLoads();
  private final long[] words;
  private final RequestBatch single = new RequestBatch();
  private final RequestBatch fresh = new RequestBatch();
  private final RequestBatch left = new RequestBatch();
  private final RequestBatch back = new RequestBatch();
  private final Assignment assignment = new Assignment();

  /** Everything that is reserved. */
  private final Held held;

  /** What is reserved and no report has seen. */
  private final Held unseen;

  /** What the last report said, less what of it has ended since. */
  private final Held reported;

  private final int[] reportedRetiring;
  private final long[] reportedAt;
  private final long[] seen;
  private final long[] dispatched;
  private final int[] incarnations;
  private final boolean[] down;
  private final boolean[] draining;
  private long epoch;
  private long now = NEVER;

  /** The strict test of a queue looks at the ranks that take requests. */
  private final RankOccupancy occupancy =
      new RankOccupancy() {
        @Override
        public int ranks() {
          return options.ranks();
        }

        @Override
        public int activeRequests(int rank) {
          return loads.isClosed(rank) ? Integer.MAX_VALUE : loads.activeRequests(rank);
        }
      };

  /**
   * An empty ledger: every rank is there, and unknown.
   *
   * @param router used by nobody else
   */
  public RouterLedger(AdpRouter router, Options options) {
    this.router = router;
    this.options = options;
    int ranks = options.ranks();
    held = new Held(ranks);
    unseen = new Held(ranks);
    reported = new Held(ranks);
    words = new long[Math.multiplyExact(ranks, WORDS)];
    reportedRetiring = new int[ranks];
    reportedAt = new long[ranks];
    Arrays.fill(reportedAt, NEVER);
    seen = new long[ranks];
    dispatched = new long[ranks];
    incarnations = new int[ranks];
    down = new boolean[ranks];
    draining = new boolean[ranks];
  }

  // ----------------------------------------------------------------------------------- reports

  /**
   * Takes what a rank says of itself.
   *
   * @param time when it arrived
   * @param incarnation as {@link #incarnation} says: a report from before a restart is refused
   * @param count how many of this ledger's dispatches to the rank had reached it when it counted:
   *     the highest number of one, 0 if none
   * @param active its routable requests, whoever sent them
   * @param tokens their load
   * @param retiring requests that it holds and doesn't count as active
   * @throws BerthException {@code ARGUMENT} if the rank doesn't exist, a count is negative or too
   *     large, or it has seen more dispatches than were made
   */
  public Report report(
      int rank, long time, int incarnation, long count, int active, long tokens, int retiring) {
    requireRank(rank);
    RankState.requireCount("activeRequests", active, rank);
    RankState.requireCount("retiringRequests", retiring, rank);
    RankState.requireTokens(tokens, rank);
    if (count < 0 || count > dispatched[rank]) {
      throw new BerthException(
          Code.ARGUMENT,
          "rank %d reports to have seen dispatch %d of %d"
              .formatted(rank, count, dispatched[rank]));
    }
    advance(time);
    if (down[rank]) {
      return Report.DOWN;
    }
    if (incarnation != incarnations[rank] || count < seen[rank]) {
      return Report.OUTDATED;
    }
    reported.requests[rank] = active;
    reported.tokens[rank] = tokens;
    reportedRetiring[rank] = retiring;
    reportedAt[rank] = time;
    if (count > seen[rank]) {
      seen[rank] = count;
      unseen.clear(rank);
      for (int place = 0; place < entries.places(); place++) {
        if (entries.taken(place) && entries.rank(place) == rank && entries.number(place) > count) {
          unseen.add(rank, entries.cost(place), entries.tokens(place));
        }
      }
    }
    return Report.TAKEN;
  }

  // ---------------------------------------------------------------------------------- dispatch

  /** Dispatches one request, or says why not. */
  public Dispatch dispatch(Request request, PrefixMatches matches, long time) {
    requireTarget(request);
    advance(time);
    int place = entries.find(request.id());
    if (place != LedgerEntries.NONE) {
      return new Dispatch.Duplicate(entries.rank(place));
    }
    readLoads();
    int target = request.scheduling().targetRank();
    boolean strict =
        target != SchedulingParams.NO_RANK && request.scheduling().relax() != Relax.RELAXED;
    if (!hasRoom(request.admissionCost(), strict ? target : SchedulingParams.NO_RANK)) {
      return new Dispatch.Deferred(wait(strict ? target : SchedulingParams.NO_RANK));
    }
    single.clear();
    single.add(request);
    route(single, matches);
    if (assignment.unassignedSize() > 0) {
      return new Dispatch.Deferred(wait(SchedulingParams.NO_RANK));
    }
    int rank = 0;
    while (assignment.size(rank) == 0) {
      rank++;
    }
    return new Dispatch.Dispatched(rank, dispatched[rank]);
  }

  /**
   * Pops what the ranks have room for and dispatches it; what finds no rank goes back to the front.
   * The queue's own tests hold: order, cost of children, strict targets.
   *
   * @param queue with attention DP and this ledger's number of ranks
   * @param matches gives the matches of a batch that was popped, if the router uses them
   * @param out the requests that left the queue, in its order: overwritten
   * @param ranks where each of them goes, {@code int32[out.size()]}, or {@link #REFUSED} if a
   *     request of its id is in flight; at least as long as the queue
   * @return how many were dispatched
   * @throws BerthException {@code STATE} or {@code ARGUMENT} as {@link WaitingQueue#pop}; {@code
   *     ARGUMENT} if {@code ranks} is too short: nothing was changed then
   */
  public int dispatch(
      WaitingQueue queue, MatchSource matches, long time, RequestBatch out, int[] ranks) {
    if (ranks.length < queue.size()) {
      throw new BerthException(
          Code.ARGUMENT, "room for %d ranks, %d wait".formatted(ranks.length, queue.size()));
    }
    advance(time);
    readLoads();
    out.clear();
    queue.pop(room(), occupancy, options.cap(), out);
    fresh.clear();
    for (int item = 0; item < out.size(); item++) {
      if (entries.find(out.get(item).id()) == LedgerEntries.NONE) {
        fresh.add(out.get(item));
        ranks[item] = 0;
      } else {
        ranks[item] = REFUSED;
      }
    }
    boolean gather = router.usesMatches() && fresh.size() > 0;
    route(fresh, gather ? matches.of(fresh, options.ranks()) : PrefixMatches.NONE);
    putBackUnassigned(queue);
    return list(out, ranks);
  }

  private void putBackUnassigned(WaitingQueue queue) {
    back.clear();
    for (int i = 0; i < assignment.unassignedSize(); i++) {
      back.add(fresh.get(assignment.unassigned(i)));
    }
    queue.putBack(back);
  }

  /** Takes out of a batch what went back, and says of the rest where it goes. */
  private int list(RequestBatch out, int[] ranks) {
    left.clear();
    int count = 0;
    for (int item = 0; item < out.size(); item++) {
      int place = entries.find(out.get(item).id());
      if (ranks[item] == REFUSED) {
        ranks[left.size()] = REFUSED;
        left.add(out.get(item));
      } else if (place != LedgerEntries.NONE) {
        ranks[left.size()] = entries.rank(place);
        left.add(out.get(item));
        count++;
      }
    }
    out.clear();
    for (int item = 0; item < left.size(); item++) {
      out.add(left.get(item));
    }
    return count;
  }

  private void route(RequestBatch batch, PrefixMatches matches) {
    router.route(loads, batch, matches, options.cap(), assignment);
    for (int rank = 0; rank < options.ranks(); rank++) {
      for (int i = 0; i < assignment.size(rank); i++) {
        int item = assignment.get(rank, i);
        Request request = batch.get(item);
        int match = matches.requests() == 0 ? 0 : matches.get(item, rank);
        long weight = options.load().tokens(request.promptTokens(), match);
        int cost = request.admissionCost();
        entries.add(request.id(), rank, cost, weight, ++dispatched[rank], now);
        held.add(rank, cost, weight);
        unseen.add(rank, cost, weight);
      }
    }
  }

  /** What the router is to see: effective loads, and ranks that take nothing closed. */
  private void readLoads() {
    int ranks = options.ranks();
    for (int rank = 0; rank < ranks; rank++) {
      int at = rank * WORDS;
      words[at + RankState.RANK] = rank;
      words[at + RankState.ACTIVE_REQUESTS] = activeRequests(rank);
      words[at + RankState.ACTIVE_TOKENS] = activeTokens(rank);
      words[at + RankState.RETIRING_REQUESTS] = isKnown(rank) ? reportedRetiring[rank] : 0;
    }
    loads.read(words, WORDS, WORDS, ranks);
    for (int rank = 0; rank < ranks; rank++) {
      if (!takes(rank)) {
        loads.close(rank);
      }
    }
  }

  private boolean takes(int rank) {
    return !down[rank]
        && !draining[rank]
        && (isKnown(rank) || options.unknown() == Unknown.USE_LEDGER);
  }

  private boolean isKnown(int rank) {
    return reportedAt[rank] != NEVER && now - reportedAt[rank] <= options.staleness();
  }

  /** Requests that the open ranks have room for. */
  private int room() {
    long room = 0;
    for (int rank = 0; rank < options.ranks(); rank++) {
      room += loads.isClosed(rank) ? 0 : Math.max(0, options.cap() - loads.activeRequests(rank));
    }
    return (int) Math.min(room, Integer.MAX_VALUE);
  }

  /** Has the target, or without one any rank, a place, and all together as many as it costs? */
  private boolean hasRoom(int cost, int target) {
    if (target != SchedulingParams.NO_RANK) {
      return occupancy.activeRequests(target) < options.cap();
    }
    return cost <= room();
  }

  private Wait wait(int target) {
    boolean unknown = false;
    boolean full = false;
    for (int rank = 0; rank < options.ranks(); rank++) {
      if (target == SchedulingParams.NO_RANK || rank == target) {
        full |= takes(rank);
        unknown |= !takes(rank) && !down[rank] && !draining[rank];
      }
    }
    return unknown ? Wait.UNKNOWN : full ? Wait.FULL : Wait.UNAVAILABLE;
  }

  // ----------------------------------------------------------------------------------- release

  /** Takes a request's terminal event, whichever it is: completed, failed, cancelled. */
  public Release release(long id) {
    int place = entries.find(id);
    if (place == LedgerEntries.NONE) {
      return Release.NOT_HELD;
    }
    int rank = entries.rank(place);
    int cost = entries.cost(place);
    long tokens = entries.tokens(place);
    held.add(rank, -cost, -tokens);
    if (entries.number(place) > seen[rank]) {
      unseen.add(rank, -cost, -tokens);
    } else {
      reported.requests[rank] = Math.max(0, reported.requests[rank] - cost);
      reported.tokens[rank] = Math.max(0, reported.tokens[rank] - tokens);
    }
    entries.remove(place);
    return Release.RELEASED;
  }

  // -------------------------------------------------------------------------------- membership

  /**
   * A rank is gone. What was in flight on it is lost: handed to the caller once, ascending by
   * dispatch, and released.
   *
   * @return how many were lost; 0 if it was down already
   */
  public int down(int rank, LongConsumer lost) {
    requireRank(rank);
    if (down[rank]) {
      return 0;
    }
    down[rank] = true;
    epoch++;
    long[] ids = new long[entries.size()];
    long[] numbers = new long[entries.size()];
    int count = 0;
    for (int place = 0; place < entries.places(); place++) {
      if (entries.taken(place) && entries.rank(place) == rank) {
        numbers[count] = entries.number(place);
        ids[count++] = entries.id(place);
      }
    }
    Integer[] order = new Integer[count];
    Arrays.setAll(order, i -> i);
    Arrays.sort(order, (a, b) -> Long.compare(numbers[a], numbers[b]));
    for (Integer i : order) {
      release(ids[i]);
      lost.accept(ids[i]);
    }
    return count;
  }

  /**
   * A rank is there again, or stops draining: unknown until it reports, if it was down.
   *
   * @return its incarnation, which its reports carry from now on
   */
  public int up(int rank) {
    requireRank(rank);
    if (down[rank]) {
      incarnations[rank]++;
      reportedAt[rank] = NEVER;
      seen[rank] = 0;
      dispatched[rank] = 0;
      reported.clear(rank);
      unseen.clear(rank);
    }
    epoch += down[rank] || draining[rank] ? 1 : 0;
    down[rank] = false;
    draining[rank] = false;
    return incarnations[rank];
  }

  /** A rank takes nothing new. It is empty when {@link #inFlight(int)} is 0. */
  public void drain(int rank) {
    requireRank(rank);
    epoch += draining[rank] ? 0 : 1;
    draining[rank] = true;
  }

  /** Grows with every change of who takes requests. */
  public long epoch() {
    return epoch;
  }

  /** How often a rank came back: what its reports carry. */
  public int incarnation(int rank) {
    requireRank(rank);
    return incarnations[rank];
  }

  // ------------------------------------------------------------------------------------ gauges

  /** What is known of a rank at a time. */
  public Standing standing(int rank, long time) {
    requireRank(rank);
    advance(time);
    if (down[rank]) {
      return Standing.DOWN;
    }
    if (draining[rank]) {
      return Standing.DRAINING;
    }
    return isKnown(rank) ? Standing.KNOWN : Standing.UNKNOWN;
  }

  /** Ranks that are up and unknown. */
  public int staleRanks(long time) {
    advance(time);
    int stale = 0;
    for (int rank = 0; rank < options.ranks(); rank++) {
      stale += !down[rank] && !isKnown(rank) ? 1 : 0;
    }
    return stale;
  }

  /** Requests that are reserved. */
  public int inFlight() {
    return entries.size();
  }

  /** Requests that are reserved on a rank, their children counted. */
  public int inFlight(int rank) {
    requireRank(rank);
    return held.requests[rank];
  }

  /** The rank that a request is reserved on. */
  public Optional<Integer> rankOf(long id) {
    int place = entries.find(id);
    return place == LedgerEntries.NONE ? Optional.empty() : Optional.of(entries.rank(place));
  }

  /**
   * Requests that were dispatched at least that long ago and haven't ended: an alarm, nothing more.
   */
  public int overdue(long time, long age) {
    advance(time);
    int count = 0;
    for (int place = 0; place < entries.places(); place++) {
      count += entries.taken(place) && time - entries.since(place) >= age ? 1 : 0;
    }
    return count;
  }

  /** Requests that a rank counts as holding at the last time that was passed: its effective n. */
  public int activeRequests(int rank) {
    requireRank(rank);
    if (!isKnown(rank)) {
      return held.requests[rank];
    }
    long sum = (long) reported.requests[rank] + unseen.requests[rank];
    return (int) Math.min(sum, Integer.MAX_VALUE);
  }

  /** Their tokens: its effective tau. */
  public long activeTokens(int rank) {
    requireRank(rank);
    if (!isKnown(rank)) {
      return held.tokens[rank];
    }
    return Math.min(reported.tokens[rank] + unseen.tokens[rank], RankState.MAX_TOKENS);
  }

  /**
   * Mean share of the cap that the ranks hold, 0 .. 1. An unknown rank counts as full under {@link
   * Unknown#HOLD} and not at all under {@link Unknown#USE_LEDGER}; ranks that are down don't count;
   * a pool without ranks is full.
   */
  public double poolLoad(long time) {
    advance(time);
    double sum = 0;
    int counted = 0;
    int up = 0;
    for (int rank = 0; rank < options.ranks(); rank++) {
      if (down[rank]) {
        continue;
      }
      up++;
      if (isKnown(rank)) {
        sum += Math.min(1, activeRequests(rank) / (double) options.cap());
        counted++;
      } else if (options.unknown() == Unknown.HOLD) {
        sum += 1;
        counted++;
      }
    }
    if (up == 0) {
      return 1;
    }
    return counted == 0 ? 0 : sum / counted;
  }

  /** Every id in flight, ascending: a copy. */
  public List<Long> inFlightIds() {
    long[] ids = new long[entries.size()];
    int count = 0;
    for (int place = 0; place < entries.places(); place++) {
      if (entries.taken(place)) {
        ids[count++] = entries.id(place);
      }
    }
    return Arrays.stream(ids).sorted().boxed().toList();
  }

  // ------------------------------------------------------------------------------------ checks

  private void advance(long time) {
    if (time < now) {
      throw new BerthException(
          Code.ARGUMENT, "time went back from " + now + " to " + time + " in a ledger");
    }
    now = time;
  }

  private void requireTarget(Request request) {
    int target = request.scheduling().targetRank();
    if (target >= options.ranks()) {
      throw new BerthException(
          Code.ARGUMENT,
          "request %d names the target rank %d, but there are %d ranks"
              .formatted(request.id(), target, options.ranks()));
    }
  }

  private void requireRank(int rank) {
    if (rank < 0 || rank >= options.ranks()) {
      throw new BerthException(Code.ARGUMENT, "rank " + rank + " is outside of " + options.ranks());
    }
  }
}
