// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

/**
 * What every arm is checked for, always all of it. Each check counts its violations; 0 is a pass. A
 * broken arm declares which checks fail and with what count.
 */
public enum Check {
  /** Invariant: every request ended, or was refused by name. */
  ACCOUNTED(true, "requests neither done nor refused"),
  /** Invariant: no seat, lease or page is held by nobody. */
  NO_LEAK(true, "seats, leases and pages held by no request"),
  /** Invariant: no rank is given a request past its cap. */
  WITHIN_CAP(true, "rank records above the cap"),
  /** Invariant: pools are never overdrawn. */
  WITHIN_POOLS(true, "rank records above seats or leases"),
  /** Invariant: all stages make the same decisions. */
  STAGES_AGREE(true, "stages that decided otherwise"),
  /** The start-up validator accepts the plan. */
  VALIDATOR_ACCEPTS(false, "disagreements of the start-up validator"),
  /** Nothing waits for ever. */
  LIVE(false, "runs that stopped with work left"),
  /** No request that could run lacks a seat, a lease or pages. */
  NO_DEFERRAL(false, "deferrals for seats, leases or pages"),
  /** No forward is vetoed while requests wait for admission. */
  NO_VETO(false, "iterations vetoed while requests wait"),
  /** Ranks are full while requests wait for admission. */
  FULL_BATCHES(false, "launched rank batches below B while requests wait"),
  /** No batch position is spent on a request that has all its tokens. */
  NO_WASTED_POSITION(false, "batch positions that made no token"),
  /** The fill gate opens. */
  GATE_OPENS(false, "gates that never opened");

  private final boolean invariant;
  private final String unit;

  Check(boolean invariant, String unit) {
    this.invariant = invariant;
    this.unit = unit;
  }

  /** Must it pass on broken arms too, unless the arm says otherwise? */
  public boolean invariant() {
    return invariant;
  }

  /** What a violation is. */
  public String unit() {
    return unit;
  }

  /** The name in scenario files: lower case, words joined by hyphens. */
  public String id() {
    return name().toLowerCase(java.util.Locale.ROOT).replace('_', '-');
  }
}
