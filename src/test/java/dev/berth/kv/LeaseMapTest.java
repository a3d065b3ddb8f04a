// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.id.Lease;
import dev.berth.kv.Acquisition.Acquired;
import dev.berth.kv.Acquisition.Exhausted;
import dev.berth.kv.LeaseMap.Beams;
import dev.berth.kv.LeaseMap.Options;
import dev.berth.kv.LeaseMap.Transfer;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.StartupValidator;
import dev.berth.plan.TestSizes;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

class LeaseMapTest {
  @Test
  void poolsPresentThemselvesToTheStartUpValidatorWithTheirOwnSizes() {
    var shape = WorkerShape.builder(8).ranks(2).with(Trait.ATTENTION_DP, Trait.OVERLAP).build();
    var plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    try (var seats = SeatPool.create(plan.seats());
        var leases = LeaseMap.create(plan.leases(), Options.DEFAULT.withReserved(2))) {
      var pools = new ArrayList<>(seats.registered());
      pools.addAll(leases.registered());
      var verdict = StartupValidator.check(plan, pools);
      assertThat(verdict.checked()).containsExactly("seat pool", "lease map", "padding lease pool");
      assertThat(verdict.disagreements())
          .extracting(StartupValidator.Disagreement::message)
          .containsExactly("padding lease pool has 2 rows, but the plan has 1 reserved leases");
    }
    try (var others = SeatPool.create(TestSizes.seats(15))) {
      assertThat(StartupValidator.check(plan, others.registered()).disagreements())
          .extracting(StartupValidator.Disagreement::message)
          .containsExactly("seat pool has 15 rows, but the plan has 16 seats");
    }
  }

  @Test
  void copyRowsAreContextsThenBeamsInRequestOrder() {
    try (LeaseMap map = map(8, Options.DEFAULT.withWidth(4))) {
      SlotBatch batch = acquired(map, 2, 0, 2); // leases in that order
      CopyRows rows = CopyRows.ofCapacity(10);
      assertThat(map.rows(batch, 1, 3, Beams.DISTINCT, rows)).isEqualTo(7);
      assertThat(values(rows)).containsExactly(8, 0, 1, 2, 8, 9, 10);
      assertThat(map.rows(batch, 0, 2, Beams.REPLICATED, rows)).isEqualTo(6);
      assertThat(values(rows)).containsExactly(8, 8, 0, 0, 8, 8);
      assertThat(map.rows(batch, 3, 1, Beams.DISTINCT, rows)).isEqualTo(3);
      assertThat(values(rows)).containsExactly(8, 0, 8);
      assertThat(rows.segment().getAtIndex(ValueLayout.JAVA_INT, 0)).isEqualTo(8);
    }
  }

  @Test
  void rowsOfAShapeThatCannotBeAreRefusedAndNothingIsWritten() {
    try (LeaseMap map = map(8, Options.DEFAULT.withWidth(2))) {
      SlotBatch batch = acquired(map, 2, 0);
      CopyRows rows = CopyRows.ofCapacity(3);
      assertThat(map.rows(batch, 2, 1, Beams.DISTINCT, rows)).isEqualTo(2);
      refused(Code.ARGUMENT, () -> map.rows(batch, -1, 1, Beams.DISTINCT, rows));
      refused(Code.ARGUMENT, () -> map.rows(batch, 3, 1, Beams.DISTINCT, rows));
      refused(Code.ARGUMENT, () -> map.rows(batch, 0, 0, Beams.DISTINCT, rows));
      refused(Code.ARGUMENT, () -> map.rows(batch, 0, 3, Beams.DISTINCT, rows));
      refused(Code.ARGUMENT, () -> map.rows(batch, 0, 2, Beams.DISTINCT, rows));
      refused(Code.ARGUMENT, () -> map.rows(batch, 0, Integer.MAX_VALUE, Beams.REPLICATED, rows));
      batch.handle(1, 77);
      refused(Code.NOT_FOUND, () -> map.rows(batch, 2, 1, Beams.DISTINCT, rows));
      map.release(batch.handle(0), 0);
      refused(Code.STALE, () -> map.rows(batch, 2, 1, Beams.DISTINCT, rows));
      assertThat(values(rows)).containsExactly(4, 0);
    }
  }

  @Test
  void moreHandlesThanLeasesAreRefused() {
    try (LeaseMap map = map(1, Options.DEFAULT)) {
      SlotBatch batch = acquired(map, 0, 0);
      refused(Code.ARGUMENT, () -> map.rows(batch, 2, 1, Beams.DISTINCT, CopyRows.ofCapacity(2)));
    }
  }

  @Test
  void exhaustionNamesDisaggregationOnlyWhereATransferEngineIsConfigured() {
    try (LeaseMap plain = map(1, Options.DEFAULT);
        LeaseMap sending = map(1, Options.DEFAULT.withReserved(2).withTransfer(Transfer.ENGINE))) {
      assertThat(exhausted(plain)).isEqualTo("no free lease: 1 of 1 used, none reserved");
      assertThat(exhausted(sending))
          .startsWith("no free lease: 1 of 1 used, 2 more reserved; with disaggregated prefill");
    }
  }

  @Test
  void reservedLeasesComeBehindThePlans() {
    try (LeaseMap map = map(3, Options.DEFAULT.withReserved(2))) {
      assertThat(map.reserved(1)).isEqualTo(new Lease(4));
    }
  }

  @Test
  void widthsThatMakeRowNumbersOverflowAreRefused() {
    for (int width : new int[] {0, -1, Integer.MAX_VALUE}) {
      refused(Code.ARGUMENT, () -> map(2, Options.DEFAULT.withWidth(width)));
    }
    refused(Code.ARGUMENT, () -> CopyRows.ofCapacity(0));
    refused(Code.ARGUMENT, () -> CopyRows.ofCapacity((1 << 20) + 1));
  }

  private static LeaseMap map(int leases, Options options) {
    return LeaseMap.create(TestSizes.leases(leases), options);
  }

  /** Fills the map as far as needed; a batch of the handles of those leases. */
  private static SlotBatch acquired(LeaseMap map, int... leases) {
    SlotBatch batch = SlotBatch.ofCapacity(leases.length);
    for (int lease : leases) {
      while (map.find(lease).isEmpty()) {
        map.acquire(map.usage().used(), 0);
      }
      batch.addHandle(map.find(lease).orElseThrow());
    }
    return batch;
  }

  private static String exhausted(LeaseMap map) {
    assertThat(map.acquire(1, 0)).isInstanceOf(Acquired.class);
    return ((Exhausted<Lease>) map.acquire(2, 0)).message();
  }

  private static int[] values(CopyRows rows) {
    int[] values = new int[rows.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = rows.row(i);
    }
    return values;
  }

  private static void refused(Code code, ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }
}
