// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.id.Seat;
import dev.berth.kv.Acquisition.Acquired;
import dev.berth.kv.Acquisition.Already;
import dev.berth.kv.Acquisition.Exhausted;
import dev.berth.plan.TestSizes;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SeatPoolTest {
  @Test
  void theLowestFreeSeatComesFirst() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(3))) {
      assertThat(seat(pool, 10)).isEqualTo(new Seat(0));
      assertThat(seat(pool, 11)).isEqualTo(new Seat(1));
      assertThat(seat(pool, 12)).isEqualTo(new Seat(2));
      pool.release(handle(pool, 12), 0);
      pool.release(handle(pool, 10), 0);
      assertThat(seat(pool, 13)).isEqualTo(new Seat(0));
      assertThat(seat(pool, 14)).isEqualTo(new Seat(2));
    }
  }

  @Test
  void anIdThatIsThereKeepsItsSeat() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(3))) {
      long handle = ((Acquired<Seat>) pool.acquire(7, 0)).handle();
      assertThat(pool.acquire(7, 0)).isEqualTo(new Already<>(new Seat(0), handle));
      assertThat(pool.usage().used()).isEqualTo(1);
    }
  }

  @Test
  void exhaustionIsAResultThatGivesUsedCapacityAndReserved() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(2), 1, Quarantine.UNTIL_FENCE)) {
      pool.acquire(1, 0);
      pool.acquire(2, 0);
      pool.release(handle(pool, 1), 9);
      assertThat(pool.acquire(3, 0))
          .isEqualTo(
              new Exhausted<Seat>(
                  new SlotUsage(2, 1, 1, 1, 2),
                  "no free seat: 1 of 2 used, 1 in quarantine, 1 more reserved"));
      assertThat(pool.usage().free()).isZero();
    }
  }

  @Test
  void reservedSeatsHaveTheirNumbersAndAreNeverHandedOut() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(4), 2, Quarantine.OFF)) {
      assertThat(pool.reserved(0)).isEqualTo(new Seat(4));
      assertThat(pool.reserved(1)).isEqualTo(new Seat(5));
      assertThatThrownBy(() -> pool.reserved(2)).isInstanceOf(IndexOutOfBoundsException.class);
      SlotBatch batch = ids(1, 2, 3, 4, 5, 6);
      pool.acquire(batch, BatchMode.EACH, 0);
      for (int i = 0; i < 4; i++) {
        assertThat(pool.slot(batch.handle(i)).index()).isLessThan(4);
      }
      assertThat(statuses(batch).subList(4, 6)).containsOnly(SlotStatus.EXHAUSTED);
    }
  }

  @Test
  void aReleasedHandleIsStaleAndOneThatNeverWasIsNotFound() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(2))) {
      pool.acquire(1, 0);
      long handle = handle(pool, 1);
      pool.release(handle, 0);
      refused(Code.STALE, () -> pool.release(handle, 0));
      refused(Code.STALE, () -> pool.touch(handle, 0));
      pool.acquire(1, 0);
      refused(Code.STALE, () -> pool.release(handle, 0));
      for (long never : new long[] {0, -1, 1, Long.MIN_VALUE, handle(pool, 1) + (2L << 32)}) {
        refused(Code.NOT_FOUND, () -> pool.release(never, 0));
      }
      assertThat(pool.usage().used()).isEqualTo(1);
      assertThat(pool.find(2)).isEqualTo(OptionalLong.empty());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {3, 64, 65, 150}) // on both sides of a critical call's limit
  void aBatchThatFailsAsAWholeLeavesNoTrace(int n) {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(200))) {
      pool.acquire(5, 0);
      SlotUsage before = pool.usage();
      SlotBatch batch = SlotBatch.ofCapacity(n);
      for (int i = 0; i < n - 1; i++) {
        batch.add(1000 + i);
      }
      batch.add(5);
      assertThat(pool.acquire(batch, BatchMode.ALL_OR_NOTHING, 0)).isEqualTo(SlotStatus.ALREADY);
      assertThat(batch.status(n - 1)).isEqualTo(SlotStatus.ALREADY);
      assertThat(statuses(batch).subList(0, n - 1)).containsOnly(SlotStatus.SKIPPED);
      assertThat(batch.handle(0)).isZero();
      assertThat(pool.usage()).isEqualTo(before);

      batch.id(n - 1, 6);
      assertThat(pool.acquire(batch, BatchMode.ALL_OR_NOTHING, 0)).isEqualTo(SlotStatus.OK);
      before = pool.usage();
      batch.handle(n - 1, batch.handle(0));
      assertThat(pool.release(batch, BatchMode.ALL_OR_NOTHING, 0)).isEqualTo(SlotStatus.STALE);
      batch.id(n - 1, 12345);
      assertThat(pool.releaseIds(batch, BatchMode.ALL_OR_NOTHING, 0))
          .isEqualTo(SlotStatus.NOT_FOUND);
      assertThat(pool.usage()).isEqualTo(before);
    }
  }

  @Test
  void aSeatInQuarantineWaitsForItsOwnFence() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(2), 0, Quarantine.UNTIL_FENCE)) {
      pool.acquire(1, 0);
      pool.acquire(2, 0);
      pool.release(handle(pool, 1), 8);
      pool.release(handle(pool, 2), 3);
      assertThat(pool.acquire(3, 0)).isInstanceOf(Exhausted.class);
      assertThat(pool.complete(7)).isEqualTo(1);
      assertThat(seat(pool, 3)).isEqualTo(new Seat(1));
      assertThat(pool.complete(2)).isZero();
      assertThat(pool.complete(-1)).isEqualTo(1); // fences are unsigned
    }
  }

  @Test
  void aSweepThatDoesNotFitReleasesNothing() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(8))) {
      for (int id = 0; id < 4; id++) {
        pool.acquire(id, 10);
      }
      SlotBatch room = SlotBatch.ofCapacity(3);
      refused(Code.ARGUMENT, () -> pool.sweep(20, 9, 0, room));
      assertThat(pool.usage().used()).isEqualTo(4);
      assertThat(pool.sweep(20, 10, 0, room)).isZero();
      pool.touch(handle(pool, 2), 15);
      assertThat(pool.sweep(20, 9, 0, room)).isEqualTo(3);
      assertThat(List.of(room.id(0), room.id(1), room.id(2))).containsExactly(0L, 1L, 3L);
    }
  }

  @Test
  void aClosedPoolRefusesEveryCallAndClosesAgainQuietly() {
    SeatPool pool = SeatPool.create(TestSizes.seats(2));
    SlotBatch batch = ids(1);
    pool.close();
    pool.close();
    for (ThrowingCallable call :
        List.<ThrowingCallable>of(
            () -> pool.acquire(1, 0),
            () -> pool.acquire(batch, BatchMode.EACH, 0),
            () -> pool.find(1),
            () -> pool.find(batch),
            () -> pool.touch(1, 0),
            () -> pool.release(1, 0),
            () -> pool.releaseIds(batch, BatchMode.EACH, 0),
            () -> pool.complete(0),
            () -> pool.sweep(0, 0, 0, batch),
            pool::usage,
            pool::exhaustion)) {
      refused(Code.CLOSED, call);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 100})
  void aCloseByAnotherThreadEndsInAnExceptionNeverInACrash(int n) throws InterruptedException {
    for (int round = 0; round < 100; round++) {
      SeatPool pool = SeatPool.create(TestSizes.seats(128));
      var started = new CountDownLatch(1);
      var outcome = new AtomicReference<Throwable>();
      Thread user =
          new Thread(() -> {
            SlotBatch batch = SlotBatch.ofCapacity(n);
            for (int i = 0; i < n; i++) {
              batch.add(i);
            }
            try {
              while (true) {
                pool.acquire(batch, BatchMode.ALL_OR_NOTHING, 0);
                pool.release(batch, BatchMode.ALL_OR_NOTHING, 0);
                started.countDown();
              }
            } catch (Throwable t) {
              outcome.set(t);
            }
          });
      user.start();
      started.await();
      pool.close();
      user.join();
      assertThat(outcome.get())
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CLOSED));
    }
  }

  @Test
  void twoThreadsInOnePoolAreRefusedNotMixedUp() throws InterruptedException {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(64))) {
      var threads = new ArrayList<Thread>();
      var unexpected = new AtomicReference<Throwable>();
      for (int t = 0; t < 2; t++) {
        long first = 1000L * t;
        threads.add(
            new Thread(() -> {
              SlotBatch batch = ids(first, first + 1, first + 2);
              for (int i = 0; i < 20_000; i++) {
                try {
                  pool.acquire(batch, BatchMode.EACH, 0);
                  pool.releaseIds(batch, BatchMode.EACH, 0);
                } catch (BerthException e) {
                  if (e.code() != Code.STATE) {
                    unexpected.set(e);
                  }
                }
              }
            }));
      }
      threads.forEach(Thread::start);
      for (Thread thread : threads) {
        thread.join();
      }
      assertThat(unexpected.get()).isNull();
      assertThat(pool.usage().used()).isLessThanOrEqualTo(6);
    }
  }

  @Test
  void sizesBeyondTheLimitAreRefusedByName() {
    assertThatExceptionOfType(BerthException.class)
        .isThrownBy(() -> SeatPool.create(TestSizes.seats((1 << 20) + 1)))
        .withMessageContaining("1048577")
        .withMessageContaining("1048576");
    refused(Code.ARGUMENT, () -> SeatPool.create(TestSizes.seats(1), -1, Quarantine.OFF));
    refused(Code.ARGUMENT, () -> SeatPool.create(TestSizes.seats(0)));
  }

  @Test
  void aBatchGuardsItsBounds() {
    refused(Code.ARGUMENT, () -> SlotBatch.ofCapacity(0));
    refused(Code.ARGUMENT, () -> SlotBatch.ofCapacity((1 << 20) + 1));
    SlotBatch batch = SlotBatch.ofCapacity(2);
    batch.add(1);
    batch.addHandle(2);
    refused(Code.ARGUMENT, () -> batch.add(3));
    refused(Code.ARGUMENT, () -> batch.addHandle(3));
    for (ThrowingCallable call :
        List.<ThrowingCallable>of(
            () -> batch.id(2),
            () -> batch.id(-1),
            () -> batch.id(2, 0),
            () -> batch.handle(2),
            () -> batch.handle(2, 0),
            () -> batch.status(2),
            () -> batch.resize(3),
            () -> batch.resize(-1))) {
      assertThatThrownBy(call).isInstanceOf(IndexOutOfBoundsException.class);
    }
  }

  @Test
  void anEmptyBatchIsLegal() {
    try (SeatPool pool = SeatPool.create(TestSizes.seats(2))) {
      SlotBatch batch = SlotBatch.ofCapacity(1);
      assertThat(pool.acquire(batch, BatchMode.ALL_OR_NOTHING, 0)).isEqualTo(SlotStatus.OK);
      assertThat(pool.release(batch, BatchMode.ALL_OR_NOTHING, 0)).isEqualTo(SlotStatus.OK);
      pool.find(batch);
      pool.touch(batch, 0);
    }
  }

  private static void refused(Code code, ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  private static Seat seat(SeatPool pool, long id) {
    return ((Acquired<Seat>) pool.acquire(id, 0)).slot();
  }

  private static long handle(SeatPool pool, long id) {
    return pool.find(id).orElseThrow();
  }

  private static SlotBatch ids(long... ids) {
    SlotBatch batch = SlotBatch.ofCapacity(ids.length);
    for (long id : ids) {
      batch.add(id);
    }
    return batch;
  }

  private static List<SlotStatus> statuses(SlotBatch batch) {
    var all = new ArrayList<SlotStatus>();
    for (int i = 0; i < batch.size(); i++) {
      all.add(batch.status(i));
    }
    return all;
  }
}
