// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.QueueRules;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;
import dev.berth.request.WaitingQueue.Policy;
import dev.berth.route.Seeds;
import dev.berth.test.TestConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The orders of the waiting queue inside an engine. */
class AdmissionOrderTest {
  private static LockstepGroup oneAtATime(Policy policy) {
    return new LockstepGroup(
        TestConfig.nonOverlap(1, 1).build().withQueue(new QueueRules(policy, 10)));
  }

  /** Steps until nothing lives; the ids in the order in which they ended. */
  private static List<Long> ended(LockstepGroup group) {
    var ids = new ArrayList<Long>();
    while (group.step(LockstepGroup.NO_DEVICE)) {
      for (int i = 0; i < group.engine(0).ended(); i++) {
        ids.add(group.engine(0).endedId(i));
      }
    }
    return ids;
  }

  @Test
  void aFloodOfOneTenantHoldsUpNobodyElse() {
    try (LockstepGroup group = oneAtATime(Policy.FAIR)) {
      for (int id = 0; id < 20; id++) {
        group.offer(Request.of(id, 8, 2).withTerms(ServiceTerms.ofTenant(1)));
      }
      group.offer(Request.of(20, 8, 2).withTerms(ServiceTerms.ofTenant(2)));

      assertThat(ended(group)).startsWith(0L, 20L, 1L, 2L).hasSize(21);
    }
  }

  @Test
  void theClockOfDeadlinesIsTheCountOfIterations() {
    try (LockstepGroup group = oneAtATime(Policy.DEADLINE)) {
      var due = ServiceTerms.NONE;
      group.offer(Request.of(0, 8, 4).withTerms(due.withDeadline(0)));
      group.offer(Request.of(1, 8, 1).withTerms(due.withDeadline(1)));
      group.offer(Request.of(2, 8, 1).withTerms(due.withDeadline(6)));
      group.offer(Request.of(3, 8, 1).withTerms(due.withDeadline(1000)));

      // When 0 has made its four tokens, 1 is late: due in iteration 11, behind 2 and before 3.
      assertThat(ended(group)).containsExactly(0L, 2L, 1L, 3L);
    }
  }

  @Test
  void aDeadlineThatIsOverIsAnOutcome() {
    try (LockstepGroup group = oneAtATime(Policy.DEADLINE)) {
      var due = ServiceTerms.NONE.withDeadline(1);
      assertThat(group.offer(Request.of(0, 8, 4).withTerms(due))).isEqualTo(Outcome.QUEUED);
      ended(group);

      assertThat(group.offer(Request.of(1, 8, 1).withTerms(due))).isEqualTo(Outcome.EXPIRED);
      assertThat(group.admission().waiting()).isZero();
      assertThat(group.step(LockstepGroup.NO_DEVICE)).isFalse();
    }
  }

  /** Every stage has an admission of its own; ranks that admit otherwise would stop the group. */
  @ParameterizedTest
  @EnumSource(Policy.class)
  void everyStageAdmitsAlike(Policy policy) {
    RandomGenerator random = Seeds.generator(Seeds.seed("AdmissionOrderTest." + policy));
    for (int run = 0; run < 20; run++) {
      int ranks = 1 + random.nextInt(3);
      EngineConfig config =
          TestConfig.nonOverlap(ranks, 2)
              .stages(2)
              .build()
              .withQueue(new QueueRules(policy, random.nextInt(20)));
      try (var group = new LockstepGroup(config)) {
        int sent = 0;
        int done = 0;
        for (int step = 0; step < 400; step++) {
          for (int i = random.nextInt(4); i > 0 && sent < 100; i--) {
            group.offer(request(random, sent++, step, ranks));
          }
          boolean ran = group.step(LockstepGroup.NO_DEVICE);
          for (int rank = 0; rank < ranks && ran; rank++) {
            done += group.engine(rank).ended();
          }
          if (sent == 100 && !ran) {
            break;
          }
        }
        assertThat(done).isEqualTo(sent);
      }
    }
  }

  private static Request request(RandomGenerator random, int id, int step, int ranks) {
    return Request.of(id, 1 + random.nextInt(20), 1 + random.nextInt(6))
        .withPriority(random.nextInt(3))
        .withScheduling(
            random.nextInt(3) == 0
                ? SchedulingParams.target(random.nextInt(ranks), Relax.STRICT)
                : SchedulingParams.NONE)
        .withTerms(
            new ServiceTerms(
                random.nextInt(4), 1 + random.nextInt(3), step + 20 + random.nextInt(20)));
  }
}
