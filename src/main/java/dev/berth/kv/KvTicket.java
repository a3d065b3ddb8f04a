// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/** How transfers from the disk level stand that a resume or a prefetch waits for. */
public sealed interface KvTicket {
  /** Some haven't arrived, or no poll has looked. */
  record UnderWay() implements KvTicket {}

  /** All so many pages are where they were to go. */
  record Done(int pages) implements KvTicket {}

  /**
   * Some of the pages were lost: their blocks left the index, and every sequence that counted on
   * them is shorter now, as its next resume will say.
   *
   * @param pages that were to come
   * @param failed of these
   * @param errno of the first that failed
   */
  record Failed(int pages, int failed, int errno) implements KvTicket {}
}
