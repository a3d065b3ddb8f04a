// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.ServiceTerms.Timeliness;
import dev.berth.request.WaitingQueue.Offer;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;

/** Deadline ordering, rule by rule, and its bound under random loads. */
class DeadlineQueueTest {
  private static final long PATIENCE = 10;
  private static final QueueRules RULES = new QueueRules(WaitingQueue.Policy.DEADLINE, PATIENCE);

  private final WaitingQueue queue = WaitingQueue.withoutAttentionDp(RULES);
  private final RequestBatch batch = new RequestBatch();

  private static Request due(long id, long deadline) {
    return Request.of(id, 3, 1).withTerms(ServiceTerms.NONE.withDeadline(deadline));
  }

  private void offer(long id, long deadline) {
    assertThat(queue.offer(due(id, deadline))).isEqualTo(Offer.QUEUED);
  }

  private List<Long> waiting() {
    return queue.waiting().stream().map(Request::id).toList();
  }

  private List<Long> pop(int count) {
    batch.clear();
    queue.pop(count, batch);
    var ids = new ArrayList<Long>();
    for (int i = 0; i < batch.size(); i++) {
      ids.add(batch.get(i).id());
    }
    return ids;
  }

  @Test
  void theEarliestDeadlineGoesFirstAndTiesByArrival() {
    offer(0, 30);
    offer(1, 5);
    offer(2, 30);
    offer(3, 7);
    queue.offer(due(4, 5).withPriority(9));

    assertThat(pop(9)).containsExactly(1L, 4L, 3L, 0L, 2L);
  }

  @Test
  void whoHasNoDeadlineIsDueWhenItsPatienceIsOver() {
    queue.advanceTo(100);
    queue.offer(Request.of(0, 3, 1));
    offer(1, 109);
    offer(2, 110);
    offer(3, 111);

    assertThat(pop(9)).containsExactly(1L, 0L, 2L, 3L);
  }

  @Test
  void whoIsLateLetsThosePassThatCanBeInTime() {
    offer(0, 5);
    offer(1, 14);
    offer(2, 15);
    offer(3, 16);
    queue.advanceTo(5);
    assertThat(waiting()).containsExactly(0L, 1L, 2L, 3L);

    queue.advanceTo(6);

    assertThat(waiting()).containsExactly(1L, 0L, 2L, 3L);
  }

  @Test
  void whoIsLateIsPassedByNothingNewOnceItsPatienceIsOver() {
    offer(0, 5);
    queue.advanceTo(16);
    offer(1, 16);
    offer(2, 17);

    assertThat(pop(9)).containsExactly(0L, 1L, 2L);
  }

  @Test
  void amongTheLateTheOldestDeadlineGoesFirst() {
    offer(0, 6);
    offer(1, 5);
    offer(2, 7);
    queue.advanceTo(500);

    assertThat(pop(9)).containsExactly(1L, 0L, 2L);
  }

  @Test
  void aDeadlineThatIsOverIsRefusedAndOneOfNowIsNot() {
    queue.advanceTo(8);

    assertThat(queue.offer(due(0, 7))).isEqualTo(Offer.EXPIRED);
    assertThat(queue.offer(due(1, 8))).isEqualTo(Offer.QUEUED);
    assertThat(queue.offer(due(1, 7))).isEqualTo(Offer.DUPLICATE);
    assertThat(waiting()).containsExactly(1L);
  }

  @Test
  void otherPoliciesDoNotLookAtDeadlines() {
    for (WaitingQueue.Policy policy : WaitingQueue.Policy.values()) {
      WaitingQueue other = WaitingQueue.withoutAttentionDp(policy);
      other.advanceTo(8);
      boolean deadlines = policy == WaitingQueue.Policy.DEADLINE;
      assertThat(other.offer(due(0, 7))).isEqualTo(deadlines ? Offer.EXPIRED : Offer.QUEUED);
    }
  }

  @Test
  void whatIsPutBackIsDueAsBeforeOrElseAtOnce() {
    offer(0, 20);
    queue.offer(Request.of(1, 3, 1));
    offer(2, 12);
    pop(3);
    queue.advanceTo(13);
    offer(3, 13);

    queue.putBack(batch); // 1 has no deadline, 2 is late, 0 is still open

    assertThat(waiting()).containsExactly(1L, 2L, 3L, 0L);
  }

  @Test
  void aDeadlineSaysWhereItStands() {
    assertThat(ServiceTerms.NONE.at(Long.MAX_VALUE)).isEqualTo(Timeliness.UNBOUND);
    assertThat(due(0, 7).terms().at(7)).isEqualTo(Timeliness.OPEN);
    assertThat(due(0, 7).terms().at(8)).isEqualTo(Timeliness.LATE);
  }

  @Test
  void deadlinesAtTheEndOfTimeDoNotOverflow() {
    WaitingQueue patient =
        WaitingQueue.withoutAttentionDp(
            new QueueRules(WaitingQueue.Policy.DEADLINE, Long.MAX_VALUE));
    patient.advanceTo(Long.MAX_VALUE - 2);
    patient.offer(Request.of(0, 3, 1));
    patient.offer(due(1, Long.MAX_VALUE - 2));
    patient.offer(due(2, Long.MAX_VALUE - 1));
    patient.advanceTo(Long.MAX_VALUE - 1);

    assertThat(patient.waiting().stream().map(Request::id)).containsExactly(2L, 0L, 1L);
  }

  @Test
  void timeDoesNotRunBackwardsAndNothingIsNegative() {
    queue.advanceTo(3);
    queue.advanceTo(3);

    assertThat(queue.now()).isEqualTo(3);
    for (Runnable bad :
        List.<Runnable>of(
            () -> queue.advanceTo(2),
            () -> ServiceTerms.NONE.withDeadline(-1),
            () -> new QueueRules(WaitingQueue.Policy.DEADLINE, -1))) {
      assertThatThrownBy(bad::run)
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.ARGUMENT));
    }
  }

  /** What comes after a request's deadline (or arrival) and its patience never passes it. */
  @Test
  void nothingNewPassesWhoHasWaitedLongEnough() {
    RandomGenerator random = Seeds.generator(Seeds.seed("DeadlineQueueTest.bound"));
    for (int run = 0; run < 100; run++) {
      boundedRun(random, new QueueRules(WaitingQueue.Policy.DEADLINE, random.nextInt(30)));
    }
  }

  private static void boundedRun(RandomGenerator random, QueueRules rules) {
    WaitingQueue queue = WaitingQueue.withoutAttentionDp(rules);
    Map<Long, Long> offeredAt = new HashMap<>();
    Map<Long, Long> last = new HashMap<>();
    RequestBatch batch = new RequestBatch();
    long id = 0;
    for (long now = 0; now < 300; now++) {
      for (int i = random.nextInt(5); i > 0; i--) {
        boolean bound = random.nextInt(4) > 0;
        long deadline = bound ? now + random.nextInt(12) : ServiceTerms.NO_DEADLINE;
        queue.offer(due(id, deadline));
        offeredAt.put(id, now);
        last.put(id, (bound ? deadline : now) + rules.patience());
        id++;
      }
      queue.advanceTo(now);
      batch.clear();
      queue.pop(random.nextInt(4), batch);
      for (int i = 0; i < batch.size(); i++) {
        long taken = offeredAt.getOrDefault(batch.get(i).id(), Long.MAX_VALUE);
        for (Request waits : queue.waiting()) {
          assertThat(taken)
              .as("request %d passes request %d", batch.get(i).id(), waits.id())
              .isLessThanOrEqualTo(last.getOrDefault(waits.id(), -1L));
        }
      }
      if (random.nextInt(10) == 0) {
        queue.putBack(batch);
      }
    }
  }
}
