// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.capacity.V1Run.Cache;
import dev.berth.capacity.V1Run.Spec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Spec 02, table A: whole runs under the parity set. Blocks of 10 tokens, a window of 90, 15
 * adapter pages a task of 100, no reuse, unless a row says otherwise.
 */
class CapacityScenariosTest {
  private static final int TOKENS_PER_BLOCK = 10;

  /** A setup under construction. */
  private record Setup(
      CapacityRule rule,
      int kvTokens,
      int crossTokens,
      int cap,
      int window,
      boolean reuse,
      int adapterPages,
      int maxAdapterPages,
      int sinks) {
    static Setup of(CapacityRule rule, int kvTokens, int cap) {
      return new Setup(rule, kvTokens, 0, cap, 90, false, 15, 100, 0);
    }

    /** Sinks, which lengthen what a window must hold by their padding. */
    Setup sinks(int tokens) {
      return new Setup(
          rule, kvTokens, crossTokens, cap, window, reuse, adapterPages, maxAdapterPages, tokens);
    }

    Setup cross(int tokens) {
      return new Setup(
          rule, kvTokens, tokens, cap, window, reuse, adapterPages, maxAdapterPages, sinks);
    }

    Setup adapters(int pages, int most) {
      return new Setup(rule, kvTokens, crossTokens, cap, window, reuse, pages, most, sinks);
    }

    Setup reusing(int newWindow) {
      return new Setup(
          rule, kvTokens, crossTokens, cap, newWindow, true, adapterPages, maxAdapterPages, sinks);
    }

    V1Run run(Spec... specs) {
      Set<CacheTrait> traits = EnumSet.noneOf(CacheTrait.class);
      if (reuse) {
        traits.add(CacheTrait.SELF_REUSE);
      }
      CapacityRules rules =
          CapacityRules.parity(rule, cap).withTraits(traits).withAdapterPages(maxAdapterPages);
      return new V1Run(
          rules,
          new Cache(
              TOKENS_PER_BLOCK,
              kvTokens / TOKENS_PER_BLOCK,
              crossTokens / TOKENS_PER_BLOCK,
              window,
              reuse,
              sinks),
          new int[] {adapterPages, adapterPages},
          List.of(specs));
    }
  }

  private static Setup maxUtilization(int kvTokens, int cap) {
    return Setup.of(CapacityRule.MAX_UTILIZATION, kvTokens, cap);
  }

  private static Setup noEvict(int kvTokens, int cap) {
    return Setup.of(CapacityRule.GUARANTEED_NO_EVICT, kvTokens, cap);
  }

  private static Spec[] alike(int count, IntFunction<Spec> spec) {
    return IntStream.range(0, count).mapToObj(spec).toArray(Spec[]::new);
  }

  /** Who is to run in iterations [the run's own, to). */
  private static void runs(V1Run run, int to, Integer... ids) {
    while (run.iteration() < to) {
      int iteration = run.iteration();
      assertThat(run.step().fitting()).as("iteration %d", iteration).isEqualTo(List.of(ids));
    }
  }

  private static void ends(V1Run run, int iterations) {
    assertThat(run.done()).isTrue();
    assertThat(run.iteration()).isEqualTo(iterations);
  }

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"})
  void a1WhatFitsRunsTogether(CapacityRule rule) {
    try (V1Run run = Setup.of(rule, 200, 2).run(alike(2, id -> Spec.of(id, 10, 80)))) {
      runs(run, 80, 0, 1);
      ends(run, 80);
    }
  }

  @Test
  void a2EncoderOutputTakesCrossPages() {
    try (V1Run run =
        noEvict(200, 2).cross(20).run(alike(2, id -> Spec.of(id, 10, 80).encoder(10)))) {
      runs(run, 80, 0, 1);
      ends(run, 80);
    }
  }

  @Test
  void a3OneCrossPageIsForOneRequest() {
    try (V1Run run =
        noEvict(200, 2).cross(10).run(alike(2, id -> Spec.of(id, 10, 80).encoder(10)))) {
      runs(run, 80, 0);
      runs(run, 160, 1);
      ends(run, 160);
    }
  }

  private static Spec[] tasksAba() {
    return alike(3, id -> Spec.of(id, 10, 50).adapter(id == 1 ? 1 : 0));
  }

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"})
  void a4TwoAdaptersFit(CapacityRule rule) {
    try (V1Run run = Setup.of(rule, 210, 4).adapters(15, 30).run(tasksAba())) {
      runs(run, 50, 0, 1, 2);
      ends(run, 50);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "STATIC_BATCH"})
  void a5AnAdapterThatDoesNotFitIsPassedBy(CapacityRule rule) {
    try (V1Run run = Setup.of(rule, 210, 4).adapters(20, 30).run(tasksAba())) {
      runs(run, 50, 0, 2);
      runs(run, 100, 1);
      ends(run, 100);
    }
  }

  @Test
  void a5UnderMaxUtilizationItBlocks() {
    try (V1Run run = maxUtilization(210, 4).adapters(20, 30).run(tasksAba())) {
      runs(run, 50, 0);
      runs(run, 100, 1);
      runs(run, 150, 2);
      ends(run, 150);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"})
  void a6ChunksMoveTheCursor(CapacityRule rule) {
    try (V1Run run = Setup.of(rule, 200, 2).run(alike(2, id -> Spec.of(id, 50, 40).chunk(20)))) {
      for (int position : new int[] {0, 20, 40, 50}) {
        if (run.iteration() > 0) {
          assertThat(run.position(0)).isEqualTo(position);
          assertThat(run.position(1)).isEqualTo(position);
        }
        if (run.iteration() < 3) {
          run.step();
        }
      }
      assertThat(run.generated(0)).isEqualTo(1);
      runs(run, 42, 0, 1);
      ends(run, 42);
    }
  }

  @Test
  void a7TheYoungestIsPausedAndKeepsItsTokens() {
    try (V1Run run = maxUtilization(100, 2).run(alike(2, id -> Spec.of(id, 10, 80)))) {
      runs(run, 41, 0, 1);
      runs(run, 80, 0);
      assertThat(run.lengths(1)).containsExactly(51, 39);
      runs(run, 119, 1);
      ends(run, 119);
    }
  }

  @Test
  void a8WhatIsReceivedFirstTakesPagesAndNoForward() {
    try (V1Run run = maxUtilization(100, 2).run(alike(2, id -> Spec.of(id, 10, 80).receiving()))) {
      V1Run.Step first = run.step();
      assertThat(first.receiving()).containsExactly(0, 1);
      assertThat(first.fitting()).isEmpty();
      runs(run, 41, 0, 1);
      runs(run, 80, 0);
      assertThat(run.lengths(1)).containsExactly(51, 39);
      runs(run, 119, 1);
      ends(run, 119);
    }
  }

  @Test
  void a9TheLowerPriorityIsPaused() {
    try (V1Run run =
        maxUtilization(100, 2).run(Spec.of(0, 10, 80), Spec.of(1, 10, 80).priority(.6))) {
      runs(run, 41, 1, 0);
      runs(run, 80, 1);
      assertThat(run.lengths(0)).containsExactly(51, 39);
      runs(run, 119, 0);
      ends(run, 119);
    }
  }

  @Test
  void a10ChunksUnderMaxUtilization() {
    try (V1Run run = maxUtilization(100, 2).run(alike(2, id -> Spec.of(id, 30, 60).chunk(20)))) {
      runs(run, 22, 0, 1);
      runs(run, 61, 0);
      assertThat(run.lengths(1)).containsExactly(51, 39);
      runs(run, 100, 1);
      ends(run, 100);
    }
  }

  @Test
  void a11TwoLongPromptsTakeTurns() {
    try (V1Run run = maxUtilization(100, 2).run(alike(2, id -> Spec.of(id, 70, 20).chunk(40)))) {
      runs(run, 21, 0);
      assertThat(run.lengths(1)).containsExactly(70, 20);
      runs(run, 42, 1);
      ends(run, 42);
    }
  }

  @Test
  void a12DraftsNeedTheirPagesEarlier() {
    try (V1Run run =
        maxUtilization(100, 2).run(Spec.of(0, 10, 80).drafts(5), Spec.of(1, 10, 80).drafts(10))) {
      runs(run, 31, 0, 1);
      runs(run, 80, 0);
      assertThat(run.lengths(1)).containsExactly(41, 49);
      runs(run, 129, 1);
      ends(run, 129);
    }
  }

  @Test
  void a13WithoutEvictionTheSecondWaits() {
    try (V1Run run = noEvict(100, 2).run(alike(2, id -> Spec.of(id, 10, 80)))) {
      runs(run, 80, 0);
      runs(run, 160, 1);
      ends(run, 160);
    }
  }

  @Test
  void a14WithoutEvictionTheSecondWaitsInChunksToo() {
    try (V1Run run = noEvict(100, 2).run(alike(2, id -> Spec.of(id, 30, 60).chunk(20)))) {
      runs(run, 61, 0);
      runs(run, 122, 1);
      ends(run, 122);
    }
  }

  private static Spec[] fourInTwoWaves(double third, double fourth) {
    return new Spec[] {
      Spec.of(0, 10, 80),
      Spec.of(1, 10, 80),
      Spec.of(2, 10, 80).arriving(10).priority(third),
      Spec.of(3, 10, 80).arriving(10).priority(fourth)
    };
  }

  @Test
  void a15LaterArrivalsArePausedFirst() {
    try (V1Run run = maxUtilization(100, 4).run(fourInTwoWaves(.5, .5))) {
      runs(run, 10, 0, 1);
      runs(run, 21, 0, 1, 2, 3);
      runs(run, 41, 0, 1);
      runs(run, 80, 0);
      assertThat(run.lengths(1)).containsExactly(51, 39);
      assertThat(run.lengths(2)).containsExactly(21, 69);
      runs(run, 90, 1, 2);
      runs(run, 119, 1);
      assertThat(run.lengths(2)).containsExactly(31, 59);
      assertThat(run.lengths(3)).containsExactly(21, 69);
      runs(run, 139, 2, 3);
      runs(run, 178, 2);
      assertThat(run.lengths(3)).containsExactly(41, 49);
      runs(run, 227, 3);
      ends(run, 227);
    }
  }

  @Test
  void a7WithSinksThePagesEndSooner() {
    try (V1Run run = maxUtilization(100, 2).sinks(4).run(alike(2, id -> Spec.of(id, 10, 80)))) {
      runs(run, 35, 0, 1);
      runs(run, 80, 0);
      assertThat(run.lengths(1)).containsExactly(45, 45);
      runs(run, 125, 1);
      ends(run, 125);
    }
  }

  @Test
  void a15WithSinksThePagesEndSooner() {
    try (V1Run run = maxUtilization(100, 4).sinks(4).run(fourInTwoWaves(.5, .5))) {
      runs(run, 10, 0, 1);
      runs(run, 15, 0, 1, 2, 3);
      runs(run, 35, 0, 1);
      runs(run, 80, 0);
      assertThat(run.lengths(1)).containsExactly(45, 45);
      assertThat(run.lengths(2)).containsExactly(15, 75);
      runs(run, 90, 1, 2);
      runs(run, 125, 1);
      assertThat(run.lengths(2)).containsExactly(25, 65);
      runs(run, 145, 2, 3);
      runs(run, 190, 2);
      runs(run, 245, 3);
      ends(run, 245);
    }
  }

  @Test
  void a16LaterArrivalsOfHigherPriorityTakeThePlaces() {
    try (V1Run run =
        maxUtilization(100, 2)
            .run(
                Spec.of(0, 10, 10),
                Spec.of(1, 10, 10),
                Spec.of(2, 10, 10).arriving(2).priority(.6),
                Spec.of(3, 10, 10).arriving(2).priority(.7))) {
      runs(run, 2, 0, 1);
      V1Run.Step step = run.step();
      assertThat(step.active()).containsExactly(3, 2, 0, 1);
      assertThat(step.fitting()).containsExactly(3, 2);
      runs(run, 12, 3, 2);
      assertThat(run.lengths(0)).containsExactly(12, 8);
      assertThat(run.lengths(1)).containsExactly(12, 8);
      runs(run, 20, 0, 1);
      ends(run, 20);
    }
  }

  @Test
  void a17PrioritiesDecideWhoIsPaused() {
    try (V1Run run = maxUtilization(100, 4).run(fourInTwoWaves(.6, .7))) {
      runs(run, 10, 0, 1);
      runs(run, 21, 3, 2, 0, 1);
      runs(run, 31, 3, 2, 0);
      runs(run, 51, 3, 2);
      runs(run, 90, 3);
      assertThat(run.lengths(2)).containsExactly(51, 39);
      runs(run, 129, 2);
      assertThat(run.lengths(0)).containsExactly(41, 49);
      assertThat(run.lengths(1)).containsExactly(31, 59);
      runs(run, 139, 0, 1);
      runs(run, 178, 0);
      assertThat(run.lengths(1)).containsExactly(41, 49);
      runs(run, 227, 1);
      ends(run, 227);
    }
  }

  @Test
  void a18WithoutEvictionFourRunOneByOne() {
    try (V1Run run = noEvict(100, 4).run(fourInTwoWaves(.5, .5))) {
      for (int id = 0; id < 4; id++) {
        runs(run, 80 * (id + 1), id);
      }
      ends(run, 320);
    }
  }

  @Test
  void a19WithoutEvictionFourRunOneByOneInChunksToo() {
    Spec[] specs =
        Arrays.stream(alike(4, id -> Spec.of(id, 30, 60).chunk(20).arriving(id < 2 ? 0 : 10)))
            .toArray(Spec[]::new);
    try (V1Run run = noEvict(100, 4).run(specs)) {
      for (int id = 0; id < 4; id++) {
        runs(run, 61 * (id + 1), id);
      }
      ends(run, 244);
    }
  }

  private static int[] count(int from, int length) {
    return IntStream.range(from, from + length).toArray();
  }

  private static Spec[] threeAlike() {
    return alike(3, id -> Spec.of(id, 21, 2).tokens(count(0, 21)).adapter(0));
  }

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  void a20TheSamePromptIsComputedOnce(CapacityRule rule) {
    try (V1Run run = Setup.of(rule, 200, 3).reusing(50).run(threeAlike())) {
      runs(run, 1, 0);
      runs(run, 2, 0, 1, 2);
      runs(run, 3, 1, 2);
      ends(run, 3);
      assertThat(run.reused()).isEqualTo(4);
    }
  }

  @Test
  void a20AStaticBatchDelaysNobody() {
    try (V1Run run = Setup.of(CapacityRule.STATIC_BATCH, 200, 3).reusing(50).run(threeAlike())) {
      runs(run, 2, 0, 1, 2);
      ends(run, 2);
      assertThat(run.reused()).isEqualTo(4);
    }
  }

  @Test
  void a21AStaticBatchRunsToItsEnd() {
    try (V1Run run =
        Setup.of(CapacityRule.STATIC_BATCH, 200, 2)
            .run(Spec.of(0, 10, 80), Spec.of(1, 10, 40), Spec.of(2, 10, 80))) {
      runs(run, 40, 0, 1);
      runs(run, 80, 0);
      runs(run, 160, 2);
      ends(run, 160);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  void a22EachWaitsForTheBlockThatItLacks(CapacityRule rule) {
    List<Spec> specs = new ArrayList<>();
    specs.add(Spec.of(0, 11, 80).tokens(count(1, 11)));
    specs.add(Spec.of(1, 21, 80).tokens(count(2, 21)));
    specs.add(Spec.of(2, 11, 80).tokens(count(0, 11)));
    specs.add(Spec.of(3, 21, 80).tokens(count(0, 21)));
    specs.add(Spec.of(4, 31, 80).tokens(count(0, 31)));
    try (V1Run run = Setup.of(rule, 1000, 5).reusing(150).run(specs.toArray(Spec[]::new))) {
      runs(run, 1, 0, 1, 2);
      runs(run, 2, 0, 1, 2, 3);
      runs(run, 80, 0, 1, 2, 3, 4);
      runs(run, 81, 3, 4);
      runs(run, 82, 4);
      ends(run, 82);
      assertThat(run.reused()).isEqualTo(3);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  void a23AChunkedContributorIsWaitedForToItsEnd(CapacityRule rule) {
    Spec[] specs = alike(2, id -> Spec.of(id, 50, 40).chunk(20).tokens(count(0, 50)));
    try (V1Run run = Setup.of(rule, 200, 2).reusing(90).run(specs)) {
      for (int position : new int[] {0, 20, 40}) {
        if (run.iteration() > 0) {
          assertThat(run.position(0)).isEqualTo(position);
        }
        runs(run, run.iteration() + 1, 0);
      }
      assertThat(run.generated(0)).isEqualTo(1);
      assertThat(run.position(1)).isZero();
      runs(run, 4, 0, 1);
      assertThat(run.position(1)).isEqualTo(50);
      runs(run, 42, 0, 1);
      runs(run, 43, 1);
      ends(run, 43);
      assertThat(run.reused()).isEqualTo(4);
    }
  }

  @Test
  void higherPriorityIsEnteredBeforeLowerAndBehindItsLike() {
    double[] priorities = {.5, .5, .6, .6, .6, 1.0, .3, .3, .3, .6, 1.0, .5};
    Spec[] specs = alike(priorities.length, id -> Spec.of(id, 10, 10).priority(priorities[id]));
    try (V1Run run = maxUtilization(1000, 20).run(specs)) {
      assertThat(run.step().active()).containsExactly(5, 10, 2, 3, 4, 9, 0, 1, 11, 6, 7, 8);
    }
  }
}
