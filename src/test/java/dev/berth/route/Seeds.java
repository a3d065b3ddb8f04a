// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;

/** Seeded generators of the property tests; {@code -Dberth.seed=} replays a printed seed. */
public final class Seeds {
  private Seeds() {}

  /** The seed of this run, printed under the name of its test. */
  public static long seed(String test) {
    long seed = Long.getLong("berth.seed", 20261130);
    System.out.println(test + ": -Dberth.seed=" + seed);
    return seed;
  }

  /** A generator that depends on nothing but the seed. */
  public static RandomGenerator generator(long seed) {
    return RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
  }
}
