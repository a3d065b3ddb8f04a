// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

import java.util.Arrays;

/**
 * What somebody else needs to fetch pages of a pool, as bytes that only transports read. It comes
 * from elsewhere: it may be anything.
 */
public final class PeerTicket {
  private final byte[] bytes;

  private PeerTicket(byte[] bytes) {
    this.bytes = bytes;
  }

  /** A ticket that arrived. */
  public static PeerTicket of(byte[] bytes) {
    return new PeerTicket(bytes.clone());
  }

  /** To be sent. */
  public byte[] bytes() {
    return bytes.clone();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PeerTicket ticket && Arrays.equals(bytes, ticket.bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }
}
