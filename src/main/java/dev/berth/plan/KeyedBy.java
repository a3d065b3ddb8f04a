// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/** What a pool's rows are indexed by. */
public enum KeyedBy {
  SEAT("seats"),
  LEASE("leases"),
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
      case LEASE -> plan.leases().count();
      case BATCH_POSITION -> plan.batchPositions().count();
    };
  }
}
