// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

import java.util.Set;

/**
 * What a transport can do.
 *
 * @param reads a peer's pages are read from here; else their owner is asked to write them
 * @param kinds where pages may lie
 * @param noticesLostPeers a peer that goes away ends its fetches at once, not by their deadlines
 */
public record Capabilities(boolean reads, Set<MemoryKind> kinds, boolean noticesLostPeers) {
  public Capabilities {
    kinds = Set.copyOf(kinds);
  }
}
