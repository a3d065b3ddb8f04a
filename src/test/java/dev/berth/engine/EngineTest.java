// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Prompt;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletionStage;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The engine as who serves requests sees it, driven by the test's own loop where order matters. */
class EngineTest {
  private static final int LONGEST = 64;

  static EngineConfig config(int ranks, int batch, Trait... traits) {
    var shape =
        WorkerShape.builder(batch)
            .ranks(ranks)
            .maxSeqLen(LONGEST)
            .with(Trait.ATTENTION_DP)
            .with(traits)
            .build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    return EngineConfig.of(plan, WorkerRole.AGGREGATED);
  }

  static EngineConfig config() {
    return config(2, 2, Trait.OVERLAP);
  }

  static EngineConfig pipeline(int ranks, int batch, int stages) {
    var shape =
        WorkerShape.builder(batch)
            .ranks(ranks)
            .pipelineSize(stages)
            .maxSeqLen(LONGEST)
            .with(Trait.ATTENTION_DP, Trait.OVERLAP)
            .build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    return EngineConfig.of(plan, WorkerRole.AGGREGATED);
  }

  static List<Integer> ints(MemorySegment column, int n) {
    return IntStream.range(0, n).mapToObj(i -> column.getAtIndex(JAVA_INT, i)).toList();
  }

  /** One step and its commit: every position that makes a token makes its request's id. */
  static StepPlan step(Engine engine, long nowMicros) {
    StepPlan plan = engine.step(nowMicros);
    say(plan);
    engine.commit(plan.result());
    return plan;
  }

  private static void say(StepPlan plan) {
    for (BatchView batch : plan.dues()) {
      for (int i = 0; i < batch.size(); i++) {
        if (batch.makesToken(i)) {
          plan.result().token(batch, i, (int) batch.ids().getAtIndex(JAVA_LONG, i));
        }
      }
    }
  }

  /** Steps until nothing that was submitted is left. */
  static void run(Engine engine) {
    StepPlan plan = step(engine, 0);
    for (int i = 0; !plan.idle(); i++) {
      assertThat(i).as("it comes to an end").isLessThan(10_000);
      plan = step(engine, 0);
    }
  }

  static List<Integer> read(TokenStream stream) {
    var all = new ArrayList<Integer>();
    for (int token = stream.poll(); token >= 0; token = stream.poll()) {
      all.add(token);
    }
    return all;
  }

  static Ending ending(RequestHandle handle) {
    return handle.ended().orElseThrow().ending();
  }

  private static Submission.Reason reason(RequestHandle handle) {
    var refused = (Ending.Refused) ending(handle);
    return ((Submission.Refused) refused.why()).reason();
  }

  @Nested
  class AnOrdinaryRequest {
    @Test
    void runsToItsLimitAndItsTokensCanBeRead() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(7, 5, 4).withTag(99));
        assertThat(handle.submission()).isEqualTo(Submission.ACCEPTED);
        run(engine);
        assertThat(handle.ended()).contains(new RequestResult(7, 99, Ending.FINISHED, List.of(4)));
        assertThat(read(handle.tokens())).containsExactly(7, 7, 7, 7);
        assertThat(handle.tokens().poll()).isEqualTo(TokenStream.END);
      }
    }

    @Test
    void endsEarlyWhereItsModelSays() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(7, 5, 40));
        for (StepPlan plan = engine.step(0); !plan.idle(); plan = engine.step(0)) {
          for (BatchView batch : plan.dues()) {
            for (int i = 0; i < batch.size(); i++) {
              if (batch.makesToken(i)) {
                int token = batch.table().generatedTokens(batch.row(i));
                plan.result().token(batch, i, token);
                if (token == 2) {
                  plan.result().end(batch, i);
                }
              }
            }
          }
          engine.commit(plan.result());
        }
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
        assertThat(handle.ended().orElseThrow().outputTokens()).containsExactly(3);
        assertThat(read(handle.tokens())).containsExactly(0, 1, 2);
      }
    }

    @Test
    void runsOnAThreadOfTheEnginesOwn() {
      try (Engine engine = Engine.builder(config()).start(setup -> new Numbers())) {
        List<RequestHandle> handles =
            IntStream.range(0, 50).mapToObj(id -> engine.submit(Request.of(id, 3, 5))).toList();
        for (RequestHandle handle : handles) {
          RequestResult result = handle.result().toCompletableFuture().join();
          assertThat(result.ending()).isEqualTo(Ending.FINISHED);
          assertThat(read(handle.tokens())).containsExactly(0, 1, 2, 3, 4);
        }
        assertThatThrownBy(() -> engine.step(0))
            .isInstanceOfSatisfying(
                BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.STATE));
      }
    }

    @Test
    void findsEverythingDoneAfterAPreload() {
      Engine.preload();
      Engine.preload();
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(7, 5, 4));
        run(engine);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void givesItsIdBackWhenItHasEnded() {
      try (Engine engine = Engine.builder(config()).open()) {
        for (int i = 0; i < 5; i++) {
          RequestHandle handle = engine.submit(Request.of(1, 5, 2));
          for (int n = 0; n < 20 && handle.ended().isEmpty(); n++) {
            step(engine, 0);
          }
          assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
        }
      }
    }
  }

  /** Says of each position how many tokens its sequence had made. */
  static final class Numbers implements ModelRunner {
    @Override
    public void launch(BatchView batch) {}

    @Override
    public void collect(BatchView batch, BatchResults results) {
      for (int i = 0; i < batch.size(); i++) {
        if (batch.makesToken(i)) {
          results.token(i, batch.table().outputTokens(batch.row(i)));
        }
      }
    }
  }

  // ---- what an engine doesn't take -------------------------------------------------------------

  @Nested
  class BadInput {
    @Test
    void tokensOfAnotherSizeOrBelowMinusOneAreRefusedAndChangeNothing() {
      var said = new ArrayList<BerthException.Code>();
      class Wrong implements ModelRunner {
        @Override
        public void launch(BatchView batch) {}

        private void refused(BatchResults results, int... tokens) {
          try {
            results.tokens(MemorySegment.ofArray(tokens));
          } catch (BerthException e) {
            said.add(e.code());
          }
        }

        @Override
        public void collect(BatchView batch, BatchResults results) {
          refused(results, new int[batch.size() + 1]);
          refused(results, new int[batch.size() - 1]);
          int[] below = new int[batch.size()];
          below[0] = -2;
          refused(results, below);
          results.tokens(MemorySegment.ofArray(IntStream.range(7, 7 + batch.size()).toArray()));
        }
      }
      try (Engine engine = Engine.builder(config()).start(setup -> new Wrong())) {
        RequestHandle handle = engine.submit(Request.of(1, 4, 1));
        assertThat(handle.result().toCompletableFuture().join().finished()).isTrue();
        assertThat(handle.tokens().poll()).isEqualTo(7);
      }
      assertThat(said).isNotEmpty().containsOnly(BerthException.Code.ARGUMENT);
      assertThat(said.size() % 3).isZero();
    }

    private void refuses(Submission.Reason reason, Request bad) {
      try (Engine engine =
          Engine.builder(config()).vocabulary(100).adapters(3, 0).waiting(16).open()) {
        RequestHandle good = engine.submit(Request.of(1, 4, 3).withPrompt(Prompt.of(0, 99, 7, 7)));
        RequestHandle handle = engine.submit(bad);
        run(engine);
        assertThat(reason(handle)).isEqualTo(reason);
        assertThat(handle.tokens().poll()).isEqualTo(TokenStream.END);
        assertThat(handle.result().toCompletableFuture()).isCompleted();
        assertThat(ending(good)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void aPromptWithoutATokenIsRefused() {
      refuses(Submission.Reason.PROMPT, Request.of(2, 0, 3));
    }

    @ParameterizedTest
    @ValueSource(ints = {LONGEST, LONGEST + 1, Integer.MAX_VALUE})
    void aRequestLongerThanASequenceMayBeIsRefused(int prompt) {
      refuses(Submission.Reason.LENGTH, Request.of(2, prompt, 1));
    }

    @Test
    void anOutputLimitThatNothingReachesIsRefused() {
      refuses(Submission.Reason.LENGTH, Request.of(2, 1, Integer.MAX_VALUE));
    }

    @Test
    void oneAsLongAsASequenceMayBeIsTaken() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(2, LONGEST - 1, 1));
        run(engine);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void lengthsThatAreNoneCannotEvenBeAskedFor() {
      assertThatThrownBy(() -> Request.of(1, -1, 1)).isInstanceOf(BerthException.class);
      assertThatThrownBy(() -> Request.of(1, 1, 0)).isInstanceOf(BerthException.class);
      assertThatThrownBy(() -> Request.of(1, 1, -5)).isInstanceOf(BerthException.class);
    }

    @ParameterizedTest
    @ValueSource(ints = {-1, 100, Integer.MIN_VALUE, Integer.MAX_VALUE})
    void aTokenThatTheModelDoesNotHaveIsRefused(int token) {
      Prompt prompt = Prompt.of(1, 2, token);
      refuses(
          Submission.Reason.TOKEN,
          new Request(
              2,
              3,
              3,
              0.5,
              SchedulingParams.NONE,
              0,
              0,
              ServiceTerms.NONE,
              RouteKey.NONE,
              prompt,
              0));
    }

    @Test
    void anAdapterThatTheEngineDoesNotHaveIsRefused() {
      refuses(
          Submission.Reason.ADAPTER, Request.of(2, 1, 3).withPrompt(Prompt.of(1).withAdapter(4)));
    }

    @Test
    void adaptersComeAndGo() {
      try (Engine engine = Engine.builder(config()).open()) {
        Request request = Request.of(2, 1, 3).withPrompt(Prompt.of(1).withAdapter(0));
        assertThat(reason(engine.submit(request))).isEqualTo(Submission.Reason.ADAPTER);
        engine.addAdapter(0);
        RequestHandle taken = engine.submit(request);
        engine.removeAdapter(0);
        assertThat(reason(engine.submit(request))).isEqualTo(Submission.Reason.ADAPTER);
        run(engine);
        assertThat(ending(taken)).isEqualTo(Ending.FINISHED);
      }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 1000, Integer.MAX_VALUE})
    void aTargetRankThatDoesNotExistIsRefused(int rank) {
      refuses(
          Submission.Reason.TARGET_RANK,
          Request.of(2, 1, 3).withScheduling(SchedulingParams.target(rank, Relax.RELAXED)));
    }

    @Test
    void moreSequencesThanTheRanksTakeAreRefused() {
      refuses(
          Submission.Reason.SEQUENCES,
          new Request(2, 1, 1, 0.5, SchedulingParams.NONE, Request.MAX_CHILDREN, 0));
    }

    @Test
    void encoderInputIsRefusedWhereNobodyRunsEncoders() {
      refuses(Submission.Reason.OTHER, Request.of(2, 1, 3).withEncoder(576));
    }

    @Test
    void anIdThatLivesIsRefusedAndTheFirstOneIsNotTouched() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle first = engine.submit(Request.of(5, 3, 10));
        step(engine, 0);
        RequestHandle second = engine.submit(Request.of(5, 3, 2));
        RequestHandle third = engine.submit(Request.of(5, 3, 2));
        step(engine, 0);
        assertThat(reason(second)).isEqualTo(Submission.Reason.DUPLICATE);
        assertThat(reason(third)).isEqualTo(Submission.Reason.DUPLICATE);
        run(engine);
        assertThat(first.ended().orElseThrow().outputTokens()).containsExactly(10);
      }
    }

    @Test
    void whatDoesNotFitInTheQueueIsToldSoAndLaterThereIsRoom() {
      try (Engine engine = Engine.builder(config()).waiting(3).open()) {
        var handles = new ArrayList<RequestHandle>();
        for (int id = 0; id < 5; id++) {
          handles.add(engine.submit(Request.of(id, 3, 2)));
        }
        assertThat(handles.stream().map(RequestHandle::submission))
            .containsExactly(
                Submission.ACCEPTED,
                Submission.ACCEPTED,
                Submission.ACCEPTED,
                new Submission.QueueFull(3),
                new Submission.QueueFull(3));
        step(engine, 0); // all three are on ranks now
        for (int id = 5; id < 8; id++) {
          assertThat(engine.submit(Request.of(id, 3, 2)).submission())
              .isEqualTo(Submission.ACCEPTED);
        }
        assertThat(engine.submit(Request.of(8, 3, 2)).submission())
            .isEqualTo(new Submission.QueueFull(3));
        run(engine);
      }
    }

    @Test
    void aDrainingEngineTakesNothingAndFinishesWhatItHas() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 5));
        CompletionStage<Void> drained = engine.drain();
        RequestHandle late = engine.submit(Request.of(2, 3, 5));
        assertThat(late.submission()).isEqualTo(Submission.DRAINING);
        assertThat(ending(late)).isEqualTo(new Ending.Refused(Submission.DRAINING));
        assertThat(engine.drained()).isFalse();
        run(engine);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
        assertThat(engine.drained()).isTrue();
        drained.toCompletableFuture().join();
      }
    }

    @Test
    void aClosedEngineTakesNothing() {
      Engine engine = Engine.builder(config()).open();
      engine.close();
      RequestHandle late = engine.submit(Request.of(2, 3, 5));
      assertThat(late.submission()).isEqualTo(Submission.CLOSED);
      assertThat(ending(late)).isEqualTo(new Ending.Refused(Submission.CLOSED));
      late.cancel();
      engine.close();
      engine.drain().toCompletableFuture().join();
      assertThatThrownBy(() -> engine.step(0))
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CLOSED));
    }

    @Test
    void aCallbackThatThrowsIsItsOwnersAffair() {
      try (Engine engine = Engine.builder(config()).callbacks(Runnable::run).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 2));
        CompletionStage<Object> after =
            handle
                .result()
                .thenApply(result -> {
                  throw new IllegalStateException("the caller's");
                });
        RequestHandle other = engine.submit(Request.of(2, 3, 2));
        run(engine);
        assertThat(after.toCompletableFuture()).isCompletedExceptionally();
        assertThat(ending(other)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void anExecutorThatRefusesLosesNoResult() {
      try (Engine engine =
          Engine.builder(config())
              .callbacks(task -> {
                throw new IllegalStateException("full");
              })
              .open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 2));
        CompletionStage<RequestResult> result = handle.result();
        run(engine);
        assertThat(result.toCompletableFuture().join().finished()).isTrue();
      }
    }
  }

  // ---- cancellation ----------------------------------------------------------------------------

  @Nested
  class ACancellation {
    /** 0: before the engine looked; then after as many steps: waiting, context, generation ... */
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6})
    void endsTheRequestOnceWhereverItIs(int steps) {
      try (Engine engine = Engine.builder(config(1, 1, Trait.OVERLAP)).open()) {
        RequestHandle first = engine.submit(Request.of(1, 3, 4));
        RequestHandle second = engine.submit(Request.of(2, 3, 4));
        for (int i = 0; i < steps; i++) {
          step(engine, 0);
        }
        second.cancel();
        second.cancel();
        run(engine);
        assertThat(ending(first)).isEqualTo(Ending.FINISHED);
        assertThat(ending(second)).isIn(Ending.FINISHED, new Ending.Cancelled(Ending.By.CALLER));
        int read = read(second.tokens()).size();
        assertThat(read).isLessThanOrEqualTo(4);
        RequestHandle again = engine.submit(Request.of(2, 3, 4));
        run(engine);
        assertThat(ending(again)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void ofARunningRequestGivesNoFurtherToken() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 40));
        for (int i = 0; i < 6; i++) {
          step(engine, 0);
        }
        int read = read(handle.tokens()).size();
        assertThat(read).isPositive();
        handle.cancel();
        run(engine);
        assertThat(read(handle.tokens())).isEmpty();
        assertThat(ending(handle)).isEqualTo(new Ending.Cancelled(Ending.By.CALLER));
        assertThat(handle.tokens().ending()).contains(ending(handle));
      }
    }

    @Test
    void afterTheEndChangesNothing() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 2));
        run(engine);
        handle.cancel();
        step(engine, 0);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
      }
    }
  }

  // ---- batches that break ----------------------------------------------------------------------

  /** Where a runner of one rank throws, once. */
  enum Break {
    LAUNCH,
    COLLECT
  }

  @Nested
  class ABatchThatBreaks {
    @ParameterizedTest
    @EnumSource
    void failsItsRequestsAloneWithOverlap(Break where) {
      failsAlone(config(4, 2, Trait.OVERLAP), where);
    }

    @ParameterizedTest
    @EnumSource
    void failsItsRequestsAloneWithoutOverlap(Break where) {
      failsAlone(config(4, 2), where);
    }

    /** One request a rank; rank 1's third batch breaks. */
    private void failsAlone(EngineConfig config, Break where) {
      try (Engine engine = Engine.builder(config).open()) {
        List<RequestHandle> handles =
            IntStream.range(0, 4)
                .mapToObj(rank ->
                    engine.submit(
                        Request.of(rank, 3, 8)
                            .withScheduling(SchedulingParams.target(rank, Relax.STRICT))))
                .toList();
        var cause = new IllegalStateException("the device");
        int broken = 0;
        for (int i = 0; i < 3; i++) {
          step(engine, 0);
        }
        StepPlan plan = engine.step(0);
        say(plan);
        List<BatchView> batches = where == Break.LAUNCH ? plan.launches() : plan.dues();
        for (BatchView batch : batches) {
          if (batch.rank() == 1) {
            broken++;
            if (where == Break.LAUNCH) {
              plan.result().notLaunched(batch, cause);
            } else {
              plan.result().lost(batch, cause);
            }
          }
        }
        engine.commit(plan.result());
        assertThat(broken).isEqualTo(1);
        plan = step(engine, 0);
        assertThat(plan.launches()).as("all ranks take the same branch").isEmpty();
        run(engine);
        for (int rank = 0; rank < 4; rank++) {
          if (rank == 1) {
            assertThat(ending(handles.get(rank)))
                .isInstanceOfSatisfying(
                    Ending.Failed.class, e -> assertThat(e.cause()).contains(cause));
            assertThat(handles.get(rank).ended().orElseThrow().outputTokens())
                .as("what was lost isn't counted")
                .containsExactly(read(handles.get(rank).tokens()).size());
          } else {
            assertThat(ending(handles.get(rank))).as("rank %d", rank).isEqualTo(Ending.FINISHED);
            assertThat(read(handles.get(rank).tokens())).hasSize(8);
          }
        }
        RequestHandle after = engine.submit(Request.of(1, 3, 3));
        run(engine);
        assertThat(ending(after)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void onePositionFailsAlone() {
      try (Engine engine = Engine.builder(config(1, 2, Trait.OVERLAP)).open()) {
        RequestHandle first = engine.submit(Request.of(1, 3, 6));
        RequestHandle second = engine.submit(Request.of(2, 3, 6));
        for (StepPlan plan = engine.step(0); !plan.idle(); plan = engine.step(0)) {
          for (BatchView batch : plan.dues()) {
            for (int i = 0; i < batch.size(); i++) {
              boolean bad = batch.ids().getAtIndex(JAVA_LONG, i) == 1;
              if (bad && batch.table().outputTokens(batch.row(i)) == 2) {
                plan.result().fail(batch, i);
              } else if (batch.makesToken(i)) {
                plan.result().token(batch, i, 1);
              }
            }
          }
          engine.commit(plan.result());
        }
        assertThat(ending(first)).isInstanceOf(Ending.Failed.class);
        assertThat(read(first.tokens())).hasSize(2);
        assertThat(ending(second)).isEqualTo(Ending.FINISHED);
      }
    }

    /** Every batch of rank 0 breaks: its requests fail, those of rank 1 don't. */
    @Test
    void againAndAgainStopsNobodyElse() {
      ModelRunner.Factory models =
          setup ->
              setup.rank() == 1
                  ? new Numbers()
                  : new ModelRunner() {
                    @Override
                    public void launch(BatchView batch) {
                      throw new AssertionError("a bug in a model");
                    }

                    @Override
                    public void collect(BatchView batch, BatchResults results) {}
                  };
      try (Engine engine = Engine.builder(config()).start(models)) {
        var handles = new ArrayList<RequestHandle>();
        for (int id = 0; id < 40; id++) {
          handles.add(
              engine.submit(
                  Request.of(id, 3, 5)
                      .withScheduling(SchedulingParams.target(id % 2, Relax.STRICT))));
        }
        for (RequestHandle handle : handles) {
          Ending ending = handle.result().toCompletableFuture().join().ending();
          if (handle.id() % 2 == 1) {
            assertThat(ending).isEqualTo(Ending.FINISHED);
          } else {
            assertThat(ending).isInstanceOf(Ending.Failed.class);
          }
        }
        assertThat(engine.failure()).isEqualTo(Optional.empty());
      }
    }
  }

  // ---- the end ---------------------------------------------------------------------------------

  @Nested
  class Closing {
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 5})
    void atOnceCancelsWhatLives(int steps) {
      Engine engine = Engine.builder(config(1, 1, Trait.OVERLAP)).open();
      RequestHandle first = engine.submit(Request.of(1, 3, 30));
      RequestHandle second = engine.submit(Request.of(2, 3, 30));
      for (int i = 0; i < steps; i++) {
        step(engine, 0);
      }
      engine.closeNow();
      assertThat(ending(first)).isEqualTo(new Ending.Cancelled(Ending.By.CLOSE));
      assertThat(ending(second)).isEqualTo(new Ending.Cancelled(Ending.By.CLOSE));
      assertThat(engine.closed()).isTrue();
    }

    @Test
    void whileAPlanIsOutIsDoneByItsCommit() {
      Engine engine = Engine.builder(config()).open();
      RequestHandle handle = engine.submit(Request.of(1, 3, 30));
      StepPlan plan = engine.step(0);
      engine.closeNow();
      assertThat(engine.closed()).isFalse();
      engine.commit(plan.result());
      assertThat(engine.closed()).isTrue();
      assertThat(ending(handle)).isEqualTo(new Ending.Cancelled(Ending.By.CLOSE));
    }

    @Test
    void withAThreadOfItsOwnFinishesWhatWasAccepted() {
      Engine engine = Engine.builder(config()).start(setup -> new Numbers());
      List<RequestHandle> handles =
          IntStream.range(0, 30).mapToObj(id -> engine.submit(Request.of(id, 3, 9))).toList();
      engine.close();
      assertThat(handles).allSatisfy(h -> assertThat(ending(h)).isEqualTo(Ending.FINISHED));
      assertThat(engine.closed()).isTrue();
    }

    @Test
    void closesItsModelsBeforeTheirMemoryGoes() {
      var seen = new ArrayList<String>();
      ModelRunner.Factory models =
          setup ->
              new ModelRunner() {
                @Override
                public void launch(BatchView batch) {}

                @Override
                public void collect(BatchView batch, BatchResults results) {}

                @Override
                public void close() {
                  synchronized (seen) {
                    seen.add(setup.rank() + ": " + setup.table().id(0));
                  }
                  throw new IllegalStateException("and one that can't");
                }
              };
      Engine.builder(config()).start(models).close();
      assertThat(seen).containsExactly("0: 0", "1: 0");
    }

    @Test
    void aCommitWithoutAPlanIsMisuse() {
      try (Engine engine = Engine.builder(config()).open();
          Engine other = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 3));
        StepPlan plan = engine.step(0);
        assertThatThrownBy(() -> engine.step(0)).hasMessageContaining("a plan is out");
        assertThatThrownBy(() -> other.commit(plan.result())).hasMessageContaining("another");
        engine.commit(plan.result());
        assertThatThrownBy(() -> engine.commit(plan.result())).hasMessageContaining("no plan");
        run(engine);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
      }
    }
  }
}
