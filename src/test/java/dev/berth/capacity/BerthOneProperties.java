// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What berth-1 promises, in random worlds that do what it says: chunks, drafts, adapters, priorities, transfers, requests
 * that can never fit.
 */
class BerthOneProperties {
  private static final int WORLDS = 150;

  @ParameterizedTest
  @EnumSource(
      value = CapacityRule.class,
      names = {"GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"})
  void thePromisesHold(CapacityRule rule) {
    run(rule, Seeds.seed("BerthOneProperties " + rule), WORLDS);
  }

  @Tag("deep")
  @Test
  void thePromisesHoldForLong() {
    long seed = Seeds.seed("BerthOneProperties deep");
    for (CapacityRule rule : EnumSet.complementOf(EnumSet.of(CapacityRule.MAX_REQUESTS))) {
      run(rule, seed * 17, 20 * WORLDS);
    }
  }

  private static void run(CapacityRule rule, long seed, int worlds) {
    RandomGenerator random = Seeds.generator(seed);
    for (int i = 0; i < worlds; i++) {
      try (World world = new World(rule, random, "%s, seed %d, world %d".formatted(rule, seed, i))) {
        world.toTheEnd();
      }
    }
  }

  private static final class Live {
    int row;
    RequestState state = RequestState.CONTEXT_INIT;
    int prompt;
    int maxNew;
    int cursor;
    int generated;
    int drafts;
    int adapter;
    double priority;
    int pages;
    int transferLeft;
    boolean neverFits;
  }

  private static final class World implements AutoCloseable {
    private final RandomGenerator random;
    private final String name;
    private final int tokensPerPage;
    private final int totalPages;
    private final int maxTokens;
    private final int maxBatch;
    private final int adapterPages;
    private final Map<Integer, Live> live = new HashMap<>();
    private final SchedulingTable table;
    private final TwoStageScheduler scheduler;
    private int usedPages;
    private int toCome;
    private int nextRow;

    World(CapacityRule rule, RandomGenerator random, String name) {
      this.random = random;
      this.name = name;
      this.tokensPerPage = 1 + random.nextInt(8);
      this.totalPages = 8 + random.nextInt(60);
      this.maxBatch = 1 + random.nextInt(12);
      this.adapterPages = random.nextBoolean() ? CapacityRules.NO_ADAPTERS : 4 + random.nextInt(6);
      this.toCome = 10 + random.nextInt(30);
      Chunking chunking = Chunking.values()[random.nextInt(3)];
      int unit = 1 + random.nextInt(8);
      this.maxTokens = Math.max(unit, 12 + random.nextInt(60));
      this.table =
          new SchedulingTable(
              TableShape.of(toCome, Pool.self(1 << 16, totalPages)).withAdapters(3));
      for (int a = 0; a < 3; a++) {
        table.adapterPages(a, 1 + a);
      }
      CapacityRules rules =
          CapacityRules.of(rule, 1 + random.nextInt(16))
              .withTraits(Set.of())
              .withAdapterPages(adapterPages);
      this.scheduler =
          TwoStageScheduler.of(
              table,
              rules,
              BatchRules.of(maxBatch, maxTokens)
                  .withMaxContextTokens(BatchRules.NO_LIMIT)
                  .withChunking(chunking, unit));
      this.chunked = chunking != Chunking.NONE;
    }

    private final boolean chunked;

    int pages(int tokens) {
      return (tokens + tokensPerPage - 1) / tokensPerPage;
    }

    void toTheEnd() {
      int bound = 30_000;
      int iteration = 0;
      while (toCome > 0 || live.values().stream().anyMatch(r -> !r.neverFits)) {
        assertThat(iteration++).as("%s: somebody waits for ever", name).isLessThan(bound);
        arrive();
        step();
      }
      assertThat(usedPages).as(name).isEqualTo(live.values().stream().mapToInt(r -> r.pages).sum());
    }

    void arrive() {
      while (toCome > 0 && random.nextInt(3) == 0) {
        toCome--;
        Live r = new Live();
        r.row = nextRow++;
        r.prompt = 1 + random.nextInt(40);
        r.maxNew = 1 + random.nextInt(20);
        r.drafts = random.nextInt(4) == 0 ? random.nextInt(3) : 0;
        r.adapter = random.nextInt(3) == 0 ? random.nextInt(3) : -1;
        r.priority = random.nextInt(4) == 0 ? .7 : .5;
        if (random.nextInt(6) == 0) {
          r.state = RequestState.GENERATION_INIT;
        }
        boolean tooMuch = random.nextInt(12) == 0;
        if (tooMuch) {
          r.prompt = totalPages * tokensPerPage + 1; // more than there is
          r.maxNew = 1;
        }
        // A pause makes a prompt of what was generated, and of what was received.
        r.neverFits =
            pages(r.prompt + r.maxNew + r.drafts) > totalPages
                || (!chunked && r.prompt + r.maxNew + r.drafts > maxTokens);
        live.put(r.row, r);
        table.begin(r.row, r.row, r.state, r.prompt, r.maxNew);
        table.draftTokens(r.row, r.drafts);
        table.adapter(r.row, r.adapter);
        table.priority(r.row, r.priority);
        table.enter(r.row);
      }
    }

    void describe(Live r) {
      boolean generation = r.state == RequestState.GENERATION;
      table.state(r.row, r.state);
      table.context(r.row, generation ? r.prompt : r.cursor, 0);
      table.generatedTokens(r.row, r.generated);
      int whole = pages(r.prompt + r.maxNew + r.drafts);
      int step =
          generation
              ? Math.max(0, pages(r.prompt + r.generated + 1 + r.drafts) - r.pages)
              : r.pages > 0 ? 0 : pages(r.prompt + r.drafts);
      table.demand(r.row, 0, Math.max(0, whole - r.pages), step, step, 0);
      table.held(r.row, 0, r.pages);
      table.markDirty(r.row);
    }

    void step() {
      live.values().forEach(this::describe);
      int freePages = totalPages - usedPages;
      table.freePages(0, freePages);
      List<String> first = decide();
      assertThat(decide()).as("%s: a plan is a function of the table", name).isEqualTo(first);
      MicroBatch batch = scheduler.schedule();
      CapacityPlan plan = scheduler.capacity();

      assertThat(batch.tokens()).as(name).isLessThanOrEqualTo(maxTokens);
      assertThat(batch.size()).as(name).isLessThanOrEqualTo(maxBatch);
      adaptersFit(batch, plan);
      higherPriorityGoesFirst(plan);
      boolean moved = batch.tokens() > 0 || plan.paused() > 0 || plan.receiving() > 0;
      if (!moved) {
        assertNobodyCouldRun(freePages);
      }
      carryOut(batch, plan);
      assertThat(usedPages).as("%s: pages", name).isLessThanOrEqualTo(totalPages);
    }

    private List<String> decide() {
      MicroBatch batch = scheduler.schedule();
      CapacityPlan plan = scheduler.capacity();
      List<String> all = new ArrayList<>();
      for (int i = 0; i < batch.contexts(); i++) {
        all.add("c" + batch.contextRow(i) + ":" + batch.contextTokens(i));
      }
      Lines.ids(table, batch.generations(), batch::generation).forEach(id -> all.add("g" + id));
      Lines.ids(table, plan.fitting(), plan::fitting).forEach(id -> all.add("f" + id));
      Lines.ids(table, plan.receiving(), plan::receiving).forEach(id -> all.add("r" + id));
      Lines.ids(table, plan.paused(), plan::paused).forEach(id -> all.add("p" + id));
      return all;
    }

    private Live of(int row) {
      return Objects.requireNonNull(live.get(row), () -> name + ": row " + row);
    }

    private Set<Integer> scheduled(MicroBatch batch) {
      Set<Integer> rows = new HashSet<>(Lines.ids(table, batch.generations(), batch::generation));
      for (int i = 0; i < batch.contexts(); i++) {
        rows.add(batch.contextRow(i));
      }
      return rows;
    }

    private void adaptersFit(MicroBatch batch, CapacityPlan plan) {
      if (adapterPages < 0 || scheduler.capacity().fitting() == 0) {
        return;
      }
      Set<Integer> newcomers = new HashSet<>();
      Set<Integer> all = new HashSet<>();
      for (int row : scheduled(batch)) {
        if (of(row).adapter >= 0) {
          all.add(of(row).adapter);
          if (of(row).pages == 0) {
            newcomers.add(of(row).adapter);
          }
        }
      }
      int sum = all.stream().mapToInt(a -> a + 1).sum();
      boolean residentsAlone = newcomers.isEmpty();
      assertThat(sum <= adapterPages || residentsAlone)
          .as("%s: adapters %s of %d pages, fitting %d", name, all, adapterPages, plan.fitting())
          .isTrue();
    }

    /** Of two that are alike the one of higher priority, or else the earlier one, isn't left behind. */
    private void higherPriorityGoesFirst(CapacityPlan plan) {
      Set<Integer> fits = new HashSet<>(Lines.ids(table, plan.fitting(), plan::fitting));
      for (int a = 0; a < table.size(); a++) {
        Live ahead = of(table.row(a));
        for (int b = a + 1; b < table.size(); b++) {
          Live behind = of(table.row(b));
          boolean alike =
              ahead.state == RequestState.CONTEXT_INIT
                  && behind.state == RequestState.CONTEXT_INIT
                  && ahead.cursor == 0
                  && behind.cursor == 0
                  && ahead.prompt == behind.prompt
                  && ahead.maxNew == behind.maxNew
                  && ahead.drafts == behind.drafts
                  && ahead.adapter == behind.adapter;
          if (alike && fits.contains(behind.row)) {
            assertThat(fits).as("%s: row %d before %d", name, ahead.row, behind.row).contains(ahead.row);
          }
        }
      }
    }

    /** Nothing moved: then whoever is here is on its way, can never fit, or lacks something. */
    private void assertNobodyCouldRun(int freePages) {
      boolean underWay =
          live.values().stream().anyMatch(r -> r.state == RequestState.GENERATION_TRANSFER);
      for (Live r : live.values()) {
        if (r.neverFits || underWay) {
          continue;
        }
        assertThat(table.waitReason(r.row))
            .as("%s: row %d with %d free pages of %s", name, r.row, freePages, this)
            .isNotIn(WaitReason.BATCH, WaitReason.TOKENS, WaitReason.PAGES, WaitReason.NONE);
        assertThat(table.waitReason(r.row)).as(name).isEqualTo(WaitReason.ADAPTER);
        assertThat(r.adapter + 1).as(name).isGreaterThan(adapterPages);
      }
    }

    @Override
    public String toString() {
      StringBuilder text =
          new StringBuilder(
              "%d pages, batch %d, tokens %d, adapter pages %d"
                  .formatted(totalPages, maxBatch, maxTokens, adapterPages));
      for (int place = 0; place < table.size(); place++) {
        Live r = of(table.row(place));
        text.append(
            "\n  row %d %s %d/%d + %d/%d drafts %d adapter %d holds %d needs %d, %d: %s%s"
                .formatted(
                    r.row,
                    r.state,
                    r.cursor,
                    r.prompt,
                    r.generated,
                    r.maxNew,
                    r.drafts,
                    r.adapter,
                    r.pages,
                    table.remainingPages(r.row, 0),
                    table.oneStepPages(r.row, 0),
                    table.waitReason(r.row),
                    r.neverFits ? " (never fits)" : ""));
      }
      return text.toString();
    }

    private void carryOut(MicroBatch batch, CapacityPlan plan) {
      List<Live> paused = Lines.ids(table, plan.paused(), plan::paused).stream().map(this::of).toList();
      List<Live> receiving =
          Lines.ids(table, plan.receiving(), plan::receiving).stream().map(this::of).toList();
      List<Live> generations =
          Lines.ids(table, batch.generations(), batch::generation).stream().map(this::of).toList();
      List<int[]> contexts = new ArrayList<>();
      for (int i = 0; i < batch.contexts(); i++) {
        contexts.add(new int[] {batch.contextRow(i), batch.contextTokens(i)});
      }
      for (Live r : paused) {
        usedPages -= r.pages;
        r.pages = 0;
        table.pause(r.row, 1 << 16);
        r.prompt += r.generated;
        r.maxNew -= r.generated;
        r.generated = 0;
        r.cursor = 0;
        r.state = RequestState.CONTEXT_INIT;
        table.contextChunk(r.row, 0);
      }
      for (Live r : receiving) {
        hold(r, pages(r.prompt + r.drafts));
        r.state = RequestState.GENERATION_TRANSFER;
        r.transferLeft = 1 + random.nextInt(4);
      }
      for (int[] context : contexts) {
        Live r = of(context[0]);
        hold(r, pages(r.prompt + r.drafts));
        r.cursor += context[1];
        if (r.cursor == r.prompt) {
          token(r);
        }
      }
      for (Live r : generations) {
        hold(r, pages(r.prompt + r.generated + 1 + r.drafts));
        token(r);
      }
      for (Live r : List.copyOf(live.values())) {
        if (r.state == RequestState.GENERATION_TRANSFER && r.transferLeft-- == 0) {
          token(r);
        }
      }
    }

    private void hold(Live r, int pages) {
      usedPages += Math.max(0, pages - r.pages);
      r.pages = Math.max(r.pages, pages);
    }

    private void token(Live r) {
      r.state = RequestState.GENERATION;
      r.generated++;
      if (r.generated >= r.maxNew) {
        usedPages -= r.pages;
        live.remove(r.row);
        table.leave(r.row);
      }
    }

    @Override
    public void close() {
      table.close();
    }
  }

  @Test
  void theSetsDifferInTheirRange() {
    assertThat(CapacityRules.of(CapacityRule.MAX_UTILIZATION, 1).rangeEnd())
        .isEqualTo(CapacityRules.RETIRING);
    assertThat(CapacityRules.parity(CapacityRule.MAX_UTILIZATION, 1).rangeEnd())
        .isEqualTo(CapacityRules.COMPLETE);
    assertThat(PolicySet.DEFAULT).isEqualTo(PolicySet.BERTH_1);
  }
}
