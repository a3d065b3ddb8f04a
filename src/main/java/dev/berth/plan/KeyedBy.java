// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/** What a pool's rows are indexed by. */
public enum KeyedBy {
  SEAT("seats"),
  LEASE("leases"),
  /** A lease that is kept for padding and never handed out to requests. */
  RESERVED_LEASE("reserved leases"),
  BATCH_POSITION("batch positions");

  private final String plural;

  KeyedBy(String plural) {
    this.plural = plural;
  }

  /** The word for several of them. */
  public String plural() {
    return plural;
  }

  /** The number that the plan gives. */
  int planned(SeatPlan plan) {
    return switch (this) {
      case SEAT -> plan.seats().count();
      case LEASE -> plan.spendableLeases();
      case RESERVED_LEASE -> plan.withheldLeases();
      case BATCH_POSITION -> plan.batchPositions().count();
    };
  }
}
