// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/**
 * Why a configuration cannot work.
 *
 * @param rule stable identifier in kebab-case
 * @param message one sentence with the numbers on both sides
 */
public record Reason(String rule, String message) {
  @Override
  public String toString() {
    return message;
  }
}
