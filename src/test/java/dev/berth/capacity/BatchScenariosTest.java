// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.RequestState;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Spec 02, tables B, C and D: the batch stage under the parity set. */
class BatchScenariosTest {
  private static final int NO_LIMIT = BatchRules.NO_LIMIT;

  private static BatchRules rules(int batch, int tokens) {
    return BatchRules.parity(batch, tokens).withMaxContextTokens(NO_LIMIT);
  }

  private static void runs(BatchRun run, int to, Integer... ids) {
    while (run.iteration() < to) {
      int iteration = run.iteration();
      assertThat(run.step()).as("iteration %d", iteration).isEqualTo(List.of(ids));
    }
  }

  private static BatchRun alike(BatchRun run, int count, int prompt, int maxNew) {
    for (int i = 0; i < count; i++) {
      run.request(prompt, maxNew);
    }
    return run;
  }

  // ---------------------------------------------------------------------------- B

  @Test
  void b1ABatchIsFilledInOrder() {
    try (BatchRun run = alike(new BatchRun(rules(2, NO_LIMIT)), 4, 10, 80)) {
      runs(run, 80, 0, 1);
      runs(run, 160, 2, 3);
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b2WhatIsInFlightLeavesItsPlacesToOthers() {
    try (BatchRun run = alike(new BatchRun(rules(2, NO_LIMIT)), 4, 10, 80)) {
      while (run.iteration() < 160) {
        List<Integer> ran = run.step();
        assertThat(ran).isEqualTo(run.iteration() % 2 == 1 ? List.of(0, 1) : List.of(2, 3));
        for (int place = 0; place < run.table().size(); place++) {
          int row = run.table().row(place);
          run.table().inFlight(row, ran.contains(row) ? 1 : 0);
        }
      }
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b3EqualProgressGivesTheRestToTheFirst() {
    BatchRules rules = rules(2, 7).withChunking(Chunking.EQUAL_PROGRESS, 5);
    try (BatchRun run = alike(new BatchRun(rules), 2, 12, 5)) {
      runs(run, 1, 0);
      assertThat(run.position(0)).isEqualTo(5);
      runs(run, 2, 0);
      assertThat(run.position(0)).isEqualTo(12);
      for (int position : new int[] {5, 10, 12}) {
        assertThat(run.step()).containsExactly(0, 1);
        assertThat(run.position(1)).isEqualTo(position);
      }
      runs(run, 6, 0, 1);
      runs(run, 9, 1);
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b4TheContextLimitCutsOneContextOnly() {
    BatchRules rules =
        rules(2, NO_LIMIT).withMaxContextTokens(12).withChunking(Chunking.EQUAL_PROGRESS, 5);
    try (BatchRun run = alike(new BatchRun(rules), 3, 10, 5).request(17, 5)) {
      runs(run, 5, 0, 1);
      runs(run, 6, 2, 3);
      assertThat(run.position(2)).isEqualTo(10);
      assertThat(run.position(3)).isEqualTo(10);
      runs(run, 7, 2, 3);
      assertThat(run.position(3)).isEqualTo(17);
      runs(run, 10, 2, 3);
      runs(run, 11, 3);
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b5GenerationsLeaveFewerTokensToContexts() {
    try (BatchRun run = alike(new BatchRun(rules(4, 12)), 4, 10, 10)) {
      runs(run, 1, 0);
      runs(run, 2, 0, 1);
      runs(run, 10, 0, 1, 2);
      runs(run, 11, 1, 2, 3);
      runs(run, 12, 2, 3);
      runs(run, 20, 3);
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b6ABeamCostsItsWidth() {
    BatchRun run = new BatchRun(rules(4, 15));
    for (int i = 0; i < 4; i++) {
      run.request(10, 10, 0, 4);
    }
    try (run) {
      runs(run, 1, 0);
      runs(run, 10, 0, 1);
      runs(run, 11, 1, 2);
      runs(run, 20, 2, 3);
      runs(run, 21, 3);
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b7DraftsCountAgainstTheTokens() {
    BatchRun run = new BatchRun(rules(64, 4096));
    for (int i = 0; i < 4; i++) {
      run.request(1024, 10, 17, 1);
    }
    try (run) {
      runs(run, 1, 0, 1, 2);
      runs(run, 10, 0, 1, 2, 3);
      runs(run, 11, 3);
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b8DraftsOfGenerationsCountToo() {
    try (BatchRun run = alike(new BatchRun(rules(64, 128)), 4, 2, 2)) {
      runs(run, 1, 0, 1, 2, 3);
      for (int row = 0; row < 4; row++) {
        run.table().draftTokens(row, 63);
      }
      runs(run, 2, 0, 1);
      runs(run, 3, 2, 3);
      assertThat(run.done()).isTrue();
    }
  }

  @Test
  void b9DraftsBeyondTheUnitAreDiscarded() {
    BatchRun run =
        new BatchRun(rules(64, 8192).withChunking(Chunking.FIRST_COME_FIRST_SERVED, 64));
    for (int i = 0; i < 4; i++) {
      run.request(2041, 9, 8, 1);
    }
    try (run) {
      runs(run, 1, 0, 1, 2, 3);
      for (int row = 0; row < 4; row++) {
        assertThat(run.drafts(row)).isEqualTo(7);
      }
    }
  }

  @Test
  void b10DraftsBeyondTheContextLimitAreDiscarded() {
    BatchRun run =
        new BatchRun(
            rules(64, NO_LIMIT)
                .withMaxContextTokens(10)
                .withChunking(Chunking.FIRST_COME_FIRST_SERVED, 64));
    try (run) {
      run.request(6, 6, 5, 1).request(6, 6, 5, 1);
      runs(run, 1, 0, 1);
      assertThat(run.drafts(0)).isEqualTo(4);
      assertThat(run.drafts(1)).isEqualTo(4);
    }
  }

  @Test
  void b11DraftsBeyondTheTokensAreDiscarded() {
    BatchRun run =
        new BatchRun(
            rules(64, 40)
                .withMaxContextTokens(64)
                .withChunking(Chunking.FIRST_COME_FIRST_SERVED, 16));
    try (run) {
      run.request(3, 21, 17, 1).request(3, 21, 17, 1).request(3, 21, 17, 1);
      runs(run, 1, 0, 1, 2);
      assertThat(List.of(run.drafts(0), run.drafts(1), run.drafts(2))).containsExactly(13, 13, 5);
    }
  }

  @ParameterizedTest
  @CsvSource({"0, 1", "15, 2"})
  void b12WhatTheCacheSavesIsNotCharged(int reusable, int contexts) {
    try (BatchRun run = alike(new BatchRun(rules(64, 20)), 2, 20, 5)) {
      run.table().reusableTokens(0, reusable);
      run.table().reusableTokens(1, reusable);
      assertThat(run.step()).hasSize(contexts);
    }
  }

  @ParameterizedTest
  @CsvSource({"0, 15", "10, 20"})
  void b13WhatTheCacheSavesMakesRoomForTheChunk(int reusable, int chunk) {
    BatchRules rules = rules(64, 15).withChunking(Chunking.FIRST_COME_FIRST_SERVED, 5);
    try (BatchRun run = alike(new BatchRun(rules), 1, 20, 5)) {
      run.table().reusableTokens(0, reusable);
      run.step();
      assertThat(run.position(0)).isEqualTo(chunk);
    }
  }

  /** Request 0 generates, request 1 has the same prompt of 30; both stages. */
  private static List<Integer> twoAlike(BatchRules batch, int reusable) {
    try (SchedulingTable table =
        new SchedulingTable(TableShape.of(2, Pool.self(100, 10)))) {
      table.begin(0, 0, RequestState.GENERATION, 30, 5);
      table.context(0, 30, 0);
      table.generatedTokens(0, 1);
      table.demand(0, 0, 1, 1, 1, 0);
      table.held(0, 0, 3);
      table.begin(1, 1, RequestState.CONTEXT_INIT, 30, 5);
      table.reusableTokens(1, reusable);
      table.demand(1, 0, 4, 3, 3, 2);
      table.freePages(0, 7);
      for (int row = 0; row < 2; row++) {
        table.markDirty(row);
        table.enter(row);
      }
      MicroBatch result =
          TwoStageScheduler.of(
                  table, CapacityRules.parity(CapacityRule.MAX_UTILIZATION, 2), batch)
              .schedule();
      List<Integer> tokens = new ArrayList<>();
      tokens.add(result.generations());
      tokens.add(result.contexts() == 0 ? 0 : result.contextTokens(0));
      return tokens;
    }
  }

  @Test
  void b14TheCreditLetsTheSecondRunBesideTheFirst() {
    assertThat(twoAlike(rules(2, 15), 20)).containsExactly(1, 30);
    assertThat(twoAlike(rules(2, 15), 0)).containsExactly(1, 0);
  }

  @Test
  void b14TheCreditMakesTheChunkWhole() {
    BatchRules chunked = rules(2, 16).withChunking(Chunking.FIRST_COME_FIRST_SERVED, 5);
    assertThat(twoAlike(chunked, 20)).containsExactly(1, 30);
    assertThat(twoAlike(chunked, 0)).containsExactly(1, 15);
  }

  @Test
  void b15WithoutReuseOneContextFits() {
    try (BatchRun run = alike(new BatchRun(rules(64, 25)), 2, 20, 5)) {
      assertThat(run.step()).containsExactly(0);
    }
  }

  // ---------------------------------------------------------------------------- C

  private static List<Integer> numbers(String text) {
    return Arrays.stream(text.strip().split("\\s+")).map(Integer::valueOf).toList();
  }

  // Where the table gives 3 3 for "17 17" it speaks of the chunker alone. In a batch the rest of these prompts fits whole, so
  // nothing is chunked and the drafts stay (spec 02 §6.5).

  /** lengths | unit | capacity | max context | drafts | positions after each iteration | drafts left. */
  private static void chunks(Chunking policy, String row) {
    String[] fields = row.split("\\|", -1);
    List<Integer> lengths = numbers(fields[0]);
    int unit = Integer.parseInt(fields[1].strip());
    int capacity = fields[2].strip().equals("-") ? NO_LIMIT : Integer.parseInt(fields[2].strip());
    int limit = fields[3].strip().equals("-") ? NO_LIMIT : Integer.parseInt(fields[3].strip());
    List<Integer> drafts = fields[4].isBlank() ? List.of() : numbers(fields[4]);
    BatchRules rules =
        rules(64, capacity).withMaxContextTokens(limit).withChunking(policy, unit);
    try (BatchRun run = new BatchRun(rules, 16)) {
      for (int i = 0; i < lengths.size(); i++) {
        // one output token: a finished context leaves the tokens to the others
        run.request(lengths.get(i), 1, drafts.isEmpty() ? 0 : drafts.get(i), 1);
        if (policy == Chunking.FORCE_CHUNK) {
          int length = lengths.get(i);
          run.table()
              .snapshotPoints(
                  i, IntStream.rangeClosed(1, length / unit).map(k -> k * unit).toArray());
        }
      }
      for (String positions : fields[5].split(";")) {
        run.step();
        assertThat(IntStream.range(0, lengths.size()).mapToObj(run::position).toList())
            .as("%s %s iteration %d", policy, row, run.iteration())
            .isEqualTo(numbers(positions));
      }
      if (!fields[6].isBlank()) {
        assertThat(IntStream.range(0, lengths.size()).mapToObj(run::drafts).toList())
            .as("%s %s", policy, row)
            .isEqualTo(numbers(fields[6]));
      }
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '#',
      value = {
        "25 25|20|-|-||25 25|",
        "25 25|100|-|20||0 0|",
        "25 25|30|-|25||25 25|",
        "10 25|10|-|20||10 20;10 25|",
        "25 25|20|20|-||20 0;25 0;25 20;25 25|",
        "25 25|20|10|-||0 0|",
        "25 25|5|30|-||15 15;25 25|",
        "25 15|5|30|-||15 15;25 15|",
        "25 15|5|30|10||10 10;20 15;25 15|",
        "25 25|5|15|-||10 5;20 10;25 20;25 25|",
        "27 27|5|30|-|5 5|15 15;27 27|3 3",
        "17 17|5|30|-|5 5|15 15;17 17|5 5",
        "27 27|5|20|-|5 5|10 10;20 20;27 27|3 3",
        "23 17|5|20|-|5 5|10 10;23 17|0 0",
        "6 6|5|30|10|5 5|6 6|4 4",
        "25 25|5|50|-|5 5|25 25|0 0",
        "25 25|5|25|-|5 5|15 10;25 25|0 0",
        "25 25|10|30|-|5 5|20 10;25 25|5 5",
        "4128|64|-|4128|3|4128|0",
        "4127|64|-|4128|3|4127|1",
        "4125|64|-|4128|3|4125|3"
      })
  void cEqualProgress(String row) {
    chunks(Chunking.EQUAL_PROGRESS, row);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '#',
      value = {
        "25 25|20|-|-||25 25|",
        "25 25|100|-|20||0 0|",
        "25 25|30|-|25||25 25|",
        "10 25|10|-|20||10 20;10 25|",
        "25 25|20|20|-||20 0;25 0;25 20;25 25|",
        "25 25|20|10|-||0 0|",
        "25 25|5|30|-||25 5;25 25|",
        "25 15|5|30|-||25 5;25 15|",
        "25 15|5|30|10||10 10;20 15;25 15|",
        "25 25|5|15|-||15 0;25 5;25 20;25 25|",
        "27 27|5|30|-|5 5|27 0;27 27|3 3",
        "17 17|5|30|-|5 5|17 10;17 17|3 5",
        "27 27|5|20|-|5 5|20 0;27 10;27 27|3 3",
        "23 17|5|20|-|5 5|20 0;23 17|0 0",
        "6 6|5|30|10|5 5|6 6|4 4",
        "25 25|5|50|-|5 5|25 25|0 0",
        "25 25|5|25|-|5 5|25 0;25 25|0 0",
        "25 25|10|30|-|5 5|25 0;25 25|5 5",
        "4128|64|-|4128|3|4128|0",
        "4127|64|-|4128|3|4127|1",
        "4125|64|-|4128|3|4125|3"
      })
  void cFirstComeFirstServed(String row) {
    chunks(Chunking.FIRST_COME_FIRST_SERVED, row);
  }

  // ---------------------------------------------------------------------------- D

  @ParameterizedTest
  @CsvSource(
      delimiter = '#',
      value = {
        "30|10|-|-||10|",
        "25 15 5|10|-|-||10 10 5|",
        "30 30|10|15|-||10 0|",
        "30 30|10|20|-||10 10|",
        "25|10|-|-||10;20;25|",
        "25 12|10|-|-||10 10;20 12;25 12|",
        "25 25|10|15|-||10 0;20 0;25 10;25 20;25 25|",
        "8|20|-|-||8|",
        "30|10|100|-||10|"
      })
  void dForcedChunksEndAtSnapshotPoints(String row) {
    chunks(Chunking.FORCE_CHUNK, row);
  }

  @Test
  void dAGenerationLeavesRoomForOneForcedChunk() {
    BatchRules rules = rules(64, 15).withChunking(Chunking.FORCE_CHUNK, 10);
    try (BatchRun run = new BatchRun(rules, 4)) {
      run.request(5, 9).request(30, 1);
      run.table().snapshotPoints(1, 10, 20, 30);
      run.table().state(0, RequestState.GENERATION);
      run.table().context(0, 5, 0);
      run.table().generatedTokens(0, 1);
      assertThat(run.step()).containsExactly(0, 1);
      assertThat(run.position(1)).isEqualTo(10);
    }
  }

  @Test
  void dWithoutSnapshotPointsAForcedChunkIsWhole() {
    BatchRules rules = rules(64, 100).withChunking(Chunking.FORCE_CHUNK, 10);
    try (BatchRun run = new BatchRun(rules, 4)) {
      run.request(30, 2);
      run.step();
      assertThat(run.position(0)).isEqualTo(30);
    }
  }

  // ---------------------------------------------------------------------------- order

  @Test
  void batchesAreSortedByAdapterAndOtherwiseKeepTheirOrder() {
    try (SchedulingTable table = new SchedulingTable(TableShape.of(8).withAdapters(3))) {
      int[] adapters = {2, -1, 0, 2, -1, 1, 0, -1};
      for (int row = 0; row < adapters.length; row++) {
        table.begin(row, row, RequestState.GENERATION, 4, 9);
        table.context(row, 4, 0);
        table.adapter(row, adapters[row]);
        table.markDirty(row);
        table.enter(row);
      }
      MicroBatch batch = MicroBatchScheduler.of(table, rules(64, NO_LIMIT)).schedule();
      assertThat(Lines.ids(table, batch.generations(), batch::generation))
          .containsExactly(1, 4, 7, 2, 6, 5, 0, 3);
      assertThat(Set.copyOf(Lines.ids(table, batch.generations(), batch::generation))).hasSize(8);
    }
  }
}
