// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * The permutation that CPython's {@code random.Random(seed).shuffle} gives a list: Mersenne Twister
 * (MT19937) seeded with the 32-bit limbs of |seed|, Fisher-Yates from the top, indexes drawn by
 * rejection. Routers break exact ties with it (spec 01 §4.3). Reusable; allocates nothing. Not
 * thread-safe.
 */
public final class SeededShuffle {
  private static final int WORDS = 624;
  private static final int MIDDLE = 397;
  private static final int LOW_LIMB_ONLY = 1;
  private static final int BOTH_LIMBS = 2;

  /** The state that seeding with an array starts from. */
  private static final int[] BASE = base();

  private final int[] state = new int[WORDS];
  private int next;

  /** A shuffle without a seed yet. */
  public SeededShuffle() {}

  /**
   * Permutes {@code items[0 .. size - 1]} by a generator seeded with {@code seed}.
   *
   * @throws BerthException {@code ARGUMENT} if the size is outside the array
   */
  public void shuffle(long seed, int[] items, int size) {
    if (size < 0 || size > items.length) {
      throw new BerthException(
          Code.ARGUMENT, "size " + size + " is outside an array of " + items.length);
    }
    seed(Math.abs(seed)); // as an unsigned number right for the least long too
    for (int top = size - 1; top > 0; top--) {
      int chosen = below(top + 1);
      int item = items[top];
      items[top] = items[chosen];
      items[chosen] = item;
    }
  }

  private static int[] base() {
    int[] words = new int[WORDS];
    words[0] = 19_650_218;
    for (int i = 1; i < WORDS; i++) {
      words[i] = 1_812_433_253 * folded(words[i - 1]) + i;
    }
    return words;
  }

  private static int folded(int word) {
    return word ^ word >>> 30;
  }

  private void seed(long magnitude) {
    System.arraycopy(BASE, 0, state, 0, WORDS);
    int limbs = magnitude >>> 32 == 0 ? LOW_LIMB_ONLY : BOTH_LIMBS;
    int limb = 0;
    int at = 1;
    for (int i = 0; i < WORDS; i++) {
      int key = (int) (magnitude >>> 32 * limb);
      state[at] = (state[at] ^ folded(state[at - 1]) * 1_664_525) + key + limb;
      limb = limb + 1 == limbs ? 0 : limb + 1;
      at = following(at);
    }
    for (int i = 1; i < WORDS; i++) {
      state[at] = (state[at] ^ folded(state[at - 1]) * 1_566_083_941) - at;
      at = following(at);
    }
    state[0] = 0x8000_0000;
    next = 0;
  }

  /** Seeding goes round from 1; what the last word became stands for word 0. */
  private int following(int at) {
    if (at + 1 < WORDS) {
      return at + 1;
    }
    state[0] = state[WORDS - 1];
    return 1;
  }

  /** Uniform in {@code [0, bound)}: as many bits as the bound has, drawn again until below it. */
  private int below(int bound) {
    int shift = Integer.numberOfLeadingZeros(bound);
    int drawn = word() >>> shift;
    while (drawn >= bound) {
      drawn = word() >>> shift;
    }
    return drawn;
  }

  /** One word of the sequence. The state is renewed word by word, as far as it is asked for. */
  private int word() {
    int at = next;
    int after = at + 1 == WORDS ? 0 : at + 1;
    int far = at + MIDDLE < WORDS ? at + MIDDLE : at + MIDDLE - WORDS;
    int mixed = state[at] & 0x8000_0000 | state[after] & 0x7fff_ffff;
    int word = state[far] ^ mixed >>> 1 ^ ((mixed & 1) == 0 ? 0 : 0x9908_b0df);
    state[at] = word;
    next = after;
    word ^= word >>> 11;
    word ^= word << 7 & 0x9d2c_5680;
    word ^= word << 15 & 0xefc6_0000;
    return word ^ word >>> 18;
  }
}
