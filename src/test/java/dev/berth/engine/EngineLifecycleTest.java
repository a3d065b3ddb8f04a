// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static dev.berth.engine.EngineTest.config;
import static dev.berth.engine.EngineTest.ending;
import static dev.berth.engine.EngineTest.read;
import static dev.berth.engine.EngineTest.run;
import static dev.berth.engine.EngineTest.step;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.plan.Trait;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Several sequences of a request, times, limits that change, ranks that drain. */
class EngineLifecycleTest {
  private static Request several(long id, int children, int output) {
    return new Request(id, 3, output, Request.DEFAULT_PRIORITY, SchedulingParams.NONE, children, 0);
  }

  private static Request on(int rank, long id, int output) {
    return Request.of(id, 3, output).withScheduling(SchedulingParams.target(rank, Relax.STRICT));
  }

  @Nested
  class SeveralSequences {
    @Test
    void eachHasARowASeatAndAStream() {
      try (Engine engine = Engine.builder(config(1, 4, Trait.OVERLAP)).open()) {
        RequestHandle handle = engine.submit(several(7, 2, 5));
        StepPlan plan = engine.step(0);
        BatchView batch = plan.launches().getFirst();
        assertThat(batch.size()).isEqualTo(3);
        assertThat(EngineTest.ints(batch.children(), 3)).containsExactly(0, 1, 2);
        assertThat(EngineTest.ints(batch.seats(), 3)).doesNotHaveDuplicates();
        assertThat(EngineTest.ints(batch.leases(), 3)).doesNotHaveDuplicates();
        engine.commit(plan.result());
        run(engine);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
        assertThat(handle.ended().orElseThrow().outputTokens()).containsExactly(5, 5, 5);
        for (int child = 0; child < 3; child++) {
          assertThat(handle.tokens(child).child()).isEqualTo(child);
          assertThat(handle.tokens(child).ending()).contains(Ending.FINISHED);
        }
        assertThatThrownBy(() -> handle.tokens(3)).isInstanceOf(BerthException.class);
      }
    }

    /** Spec 06 BC-26, with its numbers: four slots, four requests of 1 + 2 sequences. */
    @ParameterizedTest
    @ValueSource(ints = {4, 6})
    void takeAllTheirSlotsOrNone(int slots) {
      try (Engine engine = Engine.builder(config(1, slots)).open()) {
        List<RequestHandle> handles =
            IntStream.range(0, 4).mapToObj(id -> engine.submit(several(id, 2, 3))).toList();
        for (StepPlan plan = engine.step(0); !plan.idle(); plan = engine.step(0)) {
          for (BatchView batch : plan.launches()) {
            assertThat(batch.size()).isEqualTo(3 * Math.min(slots / 3, left(handles)));
          }
          engine.commit(plan.result());
        }
        assertThat(handles).allSatisfy(h -> assertThat(ending(h)).isEqualTo(Ending.FINISHED));
      }
    }

    private static int left(List<RequestHandle> handles) {
      return (int) handles.stream().filter(h -> h.ended().isEmpty()).count();
    }

    /** One request is one to the router, so a rank may get more sequences than it has rows. */
    @Test
    void mayBeMoreThanTheirRankHasRowsForAndAllCount() {
      EngineConfig config = config(4, 2);
      try (Engine engine = Engine.builder(config).open()) {
        RequestHandle big = engine.submit(several(1, 7, 3));
        RequestHandle next = engine.submit(several(2, 0, 3));
        step(engine, 0);
        assertThat(engine.live()).isEqualTo(8);
        step(engine, 0);
        assertThat(engine.waiting()).isEqualTo(1);
        assertThat(next.ended()).as("the budget of 8 is taken by 8 sequences").isEmpty();
        run(engine);
        assertThat(big.ended().orElseThrow().outputTokens()).isEqualTo(Collections.nCopies(8, 3));
        assertThat(ending(next)).isEqualTo(Ending.FINISHED);
      }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6, 8})
    void areAllCancelledWhereverTheyAre(int steps) {
      try (Engine engine = Engine.builder(config(4, 2, Trait.OVERLAP)).open()) {
        RequestHandle big = engine.submit(several(1, 7, 20));
        for (int i = 0; i < steps; i++) {
          step(engine, 0);
        }
        big.cancel();
        run(engine);
        assertThat(ending(big)).isEqualTo(new Ending.Cancelled(Ending.By.CALLER));
        assertThat(engine.live()).isZero();
        RequestHandle again = engine.submit(several(1, 7, 2));
        run(engine);
        assertThat(ending(again)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void failTogether() {
      try (Engine engine = Engine.builder(config(1, 4)).open()) {
        RequestHandle handle = engine.submit(several(1, 2, 9));
        StepPlan plan = engine.step(0);
        plan.result().fail(plan.dues().getFirst(), 1);
        engine.commit(plan.result());
        run(engine);
        assertThat(ending(handle)).isInstanceOf(Ending.Failed.class);
        assertThat(handle.tokens(0).ending().orElseThrow()).isInstanceOf(Ending.Failed.class);
        assertThat(engine.live()).isZero();
      }
    }
  }

  // ---- time ------------------------------------------------------------------------------------

  @Nested
  class Time {
    private static final SubmitOptions QUEUE = SubmitOptions.DEFAULT.withQueueMicros(1000);
    private static final SubmitOptions TOTAL = SubmitOptions.DEFAULT.withTotalMicros(1000);

    @Test
    void inTheQueueEndsARequestThatWaits() {
      try (Engine engine = Engine.builder(config(1, 1)).open()) {
        RequestHandle first = engine.submit(Request.of(1, 3, 30), QUEUE);
        RequestHandle second = engine.submit(Request.of(2, 3, 30), QUEUE);
        step(engine, 5000);
        step(engine, 6000);
        assertThat(second.ended()).as("not over yet").isEmpty();
        step(engine, 6001);
        assertThat(ending(second)).isEqualTo(new Ending.TimedOut(Ending.Limit.QUEUE));
        run(engine);
        assertThat(ending(first)).as("it left the queue in time").isEqualTo(Ending.FINISHED);
      }
    }

    @ParameterizedTest
    @EnumSource(names = {"LIVE", "WAITING"})
    void inAllEndsARequestWhereverItIs(Where where) {
      try (Engine engine = Engine.builder(config(1, 1, Trait.OVERLAP)).open()) {
        RequestHandle first = engine.submit(Request.of(1, 3, 50), where.first);
        RequestHandle second = engine.submit(Request.of(2, 3, 50), where.second);
        step(engine, 0);
        step(engine, 1000);
        step(engine, 1001);
        run(engine);
        RequestHandle late = where == Where.LIVE ? first : second;
        RequestHandle other = where == Where.LIVE ? second : first;
        assertThat(ending(late)).isEqualTo(new Ending.TimedOut(Ending.Limit.TOTAL));
        assertThat(ending(other)).isEqualTo(Ending.FINISHED);
      }
    }

    enum Where {
      LIVE(TOTAL, SubmitOptions.DEFAULT),
      WAITING(SubmitOptions.DEFAULT, TOTAL);

      final SubmitOptions first;
      final SubmitOptions second;

      Where(SubmitOptions first, SubmitOptions second) {
        this.first = first;
        this.second = second;
      }
    }

    @Test
    void thatGoesBackwardsStandsStill() {
      try (Engine engine = Engine.builder(config(1, 1)).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 30), TOTAL);
        step(engine, 10_000);
        for (int i = 0; i < 5; i++) {
          step(engine, -50_000);
        }
        assertThat(handle.ended()).isEmpty();
        step(engine, 11_001);
        run(engine);
        assertThat(ending(handle)).isEqualTo(new Ending.TimedOut(Ending.Limit.TOTAL));
      }
    }

    /** Time ends it on all ranks and stages in one iteration: they would diverge otherwise. */
    @Test
    void endsARequestOnAllStagesAlike() {
      EngineConfig config = EngineTest.pipeline(2, 2, 2);
      try (Engine engine = Engine.builder(config).open()) {
        var handles = new ArrayList<RequestHandle>();
        for (int id = 0; id < 12; id++) {
          handles.add(
              engine.submit(
                  Request.of(id, 3, 25), SubmitOptions.DEFAULT.withTotalMicros(10L * id)));
        }
        for (int i = 0; i < 200; i++) {
          step(engine, i);
        }
        assertThat(handles).allSatisfy(h -> assertThat(h.ended()).isPresent());
        assertThat(engine.live()).isZero();
      }
    }

    @Test
    void isWaitedForNoLongerThanItLasts() {
      try (Engine engine = Engine.builder(config(1, 1)).open()) {
        step(engine, 0);
        assertThat(engine.pauseMicros()).isEqualTo(Long.MAX_VALUE);
        engine.submit(Request.of(1, 3, 30), TOTAL);
        step(engine, 0);
        assertThat(engine.pauseMicros()).as("there is something to do").isZero();
      }
    }
  }

  // ---- limits ----------------------------------------------------------------------------------

  @Nested
  class Limits {
    @Test
    void ofARankHoldFromTheNextStepOnForNewRequests() {
      try (Engine engine = Engine.builder(config(2, 4)).open()) {
        for (int id = 0; id < 8; id++) {
          engine.submit(Request.of(id, 3, 6));
        }
        step(engine, 0);
        assertThat(engine.live()).isEqualTo(8);
        engine.setLimits(new Engine.Limits(1, 100));
        for (int id = 8; id < 20; id++) {
          engine.submit(Request.of(id, 3, 2));
        }
        step(engine, 0);
        assertThat(engine.live()).as("what is there stays").isEqualTo(8);
        long most = 0;
        for (StepPlan plan = step(engine, 0); !plan.idle(); plan = step(engine, 0)) {
          most = Math.max(most, engine.live() <= 2 ? engine.live() : 0);
          assertThat(engine.live() <= 8).isTrue();
        }
        assertThat(most).isEqualTo(2);
        engine.setLimits(new Engine.Limits(4, 100));
        for (int id = 30; id < 50; id++) {
          engine.submit(Request.of(id, 3, 2));
        }
        step(engine, 0);
        assertThat(engine.live()).isEqualTo(8);
        run(engine);
      }
    }

    @Test
    void ofTheQueueHoldAtOnce() {
      try (Engine engine = Engine.builder(config(1, 1)).waiting(10).open()) {
        engine.setLimits(new Engine.Limits(1, 2));
        assertThat(engine.limits()).isEqualTo(new Engine.Limits(1, 2));
        assertThat(engine.submit(Request.of(1, 3, 2)).submission()).isEqualTo(Submission.ACCEPTED);
        assertThat(engine.submit(Request.of(2, 3, 2)).submission()).isEqualTo(Submission.ACCEPTED);
        assertThat(engine.submit(Request.of(3, 3, 2)).submission())
            .isEqualTo(new Submission.QueueFull(2));
        engine.setLimits(new Engine.Limits(1, 3));
        assertThat(engine.submit(Request.of(3, 3, 2)).submission()).isEqualTo(Submission.ACCEPTED);
        run(engine);
      }
    }

    @Test
    void thatCannotBeAreRefused() {
      try (Engine engine = Engine.builder(config(1, 2)).waiting(10).open()) {
        for (var wrong :
            List.of(
                new Engine.Limits(0, 5),
                new Engine.Limits(3, 5),
                new Engine.Limits(1, 0),
                new Engine.Limits(1, 11))) {
          assertThatThrownBy(() -> engine.setLimits(wrong))
              .isInstanceOfSatisfying(
                  BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.ARGUMENT));
        }
        assertThat(engine.limits()).isEqualTo(new Engine.Limits(2, 10));
      }
    }

    /** It would wait at the head of the queue for ever, and everything behind it. */
    @Test
    void refuseAWaitingRequestThatNoLongerFits() {
      try (Engine engine = Engine.builder(config(1, 4)).open()) {
        RequestHandle first = engine.submit(several(1, 3, 9));
        RequestHandle second = engine.submit(several(2, 3, 9));
        RequestHandle third = engine.submit(several(3, 0, 9));
        step(engine, 0);
        engine.setLimits(new Engine.Limits(2, 10));
        run(engine);
        assertThat(ending(first)).isEqualTo(Ending.FINISHED);
        assertThat(ending(second))
            .isInstanceOfSatisfying(
                Ending.Refused.class,
                e ->
                    assertThat(e.why())
                        .isInstanceOfSatisfying(
                            Submission.Refused.class,
                            why -> {
                              assertThat(why.reason()).isEqualTo(Submission.Reason.SEQUENCES);
                              assertThat(why.required()).isEqualTo(4);
                              assertThat(why.available()).isEqualTo(2);
                            }));
        assertThat(ending(third)).isEqualTo(Ending.FINISHED);
      }
    }
  }

  // ---- ranks -----------------------------------------------------------------------------------

  @Nested
  class ARankThatDrains {
    @Test
    void finishesWhatItHasAndTakesNothingNew() {
      try (Engine engine = Engine.builder(config(3, 2)).callbacks(Runnable::run).open()) {
        RequestHandle there = engine.submit(on(1, 1, 6));
        step(engine, 0);
        CompletionStage<Void> empty = engine.drainRank(1);
        for (int id = 10; id < 20; id++) {
          engine.submit(Request.of(id, 3, 3));
        }
        boolean early = false;
        for (StepPlan plan = step(engine, 0); !plan.idle(); plan = step(engine, 0)) {
          early |= empty.toCompletableFuture().isDone() && there.ended().isEmpty();
          assertThat(engine.liveOn(1)).isLessThanOrEqualTo(1);
        }
        assertThat(early).isFalse();
        assertThat(empty.toCompletableFuture()).isCompleted();
        assertThat(ending(there)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void keepsWaitingWhoInsistsOnItUntilItIsOpenAgain() {
      try (Engine engine = Engine.builder(config(2, 1)).open()) {
        engine.drainRank(0);
        RequestHandle strict = engine.submit(on(0, 1, 3));
        RequestHandle other = engine.submit(Request.of(2, 3, 3));
        for (int i = 0; i < 20; i++) {
          step(engine, 0);
        }
        assertThat(strict.ended()).isEmpty();
        assertThat(ending(other)).isEqualTo(Ending.FINISHED);
        assertThat(engine.pauseMicros()).as("nobody spins for it").isPositive();
        engine.reopenRank(0);
        run(engine);
        assertThat(ending(strict)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void mayNotBeTheLastOne() {
      try (Engine engine = Engine.builder(config(2, 1)).open()) {
        engine.drainRank(0);
        engine.drainRank(0);
        assertThatThrownBy(() -> engine.drainRank(1))
            .isInstanceOfSatisfying(
                BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.STATE));
        assertThatThrownBy(() -> engine.drainRank(2)).isInstanceOf(BerthException.class);
        assertThatThrownBy(() -> engine.drainRank(-1)).isInstanceOf(BerthException.class);
        engine.reopenRank(0);
        engine.drainRank(1);
        RequestHandle handle = engine.submit(Request.of(1, 3, 3));
        run(engine);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void tellsWhoWaitsForItWhenTheEngineEnds() {
      Engine engine = Engine.builder(config(2, 1)).open();
      RequestHandle handle = engine.submit(on(0, 1, 30));
      step(engine, 0);
      CompletionStage<Void> empty = engine.drainRank(0);
      step(engine, 0);
      CompletionStage<Void> second = engine.drainRank(0);
      engine.closeNow();
      empty.toCompletableFuture().join();
      second.toCompletableFuture().join();
      engine.drainRank(0).toCompletableFuture().join();
      assertThat(read(handle.tokens())).isNotEmpty();
    }
  }
}
