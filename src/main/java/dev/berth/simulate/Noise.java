// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

/**
 * Chance that doesn't depend on what was drawn before: a world that lacks one request has the same
 * accidents elsewhere.
 */
final class Noise {
  private Noise() {}

  /** A well mixed number of two. */
  static long of(long a, long b) {
    long z = a + b * 0x9E3779B97F4A7C15L + 0x632BE59BD9B4E019L;
    z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
    z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
    return z ^ z >>> 31;
  }

  /** 0 .. bound - 1. */
  static int below(long noise, int bound) {
    return (int) ((noise >>> 33) * bound >>> 31);
  }
}
