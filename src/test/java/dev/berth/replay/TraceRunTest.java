// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.capacity.Chunking;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillGate;
import dev.berth.engine.KvSetup;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.WaitReason;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class TraceRunTest {
  private static final CostModel COST = new CostModel(1, 0, 1000);
  private static final TransferModel TRANSFER = new TransferModel(500, 2);

  private static SeatPlan plan(WorkerShape.Builder shape) {
    return ((PlanOutcome.Planned) SeatPlan.of(shape.build(), SeatPolicy.UNIFIED)).plan();
  }

  private static WorkerShape.Builder shape(int batch, int ranks) {
    return WorkerShape.builder(batch)
        .ranks(ranks)
        .maxNumTokens(8192)
        .transferBackend("NIXL")
        .with(Trait.ATTENTION_DP, Trait.OVERLAP);
  }

  private static ServerStage stage(String name, WorkerRole role, SeatPlan plan, int servers) {
    return new ServerStage(name, EngineConfig.of(plan, role), servers, COST, TRANSFER);
  }

  private static Trace random(int requests, long gapTicks) {
    var random = new SplittableRandom(7);
    var builder = new Trace.Builder("random", Trace.Format.AZURE);
    long at = 0;
    for (int i = 0; i < requests; i++) {
      at += random.nextLong(gapTicks);
      builder.add(at, 1 + random.nextInt(4000), 1 + random.nextInt(60));
    }
    return builder.build(Optional.empty());
  }

  private static Trace one(int prompt, int output) {
    var builder = new Trace.Builder("one", Trace.Format.AZURE);
    builder.add(0, prompt, output);
    return builder.build(Optional.empty());
  }

  private static TraceResult run(Trace trace, ServerStage... stages) {
    return TraceRun.run(
        trace, List.of(stages), new TraceArrivals(trace, 1, trace.requests()), Progress.NONE);
  }

  /**
   * Prompt 100: 1100 µs, then three forwards of one token. Overlap hides nothing here: the cost
   * model is serial.
   */
  @Test
  void aSingleRequestTakesTheTimeOfItsForwards() {
    TraceResult result =
        run(one(100, 4), stage("agg", WorkerRole.AGGREGATED, plan(shape(4, 1)), 1));
    assertThat(result.complete()).isTrue();
    assertThat(result.times().timeToFirstToken()).containsExactly(1100);
    assertThat(result.times().endToEnd()).containsExactly(1100 + 3 * 1001);
    assertThat(result.times().timePerOutputToken()).containsExactly(1001);
    assertThat(result.outputTokens()).isEqualTo(4);
  }

  /**
   * The context server makes the first token. The transfer takes 500 + 2·100 µs; meanwhile the
   * generation rank runs a forward of padding, since attention DP keeps the fleet going. Three
   * tokens follow.
   */
  @Test
  void aRequestGoesThroughContextTransferAndGeneration() {
    TraceResult result =
        run(
            one(100, 4),
            stage("ctx", WorkerRole.CONTEXT, plan(shape(4, 1)), 1),
            stage("gen", WorkerRole.GENERATION, plan(shape(4, 1)), 1));
    assertThat(result.complete()).isTrue();
    assertThat(result.times().timeToFirstToken()).containsExactly(1100);
    assertThat(result.times().endToEnd()).containsExactly(1100 + 1001 + 3 * 1001);
    assertThat(result.outputTokens()).isEqualTo(4);
    assertThat(result.stages().getLast().requests()).isEqualTo(1);
  }

  @Test
  void aRequestOfOneTokenIsDoneWithItsPrompt() {
    TraceResult result =
        run(
            one(100, 1),
            stage("ctx", WorkerRole.CONTEXT, plan(shape(4, 1)), 1),
            stage("gen", WorkerRole.GENERATION, plan(shape(4, 1)), 1));
    assertThat(result.complete()).isTrue();
    assertThat(result.done()).isEqualTo(1);
    assertThat(result.stages().getLast().requests()).isZero();
    assertThat(result.times().endToEnd()).containsExactly(1100);
  }

  @Test
  void everyRequestIsAccountedForAndEveryTokenIsMade() {
    Trace trace = random(3000, 20_000);
    TraceResult result =
        run(
            trace,
            stage("ctx", WorkerRole.CONTEXT, plan(shape(2, 2)), 3),
            stage("gen", WorkerRole.GENERATION, plan(shape(16, 4)), 2));
    assertThat(result.complete()).isTrue();
    assertThat(result.done()).isEqualTo(3000);
    long wanted = 0;
    for (int i = 0; i < trace.requests(); i++) {
      wanted += trace.outputTokens(i);
    }
    assertThat(result.outputTokens()).isEqualTo(wanted);
    assertThat(result.times().timeToFirstToken()).hasSize(3000);
    for (int tag = 0; tag < 3000; tag++) {
      assertThat(result.times().firstTokenAt(tag)).isGreaterThan(trace.arrivalMicros(tag));
      assertThat(result.times().endedAt(tag))
          .isGreaterThanOrEqualTo(result.times().firstTokenAt(tag));
    }
    for (StageResult stage : result.stages()) {
      assertThat(stage.unaccounted()).isZero();
      assertThat(stage.servers()).allSatisfy(server -> assertThat(server.leaked()).isZero());
      assertThat(stage.servers()).allSatisfy(server -> assertThat(server.done()).isPositive());
    }
  }

  @Test
  void theSameTraceGivesTheSameDecisionsAndTimes() {
    Trace trace = random(500, 20_000);
    TraceResult a = run(trace, stage("agg", WorkerRole.AGGREGATED, plan(shape(8, 2)), 3));
    TraceResult b = run(trace, stage("agg", WorkerRole.AGGREGATED, plan(shape(8, 2)), 3));
    assertThat(a.times().endToEnd()).containsExactly(b.times().endToEnd());
    assertThat(decisions(a)).isEqualTo(decisions(b));
  }

  private static List<Integer> decisions(TraceResult result) {
    return result.stages().getFirst().servers().stream().map(RunResult::decisions).toList();
  }

  /** Four equal requests at once: each of the four servers gets one, the lowest number first. */
  @Test
  void aRequestGoesToTheServerWithTheFewestOutstandingTokens() {
    var builder = new Trace.Builder("burst", Trace.Format.AZURE);
    builder.add(0, 1000, 5);
    builder.add(0, 10, 5);
    builder.add(0, 10, 5);
    builder.add(0, 10, 5); // servers 1 and 2 have 15 tokens, server 0 has 1005
    Trace trace = builder.build(Optional.empty());
    TraceResult result = run(trace, stage("agg", WorkerRole.AGGREGATED, plan(shape(8, 1)), 3));
    assertThat(result.stages().getFirst().servers().stream().map(RunResult::sent))
        .containsExactly(1, 2, 1);
  }

  @Test
  void endedRequestsNoLongerCountForTheirServer() {
    var builder = new Trace.Builder("two", Trace.Format.AZURE);
    builder.add(0, 1000, 5);
    builder.add(10_000_000, 10, 5); // a second later server 0 is free again
    Trace trace = builder.build(Optional.empty());
    TraceResult result = run(trace, stage("agg", WorkerRole.AGGREGATED, plan(shape(8, 1)), 2));
    assertThat(result.stages().getFirst().servers().stream().map(RunResult::sent))
        .containsExactly(2, 0);
  }

  @Test
  void whatCanNeverFitIsRefusedByNameAndCounted() {
    var builder = new Trace.Builder("long", Trace.Format.AZURE);
    builder.add(0, 9000, 5); // passes max_num_tokens without chunking
    builder.add(0, 100, 5);
    builder.add(0, 2000, 8000); // passes max_seq_len
    builder.add(0, 2000, 3000); // passes the pages
    Trace trace = builder.build(Optional.empty());
    EngineConfig base =
        EngineConfig.of(
            plan(shape(8, 1).maxSeqLen(9500).tokensPerBlock(32)), WorkerRole.AGGREGATED);
    var engine = base.withKv(KvSetup.counted(100));
    TraceResult result = run(trace, new ServerStage("agg", engine, 1, COST, TRANSFER));
    assertThat(result.complete()).isTrue();
    assertThat(result.done()).isEqualTo(1);
    assertThat(result.stages().getFirst().totals().refusedByReason())
        .isEqualTo(java.util.Map.of("tokens", 2L, "pages", 1L));
    assertThat(result.stages().getFirst().totals().refusals())
        .contains(
            "request 2 (prompt 2000, output 8000) can never run: tokens needed 10000, there are 9500");
  }

  /** Outstanding requests keep their order however few are let in. */
  @Test
  void aClosedLoopNeverHasMoreThanItsConcurrencyInTheSystem() {
    Trace trace = random(200, 10);
    ServerStage stage = stage("agg", WorkerRole.AGGREGATED, plan(shape(8, 2)), 2);
    TraceResult result =
        TraceRun.run(trace, List.of(stage), new ClosedTraceArrivals(trace, 5, 1000), Progress.NONE);
    assertThat(result.complete()).isTrue();
    assertThat(result.done()).isEqualTo(1000);
    double[] arrived = new double[1000];
    double[] ended = new double[1000];
    for (int tag = 0; tag < 1000; tag++) {
      arrived[tag] = result.times().arrivedAt(tag);
      ended[tag] = result.times().endedAt(tag);
    }
    for (double at : arrived) {
      int inSystem = 0;
      for (int tag = 0; tag < 1000; tag++) {
        inSystem += arrived[tag] <= at && ended[tag] > at ? 1 : 0;
      }
      assertThat(inSystem).isLessThanOrEqualTo(5);
    }
  }

  @Test
  void aFleetThatCannotGoOnStopsAndSaysWhoWaitsForWhat() {
    EngineConfig base = EngineConfig.of(plan(shape(4, 2)), WorkerRole.GENERATION);
    var gated = base.toBuilder().gate(new FillGate(FillGate.Kind.COUNT, 8)).build();
    TraceResult result = run(random(5, 10), new ServerStage("gen", gated, 1, COST, TRANSFER));
    assertThat(result.ending()).isEqualTo(RunResult.Ending.STALLED);
    assertThat(result.complete()).isFalse();
    assertThat(result.unaccounted()).isEqualTo(5);
    assertThat(result.stages().getFirst().waits())
        .singleElement()
        .asString()
        .startsWith("gen server 0: the count gate is closed: target 8, fetched 5; rank 0: ");
  }

  @Test
  void anInterruptedRunTellsWhatWasKnownByThen() {
    Trace trace = random(1000, 20_000);
    var progress =
        new Progress() {
          private long ended;

          @Override
          public void ended(long now) {
            ended = now;
          }

          @Override
          public boolean interrupted() {
            return ended >= 100;
          }
        };
    TraceResult result =
        TraceRun.run(
            trace,
            List.of(
                stage("ctx", WorkerRole.CONTEXT, plan(shape(2, 2)), 1),
                stage("gen", WorkerRole.GENERATION, plan(shape(16, 4)), 1)),
            new TraceArrivals(trace, 1, 1000),
            progress);
    assertThat(result.ending()).isEqualTo(RunResult.Ending.INTERRUPTED);
    assertThat(result.complete()).isFalse();
    assertThat(result.times().timeToFirstToken()).hasSizeBetween(100, 999);
  }

  @Test
  void chunkedContextsAreSplitInsteadOfRefused() {
    EngineConfig base = EngineConfig.of(plan(shape(8, 1)), WorkerRole.AGGREGATED);
    var chunked = base.toBuilder().chunkedContext(Chunking.FIRST_COME_FIRST_SERVED).build();
    TraceResult result = run(one(20_000, 2), new ServerStage("agg", chunked, 1, COST, TRANSFER));
    assertThat(result.complete()).isTrue();
    // 8192 + 8192 + 3616 tokens in three forwards
    assertThat(result.times().timeToFirstToken()).containsExactly(3 * 1000 + 20_000);
  }

  @Test
  void occupancyIsTheMeanShareOfBatchPositionsOverForwards() {
    TraceResult result =
        run(one(100, 4), stage("agg", WorkerRole.AGGREGATED, plan(shape(4, 2)), 1));
    Occupancy occupancy = result.stages().getFirst().occupancy().getFirst();
    assertThat(occupancy.forwards()).isEqualTo(4);
    assertThat(occupancy.occupancy(0)).isEqualTo(0.25);
    assertThat(occupancy.meanBatch(1)).isZero();
    assertThat(occupancy.padded(1)).isEqualTo(4);
    assertThat(result.stages().getFirst().totals().deferrals(WaitReason.SEAT)).isZero();
  }
}
