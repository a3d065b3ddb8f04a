// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

import dev.berth.BerthException;
import java.lang.foreign.MemorySegment;

/**
 * Moves pages between the KV caches of workers (spec 08 §11). Whoever needs pages fetches them;
 * whoever has them offers them under a lease. Nothing calls back: what happened is polled. For one
 * thread.
 *
 * <p>Rules that keep pages safe, whatever happens to either side:
 *
 * <ul>
 *   <li>A fetch has exactly one {@link Completion}, a lease exactly one {@link LeaseEnd}, and the
 *       first outcome stands.
 *   <li>Local pages of a fetch belong to the transport until its completion; if that isn't
 *       quiesced, until it is. No timer frees them.
 *   <li>Offered pages stay as they are until their lease has ended.
 * </ul>
 *
 * Times are µs of the transport's clock.
 */
public interface KvTransport extends AutoCloseable {
  /**
   * Makes a pool known: its memory stays until {@link #deregister}.
   *
   * @param pool {@code byte[pages][pageBytes]}
   * @throws BerthException ARGUMENT if its size isn't the geometry's; STATE if it can't take the
   *     kind
   */
  Region register(MemorySegment pool, MemoryKind kind, PageGeometry geometry);

  /**
   * Forgets a pool. Its leases end, and fetches from and to it, before this returns.
   *
   * @throws BerthException NOT_FOUND if it isn't known
   */
  void deregister(Region region);

  /** What a peer needs to fetch pages of a pool of this transport. */
  PeerTicket ticket(Region region, long expiresAt);

  /** Turns a ticket from elsewhere into a peer, for fetches into pools like that one. */
  ConnectOutcome connect(PeerTicket ticket, Region local);

  /**
   * Begins to fetch pages of a peer.
   *
   * @param lease under which the peer offers them
   * @param local where they go: pages of a pool like the peer's
   * @param remote as many pages
   * @param deadline when it ends as {@link Completion.Outcome#TIMED_OUT}
   * @throws BerthException ARGUMENT for pages outside of the local pool, pages that a fetch under
   *     way writes, or lists of different lengths; NOT_FOUND for a peer that isn't known
   */
  FetchOutcome fetch(
      Peer peer, LeaseId lease, Region region, PageList local, PageList remote, long deadline);

  /**
   * Lets peers take pages once, until the lease ends.
   *
   * @param until when it ends by itself
   * @throws BerthException ARGUMENT for pages outside of the pool
   */
  LeaseId offer(Region region, PageList pages, long until);

  /** Takes an offer back: its end comes when nobody reads its pages any more. */
  void withdraw(LeaseId lease);

  /** Sends a few bytes, at most {@link #MOST_MESSAGE}, to the owner of a peer's pool. */
  void notify(Peer peer, byte[] message);

  /** The next message that arrived; empty bytes if there is none. */
  byte[] nextMessage();

  /**
   * Lets things move, and tells which fetches ended.
   *
   * @return how many, at most {@code out.length}; the others wait
   */
  int poll(Completion[] out);

  /** Which leases ended, as {@link #poll}. */
  int pollLeases(LeaseEnd[] out);

  /** Ends a fetch; its completion still comes. One that has ended is left alone. */
  void cancel(TransferId id);

  /** Whether nobody writes the local pages of a fetch any more. */
  boolean quiesced(TransferId id);

  /** What it can do. */
  Capabilities capabilities();

  @Override
  void close();

  /** Bytes of the longest message. */
  int MOST_MESSAGE = 4096;
}
