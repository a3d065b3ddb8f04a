// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.internal.NativeKv;
import java.util.List;

/**
 * A cache in numbers.
 *
 * @param open sequences
 * @param active of these, with a row
 * @param pins held
 * @param evicted blocks or window pages dropped for want of pages
 * @param offloaded blocks moved a level down
 * @param onboarded blocks moved up
 * @param rebased blocks whose pages were given up for those of the index
 * @param hitTokens found by opens, of the {@code askedTokens} looked for
 * @param indexBlocks in the prefix index
 * @param indexRuns runs that these are in
 * @param waitEpoch highest epoch that must have completed before the pages handed out are written
 * @param written pages that went to the disk level
 * @param read pages that came from it
 * @param failed transfers that failed
 * @param lost blocks and window pages that left the index for it
 * @param underWay transfers asked for and not settled by a poll
 * @param pages level after level, group after group
 */
public record KvUsage(
    long open,
    long active,
    long pins,
    long evicted,
    long offloaded,
    long onboarded,
    long rebased,
    long hitTokens,
    long askedTokens,
    long indexBlocks,
    long indexRuns,
    long waitEpoch,
    long written,
    long read,
    long failed,
    long lost,
    long underWay,
    List<Pages> pages) {

  /**
   * Pages of a group on a level: free + held + cached + moving = total.
   *
   * @param held by sequences alone
   * @param cached in the index
   * @param evictable of these
   * @param moving owned by transfers of the disk level that are under way
   */
  public record Pages(long total, long free, long held, long cached, long evictable, long moving) {}

  /** Pages of a group on a level. */
  public Pages pages(KvLevel level, int group) {
    return pages.get(level.ordinal() * (pages.size() / NativeKv.LEVELS) + group);
  }

  static KvUsage of(long[] r) {
    Pages[] pages = new Pages[(r.length - 17) / 6];
    for (int i = 0; i < pages.length; i++) {
      int at = 17 + 6 * i;
      pages[i] = new Pages(r[at], r[at + 1], r[at + 2], r[at + 3], r[at + 4], r[at + 5]);
    }
    return new KvUsage(
        r[0],
        r[1],
        r[2],
        r[3],
        r[4],
        r[5],
        r[6],
        r[7],
        r[8],
        r[9],
        r[10],
        r[11],
        r[12],
        r[13],
        r[14],
        r[15],
        r[16],
        List.of(pages));
  }
}
