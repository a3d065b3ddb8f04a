// SPDX-License-Identifier: Apache-2.0
package dev.berth.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.FillGate;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.engine.WorkerRole;
import dev.berth.model.FleetModel.IdleView;
import dev.berth.model.FleetModel.Padding;
import dev.berth.model.FleetModel.Setup;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.route.Seeds;
import dev.berth.test.TestConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/**
 * The model takes the engine's steps: random traffic through both, the model's ranks in step, and
 * the same numbers after every iteration. So what is explored is what the product does.
 */
class ModelConformanceTest {
  private static final int RUNS = 3000;

  private record Transfer(int rank, int row, long id) {}

  @Test
  void theModelTakesTheEnginesSteps() {
    long seed = Seeds.seed("ModelConformanceTest");
    long iterations = 0;
    for (int i = 0; i < RUNS; i++) {
      var run = new Run(seed + i);
      run.toTheEnd();
      iterations += run.iterations;
    }
    System.out.println(RUNS + " runs, " + iterations + " iterations");
    assertThat(iterations).isGreaterThan(RUNS * 10L);
  }

  private static final class Run {
    private final long seed;
    private final RandomGenerator random;
    private final Setup setup;
    private final FleetModel model;
    private byte[] state;
    private final List<Transfer> transfers = new ArrayList<>();
    private int offered;
    private int failures;
    private long ended;
    private int iterations;

    Run(long seed) {
      this.seed = seed;
      random = Seeds.generator(seed);
      setup = setup();
      model = new FleetModel(setup);
      state = model.initial();
    }

    private Setup setup() {
      int ranks = random.nextInt(1, 5);
      int batch = random.nextInt(1, 4);
      boolean transfers = random.nextInt(3) > 0;
      int count = random.nextInt(1, 13);
      var requests = new StringBuilder();
      for (int i = 0; i < count; i++) {
        requests.append(transfers && random.nextInt(3) == 0 ? 'S' : 'L');
      }
      FillGate gate =
          transfers && random.nextInt(2) == 0
              ? new FillGate(
                  random.nextInt(3) == 0 ? FillGate.Kind.COUNT : FillGate.Kind.STATE,
                  random.nextInt(1, Math.min(count, ranks * batch) + 1))
              : FillGate.NONE;
      return new Setup(
          ranks,
          batch,
          random.nextInt(3) > 0,
          transfers,
          transfers ? random.nextInt(1, 4) : 1,
          requests.toString(),
          transfers ? random.nextInt(3) : 0,
          gate,
          IdleView.GATHERED_LIVE,
          Padding.BOTH);
    }

    void toTheEnd() {
      TestConfig config =
          setup.overlap()
              ? TestConfig.overlap(setup.ranks(), setup.batch())
              : TestConfig.nonOverlap(setup.ranks(), setup.batch());
      config.role(setup.transfers() ? WorkerRole.GENERATION : WorkerRole.CONTEXT);
      config.gate(setup.gate());
      try (var group = new LockstepGroup(config.build())) {
        while (iterations < 120 && (offered < setup.requests().length() || ended < offered)) {
          boolean ran = group.step(LockstepGroup.NO_DEVICE);
          everyRank(FleetModel.WAKE, FleetModel.IDLE);
          everyRank(FleetModel.WAKE, FleetModel.PAUSED);
          everyRank(FleetModel.DECIDE, FleetModel.GATHERING);
          if (ran) {
            compareSchedule(group);
          } else {
            assertThat(model.get(state, 0, FleetModel.PLACE)).as(this::toString).isEqualTo(2);
          }
          int due = Math.min(random.nextInt(4), setup.requests().length() - offered);
          for (int i = 0; i < due; i++) {
            happen(FleetModel.SUBMIT, 0);
          }
          everyRank(FleetModel.FORWARD, FleetModel.VOTING);
          if (ran) {
            compareSettled(group);
          }
          for (int i = 0; i < due; i++) {
            offer(group);
          }
          land(group);
          iterations++;
        }
      }
    }

    private void happen(int kind, int rank) {
      int event = FleetModel.event(kind, rank);
      int[] possible = new int[64];
      int n = model.enabled(state, possible);
      assertThat(IntStream.of(possible).limit(n)).as("%s", this).contains(event);
      state = model.after(state, event);
    }

    private void everyRank(int kind, int place) {
      for (int rank = 0; rank < setup.ranks(); rank++) {
        if (model.get(state, rank, FleetModel.PLACE) == place) {
          // Rank 0 waits for something to arrive; the lockstep driver asks without.
          int event = FleetModel.event(kind, rank);
          state = model.after(state, event);
        }
      }
    }

    private void offer(LockstepGroup group) {
      boolean isShort = setup.requests().charAt(offered) == 'S';
      Request request = Request.of(offered, 8, isShort ? 1 : 1 + setup.forwards());
      assertThat(group.offer(request)).isEqualTo(Outcome.QUEUED);
      offered++;
    }

    private void land(LockstepGroup group) {
      while (!transfers.isEmpty() && random.nextInt(3) > 0) {
        Transfer transfer = transfers.remove(random.nextInt(transfers.size()));
        RankEngine engine = group.engine(transfer.rank);
        boolean isShort = setup.requests().charAt((int) transfer.id) == 'S';
        if (!isShort && failures < setup.failures() && random.nextInt(4) == 0) {
          failures++;
          engine.transferFailed(transfer.row, transfer.id);
          happen(FleetModel.FAIL, transfer.rank);
        } else {
          engine.transferArrived(transfer.row, transfer.id);
          happen(isShort ? FleetModel.LAND_SHORT : FleetModel.LAND_LONG, transfer.rank);
        }
      }
    }

    private void compareSchedule(LockstepGroup group) {
      same(group, RankEngine::batch, FleetModel.B_BATCH, "batch");
      same(group, e -> e.padded() ? 1 : 0, FleetModel.DUMMY, "dummy");
      same(group, RankEngine::real, FleetModel.BUILT, "real");
      same(group, e -> group.admission().held() ? 1 : 0, FleetModel.HELD, "held");
      same(group, e -> group.admission().gateOpen() ? 1 : 0, FleetModel.GATE_OPEN, "gate");
      same(group, e -> group.admission().admitted(), FleetModel.ADMITTED, "admitted");
      same(group, e -> (int) group.admission().fetched(), FleetModel.FETCHED, "fetched");
    }

    private void compareSettled(LockstepGroup group) {
      same(group, e -> e.count(RequestState.RETIRING), FleetModel.RETIRING, "retiring");
      for (int rank = 0; rank < setup.ranks(); rank++) {
        RankEngine engine = group.engine(rank);
        ended += engine.ended();
        for (int i = 0; i < engine.receives(); i++) {
          int row = engine.receiveRow(i);
          transfers.add(new Transfer(rank, row, engine.table().id(row)));
        }
        int ready = 0;
        for (int k = 0; k < setup.forwards(); k++) {
          ready += model.get(state, rank, FleetModel.READY + k);
        }
        assertThat(ready)
            .as("ready on rank %d of %s", rank, this)
            .isEqualTo(
                engine.count(RequestState.CONTEXT_INIT)
                    + engine.count(RequestState.GENERATION)
                    + engine.count(RequestState.GENERATION_TRANSFER_COMPLETE));
        assertThat(
                model.get(state, rank, FleetModel.TRANSFER_SHORT)
                    + model.get(state, rank, FleetModel.TRANSFER_LONG))
            .as("in transfer on rank %d of %s", rank, this)
            .isEqualTo(engine.count(RequestState.GENERATION_TRANSFER));
      }
      assertThat((long) state[FleetModel.DONE]).as("done of %s", this).isEqualTo(ended);
      boolean paused = group.pauseMicros() > 0;
      assertThat(model.get(state, 0, FleetModel.PLACE) == FleetModel.PAUSED)
          .as("paused, %s", this)
          .isEqualTo(paused);
    }

    private interface Number {
      int of(RankEngine engine);
    }

    private void same(LockstepGroup group, Number number, int field, String what) {
      for (int rank = 0; rank < setup.ranks(); rank++) {
        assertThat(model.get(state, rank, field))
            .as("%s on rank %d of %s", what, rank, this)
            .isEqualTo(number.of(group.engine(rank)));
      }
    }

    @Override
    public String toString() {
      return "-Dberth.seed=%d, iteration %d of %s: %s"
          .formatted(seed, iterations, setup, model.describe(state));
    }
  }
}
