// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/** MT19937 in 64-bit arithmetic and whole blocks, as its authors published it. */
final class NaiveTwister {
  private static final int N = 624;
  private static final long WORD = 0xffff_ffffL;

  private final long[] mt = new long[N];
  private int index = N;

  private NaiveTwister(long seed) {
    BigInteger magnitude = BigInteger.valueOf(seed).abs();
    List<Long> key = new ArrayList<>();
    do {
      key.add(magnitude.longValue() & WORD);
      magnitude = magnitude.shiftRight(32);
    } while (magnitude.signum() > 0);
    mt[0] = 19650218L;
    for (int i = 1; i < N; i++) {
      mt[i] = 1812433253L * (mt[i - 1] ^ mt[i - 1] >> 30) + i & WORD;
    }
    int i = 1;
    int j = 0;
    for (int k = Math.max(N, key.size()); k > 0; k--) {
      mt[i] = (mt[i] ^ (mt[i - 1] ^ mt[i - 1] >> 30) * 1664525L) + key.get(j) + j & WORD;
      i++;
      j++;
      if (i >= N) {
        mt[0] = mt[N - 1];
        i = 1;
      }
      j = j >= key.size() ? 0 : j;
    }
    for (int k = N - 1; k > 0; k--) {
      mt[i] = (mt[i] ^ (mt[i - 1] ^ mt[i - 1] >> 30) * 1566083941L) - i & WORD;
      i++;
      if (i >= N) {
        mt[0] = mt[N - 1];
        i = 1;
      }
    }
    mt[0] = 0x8000_0000L;
  }

  private long next() {
    if (index == N) {
      for (int k = 0; k < N; k++) {
        long y = mt[k] & 0x8000_0000L | mt[(k + 1) % N] & 0x7fff_ffffL;
        mt[k] = mt[(k + 397) % N] ^ y >> 1 ^ (y % 2 == 0 ? 0 : 0x9908_b0dfL);
      }
      index = 0;
    }
    long y = mt[index++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c_5680L;
    y ^= y << 15 & 0xefc6_0000L;
    return (y ^ y >> 18) & WORD;
  }

  /** {@code random.Random(seed).shuffle(list(range(size)))}. */
  static int[] shuffled(long seed, int size) {
    var twister = new NaiveTwister(seed);
    int[] list = IntStream.range(0, size).toArray();
    for (int i = size - 1; i > 0; i--) {
      int bits = BigInteger.valueOf(i + 1L).bitLength();
      long j = twister.next() >> 32 - bits;
      while (j > i) {
        j = twister.next() >> 32 - bits;
      }
      int swap = list[i];
      list[i] = list[(int) j];
      list[(int) j] = swap;
    }
    return list;
  }
}
