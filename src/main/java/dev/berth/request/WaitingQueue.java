// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Requests that wait for admission. The policy shapes the order in which they are popped and
 * nothing else: routers sort what they get again. Source: spec 01 §3.4, §3.5.
 *
 * <p>Every rank keeps an identical queue and pops it with identical arguments, so no result needs
 * to be exchanged. Offering and cancelling take constant time under {@link Policy#FCFS}, else
 * logarithmic time (under {@link Policy#FAIR} on average); a pop looks at what it takes and at the
 * blocked requests before it. Nothing is allocated once the queue has grown to its largest size.
 * Not thread-safe.
 *
 * <p>How long a request r can be kept waiting by others, as long as its target rank has room (if it
 * insists on one) and something is popped at all:
 *
 * <ul>
 *   <li>{@code FCFS}: nothing that is offered after r is taken before it.
 *   <li>{@code PRIORITY}: no bound; what has a larger priority may pass for ever.
 *   <li>{@code FAIR}: before r is taken, any other tenant u is charged at most {@code A + L(t) +
 *       L(u)} virtual tokens, however much it asks for. A is what r's own tenant t is charged for
 *       requests of its own that go before r, and L the largest charge of one request.
 *   <li>{@code DEADLINE}: nothing that is offered after the iteration D + patience is taken before
 *       r; D is its deadline, or the iteration in which it was offered if it has none.
 * </ul>
 */
public abstract sealed class WaitingQueue
    permits WaitingQueueFcfs, WaitingQueueHeap, WaitingQueueFair {
  /** The order of service. */
  public enum Policy {
    /** By arrival; priorities are ignored. */
    FCFS,
    /** By priority, larger first; equal priorities by arrival. */
    PRIORITY,
    /**
     * The tenant that was charged the fewest virtual tokens first, its requests by priority and
     * then by arrival. A request that is taken charges its tenant with {@link
     * Request#serviceTokens()} over its weight; a tenant that comes (back) starts no lower than
     * where the last request was taken, so that nothing is saved up while away. With one tenant
     * this is {@link #PRIORITY}.
     */
    FAIR,
    /**
     * Earliest deadline first, equal ones by arrival; priorities are ignored. A request without a
     * deadline is due when its {@link QueueRules#patience} is over. One that misses its deadline
     * while it waits stays, and lets those pass that can still be in time, until its patience is
     * over too.
     */
    DEADLINE
  }

  /** What became of an offered request. */
  public enum Offer {
    /** It waits. */
    QUEUED,
    /** Refused: a request of that id waits already. */
    DUPLICATE,
    /**
     * Refused under {@link Policy#DEADLINE}: its deadline was over before it came. Who wants it
     * served all the same offers it without one.
     */
    EXPIRED
  }

  static final int INITIAL_CAPACITY = 16;
  static final int NONE = -1;

  /** Stands for attention DP being off: target ranks mean nothing then. */
  private static final int NO_RANKS = 0;

  private static final RankOccupancy NO_OCCUPANCY =
      new RankOccupancy() {
        @Override
        public int ranks() {
          return NO_RANKS;
        }

        @Override
        public int activeRequests(int rank) {
          throw new BerthException(Code.INTERNAL, "no rank is looked at without attention DP");
        }
      };

  private final int ranks;
  private final WaitingQueueIndex entries = new WaitingQueueIndex();

  /**
   * The request of each entry; entries that are free hold none and are chained in {@link
   * #nextFree}.
   */
  private @Nullable Request[] requests = new @Nullable Request[INITIAL_CAPACITY];

  private int[] nextFree = new int[INITIAL_CAPACITY];
  private int firstFree = NONE;
  private int unusedFrom;

  /** Strict requests accepted on each rank in the pop under way; all zero between pops. */
  private final int[] strictTaken;

  private long now;

  WaitingQueue(int ranks) {
    this.ranks = ranks;
    this.strictTaken = new int[ranks];
  }

  /**
   * An empty queue under attention DP.
   *
   * @param ranks attention-DP size, 1 or more; a request's target rank must be below it
   * @throws BerthException {@code ARGUMENT} if {@code ranks} is below 1
   */
  public static WaitingQueue withAttentionDp(QueueRules rules, int ranks) {
    if (ranks < 1) {
      throw new BerthException(Code.ARGUMENT, "there must be at least one rank, got " + ranks);
    }
    return create(rules, ranks);
  }

  /** As {@link #withAttentionDp(QueueRules, int)}, with the default patience. */
  public static WaitingQueue withAttentionDp(Policy policy, int ranks) {
    return withAttentionDp(QueueRules.of(policy), ranks);
  }

  /** An empty queue without attention DP: target ranks are ignored, whatever they are. */
  public static WaitingQueue withoutAttentionDp(QueueRules rules) {
    return create(rules, NO_RANKS);
  }

  /** As {@link #withoutAttentionDp(QueueRules)}, with the default patience. */
  public static WaitingQueue withoutAttentionDp(Policy policy) {
    return withoutAttentionDp(QueueRules.of(policy));
  }

  private static WaitingQueue create(QueueRules rules, int ranks) {
    return switch (rules.policy()) {
      case FCFS -> new WaitingQueueFcfs(ranks);
      case PRIORITY -> new WaitingQueuePriority(ranks);
      case FAIR -> new WaitingQueueFair(ranks);
      case DEADLINE -> new WaitingQueueDeadline(ranks, rules.patience());
    };
  }

  /** The order of service. */
  public abstract Policy policy();

  /** Number of waiting requests. */
  public final int size() {
    return entries.size();
  }

  /** True if nothing waits. */
  public final boolean isEmpty() {
    return entries.size() == 0;
  }

  /** True if a request of that id waits. */
  public final boolean contains(long id) {
    return entries.get(id) != NONE;
  }

  /** The iteration that deadlines are measured by; 0 at first. */
  public final long now() {
    return now;
  }

  /**
   * Says which iteration it is. Every rank says the same before the same pop. Only {@link
   * Policy#DEADLINE} looks at it.
   *
   * @throws BerthException {@code ARGUMENT} if it is earlier than what was said before
   */
  public final void advanceTo(long iteration) {
    if (iteration < now) {
      throw new BerthException(
          Code.ARGUMENT, "iteration " + iteration + " can't follow iteration " + now);
    }
    now = iteration;
  }

  /**
   * Puts a request at the end of the queue (of its priority, of its tenant).
   *
   * @throws BerthException {@code ARGUMENT} if its target rank doesn't exist
   */
  public final Offer offer(Request request) {
    requireTarget(request);
    if (contains(request.id())) {
      return Offer.DUPLICATE;
    }
    if (expired(request)) {
      return Offer.EXPIRED;
    }
    linkLast(enter(request));
    return Offer.QUEUED;
  }

  /**
   * Removes a waiting request.
   *
   * @return true if it waited
   */
  public final boolean cancel(long id) {
    int entry = entries.get(id);
    if (entry == NONE) {
      return false;
    }
    unlink(entry);
    leave(entry);
    return true;
  }

  /**
   * Puts popped requests back at the front, before everything that waits, in the order of the
   * batch; under {@link Policy#PRIORITY} before everything of the same priority, under {@link
   * Policy#FAIR} before everything of the same tenant and priority, with the charge refunded, and
   * under {@link Policy#DEADLINE} before everything of the same deadline if that is still open. For
   * requests that found no rank.
   *
   * @throws BerthException {@code ALREADY} if one of them waits already or stands twice in the
   *     batch, {@code ARGUMENT} if a target rank doesn't exist; the queue is unchanged then
   */
  public final void putBack(RequestBatch batch) {
    int size = batch.size();
    for (int i = 0; i < size; i++) {
      requireTarget(batch.get(i));
    }
    for (int i = 0; i < size; i++) {
      Request request = batch.get(i);
      if (contains(request.id())) {
        for (int undo = 0; undo < i; undo++) {
          leave(entries.get(batch.get(undo).id()));
        }
        throw new BerthException(
            Code.ALREADY, "request " + request.id() + " waits already and can't be put back");
      }
      enter(request);
    }
    for (int i = size - 1; i >= 0; i--) {
      linkFirst(entries.get(batch.get(i).id()));
    }
  }

  /**
   * Pops under attention DP. From the head on, a request is taken while its cost of 1 + children
   * fits in what is left of the budget; the first that doesn't fit ends the pop, even if a cheaper
   * one waits behind it. A request with a target rank and without {@link Relax#RELAXED} (so {@link
   * Relax#UNSET} is strict here, unlike in the routers) is taken only if its rank, with the strict
   * ones taken before it, holds fewer than {@code cap}; else it keeps its place, costs nothing, and
   * the next is looked at.
   *
   * @param budget admission budget (spec 01 §3.3); 0 or less takes nothing
   * @param occupancy active requests of each rank, read during the call only
   * @param cap K of spec 01 §3.1: most requests on one rank
   * @param into receives the requests taken, in the order of service, behind what it holds
   * @return their cost in admission budget
   * @throws BerthException {@code STATE} if this queue is without attention DP, {@code ARGUMENT} if
   *     {@code occupancy} has another number of ranks than the queue
   */
  public final int pop(int budget, RankOccupancy occupancy, int cap, RequestBatch into) {
    if (ranks == NO_RANKS) {
      throw new BerthException(Code.STATE, "this queue was made without attention DP");
    }
    if (occupancy.ranks() != ranks) {
      throw new BerthException(
          Code.ARGUMENT, "the queue has " + ranks + " ranks, the states " + occupancy.ranks());
    }
    int cost = take(budget, occupancy, cap, into);
    Arrays.fill(strictTaken, 0);
    return cost;
  }

  /**
   * Pops without attention DP: as {@link #pop(int, RankOccupancy, int, RequestBatch)}, but no
   * request is tested against a rank.
   *
   * @param budget admission budget; 0 or less takes nothing
   * @param into receives the requests taken, in the order of service, behind what it holds
   * @return their cost in admission budget
   * @throws BerthException {@code STATE} if this queue is under attention DP
   */
  public final int pop(int budget, RequestBatch into) {
    if (ranks != NO_RANKS) {
      throw new BerthException(Code.STATE, "this queue needs the states of " + ranks + " ranks");
    }
    return take(budget, NO_OCCUPANCY, Integer.MAX_VALUE, into);
  }

  /** The waiting requests in the order of service: a copy, for reports. */
  public final List<Request> waiting() {
    var all = new ArrayList<Request>(size());
    for (int entry : entriesInOrder()) {
      all.add(requestOf(entry));
    }
    return all;
  }

  /** Whether a request comes too late to be offered. */
  boolean expired(Request request) {
    return false;
  }

  /** Appends an entry behind all others (of its kind). */
  abstract void linkLast(int entry);

  /** Puts an entry before all others (of its kind). */
  abstract void linkFirst(int entry);

  /** Takes an entry out. */
  abstract void unlink(int entry);

  /**
   * Begins a scan in the order of service and gives its first entry, {@link #NONE} if there is
   * none.
   */
  abstract int scanFirst();

  /** Takes out the entry just scanned and gives the next. */
  abstract int scanTake(int entry);

  /** Leaves the entry just scanned in its place and gives the next. */
  abstract int scanSkip(int entry);

  /** Ends the scan. */
  abstract void scanEnd();

  /** All entries in the order of service, in a new array. */
  abstract int[] entriesInOrder();

  /** Makes room for entries below {@code capacity}. */
  abstract void grow(int capacity);

  final Request requestOf(int entry) {
    return Objects.requireNonNull(requests[entry]);
  }

  private int take(int budget, RankOccupancy occupancy, int cap, RequestBatch into) {
    int cost = 0;
    int entry = scanFirst();
    while (entry != NONE && cost < budget) {
      Request request = requestOf(entry);
      if (request.children() >= budget - cost) {
        break;
      }
      if (accepts(request.scheduling(), occupancy, cap)) {
        cost += request.admissionCost();
        into.add(request);
        int next = scanTake(entry);
        leave(entry);
        entry = next;
      } else {
        entry = scanSkip(entry);
      }
    }
    scanEnd();
    return cost;
  }

  private boolean accepts(SchedulingParams wishes, RankOccupancy occupancy, int cap) {
    int target = wishes.targetRank();
    if (ranks == NO_RANKS
        || target == SchedulingParams.NO_RANK
        || wishes.relax() == Relax.RELAXED) {
      return true;
    }
    if (occupancy.activeRequests(target) + strictTaken[target] >= cap) {
      return false;
    }
    strictTaken[target]++;
    return true;
  }

  private void requireTarget(Request request) {
    int target = request.scheduling().targetRank();
    if (ranks != NO_RANKS && target >= ranks) {
      throw new BerthException(
          Code.ARGUMENT,
          "request "
              + request.id()
              + " names the target rank "
              + target
              + ", but there are "
              + ranks
              + " ranks");
    }
  }

  private int enter(Request request) {
    int entry = firstFree;
    if (entry != NONE) {
      firstFree = nextFree[entry];
    } else {
      entry = unusedFrom;
      if (entry == requests.length) {
        int capacity = entry * 2;
        requests = Arrays.copyOf(requests, capacity);
        nextFree = Arrays.copyOf(nextFree, capacity);
        grow(capacity);
      }
      unusedFrom++;
    }
    requests[entry] = request;
    entries.put(request.id(), entry);
    return entry;
  }

  private void leave(int entry) {
    entries.remove(requestOf(entry).id());
    requests[entry] = null;
    nextFree[entry] = firstFree;
    firstFree = entry;
  }
}
