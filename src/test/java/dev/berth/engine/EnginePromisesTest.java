// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.plan.PolicySet;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import dev.berth.test.NoEvictPolicy;
import java.util.HashMap;
import java.util.Map;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What berth-1 promises (docs/policies.md), in engines and under every policy that one can have, on
 * random workers and loads. {@code -Dberth.seed=} replays a run.
 */
class EnginePromisesTest {
  private static final long SEED = Long.getLong("berth.seed", 20261130);
  private static final int RUNS = 120;
  private static final int REQUESTS = 40;

  /** Iterations that may pass without a forward: batches land, somebody gives way. */
  private static final int PATIENCE = 12;

  /** Who decides who runs. */
  enum Policy {
    GUARANTEED_NO_EVICT,
    MAX_UTILIZATION,
    STATIC_BATCH,
    MAX_REQUESTS,
    ONE_LOOP,
    OF_ONES_OWN;

    EngineConfig in(EngineConfig config) {
      return switch (this) {
        case ONE_LOOP -> config.withScheduler(SchedulerKind.ONE_LOOP);
        case OF_ONES_OWN -> config.withPolicy(new NoEvictPolicy(config.rangeEnd()));
        default ->
            config.withPolicies(PolicySet.BERTH_1, CapacityRule.byName(name()).orElseThrow());
      };
    }
  }

  /** One worker, one load, to the end. */
  private static final class Run {
    final RandomGenerator random;
    final Policy policy;
    final EngineConfig config;
    final long seed;
    final Map<Long, Integer> wanted = new HashMap<>();
    final Map<Long, Integer> ended = new HashMap<>();
    int pageWaits;

    Run(Policy policy, long seed) {
      this.seed = seed;
      this.policy = policy;
      this.random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
      WorkerRole role = WorkerRole.values()[random.nextInt(policy == Policy.MAX_REQUESTS ? 2 : 3)];
      int pages = random.nextInt(6, 41);
      this.config = policy.in(OwnPolicyTest.anyConfig(random, role, pages));
    }

    long toTheEnd() {
      try (var group = new LockstepGroup(config)) {
        int quiet = 0;
        boolean live = true;
        for (int id = 0; live || id < REQUESTS; ) {
          for (int n = random.nextInt(4); n > 0 && id < REQUESTS; n--, id++) {
            offer(group, id);
          }
          boolean moved = OwnPolicyTest.transfers(random, group) > 0;
          live = group.step(LockstepGroup.NO_DEVICE);
          if (!live) {
            continue;
          }
          for (int rank = 0; rank < config.ranks(); rank++) {
            keepsItsLimits(group.engine(rank));
            note(group.engine(rank));
            moved |= group.engine(rank).ended() > 0;
            moved |= group.engine(rank).count(RequestState.GENERATION_TRANSFER) > 0;
          }
          quiet = group.launched() || moved ? 0 : quiet + 1;
          assertThat(quiet).as("%s seed %d stands still", policy, seed).isLessThan(PATIENCE);
        }
        assertThat(ended).as("%s seed %d: everybody ends", policy, seed).isEqualTo(wanted);
        long hash = 0;
        for (int rank = 0; rank < config.ranks(); rank++) {
          RankEngine engine = group.engine(rank);
          assertThat(engine.pagesUsed() + engine.leasesUsed() + engine.seatsUsed()).isZero();
          hash = hash * 31 + engine.decisionHash();
        }
        return hash;
      }
    }

    private void offer(LockstepGroup group, long id) {
      int output = random.nextInt(1, 10);
      if (group.offer(Request.of(id, random.nextInt(1, 31), output)).equals(Outcome.QUEUED)) {
        wanted.put(id, config.role() == WorkerRole.CONTEXT ? 1 : output);
      }
    }

    private void note(RankEngine engine) {
      for (int i = 0; i < engine.ended(); i++) {
        assertThat(engine.endedKind(i)).isEqualTo(EndKind.FINISHED);
        assertThat(ended.put(engine.endedId(i), engine.endedTokens(i))).as("once").isNull();
      }
      pageWaits += engine.deferred(WaitReason.PAGES);
    }

    private void keepsItsLimits(RankEngine engine) {
      engine.checkPages();
      assertThat(engine.shortOfPages()).isZero();
      assertThat(engine.pagesUsed()).isLessThanOrEqualTo(config.pages());
      assertThat(engine.seatsUsed()).isLessThanOrEqualTo(config.plan().seats().count());
      assertThat(engine.leasesUsed()).isLessThanOrEqualTo(config.plan().spendableLeases());
      assertThat(engine.real()).isLessThanOrEqualTo(config.plan().batchPositions().count());
      int waiting = 0;
      for (WaitReason reason : WaitReason.values()) {
        waiting += reason == WaitReason.NONE ? 0 : engine.deferred(reason);
      }
      assertThat(engine.real() + waiting)
          .as("%s seed %d: who doesn't run has a reason", policy, seed)
          .isEqualTo(engine.resident());
      int tokens = config.plan().shape().maxNumTokens();
      assertThat(engine.batchTokens()).isLessThanOrEqualTo(tokens == 0 ? 1 << 30 : tokens);
    }
  }

  @ParameterizedTest
  @EnumSource
  void nothingIsExceededEverybodyEndsWaitsForAReasonAndTheSameLoadGivesTheSame(Policy policy) {
    System.out.println("EnginePromisesTest: -Dberth.seed=" + SEED);
    int pageWaits = 0;
    for (int i = 0; i < RUNS; i++) {
      var run = new Run(policy, SEED + i);
      long hash = run.toTheEnd();
      assertThat(new Run(policy, SEED + i).toTheEnd()).as("seed %d", SEED + i).isEqualTo(hash);
      pageWaits += run.pageWaits;
    }
    assertThat(pageWaits).as("pages were short").isPositive();
  }
}
