// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.plan.TestSizes;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Seat pools and lease maps against a naive model, under random operations. {@code -Dberth.seed=}
 * replays a run.
 */
class SlotPoolProperties {
  private static final long SEED = Long.getLong("berth.seed", 20261130L);

  @Test
  void poolsAgreeWithTheNaiveModelOverAMillionOperations() {
    run(1_200_000);
  }

  @Test
  @Tag("deep")
  void poolsAgreeWithTheNaiveModelOverTwentyMillionOperations() {
    run(20_000_000);
  }

  private static void run(long operations) {
    System.out.println("SlotPoolProperties: berth.seed=" + SEED);
    SplittableRandom random = new SplittableRandom(SEED);
    long done = 0;
    for (int sequence = 0; done < operations; sequence++) {
      int capacity = 1 + random.nextInt(sequence % 3 == 0 ? 8 : 200);
      int reserved = random.nextInt(3);
      Quarantine quarantine = random.nextBoolean() ? Quarantine.OFF : Quarantine.UNTIL_FENCE;
      try (SlotPool<?> pool =
          sequence % 2 == 0
              ? SeatPool.create(TestSizes.seats(capacity), reserved, quarantine)
              : LeaseMap.create(
                  TestSizes.leases(capacity),
                  LeaseMap.Options.DEFAULT.withReserved(reserved).withQuarantine(quarantine))) {
        var play = new Play(pool, new NaivePool(capacity, reserved, quarantine), random);
        for (int step = 0; step < 400; step++) {
          done += play.step("seed " + SEED + ", sequence " + sequence + ", step " + step);
        }
      }
    }
  }

  /** One pool beside one model. */
  private static final class Play {
    private final SlotPool<?> pool;
    private final NaivePool model;
    private final SplittableRandom random;
    private final SlotBatch batch = SlotBatch.ofCapacity(200);
    private final long stride;
    private final long[] seen = new long[300];
    private int nextSeen;

    Play(SlotPool<?> pool, NaivePool model, SplittableRandom random) {
      this.pool = pool;
      this.model = model;
      this.random = random;
      this.stride = 1L << random.nextInt(64);
    }

    /** One call on both; how many operations it was. */
    int step(String where) {
      // both sides of the 64 items up to which calls are critical
      int n = random.nextInt(10) == 0 ? random.nextInt(200) : random.nextInt(12);
      BatchMode mode = random.nextBoolean() ? BatchMode.ALL_OR_NOTHING : BatchMode.EACH;
      long now = random.nextInt(256);
      long fence = random.nextInt(32);
      batch.clear();
      switch (random.nextInt(11)) {
        case 0, 1, 2, 3 -> {
          fillIds(n);
          SlotStatus returned = pool.acquire(batch, mode, now);
          compare(where, returned, mode, n, i -> model.acquire(batch.id(i), now));
          for (int i = 0; i < n; i++) {
            long expected = batch.status(i) == SlotStatus.OK ? model.find(batch.id(i)) : 0;
            equal(where, batch.handle(i), expected);
            seen[nextSeen++ % seen.length] = batch.handle(i);
          }
        }
        case 4 -> {
          fillIds(n);
          pool.find(batch);
          for (int i = 0; i < n; i++) {
            equal(where, batch.handle(i), model.find(batch.id(i)));
            equal(where, batch.status(i) == SlotStatus.OK, batch.handle(i) != 0);
          }
        }
        case 5, 6 -> {
          fillHandles(n);
          SlotStatus returned = pool.release(batch, mode, fence);
          compare(where, returned, mode, n, i -> model.release(batch.handle(i), fence));
        }
        case 7 -> {
          fillIds(n);
          SlotStatus returned = pool.releaseIds(batch, mode, fence);
          compare(where, returned, mode, n, i -> model.releaseId(batch.id(i), fence));
        }
        case 8 -> {
          fillHandles(n);
          pool.touch(batch, now);
          for (int i = 0; i < n; i++) {
            equal(where, batch.status(i), model.touch(batch.handle(i), now));
          }
        }
        case 9 -> equal(where, pool.complete(fence), model.complete(fence));
        default -> {
          long idle = random.nextInt(64);
          List<Long> expected = model.idle(now, idle);
          pool.sweep(now, idle, fence, batch);
          var ids = new ArrayList<Long>();
          for (int i = 0; i < batch.size(); i++) {
            ids.add(batch.id(i));
          }
          equal(where, ids, expected);
          expected.forEach(id -> model.releaseId(id, fence));
        }
      }
      equal(where, pool.usage(), model.usage());
      return Math.max(1, n);
    }

    private void compare(
        String where, SlotStatus returned, BatchMode mode, int n, IntFunction<SlotStatus> item) {
      SlotStatus[] expected = model.batch(n, mode, item);
      SlotStatus first = SlotStatus.OK;
      for (int i = 0; i < n; i++) {
        equal(where, batch.status(i), expected[i]);
        if (first == SlotStatus.OK && expected[i] != SlotStatus.SKIPPED) {
          first = expected[i];
        }
      }
      equal(where, returned, mode == BatchMode.EACH ? SlotStatus.OK : first);
    }

    private void fillIds(int n) {
      for (int i = 0; i < n; i++) {
        batch.add(random.nextInt(50) == 0 ? -1L : random.nextInt(400) * stride);
      }
    }

    private void fillHandles(int n) {
      for (int i = 0; i < n; i++) {
        batch.addHandle(
            random.nextInt(50) == 0 ? random.nextLong() : seen[random.nextInt(seen.length)]);
      }
    }

    private static void equal(String where, Object actual, Object expected) {
      if (!actual.equals(expected)) {
        assertThat(actual).as(where).isEqualTo(expected);
      }
    }
  }
}
