// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/** Whether a ticket led to a peer. */
public sealed interface ConnectOutcome {
  /** It did. */
  record Connected(Peer peer) implements ConnectOutcome {}

  /** It didn't: it is malformed, foreign, expired, or of pages of another geometry. */
  record Refused(String reason) implements ConnectOutcome {}
}
