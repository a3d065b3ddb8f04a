// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.EngineConfig.RetiringTokens;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.SchedulingParams;
import dev.berth.route.PlacementView;
import dev.berth.route.RankCap;
import dev.berth.route.RouterChoice;
import dev.berth.test.FleetProbe;
import dev.berth.test.NaiveFleet;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Whole fleets against a slow model, iteration by iteration, on random configurations, loads, early
 * ends, cancels and transfers. {@code -Dberth.seed=} replays a run.
 */
class NaiveFleetTest {
  /**
   * Upstream's V1 range: retirees are scheduled again, and a fleet that drains can stand still for
   * ever.
   */
  private static final int BROKEN_RANGE_END = 20;

  private static final long SEED = Long.getLong("berth.seed", 20261130);

  @Test
  void everyIterationIsTheModels() {
    runs(4000);
  }

  @Tag("deep")
  @Test
  void everyIterationIsTheModelsInManyRuns() {
    runs(150_000);
  }

  private static void runs(int count) {
    System.out.println("NaiveFleetTest: -Dberth.seed=" + SEED);
    long iterations = 0;
    long requests = 0;
    long paused = 0;
    long held = 0;
    long encodes = 0;
    long refusedPads = 0;
    long stalled = 0;
    for (int i = 0; i < count; i++) {
      var run = new Run(SEED + i);
      run.toTheEnd();
      iterations += run.iteration;
      requests += run.offered;
      paused += run.paused;
      held += run.held;
      encodes += run.encodes;
      refusedPads += run.refusedPads;
      stalled += run.stalled;
    }
    System.out.printf(
        "%d runs, %d requests, %d iterations, %d pauses, %d held, %d encoders, %d pads refused, %d stalls%n",
        count, requests, iterations, paused, held, encodes, refusedPads, stalled);
    assertThat(iterations).isGreaterThan(count * 10L);
    assertThat(paused).isGreaterThan(count / 10L);
    assertThat(held).isGreaterThan(count);
    assertThat(encodes).isGreaterThan(count);
    assertThat(refusedPads).isPositive();
    assertThat(stalled).isPositive();
  }

  /** One random fleet and one random load, on both sides. */
  private static final class Run {
    final long seed;
    final RandomGenerator random;
    final EngineConfig config;
    final int total;
    final int concurrency;
    final List<Integer> waves = new ArrayList<>();
    final int longestPrompt;
    final int longestOutput;
    final boolean wishes;
    final boolean stops;
    final boolean cancels;
    final boolean images;
    final boolean warmsUp;
    int offered;
    int refused;
    int ended;
    int paused;
    int held;
    int encodes;
    int refusedPads;
    int stalled;
    int iteration;

    Run(long seed) {
      this.seed = seed;
      random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
      longestPrompt = between(1, 40);
      longestOutput = between(1, 12);
      config = config();
      total = between(1, 60);
      concurrency = between(1, 60);
      for (int i = between(0, 6); i > 0; i--) {
        waves.add(between(0, 9));
      }
      wishes = oneIn(4);
      stops = oneIn(3);
      cancels = oneIn(3);
      images = oneIn(4);
      warmsUp = oneIn(4);
    }

    int between(int lowest, int highest) {
      return random.nextInt(lowest, highest + 1);
    }

    boolean oneIn(int n) {
      return random.nextInt(n) == 0;
    }

    private EngineConfig config() {
      int batch = between(1, 6);
      WorkerRole role = WorkerRole.values()[random.nextInt(3)];
      var shape =
          WorkerShape.builder(batch)
              .ranks(between(1, 8))
              .pipelineSize(oneIn(3) ? between(2, 4) : 1)
              .draftTokens(oneIn(5) ? between(1, 3) : 0)
              .tokensPerBlock(between(1, 8));
      if (oneIn(2)) {
        shape.maxNumTokens(between(4, 60));
      }
      if (!oneIn(4)) {
        shape.with(Trait.ATTENTION_DP);
      }
      if (!oneIn(3)) {
        shape.with(Trait.OVERLAP);
      }
      if (role == WorkerRole.GENERATION || oneIn(6)) {
        shape.transferBackend("NIXL");
      }
      SeatPlan plan = SeatPlan.of(shape.build(), SeatPolicy.values()[random.nextInt(2)]).orThrow();
      var whatIf = WhatIf.builder();
      if (oneIn(3)) {
        whatIf.with(WhatIf.Switch.CHARGE_RETIRING);
      }
      if (plan.shape().pipelineSize() > 1 && oneIn(3)) {
        whatIf.with(WhatIf.Switch.HEADROOM_UNDER_PIPELINE);
      }
      if (oneIn(4)) {
        whatIf.with(WhatIf.Switch.RESERVED_SPENDABLE);
      }
      if (oneIn(3)) {
        whatIf.leases(between(1, 2 * batch * plan.shape().pipelineSize() + 1));
      }
      if (oneIn(4)) {
        whatIf.seats(between(1, 2 * batch * plan.shape().pipelineSize() + 1));
      }
      plan = plan.withWhatIf(whatIf.with(WhatIf.Switch.VALIDATOR_OVERRIDDEN).build());
      var promised =
          EngineConfig.builder(plan, role)
              .hold(hold(plan))
              .encoderWait(
                  oneIn(2)
                      ? EncoderWait.NONE
                      : new EncoderWait(
                          new BatchWait.Rules(between(0, 4), random.nextDouble()), between(1, 60)))
              .rangeEnd(oneIn(12) ? BROKEN_RANGE_END : EngineConfig.RANGE_END)
              .chunkedContext(Chunking.values()[random.nextInt(2)])
              .kv(KvSetup.counted(oneIn(2) ? -1 : between(4, 60)))
              .gate(
                  role == WorkerRole.GENERATION && oneIn(3)
                      ? new FillGate(
                          oneIn(2) ? FillGate.Kind.COUNT : FillGate.Kind.STATE,
                          between(1, Math.min(40, plan.fleetCapacity())))
                      : FillGate.NONE)
              .fill(
                  new FillRules(
                      FillRules.Ramp.values()[random.nextInt(2)],
                      FillRules.FailFast.values()[random.nextInt(3)],
                      oneIn(3) ? between(1, 30) * 100_000L : FillRules.STALL_MICROS))
              .retiringTokens(RetiringTokens.values()[random.nextInt(2)])
              .cap(oneIn(8) ? RankCap.OFF : RankCap.HARD)
              .router(
                  oneIn(4)
                      ? new RouterChoice.Default(PlacementView.RESIDENT)
                      : RouterChoice.DEFAULT)
              .build();
      return switch (between(0, 10)) {
        case 0, 1, 2 ->
            promised
                .withKv(KvSetup.counted(between(4, 24)))
                .withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_UTILIZATION);
        case 3 ->
            promised.toBuilder().gate(FillGate.NONE).capacity(CapacityRule.STATIC_BATCH).build();
        case 4 ->
            role == WorkerRole.GENERATION
                ? promised
                : promised.withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_REQUESTS);
        case 5, 6 ->
            promised.withKv(KvSetup.counted(between(4, 24))).withScheduler(SchedulerKind.ONE_LOOP);
        default -> promised;
      };
    }

    private ContextHold hold(SeatPlan plan) {
      int limit = plan.shape().maxNumTokens();
      if (oneIn(2)) {
        return ContextHold.NEVER;
      } else if (!plan.shape().attentionDp()) {
        return limit == 0
            ? ContextHold.NEVER
            : new ContextHold.Batched(new BatchWait.Rules(between(0, 4), random.nextDouble()));
      }
      int timeout = between(0, 5);
      int positions = plan.batchPositions().count();
      return new ContextHold.Balanced(
          new BalanceGate.Rules(
              timeout, between(0, 3), between(0, positions), between(0, timeout)));
    }

    void toTheEnd() {
      try (var group = new LockstepGroup(config)) {
        var probe = new FleetProbe(group);
        var model = new NaiveFleet(config);
        while (ended + refused < total || !model.present().isEmpty()) {
          arrivals(group, probe, model);
          happenings(group, probe, model);
          probe.gather();
          boolean ran;
          try {
            ran = group.step(probe);
          } catch (BerthException e) {
            assertThat(e.code()).as("%s: %s", this, e.getMessage()).isEqualTo(Code.STALLED);
            assertThatThrownBy(model::step, "%s: %s", this, e.getMessage())
                .isInstanceOf(NaiveFleet.Stalled.class);
            stalled++;
            return;
          }
          var expected = model.step();
          assertThat(ran).as("%s", this).isEqualTo(expected.isPresent());
          if (ran) {
            NaiveFleet.Iteration actual = probe.read();
            if (!actual.equals(expected.get())) {
              assertThat(actual).as("%s", this).isEqualTo(expected.get());
            }
            ended += actual.done().stream().mapToInt(List::size).sum();
            paused += actual.paused().stream().mapToInt(n -> n).sum();
            held += actual.contextsHeld() ? 1 : 0;
            encodes += actual.encodes().stream().mapToInt(List::size).sum();
            for (int rank = 0; rank < config.ranks(); rank++) {
              refusedPads += group.engine(rank).padRefused() ? 1 : 0;
            }
            checkPages(group);
          }
          iteration++;
          if (mayStandStill() && iteration == 500) {
            return;
          }
          assertThat(iteration).as("%s stands still", this).isLessThan(20_000);
        }
        for (int rank = 0; rank < config.ranks(); rank++) {
          for (int stage = 0; stage < config.stages(); stage++) {
            RankEngine engine = group.engine(rank, stage);
            assertThat(engine.seatsUsed() + engine.leasesUsed() + engine.pagesUsed())
                .as("%s leaks", this)
                .isZero();
          }
        }
      }
    }

    private void checkPages(LockstepGroup group) {
      for (int rank = 0; rank < config.ranks(); rank++) {
        for (int stage = 0; stage < config.stages(); stage++) {
          group.engine(rank, stage).checkPages();
          assertThat(group.engine(rank, stage).shortOfPages()).as("%s", this).isZero();
        }
      }
    }

    private boolean mayStandStill() {
      return config.rangeEnd() == BROKEN_RANGE_END || config.gate().active();
    }

    private void arrivals(LockstepGroup group, FleetProbe probe, NaiveFleet model) {
      int due = Math.min(total - offered, concurrency - (offered - ended - refused));
      if (iteration < waves.size()) {
        due = Math.min(due, waves.get(iteration));
      }
      for (int i = 0; i < due; i++) {
        Request request =
            Request.of(offered, between(1, longestPrompt), between(1, longestOutput))
                .withScheduling(wish())
                .withEncoder(images && oneIn(2) ? between(1, 40) : 0)
                .withTag(-offered);
        if (group.offer(request) instanceof Outcome.Refused) {
          refused++;
        } else {
          model.offer(request);
          if (stops && oneIn(2)) {
            int token = between(1, longestOutput);
            probe.stopAt(request.id(), token);
            model.stopAt(request.id(), token);
          }
        }
        offered++;
      }
    }

    private SchedulingParams wish() {
      return wishes && oneIn(2)
          ? SchedulingParams.target(
              random.nextInt(config.ranks()), Relax.values()[random.nextInt(3)])
          : SchedulingParams.NONE;
    }

    private void happenings(LockstepGroup group, FleetProbe probe, NaiveFleet model) {
      if (warmsUp && (iteration == 0 || oneIn(6))) {
        FillWarmUp phase = iteration < 12 && oneIn(2) ? FillWarmUp.ON : FillWarmUp.OFF;
        group.warmUp(phase);
        model.warmUp(phase);
      }
      for (long id : model.inTransfer()) {
        if (oneIn(3)) {
          RequestState becomes =
              oneIn(6) ? RequestState.TRANSFER_ERROR : RequestState.GENERATION_TRANSFER_COMPLETE;
          model.transferOver(id, becomes);
          everywhere(
              group,
              probe,
              id,
              (engine, row) -> {
                if (becomes == RequestState.TRANSFER_ERROR) {
                  engine.transferFailed(row, id);
                } else {
                  engine.transferArrived(row, id);
                }
              });
        }
      }
      for (long id : model.encoding()) {
        if (oneIn(2)) {
          model.encoded(id);
          everywhere(group, probe, id, (engine, row) -> engine.encoded(row, id));
        }
      }
      List<Long> present = model.present();
      if (cancels && !present.isEmpty() && oneIn(4)) {
        long id = present.get(random.nextInt(present.size()));
        boolean waited = group.cancel(id);
        if (!waited) {
          everywhere(group, probe, id, (engine, row) -> engine.cancel(row, id));
        } else {
          ended++;
        }
        model.cancel(id);
      }
    }

    private interface OnRow {
      void accept(RankEngine engine, int row);
    }

    private void everywhere(LockstepGroup group, FleetProbe probe, long id, OnRow action) {
      for (int rank = 0; rank < config.ranks(); rank++) {
        int row = probe.rowOn(rank, id);
        for (int stage = 0; row >= 0 && stage < config.stages(); stage++) {
          assertThat(group.engine(rank, stage).table().id(row)).isEqualTo(id);
          action.accept(group.engine(rank, stage), row);
        }
      }
    }

    @Override
    public String toString() {
      return "-Dberth.seed=%d, iteration %d of %s %s pages %d range end %d chunking %s %s %s"
          .formatted(
              seed,
              iteration,
              config.role(),
              config.plan().describe(),
              config.pages(),
              config.rangeEnd(),
              config.chunkedContext(),
              config.scheduler(),
              config.capacity());
    }
  }
}
