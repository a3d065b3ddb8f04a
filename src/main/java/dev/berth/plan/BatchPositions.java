// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/**
 * Number of rows of the scheduled batch of one rank. It never grows with seats or pipeline size.
 *
 * <p>Only a {@link SeatPlan} makes one, so that a pool cannot be sized by a number derived
 * elsewhere.
 */
public final class BatchPositions {
  private final int count;

  BatchPositions(int count) {
    this.count = count;
  }

  /** Rows, 1 or more. */
  public int count() {
    return count;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof BatchPositions that && that.count == count;
  }

  @Override
  public int hashCode() {
    return count;
  }

  @Override
  public String toString() {
    return count + " batch positions";
  }
}
