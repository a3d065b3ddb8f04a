// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * On whose account a request is served, and until when it should be taken. Read by {@link
 * WaitingQueue.Policy#FAIR} and {@link WaitingQueue.Policy#DEADLINE} and by nothing else.
 * Immutable.
 *
 * @param tenant who is charged, any value. A tenant exists by its requests: none is unknown
 * @param weight share of the tenant, 1 to {@link #MAX_WEIGHT}: a token costs a tenant of weight 2
 *     half of what it costs one of weight 1
 * @param deadline the last iteration in which the request is taken in time, 0 or more, on the clock
 *     of {@link WaitingQueue#advanceTo}; {@link #NO_DEADLINE} if it has none
 */
public record ServiceTerms(long tenant, int weight, long deadline) {
  /** The largest weight. */
  public static final int MAX_WEIGHT = 1024;

  /** Any iteration will do. */
  public static final long NO_DEADLINE = Long.MAX_VALUE;

  /** Tenant 0, weight 1, no deadline. */
  public static final ServiceTerms NONE = new ServiceTerms(0, 1, NO_DEADLINE);

  public ServiceTerms {
    if (weight < 1 || weight > MAX_WEIGHT) {
      throw new BerthException(
          Code.ARGUMENT, "weight must be from 1 to " + MAX_WEIGHT + ", got " + weight);
    }
    if (deadline < 0) {
      throw new BerthException(Code.ARGUMENT, "deadline must be >= 0, got " + deadline);
    }
  }

  /** A tenant of weight 1 without a deadline. */
  public static ServiceTerms ofTenant(long tenant) {
    return new ServiceTerms(tenant, 1, NO_DEADLINE);
  }

  /** The same with another weight. */
  public ServiceTerms withWeight(int newWeight) {
    return new ServiceTerms(tenant, newWeight, deadline);
  }

  /** The same with another deadline. */
  public ServiceTerms withDeadline(long newDeadline) {
    return new ServiceTerms(tenant, weight, newDeadline);
  }

  /** Where a deadline stands at a time. */
  public enum Timeliness {
    /** There is no deadline. */
    UNBOUND,
    /** Still to be met. */
    OPEN,
    /** Over. */
    LATE
  }

  /** Where the deadline stands in an iteration. */
  public Timeliness at(long iteration) {
    if (deadline == NO_DEADLINE) {
      return Timeliness.UNBOUND;
    }
    return iteration <= deadline ? Timeliness.OPEN : Timeliness.LATE;
  }
}
