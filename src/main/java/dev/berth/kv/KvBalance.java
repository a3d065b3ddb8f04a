// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.Optional;

/**
 * How a level's bytes are split among pool groups by what these were asked for (spec 03 §9.5). Pure
 * arithmetic: who runs the cache counts, suspends everybody and calls {@link KvCache#adjust}.
 */
public final class KvBalance {
  /** Fewer closed sequences say nothing. */
  public static final long MIN_CLOSED = 2000;

  /** Nor does a shorter time, in microseconds. */
  public static final long MIN_MICROS = 120_000_000;

  private KvBalance() {}

  /**
   * What was seen since the last adjustment.
   *
   * @param closed sequences that ended
   * @param micros time that passed
   * @param used pages of each group that were needed at a time, {@code long[groups]}: peaks, or
   *     means, but of all groups alike
   */
  public record Seen(long closed, long micros, long... used) {}

  /**
   * The split of a level's bytes in the proportions of what was used, if it is worth it: after
   * {@link #MIN_CLOSED} sequences and {@link #MIN_MICROS}, where a group would have more than 1.25
   * times its pages, or less than a 1.25th. Never more bytes than now; every group keeps a page.
   *
   * @throws BerthException ARGUMENT for a number of groups that isn't the layout's, or a negative
   *     use
   */
  public static Optional<KvSizes> propose(KvLayout layout, KvSizes now, KvLevel level, Seen seen) {
    long[] pages = now.pages()[level.ordinal()];
    long[] most = now.most()[level.ordinal()];
    int groups = layout.groups();
    if (pages.length != groups || seen.used.length != groups) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d groups in use, %d of %d pages".formatted(seen.used.length, pages.length, groups));
    }
    double asked = 0;
    for (int g = 0; g < groups; g++) {
      if (seen.used[g] < 0) {
        throw new BerthException(Code.ARGUMENT, seen.used[g] + " pages in use of group " + g);
      }
      asked += (double) seen.used[g] * layout.slotBytes(g);
    }
    if (seen.closed < MIN_CLOSED || seen.micros < MIN_MICROS || asked == 0) {
      return Optional.empty();
    }
    long left = bytes(layout, pages);
    for (int g = 0; g < groups; g++) {
      left -= layout.slotBytes(g);
    }
    long shared = left;
    long[] split = new long[groups];
    boolean worth = false;
    for (int g = 0; g < groups; g++) {
      double share = shared * (seen.used[g] * (double) layout.slotBytes(g) / asked);
      long more = Math.min((long) (share / layout.slotBytes(g)), left / layout.slotBytes(g));
      split[g] = Math.min(1 + Math.max(0, more), most[g]);
      left -= (split[g] - 1) * layout.slotBytes(g);
      worth |= split[g] * 4 > pages[g] * 5 || split[g] * 5 < pages[g] * 4;
    }
    return worth ? Optional.of(now.split(level, split)) : Optional.empty();
  }

  /** Bytes of so many pages of each group. */
  static long bytes(KvLayout layout, long[] pages) {
    long bytes = 0;
    try {
      for (int g = 0; g < pages.length; g++) {
        bytes = Math.addExact(bytes, Math.multiplyExact(pages[g], layout.slotBytes(g)));
      }
    } catch (ArithmeticException e) {
      throw new BerthException(Code.ARGUMENT, "more than 2^63 bytes of pages on a level", e);
    }
    return bytes;
  }
}
