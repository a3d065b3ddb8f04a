// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import java.util.OptionalInt;

/**
 * A pool that presents itself at start-up.
 *
 * @param name what messages call it
 * @param keyedBy what its rows are indexed by
 * @param bound rows that requests can use, dummies and reserved ones not included; empty if it
 *     publishes none
 */
public record RegisteredPool(String name, KeyedBy keyedBy, OptionalInt bound) {
  /** A pool with a bound. */
  public static RegisteredPool of(String name, KeyedBy keyedBy, int bound) {
    return new RegisteredPool(name, keyedBy, OptionalInt.of(bound));
  }

  /** A pool that publishes no bound. */
  public static RegisteredPool unbounded(String name, KeyedBy keyedBy) {
    return new RegisteredPool(name, keyedBy, OptionalInt.empty());
  }
}
