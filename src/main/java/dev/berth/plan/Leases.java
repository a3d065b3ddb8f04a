// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/**
 * Number of leases of one rank that requests can hold, reserved ones not included: rows of the page
 * tables.
 *
 * <p>Only a {@link SeatPlan} makes one, so that a pool cannot be sized by a number derived
 * elsewhere.
 */
public final class Leases {
  private final int count;

  Leases(int count) {
    this.count = count;
  }

  /** Rows, 1 or more, reserved ones not included. */
  public int count() {
    return count;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Leases that && that.count == count;
  }

  @Override
  public int hashCode() {
    return count;
  }

  @Override
  public String toString() {
    return count + " leases";
  }
}
