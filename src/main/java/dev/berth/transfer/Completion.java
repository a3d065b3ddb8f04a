// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/**
 * The end of a fetch; there is exactly one for each.
 *
 * @param bytes moved; of use only if it is done
 * @param quiesced nobody writes its local pages any more; if not, they belong to nobody until
 *     {@link KvTransport#quiesced} says so
 * @param detail what happened, in words; empty if it is done
 */
public record Completion(
    TransferId id, Outcome outcome, long bytes, boolean quiesced, String detail) {
  /** How it ended. The first one stands. */
  public enum Outcome {
    DONE,
    /** Its deadline passed. */
    TIMED_OUT,
    /** The other side went away. */
    PEER_LOST,
    /** Somebody cancelled it here. */
    CANCELLED,
    /** The other side has no such pages to give, or no longer. */
    REJECTED,
    /** What arrived isn't what was sent. */
    CORRUPT
  }
}
