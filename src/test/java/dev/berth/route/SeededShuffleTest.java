// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import dev.berth.BerthException;
import java.util.Arrays;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The shuffle against CPython's. */
class SeededShuffleTest {
  private static final SeededShuffle SHUFFLE = new SeededShuffle();

  static Stream<Golden> lines() {
    return Golden.lines("py_seeded_shuffle.jsonl", 432).stream();
  }

  @ParameterizedTest
  @MethodSource("lines")
  void shufflesAsRecorded(Golden line) {
    int[] expected = line.longs("expected").stream().mapToInt(Math::toIntExact).toArray();

    assertThat(shuffled(line.integer("seed"), line.integer("n"))).isEqualTo(expected);
  }

  /** {@code random.Random(seed).shuffle(list(range(n)))} for seeds of two limbs and below zero. */
  static Stream<Arguments> wideSeeds() {
    return Stream.of(
        arguments(2147483648L, new int[] {8, 3, 2, 7, 0, 1, 4, 6, 5}),
        arguments(4294967295L, new int[] {0, 7, 1, 5, 2, 6, 4, 8, 3}),
        arguments(4294967296L, new int[] {4, 8, 6, 2, 7, 0, 3, 5, 1}),
        arguments(1099511640121L, new int[] {3, 2, 7, 1, 8, 6, 0, 5, 4}),
        arguments(9223372036854775807L, new int[] {4, 7, 1, 0, 8, 3, 6, 2, 5}),
        arguments(Long.MIN_VALUE, new int[] {3, 2, 5, 0, 4, 7, 1, 6, 8}),
        arguments(-1L, new int[] {5, 6, 7, 4, 3, 0, 8, 1, 2}),
        arguments(-77L, new int[] {3, 2, 8, 0, 7, 6, 1, 5, 4}),
        arguments(-35184372088832L, new int[] {6, 4, 0, 2, 3, 5, 8, 1, 7}));
  }

  @ParameterizedTest
  @MethodSource("wideSeeds")
  void seedsAreTakenLimbByLimbWithoutTheirSign(long seed, int[] expected) {
    assertThat(shuffled(seed, expected.length)).isEqualTo(expected);
  }

  /** More draws than the generator has words, so that its state is renewed. */
  @Test
  void longListsRenewTheState() {
    int[] items = shuffled(7, 2000);

    assertThat(Arrays.stream(items).limit(6).toArray())
        .isEqualTo(new int[] {161, 562, 1877, 1034, 1575, 48});
    assertThat(items[1999]).isEqualTo(663);
    assertThat(Arrays.stream(items).sorted().toArray())
        .isEqualTo(IntStream.range(0, 2000).toArray());
  }

  @Test
  void whatLiesBehindTheSizeStays() {
    int[] items = {0, 1, 2, 3, 9, 9};

    SHUFFLE.shuffle(3, items, 4);

    assertThat(items).endsWith(9, 9).contains(0, 1, 2, 3);
    assertThatThrownBy(() -> SHUFFLE.shuffle(3, items, 7)).isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> SHUFFLE.shuffle(3, items, -1)).isInstanceOf(BerthException.class);
  }

  @Test
  void allocatesNothing() {
    int[] items = IntStream.range(0, 64).toArray();
    Runnable shuffles =
        () -> {
          for (int seed = 0; seed < 100; seed++) {
            SHUFFLE.shuffle(seed, items, items.length);
          }
        };
    shuffles.run();

    assertThat(AllocatedBytes.by(shuffles)).isZero();
  }

  private static int[] shuffled(long seed, int size) {
    int[] items = IntStream.range(0, size).toArray();
    SHUFFLE.shuffle(seed, items, size);
    return items;
  }
}
