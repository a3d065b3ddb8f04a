// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/** What came of one call on a KV cache that isn't misuse. Shortage changed nothing. */
public sealed interface KvOutcome {
  /**
   * Done.
   *
   * @param handle of the sequence or pin; 0: nothing was there to pin
   * @param matched tokens found, for an open or a lookup
   * @param partial of these, tokens of a block of which a part is reused
   */
  record Done(long handle, int matched, int partial) implements KvOutcome {}

  /** Too few pages: so many are missing in that group. */
  record PagesShort(int group, int pages) implements KvOutcome {}

  /** An adjusted pool would be so many pages too small for what can't be evicted. */
  record PoolShort(KvLevel level, int group, long pages) implements KvOutcome {}

  /** More of that group's pages are in use than a resume may find. */
  record Pressure(int group) implements KvOutcome {}

  /** Pages come from the disk level: again, when that ticket is done. */
  record Pending(long ticket) implements KvOutcome {}

  /**
   * Pages were lost on their way: the sequence has so many tokens left, the rest is computed again.
   * It is suspended, and the next resume goes on from there.
   */
  record Missing(int tokens) implements KvOutcome {}

  /** As many sequences or pins as the cache was made for. */
  record Full() implements KvOutcome {}
}
