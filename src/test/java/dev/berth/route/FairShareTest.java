// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The target E of spec 01 §4.1. */
class FairShareTest {

  @ParameterizedTest(name = "sum {0}, highest {1}, {2} new on {3} ranks, m {4}, cap {5}: {6}")
  @CsvSource({
    "0, 0, 8, 4, 1.0, 256, 2",
    "0, 0, 8, 4, 2.0, 256, 4",
    "0, 0, 9, 4, 1.0, 256, 3",
    "0, 0, 9, 4, 1.5, 256, 5",
    "6, 6, 3, 4, 1.0, 4, 4",
    "6, 6, 3, 4, 1.0, 9, 6",
    "184, 64, 8, 4, 2.0, 64, 64",
    "0, 0, 0, 3, 1.0, 4, 0",
    "5, 5, 0, 3, 1.0, 9, 5"
  })
  void theCapComesLast(
      long routable, int highest, int remaining, int ranks, double m, int cap, int expected) {
    assertThat(FairShare.target(routable, highest, remaining, ranks, m, cap, RankCap.HARD))
        .isEqualTo(expected);
  }

  @ParameterizedTest
  @CsvSource({"6, 6, 3, 4, 1.0, 6", "184, 64, 8, 4, 2.0, 96"})
  void withoutTheCapTheSoftTargetStands(
      long routable, int highest, int remaining, int ranks, double m, int expected) {
    assertThat(FairShare.target(routable, highest, remaining, ranks, m, 4, RankCap.OFF))
        .isEqualTo(expected);
  }

  @ParameterizedTest
  @ValueSource(doubles = {1e300, Double.MAX_VALUE})
  void aHugeShareSaturates(double multiplier) {
    assertThat(FairShare.target(5, 5, 5, 1, multiplier, 4, RankCap.OFF))
        .isEqualTo(Integer.MAX_VALUE);
    assertThat(FairShare.target(5, 5, 5, 1, multiplier, 4, RankCap.HARD)).isEqualTo(4);
  }

  @ParameterizedTest
  @ValueSource(doubles = {0, -1, Double.NaN, Double.POSITIVE_INFINITY})
  void aMultiplierOutsideItsRangeIsRefused(double multiplier) {
    assertThatThrownBy(() -> FairShare.target(0, 0, 1, 1, multiplier, 4, RankCap.HARD))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("multiplier");
  }
}
