// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/**
 * Whether a configuration can respond to retiring requests being left out of admission (evidence
 * E6).
 */
public enum ConfigClass {
  /** Overlap on, more clients than the cap, and tokens for a full batch. */
  MOVABLE("movable"),
  /** The step's tokens keep batches below B whatever is admitted. */
  INERT_TOKEN_LIMITED("inert (token-limited)"),
  /** There are never more clients than the cap: the window cannot refill. */
  INERT_CONCURRENCY("inert (con <= cap)"),
  /** Overlap off: no request ever retires. A control. */
  GUARD("guard"),
  /** Concurrency or prompt length isn't known. */
  UNKNOWN("n/a");

  private final String title;

  ConfigClass(String title) {
    this.title = title;
  }

  /** The name in tables. */
  public String title() {
    return title;
  }

  @Override
  public String toString() {
    return title;
  }
}
