// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Virtual-token fairness, rule by rule, and its bound under random loads. */
class FairQueueTest {
  private static final int CAP = 3;

  private final WaitingQueue queue = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.FAIR);
  private final RequestBatch batch = new RequestBatch();
  private long nextId = 100;

  private Request request(long tenant, int prompt, int output) {
    return Request.of(nextId++, prompt, output).withTerms(ServiceTerms.ofTenant(tenant));
  }

  private List<Long> pop(int count) {
    batch.clear();
    queue.pop(count, batch);
    return tenants(batch);
  }

  private static List<Long> tenants(RequestBatch batch) {
    var tenants = new ArrayList<Long>();
    for (int i = 0; i < batch.size(); i++) {
      tenants.add(batch.get(i).terms().tenant());
    }
    return tenants;
  }

  @Test
  void aThousandRequestsOfOneTenantHoldUpNobodyElse() {
    for (int i = 0; i < 1000; i++) {
      queue.offer(request(7, 10, 10));
    }
    queue.offer(request(8, 10, 10));

    assertThat(pop(3)).containsExactly(7L, 8L, 7L);
  }

  @Test
  void whoUsesMoreTokensIsTakenLessOften() {
    for (int i = 0; i < 8; i++) {
      queue.offer(request(1, 30, 10));
      queue.offer(request(2, 10, 10));
    }

    assertThat(pop(6)).containsExactly(1L, 2L, 2L, 1L, 2L, 2L);
  }

  @Test
  void everySequenceOfARequestCostsItsOutput() {
    Request three = new Request(0, 5, 10, 0.5, SchedulingParams.NONE, 2, 0);

    assertThat(three.serviceTokens()).isEqualTo(5 + 3 * 10);
    assertThat(Tenants.charge(three)).isEqualTo(1024 * 35);
    assertThat(Tenants.charge(three.withTerms(ServiceTerms.NONE.withWeight(3))))
        .isEqualTo((1024 * 35 + 2) / 3);
  }

  @Test
  void twiceTheWeightIsTwiceTheShare() {
    for (int i = 0; i < 30; i++) {
      Request heavy = request(1, 10, 10);
      queue.offer(heavy.withTerms(heavy.terms().withWeight(2)));
      queue.offer(request(2, 10, 10));
    }

    assertThat(pop(30).stream().filter(tenant -> tenant == 1)).hasSize(20);
  }

  @Test
  void aPriorityOrdersItsTenantsRequestsOnly() {
    queue.offer(request(1, 10, 10));
    queue.offer(request(1, 10, 10).withPriority(0.9));
    queue.offer(request(2, 10, 10));
    queue.offer(request(1, 10, 10).withPriority(0.9));

    assertThat(pop(4)).containsExactly(1L, 2L, 1L, 1L);
    assertThat(ids(batch)).containsExactly(101L, 102L, 103L, 100L);
  }

  @Test
  void whoWasAwayClaimsNothingForThatTime() {
    for (int i = 0; i < 10; i++) {
      queue.offer(request(1, 10, 10));
    }
    pop(8);
    for (int i = 0; i < 4; i++) {
      queue.offer(request(2, 10, 10));
    }

    assertThat(pop(4)).containsExactly(2L, 1L, 2L, 1L);
  }

  @Test
  void whoWasServedMoreStillOwesItAfterAShortAbsence() {
    queue.offer(request(1, 1000, 1000));
    queue.offer(request(2, 10, 10));
    assertThat(pop(2)).containsExactly(1L, 2L);
    queue.offer(request(1, 10, 10));
    for (int i = 0; i < 5; i++) {
      queue.offer(request(2, 10, 10));
    }

    assertThat(pop(6)).containsExactly(2L, 2L, 2L, 2L, 2L, 1L);
  }

  @Test
  void whatIsPutBackCostsNothing() {
    for (int i = 0; i < 4; i++) {
      queue.offer(request(1, 500, 10));
      queue.offer(request(2, 10, 10));
    }
    List<Request> before = queue.waiting();
    assertThat(pop(1)).containsExactly(1L);

    queue.putBack(batch);

    assertThat(queue.waiting()).isEqualTo(before);
    assertThat(pop(8)).containsExactly(1L, 2L, 2L, 2L, 2L, 1L, 1L, 1L);
  }

  @Test
  void whoCannotBeServedSavesUpNothing() {
    WaitingQueue dp = WaitingQueue.withAttentionDp(WaitingQueue.Policy.FAIR, 2);
    for (int i = 0; i < 4; i++) {
      dp.offer(request(1, 10, 10).withScheduling(SchedulingParams.target(0, Relax.STRICT)));
    }
    for (int i = 0; i < 20; i++) {
      dp.offer(request(2, 10, 10));
    }
    dp.pop(10, Counts.of(CAP, 0), CAP, batch);
    assertThat(tenants(batch)).hasSize(10).containsOnly(2L);
    batch.clear();

    dp.pop(6, Counts.of(0, 0), 100, batch);

    assertThat(tenants(batch)).containsExactly(1L, 2L, 1L, 2L, 1L, 2L);
  }

  @Test
  void withOneTenantItIsThePriorityQueue() {
    RandomGenerator random = Seeds.generator(Seeds.seed("FairQueueTest.oneTenant"));
    WaitingQueue priority = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.PRIORITY);
    for (int step = 0; step < 5_000; step++) {
      if (random.nextInt(3) > 0) {
        Request request =
            request(5, random.nextInt(50), 1 + random.nextInt(50))
                .withPriority(random.nextInt(4) / 4.0);
        queue.offer(request);
        priority.offer(request);
      } else {
        int budget = random.nextInt(4);
        pop(budget);
        RequestBatch same = new RequestBatch();
        priority.pop(budget, same);
        assertThat(ids(batch)).as("step %d", step).isEqualTo(ids(same));
      }
    }
  }

  private static List<Long> ids(RequestBatch batch) {
    var ids = new ArrayList<Long>();
    for (int i = 0; i < batch.size(); i++) {
      ids.add(batch.get(i).id());
    }
    return ids;
  }

  @Test
  void tenantsThatOweNothingAreForgotten() {
    WaitingQueueFair fair = (WaitingQueueFair) queue;
    for (long tenant = 0; tenant < 100_000; tenant++) {
      queue.offer(request(tenant << 20, 10, 10));
      queue.offer(request(-1, 10, 10));
      pop(2);
    }

    assertThat(queue.isEmpty()).isTrue();
    assertThat(fair.tenants()).isLessThan(4);
  }

  @Test
  void tenantsThatCancelEverythingAreForgotten() {
    WaitingQueueFair fair = (WaitingQueueFair) queue;
    for (long tenant = 0; tenant < 1_000; tenant++) {
      Request request = request(tenant, 10, 10);
      queue.offer(request);
      queue.cancel(request.id());
    }

    assertThat(fair.tenants()).isZero();
  }

  @Test
  void theLargestRequestsNeverOverflowACounter() {
    Request[] largest = new Request[4];
    for (int tenant = 0; tenant < 4; tenant++) {
      largest[tenant] =
          new Request(
              tenant,
              Integer.MAX_VALUE,
              Integer.MAX_VALUE,
              0.5,
              SchedulingParams.NONE,
              Request.MAX_CHILDREN,
              0,
              ServiceTerms.ofTenant(tenant));
    }
    for (Request request : largest) {
      queue.offer(request);
    }
    for (int round = 0; round < 1000; round++) {
      for (long tenant = 0; tenant < 4; tenant++) {
        assertThat(pop(1 + Request.MAX_CHILDREN)).containsExactly(tenant);
        queue.offer(largest[(int) tenant]);
      }
      queue.offer(request(4, 1, 1));
      assertThat(pop(1)).as("round %d", round).containsExactly(4L);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, -1, Integer.MIN_VALUE, ServiceTerms.MAX_WEIGHT + 1})
  void aWeightOutsideItsRangeIsRefused(int weight) {
    assertThatThrownBy(() -> ServiceTerms.NONE.withWeight(weight))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.ARGUMENT))
        .hasMessageContaining("weight must be from 1 to 1024, got " + weight);
  }

  /**
   * Before r is taken, no other tenant is charged more than what r's tenant is charged ahead of it
   * and the largest request of each of the two; whoever offers how much, in whatever order.
   */
  @Test
  void nobodyWaitsForMoreThanTheBound() {
    RandomGenerator random = Seeds.generator(Seeds.seed("FairQueueTest.bound"));
    for (int run = 0; run < 60; run++) {
      new BoundedRun(random).run(1_500);
    }
  }

  /** Offers and pops at random and keeps the accounts of every waiting request. */
  private static final class BoundedRun {
    private final RandomGenerator random;
    private final WaitingQueue queue = WaitingQueue.withoutAttentionDp(WaitingQueue.Policy.FAIR);
    private final int tenants;
    private final Map<Long, Long> charged = new HashMap<>();
    private final Map<Long, Long> largest = new HashMap<>();

    /** What each tenant had been charged when a request came. */
    private final Map<Long, Map<Long, Long>> chargedAtOffer = new HashMap<>();

    private long nextId;

    BoundedRun(RandomGenerator random) {
      this.random = random;
      this.tenants = 2 + random.nextInt(6);
    }

    void run(int steps) {
      RequestBatch batch = new RequestBatch();
      for (int step = 0; step < steps; step++) {
        if (random.nextInt(10) < 5) {
          offer();
        } else {
          batch.clear();
          queue.pop(random.nextInt(5), batch);
          for (int i = 0; i < batch.size(); i++) {
            check(batch.get(i));
          }
          if (random.nextInt(12) == 0) {
            putBack(batch);
          }
        }
      }
    }

    /** Tenant 0 floods; the others send now and then. */
    private void offer() {
      long tenant = random.nextBoolean() ? 0 : random.nextInt(tenants);
      int size = random.nextInt(20) == 0 ? 5_000 : 100;
      Request request =
          Request.of(nextId++, random.nextInt(size), 1 + random.nextInt(size))
              .withPriority(random.nextInt(3) / 2.0)
              .withTerms(ServiceTerms.ofTenant(tenant).withWeight(1 + (int) tenant));
      largest.merge(tenant, Tenants.charge(request), Math::max);
      chargedAtOffer.put(request.id(), new HashMap<>(charged));
      queue.offer(request);
    }

    private void check(Request request) {
      long own = request.terms().tenant();
      Map<Long, Long> before = chargedAtOffer.getOrDefault(request.id(), Map.of());
      long ahead = since(before, own);
      for (long other = 0; other < tenants; other++) {
        if (other != own) {
          assertThat(since(before, other))
              .as("charged to tenant %d while request %s waited", other, request)
              .isLessThanOrEqualTo(
                  ahead + largest.getOrDefault(own, 0L) + largest.getOrDefault(other, 0L));
        }
      }
      charged.merge(own, Tenants.charge(request), Long::sum);
    }

    private long since(Map<Long, Long> before, long tenant) {
      return charged.getOrDefault(tenant, 0L) - before.getOrDefault(tenant, 0L);
    }

    private void putBack(RequestBatch batch) {
      queue.putBack(batch);
      for (int i = 0; i < batch.size(); i++) {
        Request request = batch.get(i);
        charged.merge(request.terms().tenant(), -Tenants.charge(request), Long::sum);
      }
      for (int i = 0; i < batch.size(); i++) {
        // As far as the bound goes, it is offered anew.
        chargedAtOffer.put(batch.get(i).id(), new HashMap<>(charged));
      }
    }
  }
}
