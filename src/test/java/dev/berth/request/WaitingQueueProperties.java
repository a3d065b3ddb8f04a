// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.route.AllocatedBytes;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The queue against its naive model under long random sequences of operations. */
class WaitingQueueProperties {
  private static final double[] PRIORITIES = {0.5, 0.5, 0.1, 0.9, 1.0, -0.0, 0.0, 1e300};
  private static final int[] WEIGHTS = {1, 1, 3, ServiceTerms.MAX_WEIGHT};
  private static final Relax[] RELAX = Relax.values();

  @ParameterizedTest
  @EnumSource(WaitingQueue.Policy.class)
  void behavesAsTheNaiveModel(WaitingQueue.Policy policy) {
    compare(policy, 150, 1_000);
  }

  @ParameterizedTest
  @EnumSource(WaitingQueue.Policy.class)
  @Tag("deep")
  void behavesAsTheNaiveModelForLong(WaitingQueue.Policy policy) {
    compare(policy, 1_500, 5_000);
  }

  private static void compare(WaitingQueue.Policy policy, int sequences, int operations) {
    RandomGenerator random = Seeds.generator(Seeds.seed("WaitingQueueProperties." + policy));
    for (int sequence = 0; sequence < sequences; sequence++) {
      new Sequence(random, policy).run(operations);
    }
  }

  /** One sequence of operations on a queue and its model. */
  private static final class Sequence {
    private final RandomGenerator random;
    private final int ranks;
    private final int cap;
    private final WaitingQueue queue;
    private final NaiveWaitingQueue naive;
    private final RequestBatch batch = new RequestBatch();
    private final int ids;
    private int operation;
    private long iteration;

    Sequence(RandomGenerator random, WaitingQueue.Policy policy) {
      this.random = random;
      this.ranks = random.nextInt(4) == 0 ? 0 : 1 + random.nextInt(6);
      this.cap = 1 + random.nextInt(6);
      this.ids = 1 << 1 + random.nextInt(8);
      QueueRules rules = new QueueRules(policy, random.nextInt(20));
      this.queue =
          ranks == 0
              ? WaitingQueue.withoutAttentionDp(rules)
              : WaitingQueue.withAttentionDp(rules, ranks);
      this.naive = new NaiveWaitingQueue(rules);
    }

    void run(int operations) {
      for (operation = 0; operation < operations; operation++) {
        switch (random.nextInt(9)) {
          case 0, 1, 2, 3, 4 -> offer();
          case 5 -> cancel();
          case 6 -> advance();
          default -> pop();
        }
        assertThat(queue.size()).isEqualTo(naive.size());
        if (operation % 16 == 0) {
          assertSameOrder();
        }
      }
      assertSameOrder();
    }

    private void offer() {
      Request request = request();
      assertThat(queue.offer(request))
          .as("operation %d: offer %s", operation, request)
          .isEqualTo(naive.offer(request));
    }

    private void advance() {
      iteration += random.nextInt(4);
      queue.advanceTo(iteration);
      naive.advanceTo(iteration);
    }

    private void cancel() {
      long id = id();
      assertThat(queue.contains(id)).isEqualTo(naive.contains(id));
      assertThat(queue.cancel(id))
          .as("operation %d: cancel %d", operation, id)
          .isEqualTo(naive.cancel(id));
    }

    private void pop() {
      long[] active = new long[ranks];
      for (int rank = 0; rank < ranks; rank++) {
        active[rank] = random.nextInt(cap + 2);
      }
      int budget = random.nextInt(12) - 2;
      batch.clear();
      int cost =
          ranks == 0 ? queue.pop(budget, batch) : queue.pop(budget, Counts.of(active), cap, batch);
      List<Request> popped = naive.pop(budget, active, cap);
      assertThat(requests(batch)).as("operation %d: pop %d", operation, budget).isEqualTo(popped);
      assertThat(cost).isEqualTo(popped.stream().mapToInt(Request::admissionCost).sum());
      if (random.nextInt(3) == 0) {
        queue.putBack(batch);
        naive.putBack(popped);
      }
    }

    private void assertSameOrder() {
      assertThat(queue.waiting()).as("after operation %d", operation).isEqualTo(naive.waiting());
    }

    private Request request() {
      var plain =
          new Request(
              id(),
              random.nextInt(20),
              1 + random.nextInt(10),
              PRIORITIES[random.nextInt(PRIORITIES.length)],
              SchedulingParams.NONE,
              random.nextInt(4) == 0 ? random.nextInt(5) : 0,
              operation,
              terms());
      Relax relax = RELAX[random.nextInt(RELAX.length)];
      return switch (random.nextInt(3)) {
        case 0 -> plain;
        case 1 -> plain.withScheduling(SchedulingParams.untargeted(relax));
        default ->
            plain.withScheduling(
                SchedulingParams.target(random.nextInt(ranks == 0 ? 9 : ranks), relax));
      };
    }

    /** Few tenants; deadlines that are over, about to be, far away or absent. */
    private ServiceTerms terms() {
      long deadline =
          random.nextInt(3) == 0
              ? ServiceTerms.NO_DEADLINE
              : Math.max(0, iteration - 1 + random.nextInt(16));
      return new ServiceTerms(random.nextInt(5) - 2, WEIGHTS[random.nextInt(4)], deadline);
    }

    /** Ids that collide in the index: few, negative ones, and strides of powers of two. */
    private long id() {
      long id = random.nextInt(ids) - 3L;
      return random.nextBoolean() ? id : id << 40;
    }
  }

  private static List<Request> requests(RequestBatch batch) {
    var requests = new ArrayList<Request>();
    for (int i = 0; i < batch.size(); i++) {
      requests.add(batch.get(i));
    }
    return requests;
  }

  @ParameterizedTest
  @EnumSource(WaitingQueue.Policy.class)
  void aMillionWaitAndLeaveInOrder(WaitingQueue.Policy policy) {
    int count = 1_000_000;
    var queue = WaitingQueue.withAttentionDp(policy, 4);
    for (int id = 0; id < count; id++) {
      queue.offer(Request.of(id * 7L, 3, 1));
    }
    for (int id = 0; id < count; id += 2) {
      assertThat(queue.cancel(id * 7L)).isTrue();
    }
    assertThat(queue.size()).isEqualTo(count / 2);

    var batch = new RequestBatch();
    long expected = 7;
    while (!queue.isEmpty()) {
      batch.clear();
      queue.pop(1000, Counts.of(0, 0, 0, 0), 8, batch);
      for (int i = 0; i < batch.size(); i++) {
        assertThat(batch.get(i).id()).isEqualTo(expected);
        expected += 14;
      }
    }
    assertThat(expected).isEqualTo(7L + 7L * count);
  }

  @ParameterizedTest
  @EnumSource(WaitingQueue.Policy.class)
  void aQueueThatHasGrownAllocatesNothing(WaitingQueue.Policy policy) {
    var queue = WaitingQueue.withAttentionDp(policy, 2);
    var requests = new ArrayList<Request>();
    for (int id = 0; id < 1000; id++) {
      requests.add(
          Request.of(id, 3, 1)
              .withScheduling(
                  SchedulingParams.target(id % 2, id % 3 == 0 ? Relax.RELAXED : Relax.STRICT))
              .withTerms(new ServiceTerms(id % 12, 1 + id % 5, 1 + id % 7)));
    }
    Counts counts = Counts.of(100, 0);
    var batch = new RequestBatch();
    Runnable iteration =
        () -> {
          for (int i = 0; i < requests.size(); i++) {
            queue.offer(requests.get(i));
          }
          batch.clear();
          queue.pop(1000, counts, 100, batch);
          for (int i = 0; i < requests.size(); i++) {
            queue.cancel(i);
          }
        };
    iteration.run();

    assertThat(AllocatedBytes.by(iteration)).isZero();
    assertThat(batch.size()).isEqualTo(100 + 334);
  }

  @Test
  void theIndexSurvivesRandomUse() {
    RandomGenerator random = Seeds.generator(Seeds.seed("WaitingQueueProperties.index"));
    var index = new WaitingQueueIndex();
    var model = new java.util.HashMap<Long, Integer>();
    for (int i = 0; i < 200_000; i++) {
      long id = random.nextLong(600) << random.nextInt(3) * 24;
      if (model.containsKey(id)) {
        index.remove(id);
        model.remove(id);
      } else {
        index.put(id, i);
        model.put(id, i);
      }
      long probe = random.nextLong(600) << random.nextInt(3) * 24;
      assertThat(index.get(probe)).isEqualTo(model.getOrDefault(probe, WaitingQueue.NONE));
    }
    assertThat(index.size()).isEqualTo(model.size());
  }
}
