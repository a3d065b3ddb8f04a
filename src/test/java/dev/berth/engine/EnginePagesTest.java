// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityRule;
import dev.berth.id.BatchPosition;
import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvConfig.Partial;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvLevel;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.kv.KvStatus;
import dev.berth.kv.KvTables;
import dev.berth.kv.KvUsage;
import dev.berth.kv.KvView;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Prompt;
import dev.berth.request.Request;
import dev.berth.request.RequestTable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** An engine and its KV cache: who gets pages, who gives way, what is found again. */
class EnginePagesTest {
  private static final int TOKENS_PER_BLOCK = 4;
  private static final int LONGEST = 64;
  private static final KvLayout LAYOUT =
      KvLayout.plan(
          TOKENS_PER_BLOCK,
          List.of(
              KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
              KvBuffer.of(0, KvBuffer.VALUE, 64, KvReach.FULL)));

  private static EngineConfig config(int batch, KvSetup kv, CapacityRule rule, Trait... traits) {
    var shape =
        WorkerShape.builder(batch)
            .tokensPerBlock(TOKENS_PER_BLOCK)
            .maxSeqLen(LONGEST)
            .with(traits)
            .build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    return EngineConfig.of(plan, WorkerRole.AGGREGATED)
        .withKv(kv)
        .withPolicies(PolicySet.BERTH_1, rule);
  }

  private static KvSetup.Paged pages(long device) {
    return KvSetup.paged(LAYOUT, KvSizes.device(device));
  }

  private static Request request(long id, int output, int... prompt) {
    return Request.of(id, prompt.length, output).withPrompt(Prompt.of(prompt));
  }

  private static int[] prompt(int first, int length) {
    return IntStream.range(first, first + length).toArray();
  }

  /** Samples tokens of nobody's prompt, notes what runs. */
  private static final class Sampler implements LockstepGroup.Device {
    final Map<Long, List<Integer>> contexts = new HashMap<>(); // first token of each chunk, by id
    final Map<Long, Integer> outputs = new HashMap<>();

    @Override
    public void launch(RankEngine engine, Batch batch) {
      for (int i = 0; i < batch.size(); i++) {
        if (batch.kind(i) == Batch.Kind.CONTEXT) {
          contexts
              .computeIfAbsent(engine.table().id(batch.row(i)), id -> new ArrayList<>())
              .add(batch.firstToken(i));
        }
      }
    }

    @Override
    public void collect(RankEngine engine, Batch batch) {
      for (int i = 0; i < batch.size(); i++) {
        if (batch.makesToken(i)) {
          long id = engine.table().id(batch.row(i));
          int n = outputs.merge(id, 1, Integer::sum);
          batch.sampled(new BatchPosition(i), 1000 + (int) id * 100 + n);
        }
      }
    }
  }

  private static List<Long> toTheEnd(LockstepGroup group, LockstepGroup.Device device) {
    var ended = new ArrayList<Long>();
    RankEngine engine = group.engine(0);
    for (int i = 0; group.step(device); i++) {
      assertThat(i).isLessThan(10_000);
      engine.checkPages();
      assertThat(engine.shortOfPages()).isZero();
      for (int k = 0; k < engine.ended(); k++) {
        ended.add(engine.endedId(k));
      }
    }
    return ended;
  }

  private static void nothingIsHeld(RankEngine engine) {
    assertThat(engine.seatsUsed() + engine.leasesUsed() + engine.pagesUsed()).isZero();
    engine
        .kv()
        .ifPresent(kv -> {
          assertThat(kv.usage().open()).isZero();
          assertThat(kv.usage().pages(KvLevel.DEVICE, 0).held()).isZero();
        });
  }

  // ------------------------------------------------------------------------------ giving way

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whoGivesWayComesBackAndMakesEveryToken(boolean overlap) {
    Trait[] traits = overlap ? new Trait[] {Trait.OVERLAP} : new Trait[0];
    var config = config(4, KvSetup.counted(6), CapacityRule.MAX_UTILIZATION, traits);
    try (var group = new LockstepGroup(config)) {
      for (int id = 0; id < 4; id++) {
        assertThat(group.offer(Request.of(id, 4, 12))).isEqualTo(Outcome.QUEUED);
      }
      RankEngine engine = group.engine(0);
      var pauses = new HashMap<Long, Integer>();
      var tokens = new HashMap<Long, Integer>();
      while (group.step(LockstepGroup.NO_DEVICE)) {
        engine.checkPages();
        assertThat(engine.pagesUsed()).isLessThanOrEqualTo(6);
        RequestTable table = engine.table();
        for (int row = 0; row < table.rows() - 1; row++) {
          if (table.pauses(row) > 0) {
            pauses.merge(table.id(row), table.pauses(row), Math::max);
          }
        }
        for (int i = 0; i < engine.ended(); i++) {
          tokens.put(engine.endedId(i), engine.endedTokens(i));
        }
      }
      assertThat(tokens).isEqualTo(Map.of(0L, 12, 1L, 12, 2L, 12, 3L, 12));
      assertThat(pauses.keySet()).as("the last in order, never the first").contains(3L);
      assertThat(pauses).doesNotContainKey(0L);
      nothingIsHeld(engine);
    }
  }

  @ParameterizedTest
  @EnumSource
  void whoComesBackFindsWhatItComputed(KvSetup.Paused paused) {
    // Each will need 5 pages of 8; whole blocks are stored as soon as they are computed.
    KvSetup kv = pages(8).withIndex(20, Partial.COPY).withPaused(paused);
    var config = config(2, kv, CapacityRule.MAX_UTILIZATION);
    try (var group = new LockstepGroup(config)) {
      group.offer(request(0, 12, prompt(0, 8)));
      group.offer(request(1, 12, prompt(50, 8)));
      var device = new Sampler();
      assertThat(toTheEnd(group, device)).containsExactly(0L, 1L);
      List<Integer> begins = Objects.requireNonNull(device.contexts.get(1L));
      assertThat(begins)
          .as("once at the start, then behind what was left of it")
          .hasSizeGreaterThan(1);
      assertThat(begins.getFirst()).isZero();
      assertThat(begins.getLast()).isGreaterThanOrEqualTo(TOKENS_PER_BLOCK);
      nothingIsHeld(group.engine(0));
    }
  }

  @Test
  void aPromiseKeepsPagesFreeAndTakesThemOnlyWhenTheyAreNeeded() {
    var config = config(2, pages(9), CapacityRule.GUARANTEED_NO_EVICT);
    try (var group = new LockstepGroup(config)) {
      group.offer(request(0, 12, prompt(0, 8)));
      group.offer(request(1, 12, prompt(50, 8)));
      group.step(new Sampler());
      RankEngine engine = group.engine(0);
      KvUsage usage = engine.kv().orElseThrow().usage();
      assertThat(engine.pagesUsed()).as("5 to its last token").isEqualTo(5);
      assertThat(usage.pages(KvLevel.DEVICE, 0).free()).as("2 for its prompt").isEqualTo(7);
      assertThat(engine.real()).as("the second needs 5 of the 4 that aren't promised").isEqualTo(1);
      assertThat(toTheEnd(group, new Sampler())).containsExactly(0L, 1L);
      nothingIsHeld(engine);
    }
  }

  // ------------------------------------------------------------------------------ reuse

  @Test
  void whatWasComputedIsFoundAndTheLastTokenIsComputedInAnyCase() {
    var config = config(2, pages(40), CapacityRule.GUARANTEED_NO_EVICT, Trait.OVERLAP);
    try (var group = new LockstepGroup(config)) {
      var device = new Sampler();
      group.offer(request(0, 3, prompt(0, 12)));
      toTheEnd(group, device);
      group.offer(request(1, 3, prompt(0, 12)));
      toTheEnd(group, device);
      assertThat(device.contexts).isEqualTo(Map.of(0L, List.of(0), 1L, List.of(8)));
    }
  }

  @Test
  void aContextWaitsForTheBlockThatAnotherOneIsComputing() {
    var config = config(2, pages(40), CapacityRule.GUARANTEED_NO_EVICT, Trait.OVERLAP);
    for (var sharing : KvSetup.Sharing.values()) {
      try (var group = new LockstepGroup(config.withKv(pages(40).withSharing(sharing)))) {
        var device = new Sampler();
        group.offer(request(0, 3, prompt(0, 12)));
        group.offer(request(1, 3, prompt(0, 12)));
        toTheEnd(group, device);
        int begins = sharing == KvSetup.Sharing.WAITS ? 8 : 0;
        assertThat(device.contexts).isEqualTo(Map.of(0L, List.of(0), 1L, List.of(begins)));
      }
    }
  }

  @Test
  void nothingIsFoundAcrossAdaptersAndSaltsOrWithoutTokens() {
    var config = config(2, pages(80), CapacityRule.GUARANTEED_NO_EVICT);
    int[] tokens = prompt(0, 12);
    List<Request> others =
        List.of(
            Request.of(1, 12, 2).withPrompt(Prompt.of(tokens).withAdapter(0)),
            Request.of(2, 12, 2).withPrompt(Prompt.of(tokens).withSalt(7)),
            Request.of(3, 12, 2));
    try (var group = new LockstepGroup(config)) {
      var device = new Sampler();
      group.offer(request(0, 2, tokens));
      toTheEnd(group, device);
      others.forEach(group::offer);
      toTheEnd(group, device);
      assertThat(device.contexts.values()).containsOnly(List.of(0));
      group.offer(Request.of(4, 12, 2).withPrompt(Prompt.of(tokens).withSalt(7)));
      toTheEnd(group, device);
      assertThat(device.contexts.get(4L)).containsExactly(8);
    }
  }

  @Test
  void withoutReportedTokensOnlyThePromptIsFound() {
    var config = config(2, pages(40), CapacityRule.GUARANTEED_NO_EVICT);
    for (boolean reports : List.of(true, false)) {
      try (var group = new LockstepGroup(config)) {
        var device = new Sampler();
        group.offer(request(0, 9, prompt(0, 4)));
        toTheEnd(group, reports ? device : LockstepGroup.NO_DEVICE);
        int[] said =
            IntStream.concat(Arrays.stream(prompt(0, 4)), IntStream.range(1001, 1010)).toArray();
        KvView kv = group.engine(0).kv().orElseThrow();
        assertThat(kv.probe(dev.berth.kv.KvScope.NONE, said)).containsExactly(reports ? 12 : 4);
      }
    }
  }

  // ------------------------------------------------------------------------------ leaving

  @ParameterizedTest
  @EnumSource(names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION"})
  void whoIsCancelledInWhicheverIterationLeavesNothingBehind(CapacityRule rule) {
    for (int at = 0; at < 30; at++) {
      for (long victim = 0; victim < 3; victim++) {
        KvSetup kv = pages(9).withIndex(12, Partial.COPY);
        try (var group = new LockstepGroup(config(3, kv, rule, Trait.OVERLAP))) {
          for (long id = 0; id < 3; id++) {
            group.offer(request(id, 12, prompt(id == 2 ? 0 : (int) id * 20, 8)));
          }
          var device = new Sampler();
          RankEngine engine = group.engine(0);
          for (int i = 0; i < at && group.step(device); i++) {
            engine.checkPages();
          }
          if (!group.cancel(victim)) {
            for (int row = 0; row < engine.table().rows() - 1; row++) {
              if (engine.table().id(row) == victim) {
                engine.cancel(row, victim);
              }
            }
          }
          toTheEnd(group, device);
          nothingIsHeld(engine);
        }
      }
    }
  }

  // ------------------------------------------------------------------------------ the edges

  @Test
  void anIterationIsThreeCallsAndTheTablesOfABatchOne() {
    var config = config(2, pages(40), CapacityRule.MAX_UTILIZATION, Trait.OVERLAP);
    try (var group = new LockstepGroup(config)) {
      group.offer(request(0, 20, prompt(0, 12)));
      RankEngine engine = group.engine(0);
      KvView kv = engine.kv().orElseThrow();
      KvTables tables = kv.newTables(new KvTables.Shape(3, 64, 0));
      for (int i = 0; i < 10; i++) {
        long before = engine.nativeCalls();
        group.step(LockstepGroup.NO_DEVICE);
        assertThat(engine.nativeCalls() - before).isEqualTo(3);
      }
      long before = engine.nativeCalls();
      var statuses = new ArrayList<KvStatus>();
      group.step(
          new LockstepGroup.Device() {
            @Override
            public void launch(RankEngine launching, Batch batch) {
              statuses.add(kv.prepare(tables, KvTables.Padding.CLEARED));
              assertThat(tables.rows()).isEqualTo(batch.size());
            }
          });
      assertThat(engine.nativeCalls() - before).isEqualTo(4);
      assertThat(statuses).containsExactly(KvStatus.OK);
      int page = tables.keyPage(0, 0, 0);
      assertThat(page).isNotNegative();
      assertThat(tables.valuePage(0, 0, 0)).isEqualTo(page + 1);
      assertThat(tables.keyPage(0, 1, 0)).as("behind the batch").isEqualTo(-1);
      assertThat(kv.prepare(tables, KvTables.Padding.CLEARED)).isEqualTo(KvStatus.STATE);
    }
  }

  @Test
  void countedPagesHaveNoTablesAndNoTokens() {
    var config = config(2, KvSetup.counted(9), CapacityRule.GUARANTEED_NO_EVICT);
    try (var group = new LockstepGroup(config)) {
      group.offer(request(0, 3, prompt(0, 12)));
      group.step(new Sampler());
      RankEngine engine = group.engine(0);
      assertThat(engine.kv()).isEmpty();
      assertThatThrownBy(() -> engine.table().token(0, 0))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.STATE));
    }
  }

  @Test
  void aViewOfAClosedEnginesCacheIsClosed() {
    var config = config(2, pages(9), CapacityRule.GUARANTEED_NO_EVICT);
    KvView kv;
    try (var group = new LockstepGroup(config)) {
      kv = group.engine(0).kv().orElseThrow();
      assertThat(kv.usage().open()).isZero();
    }
    assertThatThrownBy(kv::usage)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CLOSED));
  }

  @Test
  void whoCouldntComeBackWholeHasItsPagesToTheEndAndNeverGivesWay() {
    var shape = WorkerShape.builder(4).tokensPerBlock(4).maxNumTokens(8).build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    EngineConfig config =
        EngineConfig.of(plan, WorkerRole.AGGREGATED)
            .withKv(KvSetup.counted(7))
            .withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_UTILIZATION);
    try (var group = new LockstepGroup(config)) {
      group.offer(Request.of(0, 4, 5)); // 8 tokens would still fit a batch
      group.offer(Request.of(1, 4, 12)); // 15 wouldn't
      group.offer(Request.of(2, 4, 5));
      RankEngine engine = group.engine(0);
      group.step(LockstepGroup.NO_DEVICE);
      assertThat(engine.real()).isEqualTo(2);
      assertThat(engine.pagesUsed()).as("its prompt's, and 4 to the end").isEqualTo(5);
      long paused = 0;
      while (group.step(LockstepGroup.NO_DEVICE)) {
        engine.checkPages();
        RequestTable table = engine.table();
        for (int row = 0; row < table.rows() - 1; row++) {
          if (table.id(row) == 1) {
            assertThat(table.pauses(row)).isZero();
          }
        }
        paused += engine.paused();
      }
      assertThat(paused).as("the last one, for a page that the first one lacks").isPositive();
      nothingIsHeld(engine);
    }
  }

  @Test
  void aCacheThatCantBeIsRefusedWithEveryReason() {
    var shape = WorkerShape.builder(2).tokensPerBlock(8).build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    EngineConfig base = EngineConfig.of(plan, WorkerRole.AGGREGATED);
    KvSetup.Paged kv =
        KvSetup.paged(LAYOUT, KvSizes.device(0)).withIndex(-1, Partial.OFF).withEvents(3);
    assertThatThrownBy(() -> base.withKv(kv))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
        .hasMessageContaining("4 tokens a block, the plan 8")
        .hasMessageContaining("maxSeqLen")
        .hasMessageContaining("index of -1 blocks")
        .hasMessageContaining("2^3 events")
        .hasMessageContaining("0 pages of pool group 0");
  }

  @Test
  void aPromptHasAllItsTokensOrNone() {
    assertThatThrownBy(() -> Request.of(0, 5, 1).withPrompt(Prompt.of(1, 2, 3)))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.ARGUMENT));
  }
}
