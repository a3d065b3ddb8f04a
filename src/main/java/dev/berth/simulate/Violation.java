// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

/**
 * An invariant that didn't hold.
 *
 * @param invariant which one
 * @param what numbers and names
 * @param iteration of the fleet
 * @param micros virtual time, µs
 */
public record Violation(Invariant invariant, String what, long iteration, long micros) {
  @Override
  public String toString() {
    return "rule %d (%s), iteration %d, %d µs: %s"
        .formatted(invariant.number(), invariant.text(), iteration, micros, what);
  }
}
