// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.Batch;
import dev.berth.engine.BrokenBatchException;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillGate;
import dev.berth.engine.GroupTap;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.engine.WorkerRole;
import dev.berth.id.BatchPosition;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.request.QueueRules;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestTable;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;
import dev.berth.request.WaitingQueue;
import dev.berth.route.RankCap;
import dev.berth.test.TestConfig;
import java.io.ByteArrayOutputStream;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;

/**
 * A random group under random traffic: offers good and bad, early ends, transfers that land or fail
 * between steps and in the middle of one, cancels, batches that break, readers that are slow,
 * limits that change. The same seed gives the same run.
 */
final class RandomRun implements LockstepGroup.Device {
  private record Transfer(int rank, int row, long id) {}

  final EngineConfig config;
  private final RandomGenerator random;
  private final int steps;
  private final boolean stops;
  private final boolean cancels;
  private final boolean wishes;
  private final boolean breaks;
  private final boolean meddles;
  private final List<Transfer> transfers = new ArrayList<>();
  private final List<Long> offered = new ArrayList<>();
  private final LockstepGroup group;

  private RandomRun(long seed, GroupTap tap) {
    random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    config = config();
    steps = between(1, 80);
    stops = oneIn(2);
    cancels = oneIn(2);
    wishes = oneIn(3);
    breaks = oneIn(3);
    meddles = oneIn(3);
    group = new LockstepGroup(config);
    group.listen(tap);
  }

  /** The log of a run. */
  static byte[] log(long seed) {
    var bytes = new ByteArrayOutputStream();
    try (var writer = new LogWriter(Channels.newChannel(bytes), "run " + seed)) {
      run(seed, writer);
    }
    return bytes.toByteArray();
  }

  static EngineConfig run(long seed, GroupTap tap) {
    var run = new RandomRun(seed, tap);
    try (run.group) {
      for (int i = 0; i < run.steps; i++) {
        run.between();
        run.group.step(run);
        run.noteTransfers();
      }
    }
    return run.config;
  }

  private int between(int lowest, int highest) {
    return random.nextInt(lowest, highest + 1);
  }

  private boolean oneIn(int n) {
    return random.nextInt(n) == 0;
  }

  private EngineConfig config() {
    int ranks = between(1, 5);
    int batch = between(1, 5);
    TestConfig test =
        switch (between(0, 3)) {
          case 0 -> TestConfig.nonOverlap(ranks, batch);
          case 1 -> TestConfig.oneGroup(batch, Trait.OVERLAP);
          default -> TestConfig.overlap(ranks, batch);
        };
    WorkerRole role = WorkerRole.values()[random.nextInt(3)];
    test.role(role).stages(oneIn(4) ? between(2, 3) : 1).tokensPerBlock(between(1, 8));
    test.policy(SeatPolicy.values()[random.nextInt(2)]);
    if (oneIn(2)) {
      test.maxNumTokens(between(8, 60));
    }
    if (oneIn(3)) {
      test.whatIf(WhatIf.Switch.CHARGE_RETIRING);
    }
    if (oneIn(3)) {
      test.leases(between(1, 2 * batch)).whatIf(WhatIf.Switch.VALIDATOR_OVERRIDDEN);
    }
    if (oneIn(3)) {
      test.pages(between(4, 60));
    }
    if (oneIn(3)) {
      test.chunked();
    }
    if (oneIn(8)) {
      test.cap(RankCap.OFF);
    }
    if (role == WorkerRole.GENERATION && oneIn(2)) {
      test.gate(
          new FillGate(oneIn(2) ? FillGate.Kind.COUNT : FillGate.Kind.STATE, between(1, batch)));
    }
    if (oneIn(2)) {
      WaitingQueue.Policy[] policies = WaitingQueue.Policy.values();
      test.queue(new QueueRules(policies[random.nextInt(policies.length)], between(0, 20)));
    }
    EngineConfig config = test.build();
    return switch (between(0, 6)) {
      case 0 -> config.withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_UTILIZATION);
      case 1 -> config.toBuilder().gate(FillGate.NONE).capacity(CapacityRule.STATIC_BATCH).build();
      case 2 ->
          role == WorkerRole.GENERATION
              ? config
              : config.withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_REQUESTS);
      case 3 -> config.withScheduler(SchedulerKind.ONE_LOOP);
      default -> config;
    };
  }

  private void between() {
    for (int i = oneIn(3) ? between(0, 8) : 0; i > 0; i--) {
      offer();
    }
    if (cancels && !offered.isEmpty() && oneIn(4)) {
      group.cancel(offered.get(random.nextInt(offered.size())));
    }
    if (meddles && oneIn(3)) {
      meddle();
    }
    land();
  }

  private void meddle() {
    int rank = random.nextInt(config.ranks());
    switch (between(0, 4)) {
      case 0 -> group.limit(between(1, config.plan().admissionCap()));
      case 1 -> group.placement(rank, GroupTap.Placement.values()[random.nextInt(2)]);
      case 2 -> {
        if (!offered.isEmpty()) {
          group.withdraw(rank, offered.get(random.nextInt(offered.size())));
        }
      }
      default -> hold(rank);
    }
  }

  private void hold(int rank) {
    RequestTable table = group.engine(rank).table();
    int row = random.nextInt(table.rows() - 1);
    boolean resumes = oneIn(2);
    for (int stage = 0; stage < config.stages(); stage++) {
      RankEngine engine = group.engine(rank, stage);
      if (engine.changeRoom() == 0) {
        return; // alike on every stage
      }
      if (resumes) {
        engine.resume(row, table.id(row));
      } else {
        engine.hold(row, table.id(row));
      }
    }
  }

  private void offer() {
    long id = oneIn(12) && !offered.isEmpty() ? offered.getLast() : offered.size() * 3L - 5;
    var request =
        new Request(
            id,
            between(1, 40),
            between(1, 12),
            oneIn(4) ? random.nextDouble() : Request.DEFAULT_PRIORITY,
            wish(),
            oneIn(6) ? between(1, 2) : 0,
            oneIn(3) ? random.nextLong() : id,
            oneIn(4) ? terms() : ServiceTerms.NONE,
            oneIn(4) ? route() : RouteKey.NONE);
    group.offer(request);
    offered.add(id);
  }

  private ServiceTerms terms() {
    return new ServiceTerms(
        random.nextLong(), between(1, 3), oneIn(2) ? between(0, 60) : ServiceTerms.NO_DEADLINE);
  }

  private RouteKey route() {
    return RouteKey.conversation("chat " + between(0, 3))
        .withSubagent(oneIn(3) ? "é" : "")
        .withPrompt(random.ints(between(0, 70), 0, Integer.MAX_VALUE).toArray());
  }

  private SchedulingParams wish() {
    if (!wishes || oneIn(2)) {
      return SchedulingParams.NONE;
    }
    Relax relax = Relax.values()[random.nextInt(3)];
    return oneIn(4)
        ? SchedulingParams.untargeted(relax)
        : SchedulingParams.target(random.nextInt(config.ranks()), relax);
  }

  private void land() {
    while (!transfers.isEmpty() && oneIn(2)) {
      Transfer transfer = transfers.remove(random.nextInt(transfers.size()));
      boolean fails = oneIn(6);
      boolean cancelled = oneIn(6);
      for (int stage = 0; stage < config.stages(); stage++) {
        RankEngine engine = group.engine(transfer.rank, stage);
        if (cancelled) {
          engine.cancel(transfer.row, transfer.id);
        }
        if (fails) {
          engine.transferFailed(transfer.row, transfer.id);
        } else {
          engine.transferArrived(transfer.row, transfer.id);
        }
      }
    }
  }

  private void noteTransfers() {
    for (int rank = 0; rank < config.ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      for (int i = 0; i < engine.receives(); i++) {
        int row = engine.receiveRow(i);
        transfers.add(new Transfer(rank, row, engine.table().id(row)));
      }
    }
  }

  @Override
  public void forward(long maxRankTokens, long totalTokens) {
    if (oneIn(6)) {
      offer();
    }
  }

  @Override
  public void launch(RankEngine engine, Batch batch) {
    if (breaks && oneIn(25)) {
      throw new BrokenBatchException("by chance");
    }
  }

  @Override
  public void collect(RankEngine engine, Batch batch) {
    if (breaks && oneIn(25)) {
      throw new BrokenBatchException("by chance");
    }
    if (config.stages() > 1) {
      return; // stages hear the same
    }
    if (oneIn(8)) {
      land();
    }
    for (int i = 0; stops && i < batch.size(); i++) {
      if (batch.kind(i) != Batch.Kind.DUMMY && oneIn(5)) {
        batch.stop(new BatchPosition(i));
      }
    }
    if (breaks && batch.size() > 0 && oneIn(8)) {
      batch.fail(new BatchPosition(random.nextInt(batch.size())));
    }
    if (cancels && batch.size() > 0 && oneIn(8)) {
      int position = random.nextInt(batch.size());
      if (batch.kind(position) != Batch.Kind.DUMMY) {
        engine.cancel(batch.row(position), batch.id(position));
      }
    }
  }
}
