// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.plan.PlanOutcome;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Request;
import dev.berth.route.AllocatedBytes;
import java.util.ArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What an iteration costs once the load has settled. */
class SteadyStateTest {
  private static final int ITERATIONS = 1000;

  private static LockstepGroup full(int ranks, int stages, int batch) {
    var shape =
        WorkerShape.builder(batch).ranks(ranks).pipelineSize(stages).maxNumTokens(batch * 8);
    shape.with(Trait.ATTENTION_DP);
    if (stages == 1) {
      shape.with(Trait.OVERLAP);
    }
    SeatPlan plan = ((PlanOutcome.Planned) SeatPlan.of(shape.build(), SeatPolicy.UNIFIED)).plan();
    var group = new LockstepGroup(EngineConfig.of(plan, WorkerRole.AGGREGATED));
    for (int id = 0; id < ranks * stages * batch; id++) {
      assertThat(group.offer(Request.of(id, 1 + id % 8, 1 << 20))).isEqualTo(Outcome.QUEUED);
    }
    return group;
  }

  /**
   * Prompts are done, and the JIT has seen the loop often enough to leave out what only it needs.
   */
  private static void settleDown(LockstepGroup group) {
    for (int i = 0; i < 20_000; i++) {
      group.step(LockstepGroup.NO_DEVICE);
    }
  }

  @ParameterizedTest
  @CsvSource({"4, 1, 32", "2, 2, 8"})
  void anIterationAllocatesNothing(int ranks, int stages, int batch) {
    try (LockstepGroup group = full(ranks, stages, batch)) {
      settleDown(group);
      assertThat(group.engine(0).batch()).isPositive();
      long bytes =
          AllocatedBytes.by(() -> {
            for (int i = 0; i < ITERATIONS; i++) {
              group.step(LockstepGroup.NO_DEVICE);
            }
          });
      assertThat(bytes).isLessThan(ITERATIONS);
    }
  }

  /** With readers that keep up, and columns that a model asks for. */
  @Test
  void anIterationOfAServingEngineAllocatesNothing() {
    var shape =
        WorkerShape.builder(16).ranks(4).maxNumTokens(512).with(Trait.ATTENTION_DP, Trait.OVERLAP);
    SeatPlan plan = SeatPlan.of(shape.build(), SeatPolicy.UNIFIED).orThrow();
    EngineConfig config = EngineConfig.of(plan, WorkerRole.AGGREGATED);
    try (Engine engine = Engine.builder(config).open()) {
      var handles = new ArrayList<RequestHandle>();
      for (int id = 0; id < 64; id++) {
        handles.add(engine.submit(Request.of(id, 1 + id % 8, 1 << 20)));
      }
      for (int i = 0; i < 20_000; i++) {
        serve(engine, handles);
      }
      assertThat(engine.live()).isEqualTo(64);
      long bytes =
          AllocatedBytes.by(() -> {
            for (int i = 0; i < ITERATIONS; i++) {
              serve(engine, handles);
            }
          });
      assertThat(bytes).isLessThan(ITERATIONS);
    }
  }

  private static void serve(Engine engine, ArrayList<RequestHandle> handles) {
    StepPlan plan = engine.step(0);
    for (int n = 0; n < plan.launches().size(); n++) {
      plan.launches().get(n).seats();
    }
    for (int n = 0; n < plan.dues().size(); n++) {
      BatchView batch = plan.dues().get(n);
      for (int i = 0; i < batch.size(); i++) {
        plan.result().token(batch, i, i);
      }
    }
    engine.commit(plan.result());
    for (int i = 0; i < handles.size(); i++) {
      TokenStream tokens = handles.get(i).tokens();
      while (tokens.poll() >= 0) {}
    }
  }

  @Test
  void aRankMakesThreeDowncallsAnIteration() {
    try (LockstepGroup group = full(4, 1, 8)) {
      for (int i = 0; i < 50; i++) {
        group.step(LockstepGroup.NO_DEVICE);
      }
      for (int rank = 0; rank < 4; rank++) {
        RankEngine engine = group.engine(rank);
        long before = engine.nativeCalls();
        group.step(LockstepGroup.NO_DEVICE);
        assertThat(engine.nativeCalls() - before).isEqualTo(3);
      }
    }
  }

  /** Admission, vetoes and padding are part of the same three. */
  @Test
  void noIterationTakesMoreThanThreeDowncalls() {
    var shape =
        WorkerShape.builder(2).ranks(2).maxNumTokens(64).with(Trait.ATTENTION_DP, Trait.OVERLAP);
    SeatPlan plan = ((PlanOutcome.Planned) SeatPlan.of(shape.build(), SeatPolicy.UNIFIED)).plan();
    try (var group = new LockstepGroup(EngineConfig.of(plan, WorkerRole.AGGREGATED))) {
      for (int id = 0; id < 40; id++) {
        group.offer(Request.of(id, 1 + 7 * id % 50, 1 + id % 5));
      }
      long[] before = {group.engine(0).nativeCalls(), group.engine(1).nativeCalls()};
      while (group.step(LockstepGroup.NO_DEVICE)) {
        for (int rank = 0; rank < 2; rank++) {
          long now = group.engine(rank).nativeCalls();
          assertThat(now - before[rank]).isLessThanOrEqualTo(3);
          before[rank] = now;
        }
      }
      assertThat(group.steps()).isGreaterThan(10);
    }
  }
}
