// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.route.Wishes;
import java.util.ArrayList;
import java.util.List;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The rules of spec 01 §3.4 and §3.5, one by one. */
class WaitingQueueTest {
  private final RequestBatch batch = new RequestBatch();

  @ParameterizedTest
  @ValueSource(ints = {0, -1, Integer.MIN_VALUE})
  void withoutBudgetNothingIsPopped(int budget) {
    WaitingQueue queue = queue("none");

    assertThat(queue.pop(budget, Counts.of(0, 0), 3, batch)).isZero();
    assertThat(batch.size()).isZero();
    assertThat(queue.size()).isEqualTo(1);
  }

  @Test
  void theFirstThatDoesNotFitEndsThePopEvenIfACheaperOneWaits() {
    WaitingQueue queue = queue("");
    queue.offer(withChildren(0, 0));
    queue.offer(withChildren(1, 2));
    queue.offer(withChildren(2, 0));

    assertThat(queue.pop(3, Counts.of(0, 0), 3, batch)).isEqualTo(1);
    assertThat(popped()).containsExactly(0L);
    batch.clear();
    assertThat(queue.pop(4, Counts.of(0, 0), 3, batch)).isEqualTo(4);
    assertThat(popped()).containsExactly(1L, 2L);
  }

  @Test
  void moreChildrenThanAnyBudgetNeverOverflowTheCost() {
    WaitingQueue queue = queue("");
    queue.offer(withChildren(0, Request.MAX_CHILDREN));

    assertThat(queue.pop(Request.MAX_CHILDREN, Counts.of(0, 0), 3, batch)).isZero();
    assertThat(queue.size()).isEqualTo(1);
  }

  @Test
  void aStrictRequestWaitsForItsRankWhileLaterOnesPass() {
    WaitingQueue queue = queue("strict 0, none, strict 1, relaxed 0");

    queue.pop(9, Counts.of(3, 2), 3, batch);

    assertThat(popped()).containsExactly(1L, 2L, 3L);
    assertThat(waiting(queue)).containsExactly(0L);
  }

  @Test
  void unsetRelaxIsStrictInThePop() {
    WaitingQueue queue = queue("unset 0, params");

    queue.pop(9, Counts.of(3, 0), 3, batch);

    assertThat(popped()).containsExactly(1L);
  }

  @Test
  void strictRequestsCountAgainstTheirRankWithinOnePop() {
    WaitingQueue queue = queue("strict 0, strict 0, unset 0, strict 1");

    queue.pop(9, Counts.of(1, 0), 3, batch);

    assertThat(popped()).containsExactly(0L, 1L, 3L);
  }

  @Test
  void relaxedAndUntargetedRequestsAreNotCounted() {
    WaitingQueue queue = queue("relaxed 0, none, relaxed 0, strict 0");

    queue.pop(9, Counts.of(2, 0), 3, batch);

    assertThat(popped()).containsExactly(0L, 1L, 2L, 3L);
  }

  @Test
  void countsOfOnePopAreForgottenInTheNext() {
    WaitingQueue queue = queue("strict 0, strict 0");
    queue.pop(9, Counts.of(2, 0), 3, batch);
    batch.clear();

    queue.pop(9, Counts.of(2, 0), 3, batch);

    assertThat(popped()).containsExactly(1L);
  }

  @ParameterizedTest
  @EnumSource(WaitingQueue.Policy.class)
  void blockedRequestsReturnToTheFrontInTheirOriginalOrder(WaitingQueue.Policy policy) {
    WaitingQueue queue = WaitingQueue.withAttentionDp(policy, 2);
    Wishes.requests(3, "strict 0, none, strict 0, none, strict 0, none").forEach(queue::offer);

    queue.pop(2, Counts.of(3, 0), 3, batch);

    assertThat(popped()).containsExactly(1L, 3L);
    assertThat(waiting(queue)).containsExactly(0L, 2L, 4L, 5L);
  }

  @ParameterizedTest
  @EnumSource(WaitingQueue.Policy.class)
  void aBlockedRequestOutlivesManyPopsInItsPlace(WaitingQueue.Policy policy) {
    WaitingQueue queue = WaitingQueue.withAttentionDp(policy, 2);
    Wishes.requests(3, "strict 0, strict 0").forEach(queue::offer);
    for (int id = 2; id < 500; id++) {
      queue.offer(Request.of(id, 3, 1));
      batch.clear();
      queue.pop(1, Counts.of(3, 0), 3, batch);
      assertThat(popped()).containsExactly((long) id);
    }
    queue.offer(Request.of(500, 3, 1));

    assertThat(waiting(queue)).containsExactly(0L, 1L, 500L);
  }

  @Test
  void aBlockedRequestCostsNothing() {
    WaitingQueue queue = queue("strict 0, strict 0, none, none");

    assertThat(queue.pop(2, Counts.of(3, 0), 3, batch)).isEqualTo(2);
    assertThat(popped()).containsExactly(2L, 3L);
  }

  @Test
  void aBlockedRequestThatDoesNotFitStillEndsThePop() {
    WaitingQueue queue = queue("");
    queue.offer(withChildren(0, 5).withScheduling(SchedulingParams.target(0, Relax.STRICT)));
    queue.offer(withChildren(1, 0));

    assertThat(queue.pop(3, Counts.of(3, 0), 3, batch)).isZero();
  }

  @Test
  void largerPriorityFirstAndTiesByArrival() {
    WaitingQueue queue = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.PRIORITY);
    queue.offer(withPriority(0, 0.5));
    queue.offer(withPriority(1, 0.9));
    queue.offer(withPriority(2, 0.5));
    queue.offer(withPriority(3, 0.9));
    queue.offer(withPriority(4, 0.1));

    queue.pop(9, batch);

    assertThat(popped()).containsExactly(1L, 3L, 0L, 2L, 4L);
  }

  @Test
  void theSignOfZeroIsNoPriority() {
    WaitingQueue queue = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.PRIORITY);
    queue.offer(withPriority(0, -0.0));
    queue.offer(withPriority(1, 0.0));

    assertThat(waiting(queue)).containsExactly(0L, 1L);
  }

  @Test
  void firstComeFirstServedIgnoresPriorities() {
    WaitingQueue queue = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.FCFS);
    queue.offer(withPriority(0, 0.5));
    queue.offer(withPriority(1, 0.9));

    assertThat(waiting(queue)).containsExactly(0L, 1L);
    assertThat(queue.policy()).isEqualTo(WaitingQueue.Policy.FCFS);
  }

  @Test
  void whatIsPutBackGoesFirstWithinItsPriority() {
    WaitingQueue queue = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.PRIORITY);
    queue.offer(withPriority(0, 0.9));
    queue.offer(withPriority(1, 0.5));
    batch.add(withPriority(7, 0.5));
    batch.add(withPriority(8, 0.9));
    batch.add(withPriority(9, 0.5));

    queue.putBack(batch);

    assertThat(waiting(queue)).containsExactly(8L, 0L, 7L, 9L, 1L);
  }

  @Test
  void whatIsPutBackGoesFirstInItsOrder() {
    WaitingQueue queue = queue("none, none, none, none");
    queue.pop(2, Counts.of(0, 0), 3, batch);

    queue.putBack(batch);

    assertThat(waiting(queue)).containsExactly(0L, 1L, 2L, 3L);
  }

  @ParameterizedTest
  @EnumSource(WaitingQueue.Policy.class)
  void puttingBackWhatWaitsIsRefusedAndChangesNothing(WaitingQueue.Policy policy) {
    WaitingQueue queue = WaitingQueue.withAttentionDp(policy, 2);
    Wishes.plain(2, 3).forEach(queue::offer);
    batch.add(Request.of(5, 3, 1));
    batch.add(Request.of(1, 3, 1));
    batch.add(Request.of(6, 3, 1));

    assertRefused(Code.ALREADY, () -> queue.putBack(batch), "request 1");
    assertThat(waiting(queue)).containsExactly(0L, 1L);

    batch.clear();
    batch.add(Request.of(7, 3, 1));
    batch.add(Request.of(7, 3, 1));
    assertRefused(Code.ALREADY, () -> queue.putBack(batch), "request 7");
    assertThat(waiting(queue)).containsExactly(0L, 1L);
  }

  @Test
  void anIdWaitsOnce() {
    WaitingQueue queue = queue("none");

    assertThat(queue.offer(Request.of(0, 9, 9))).isEqualTo(WaitingQueue.Offer.DUPLICATE);

    assertThat(queue.size()).isEqualTo(1);
    assertThat(queue.waiting().getFirst().promptTokens()).isEqualTo(3);
    assertThat(queue.cancel(0)).isTrue();
    assertThat(queue.offer(Request.of(0, 9, 9))).isEqualTo(WaitingQueue.Offer.QUEUED);
  }

  @Test
  void cancellingWhatDoesNotWaitSaysSo() {
    WaitingQueue queue = queue("none, none, none");

    assertThat(queue.cancel(7)).isFalse();
    assertThat(queue.cancel(1)).isTrue();
    assertThat(queue.cancel(1)).isFalse();
    assertThat(queue.contains(1)).isFalse();
    assertThat(waiting(queue)).containsExactly(0L, 2L);
  }

  @Test
  void aTargetRankThatDoesNotExistIsRefusedAndNamed() {
    WaitingQueue queue = queue("");
    Request outside = Wishes.requests(3, "relaxed 2").getFirst();

    assertRefused(Code.ARGUMENT, () -> queue.offer(outside), "rank 2");
    assertRefused(Code.ARGUMENT, () -> new SchedulingParams(-2, Relax.UNSET), "got -2");
    assertRefused(
        Code.ARGUMENT, () -> withChildren(0, Request.MAX_CHILDREN + 1), "children must be");
    batch.add(outside);
    assertRefused(Code.ARGUMENT, () -> queue.putBack(batch), "rank 2");
    assertThat(queue.isEmpty()).isTrue();
  }

  @Test
  void withoutAttentionDpTargetsMeanNothing() {
    WaitingQueue queue = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.FCFS);
    Wishes.requests(3, "strict 99, strict 99").forEach(queue::offer);

    assertThat(queue.pop(9, batch)).isEqualTo(2);
  }

  @Test
  void thePopMustFitTheQueue() {
    WaitingQueue with = queue("none");
    WaitingQueue without = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.FCFS);

    assertRefused(Code.STATE, () -> with.pop(1, batch), "2 ranks");
    assertRefused(Code.STATE, () -> without.pop(1, Counts.of(0), 3, batch), "attention DP");
    assertRefused(Code.ARGUMENT, () -> with.pop(1, Counts.of(0), 3, batch), "2 ranks");
    assertRefused(
        Code.ARGUMENT,
        () -> WaitingQueue.withAttentionDp(WaitingQueue.Policy.FCFS, 0),
        "at least one rank");
  }

  @Test
  void aPopAppendsToTheBatch() {
    WaitingQueue queue = queue("none, none");

    queue.pop(1, Counts.of(0, 0), 3, batch);
    queue.pop(1, Counts.of(0, 0), 3, batch);

    assertThat(popped()).containsExactly(0L, 1L);
    assertRefused(Code.ARGUMENT, () -> batch.get(2), "index 2");
    assertRefused(Code.ARGUMENT, () -> batch.get(-1), "index -1");
  }

  private static WaitingQueue queue(String wishes) {
    WaitingQueue queue = WaitingQueue.withAttentionDp(WaitingQueue.Policy.FCFS, 2);
    Wishes.requests(3, wishes).forEach(queue::offer);
    return queue;
  }

  private static Request withChildren(long id, int children) {
    return new Request(id, 3, 1, Request.DEFAULT_PRIORITY, SchedulingParams.NONE, children, 0);
  }

  private static Request withPriority(long id, double priority) {
    return new Request(id, 3, 1, priority, SchedulingParams.NONE, 0, 0);
  }

  private List<Long> popped() {
    var ids = new ArrayList<Long>();
    for (int i = 0; i < batch.size(); i++) {
      ids.add(batch.get(i).id());
    }
    return ids;
  }

  private static List<Long> waiting(WaitingQueue queue) {
    return queue.waiting().stream().map(Request::id).toList();
  }

  private static void assertRefused(Code code, ThrowingCallable call, String what) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code))
        .hasMessageContaining(what);
  }
}
