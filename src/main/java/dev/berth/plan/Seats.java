// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/**
 * Number of seats of one rank: rows of everything keyed by a live, schedulable sequence.
 *
 * <p>Only a {@link SeatPlan} makes one, so that a pool cannot be sized by a number derived
 * elsewhere.
 */
public final class Seats {
  private final int count;

  Seats(int count) {
    this.count = count;
  }

  /** Rows, 1 or more. */
  public int count() {
    return count;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Seats that && that.count == count;
  }

  @Override
  public int hashCode() {
    return count;
  }

  @Override
  public String toString() {
    return count + " seats";
  }
}
