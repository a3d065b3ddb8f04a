// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/**
 * Something that works but probably isn't what was meant.
 *
 * @param rule stable identifier in kebab-case
 * @param message one sentence with the numbers on both sides
 */
public record Advice(String rule, String message) {
  @Override
  public String toString() {
    return message;
  }
}
