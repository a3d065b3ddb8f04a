// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.request.Request;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TraceArrivalsTest {
  /** Requests at 0, 10 and 40 ms. */
  static Trace threeRequests() {
    var builder = new Trace.Builder("three", Trace.Format.AZURE);
    builder.add(7_000_000, 100, 10);
    builder.add(7_100_000, 200, 20);
    builder.add(7_400_000, 300, 30);
    return builder.build(Optional.empty());
  }

  @Test
  void requestsAreVisibleFromTheirTimeOn() {
    var arrivals = new TraceArrivals(threeRequests(), 1, 3);
    assertThat(arrivals.due(0, 0, 0)).isEqualTo(1);
    Request first = arrivals.next();
    assertThat(first.promptTokens()).isEqualTo(100);
    assertThat(first.maxNewTokens()).isEqualTo(10);
    assertThat(arrivals.nextAtMicros(0)).isEqualTo(10_000);
    assertThat(arrivals.due(0, 9_999.9, 0)).isZero();
    assertThat(arrivals.due(0, 10_000, 0)).isEqualTo(1);
    assertThat(arrivals.due(0, 40_000, 0)).isEqualTo(2);
    arrivals.next();
    assertThat(arrivals.next().tag()).isEqualTo(2);
    assertThat(arrivals.sent()).isEqualTo(3);
    assertThat(arrivals.nextAtMicros(0)).isEqualTo(Double.POSITIVE_INFINITY);
    assertThat(arrivals.due(0, 1e12, 0)).isZero();
  }

  @Test
  void speedupDividesTheTimes() {
    var arrivals = new TraceArrivals(threeRequests(), 4, 3);
    assertThat(arrivals.arrivedAt(1)).isEqualTo(2_500);
    assertThat(arrivals.arrivedAt(2)).isEqualTo(10_000);
  }

  /** Span 40 ms and mean gap 20 ms: the second round begins 60 ms after the first. */
  @Test
  void moreRequestsThanThereAreRepeatTheTraceAtItsRate() {
    var arrivals = new TraceArrivals(threeRequests(), 1, 8);
    assertThat(arrivals.arrivedAt(3)).isEqualTo(60_000);
    assertThat(arrivals.arrivedAt(5)).isEqualTo(100_000);
    assertThat(arrivals.arrivedAt(6)).isEqualTo(120_000);
    for (int i = 0; i < 7; i++) {
      arrivals.next();
    }
    Request last = arrivals.next();
    assertThat(last.id()).isEqualTo(7);
    assertThat(last.promptTokens()).isEqualTo(200);
  }

  @ParameterizedTest
  @ValueSource(doubles = {0, -1, Double.NaN, Double.POSITIVE_INFINITY})
  void aSpeedupIsAFiniteNumberAboveZero(double speedup) {
    assertThatThrownBy(() -> new TraceArrivals(threeRequests(), speedup, 3))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void aClosedClientKeepsItsNumberInTheSystem() {
    var arrivals = new ClosedTraceArrivals(threeRequests(), 2, 5);
    assertThat(arrivals.due(0, 0, 0)).isEqualTo(2);
    arrivals.next();
    arrivals.next();
    assertThat(arrivals.due(0, 0, 0)).isZero();
    assertThat(arrivals.due(0, 0, 1)).isEqualTo(1);
    assertThat(arrivals.next().promptTokens()).isEqualTo(300);
    assertThat(arrivals.due(0, 0, 3)).isEqualTo(2);
    assertThat(arrivals.next().promptTokens()).isEqualTo(100);
    arrivals.next();
    assertThat(arrivals.due(0, 0, 5)).isZero();
    assertThat(arrivals.nextAtMicros(0)).isEqualTo(Double.POSITIVE_INFINITY);
  }

  @Test
  void aTraceHoldsNothingImpossible() {
    var builder = new Trace.Builder("t", Trace.Format.AZURE);
    assertThatThrownBy(() -> builder.add(0, 0, 1)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> builder.add(0, 1, 0)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> builder.add(0, 1, Integer.MAX_VALUE))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> builder.build(Optional.empty()))
        .isInstanceOf(IllegalStateException.class);
    builder.add(5, 1, 1);
    assertThatThrownBy(() -> builder.add(4, 1, 1)).isInstanceOf(IllegalArgumentException.class);
  }
}
