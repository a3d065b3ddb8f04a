// SPDX-License-Identifier: Apache-2.0
package dev.berth.route.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.route.RouteKernels;
import dev.berth.route.Seeds;
import dev.berth.route.kernel.Kernels.Machine;
import java.util.Arrays;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Vector code against the scalar code that specifies it, and when which is used. */
class KernelsTest {
  private static final Machine FIT =
      new Machine("auto", true, "OpenJDK 64-Bit Server VM", "mixed mode, sharing", false, 4);

  private static RankKernels vectors() {
    return Kernels.choose(FIT).vectors().orElseThrow();
  }

  /** Few distinct values, so that ties come up in every key and in every lane. */
  private static int small(RandomGenerator random, int bound) {
    return random.nextInt(4) == 0 ? random.nextInt(1_000_000) : random.nextInt(bound);
  }

  @Test
  void vectorsGiveWhatScalarCodeGives() {
    RandomGenerator random = Seeds.generator(Seeds.seed("KernelsTest"));
    RankKernels vector = vectors();
    RankKernels scalar = ScalarKernels.INSTANCE;
    int ties = 0;
    for (int i = 0; i < 100_000; i++) {
      int ranks = 1 + random.nextInt(random.nextInt(4) == 0 ? 150 : 20);
      int bound = 1 + random.nextInt(6);
      int row = random.nextInt(3);
      int[] active = new int[ranks];
      int[] extra = new int[ranks];
      int[] matches = new int[row + ranks];
      long[] load = new long[ranks];
      double[] score = new double[ranks];
      double[] scratch = new double[ranks];
      for (int rank = 0; rank < ranks; rank++) {
        active[rank] = random.nextInt(9) == 0 ? Integer.MAX_VALUE : small(random, bound);
        extra[rank] = small(random, bound);
        load[rank] = random.nextInt(9) == 0 ? Long.MAX_VALUE >> 1 : small(random, bound);
        matches[row + rank] = small(random, bound);
        score[rank] =
            random.nextInt(5) == 0 ? Double.POSITIVE_INFINITY : small(random, 1 + bound / 2);
      }
      score[random.nextInt(ranks)] = small(random, bound);
      int limit = random.nextInt(3) == 0 ? bound : random.nextInt(1_000_000);
      int from = random.nextInt(ranks + 1);
      int to = from + random.nextInt(ranks - from + 1);
      double size = small(random, bound);
      double weight = new double[] {0, 0.1, 1, 1e12}[random.nextInt(4)];
      double total = 1 + small(random, bound);

      Executable same =
          () -> {
            assertThat(vector.least(active, ranks)).isEqualTo(scalar.least(active, ranks));
            assertThat(vector.leastLoaded(load, active, extra, limit, from, to))
                .isEqualTo(scalar.leastLoaded(load, active, extra, limit, from, to));
            assertThat(vector.leastScore(matches, row, score, ranks, size, weight, total, scratch))
                .isEqualTo(
                    scalar.leastScore(matches, row, score, ranks, size, weight, total, scratch));
            assertThat(vector.mostMatched(matches, row, score, ranks))
                .isEqualTo(scalar.mostMatched(matches, row, score, ranks));
          };
      try {
        same.execute();
      } catch (Throwable e) {
        throw new AssertionError(
            "call %d: active %s, extra %s, load %s, limit %d, [%d, %d), matches %s, row %d, loads %s, size %s, weight %s, total %s"
                .formatted(
                    i,
                    Arrays.toString(active),
                    Arrays.toString(extra),
                    Arrays.toString(load),
                    limit,
                    from,
                    to,
                    Arrays.toString(matches),
                    row,
                    Arrays.toString(score),
                    size,
                    weight,
                    total),
            e);
      }
      ties +=
          scalar.leastScore(matches, row, score, ranks, size, weight, total, scratch) < 0 ? 1 : 0;
    }
    assertThat(ties).as("calls with a tie").isGreaterThan(2_000);
  }

  @ParameterizedTest(name = "{0}, module {1}, {2}, {3}, JVMCI {4}, tier {5}: {6}")
  @CsvSource({
    "off, true, OpenJDK 64-Bit Server VM, mixed mode, false, 4, -Dberth.vector=off",
    "maybe, true, OpenJDK 64-Bit Server VM, mixed mode, false, 4, found 'maybe'",
    "auto, false, OpenJDK 64-Bit Server VM, mixed mode, false, 4, --add-modules jdk.incubator.vector",
    "on, false, OpenJDK 64-Bit Server VM, mixed mode, false, 4, --add-modules jdk.incubator.vector",
    "auto, true, Eclipse OpenJ9 VM, JRE 25, false, 4, use HotSpot",
    "auto, true, OpenJDK 64-Bit Server VM, mixed mode, true, 4, -XX:-UseJVMCICompiler",
    "auto, true, OpenJDK 64-Bit Server VM, interpreted mode, false, 4, C2 is off",
    "auto, true, OpenJDK 64-Bit Server VM, mixed mode emulated-client, false, 4, C2 is off",
    "auto, true, OpenJDK 64-Bit Server VM, mixed mode, false, 1, C2 is off",
  })
  void whatSpeaksAgainstVectorsIsOneSentenceWithAdvice(
      String property,
      boolean module,
      String name,
      String info,
      boolean jvmci,
      int tier,
      String says) {
    Kernels.Choice choice = Kernels.choose(new Machine(property, module, name, info, jvmci, tier));

    assertThat(choice.vectors()).isEmpty();
    assertThat(choice.description()).startsWith("scalar: ").contains(says);
  }

  @Test
  void whereNothingSpeaksAgainstThemVectorsAreUsedOnceTheyAreWarm() {
    assertThat(Machine.here().refusal()).as("the tests run with the module").isEmpty();
    assertThat(RouteKernels.describe()).startsWith("vectors of ");
    assertThat(Kernels.choose(FIT).everySize()).isFalse();

    RouteKernels.preload();

    assertThat(Kernels.forScores(Kernels.LEAST_FOR_SCORES)).isInstanceOf(VectorKernels.class);
    assertThat(Kernels.forScores(Kernels.LEAST_FOR_SCORES - 1)).isSameAs(ScalarKernels.INSTANCE);
    assertThat(Kernels.forSelection(Kernels.LEAST_FOR_SELECTION)).isInstanceOf(VectorKernels.class);
    assertThat(Kernels.forSelection(Kernels.LEAST_FOR_SELECTION - 1))
        .isSameAs(ScalarKernels.INSTANCE);
  }

  @Test
  void thePropertyForcesVectorsForEverySize() {
    Machine forced =
        new Machine("on", true, FIT.vmName(), FIT.vmInfo(), FIT.jvmciCompiler(), FIT.topTier());

    assertThat(Kernels.choose(forced).everySize()).isTrue();
    assertThat(Kernels.choose(forced).vectors()).isPresent();
  }
}
