// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.OptionalDouble;

/** What two arms of a scenario must say about each other. */
public sealed interface Comparison {
  /** The first arm. */
  String base();

  /** The second arm. */
  String other();

  /**
   * Throughput of {@code other} against {@code base}.
   *
   * @param percent published difference in percent
   * @param within how far the predicted one may be off, in percentage points
   */
  record Throughput(String base, String other, double percent, double within)
      implements Comparison {}

  /** Both arms scheduled the same sizes in every launched forward, in order. */
  record SameForwards(String base, String other) implements Comparison {}

  /** Both arms made the same decisions throughout. */
  record SameDecisions(String base, String other) implements Comparison {}

  /** Both arms have the same value of a metric, give or take {@code within} for a stated reason. */
  record SameMetric(String base, String other, String metric, double within, String why)
      implements Comparison {}

  /** A verdict on one comparison. */
  record Verdict(Comparison comparison, boolean met, OptionalDouble measured, String text) {}
}
