// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.RequestState;

/**
 * Adds up one rank's requests to the state that it reports: the single place where retiring
 * requests are filtered. Only state 14 is; failed, transferring and waiting requests, and dummies
 * in the active list, all count. Reusable, not thread-safe.
 *
 * <p>Source: spec 01 §2.1.
 */
public final class RankTally {
  private final RetiringRule rule;
  private int activeRequests;
  private long activeTokens;
  private int retiringRequests;

  /** An empty tally. */
  public RankTally(RetiringRule rule) {
    this.rule = rule;
  }

  /** Forgets all requests. */
  public void reset() {
    activeRequests = 0;
    activeTokens = 0;
    retiringRequests = 0;
  }

  /**
   * Counts a request of the active list.
   *
   * @param state its state now
   * @param loadTokens its {@link TokenLoad#tokens}
   */
  public void addActive(RequestState state, long loadTokens) {
    if (state == RequestState.RETIRING && rule != RetiringRule.CHARGED) {
      retiringRequests++;
      if (rule == RetiringRule.EXCLUDED_TOKENS_CHARGED) {
        activeTokens += loadTokens;
      }
    } else {
      activeRequests++;
      activeTokens += loadTokens;
    }
  }

  /**
   * Counts a request that has left the active list and still sends its KV pages. A KV-aware router
   * that accounts for requests in transfer charges them whatever their state.
   *
   * @param loadTokens its {@link TokenLoad#tokens}
   */
  public void addInTransfer(long loadTokens) {
    activeRequests++;
    activeTokens += loadTokens;
  }

  /** Routable requests so far: n. */
  public int activeRequests() {
    return activeRequests;
  }

  /** Their token load: tau. */
  public long activeTokens() {
    return activeTokens;
  }

  /** Retiring requests so far: rho. */
  public int retiringRequests() {
    return retiringRequests;
  }

  /**
   * The state to report.
   *
   * @param rank this rank
   * @param pendingNewRequests on rank 0 the requests not fetched yet, elsewhere 0
   */
  public RankState state(int rank, long pendingNewRequests) {
    return new RankState(
        rank,
        activeRequests,
        activeTokens,
        retiringRequests,
        pendingNewRequests,
        RankState.IterationStatistics.NONE);
  }
}
