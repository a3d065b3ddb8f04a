// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.Optional;
import java.util.OptionalDouble;

/**
 * A figure that must come out.
 *
 * @param metric its name, see {@link ArmResult#metric}
 * @param value the figure
 * @param within how far off it may be, 0 for exact
 * @param published the published figure, where it isn't {@code value}
 * @param why why a bound is needed
 */
public record Expectation(
    String metric, double value, double within, OptionalDouble published, Optional<String> why) {
  /** True if a measured figure meets it. */
  public boolean met(OptionalDouble measured) {
    return measured.isPresent() && Math.abs(measured.getAsDouble() - value) <= within;
  }
}
