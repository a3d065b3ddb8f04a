// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.config.ShippedScenarios;
import dev.berth.engine.BalanceGate;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillGate;
import dev.berth.engine.RetiringMark;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitReason;
import dev.berth.test.NaiveFleet;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Shipped scenarios under another name, with other ranks, batches and request counts, against the
 * slow model: nothing may depend on the published numbers.
 */
class ScaledScenariosTest {
  private static final long SEED = Long.getLong("berth.seed", 20261130);

  static List<String> names() {
    return ShippedScenarios.names();
  }

  @ParameterizedTest
  @MethodSource("names")
  void aScaledScenarioAgreesWithTheModel(String name) {
    scales(name, 6);
  }

  @Tag("deep")
  @ParameterizedTest
  @MethodSource("names")
  void manyScaledScenariosAgreeWithTheModel(String name) {
    scales(name, 600);
  }

  private static void scales(String name, int count) {
    Scenario scenario = ShippedScenarios.load(name);
    for (int i = 0; i < count; i++) {
      long seed = SEED + i;
      for (Arm arm : scenario.arms()) {
        // The model knows whole fleets; stages that disagree are another test's.
        if (arm.engine().mark() != RetiringMark.LAST_STAGE) {
          compare(name, seed, new Scaling(scenario, arm, seed));
        }
      }
    }
  }

  private static void compare(String name, long seed, Scaling scaled) {
    var recorder = new ArmRecorder(scaled.arm, scaled.load);
    RunResult run =
        FleetRun.run(
            scaled.arm.engine(), scaled.load.arrivals(), CostModel.fitted(1), 0, recorder, n -> {});
    var told = new Told(scaled, run.iterations());
    String as = "%s, -Dberth.seed=%d, %s".formatted(name, seed, scaled.arm.describe());
    assertThat(run.totals().refused()).as(as).isZero();
    assertThat(counts(recorder.assignedVectors))
        .as(as)
        .isEqualTo(NaiveFleet.histogram(told.assigned));
    assertThat(counts(recorder.batches)).as(as).isEqualTo(NaiveFleet.histogram(told.batches));
    assertThat(counts(recorder.gates)).as(as).isEqualTo(NaiveFleet.histogram(told.gates));
    assertThat(told.done).as(as).isEqualTo(run.done());
    assertThat(run.totals().tokens()).as(as).isEqualTo(told.tokens);
    for (WaitReason reason : WaitReason.values()) {
      assertThat(run.totals().deferrals(reason))
          .as("%s %s", as, reason)
          .isEqualTo(told.deferred.getOrDefault(reason, 0L));
    }
    if (run.ending() == RunResult.Ending.DONE) {
      assertThat(counts(recorder.states)).as(as).isEqualTo(NaiveFleet.histogram(told.states));
      assertThat(counts(recorder.tokenVectors))
          .as(as)
          .isEqualTo(NaiveFleet.histogram(told.tokensIn));
      assertThat(told.done).as(as).isEqualTo(scaled.load.requests());
    }
    assertThat(run.gateOpen()).as(as).isEqualTo(told.gateOpen);
  }

  private static Map<String, Long> counts(Histogram histogram) {
    return new TreeMap<>(histogram.sorted());
  }

  /** An arm and a load of other sizes, nothing else changed. */
  private static final class Scaling {
    final Arm arm;
    final Load load;

    Scaling(Scenario scenario, Arm original, long seed) {
      RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
      int ranks = random.nextInt(1, 7);
      double share = random.nextInt(20, 200) / (double) scenario.load().requests();
      var groups = new ArrayList<Load.Group>();
      for (Load.Group g : scenario.load().groups()) {
        int target = g.scheduling().targetRank();
        groups.add(
            new Load.Group(
                scaled(g.count(), share),
                g.inputTokens(),
                Math.min(g.outputTokens(), 12),
                target < 0
                    ? g.scheduling()
                    : SchedulingParams.target(target % ranks, g.scheduling().relax())));
      }
      List<Integer> waves =
          scenario.load().waves().stream().map(w -> w == 0 ? 0 : scaled(w, share)).toList();
      load = new Load(groups, scaled(scenario.load().concurrency(), share), waves);
      arm = arm(original, ranks, random.nextInt(1, 6), load.requests());
    }

    private static int scaled(int count, double share) {
      return Math.max(1, (int) Math.round(count * share));
    }

    private static ContextHold scaled(ContextHold hold, int batch) {
      return hold instanceof ContextHold.Balanced(var rules)
          ? new ContextHold.Balanced(
              new BalanceGate.Rules(
                  rules.timeoutIterations(),
                  rules.batchingWaitIterations(),
                  Math.min(rules.minGenerations(), batch),
                  rules.lowOccupancyTimeoutIterations()))
          : hold;
    }

    private static Arm arm(Arm original, int ranks, int batch, int requests) {
      EngineConfig c = original.engine();
      WorkerShape shape = c.plan().shape();
      var builder =
          WorkerShape.builder(batch)
              .ranks(ranks)
              .pipelineSize(shape.pipelineSize())
              .maxNumTokens(shape.maxNumTokens())
              .draftTokens(shape.draftTokens())
              .tokensPerBlock(shape.tokensPerBlock())
              .with(shape.traits());
      shape.transferBackend().ifPresent(builder::transferBackend);
      SeatPlan plan =
          SeatPlan.of(builder.build(), c.plan().policy()).orThrow().withWhatIf(c.plan().whatIf());
      var engine =
          c.toBuilder()
              .plan(plan)
              .hold(scaled(c.hold(), batch))
              .gate(
                  c.gate().active()
                      ? new FillGate(c.gate().kind(), Math.min(requests, plan.fleetCapacity()))
                      : FillGate.NONE)
              .build();
      return new Arm(
          "another name", "renamed and scaled", engine, List.of(), Map.of(), Optional.empty());
    }
  }

  /**
   * What the model tells of a closed-loop load whose transfers take no time, over a number of
   * iterations.
   */
  private static final class Told {
    final List<String> assigned = new ArrayList<>();
    final List<String> batches = new ArrayList<>();
    final List<String> gates = new ArrayList<>();
    final List<String> states = new ArrayList<>();
    final List<String> tokensIn = new ArrayList<>();
    final Map<WaitReason, Long> deferred = new TreeMap<>();
    long done;
    long tokens;
    boolean gateOpen;

    Told(Scaling scaled, long iterations) {
      var model = new NaiveFleet(scaled.arm.engine());
      var requests = new ArrayList<Request>();
      for (Load.Group g : scaled.load.groups()) {
        for (int i = 0; i < g.count(); i++) {
          requests.add(
              Request.of(requests.size(), g.inputTokens(), g.outputTokens())
                  .withScheduling(g.scheduling()));
        }
      }
      List<Integer> waves = scaled.load.waves();
      int sent = 0;
      long ran = 0;
      boolean over = false;
      for (int gather = 0; !over && ran <= iterations; gather++) {
        long room = Math.min(requests.size() - sent, scaled.load.concurrency() - (sent - done));
        room = gather < waves.size() ? Math.min(room, waves.get(gather)) : room;
        for (int i = 0; i < room; i++) {
          model.offer(requests.get(sent++));
        }
        model
            .inTransfer()
            .forEach(id -> model.transferOver(id, RequestState.GENERATION_TRANSFER_COMPLETE));
        if (ran == iterations && !model.present().isEmpty()) {
          break; // the run was given up here
        }
        Optional<NaiveFleet.Iteration> iteration = model.step();
        iteration.ifPresentOrElse(this::write, () -> writeIdle(scaled.arm.engine().ranks()));
        ran += iteration.isPresent() ? 1 : 0;
        over = iteration.isEmpty() && (sent == requests.size() || gather + 1 >= waves.size());
      }
      gateOpen = model.gateOpen();
    }

    private void write(NaiveFleet.Iteration it) {
      assigned.add(it.assigned().stream().map(List::size).toList().toString().replace(" ", ""));
      it.scheduled().forEach(n -> batches.add(n.toString()));
      gates.add(it.charged() + "->" + Math.max(0, it.budget()));
      it.states().forEach(s -> states.add(text(s)));
      tokensIn.add(it.tokensIn().toString().replace(" ", ""));
      it.deferred().forEach(d -> d.forEach((r, n) -> deferred.merge(r, (long) n, Long::sum)));
      done += it.done().stream().mapToLong(List::size).sum();
      tokens += it.tokensOut().stream().mapToLong(n -> n).sum();
    }

    private void writeIdle(int ranks) {
      var zeros = new ArrayList<Long>();
      for (int rank = 0; rank < ranks; rank++) {
        states.add("empty");
        zeros.add(0L);
      }
      tokensIn.add(zeros.toString().replace(" ", ""));
    }

    private static String text(Map<RequestState, Integer> counts) {
      var text = new StringBuilder();
      new TreeMap<>(counts)
          .forEach((state, n) -> text.append("(%d)x%d".formatted(state.value(), n)));
      return text.isEmpty() ? "empty" : text.toString();
    }
  }
}
