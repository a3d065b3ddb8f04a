// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/**
 * The end of a lease: from now on nobody reads its pages. There is exactly one for each.
 *
 * @param reason why
 */
public record LeaseEnd(LeaseId id, Reason reason) {
  /** Why the pages come back. */
  public enum Reason {
    /** A peer took all of them. */
    READ,
    /** A peer's fetch of them ended otherwise. */
    ABORTED,
    /** Nobody took them in time. */
    EXPIRED,
    /** They were taken back. */
    WITHDRAWN
  }
}
