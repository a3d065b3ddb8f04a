// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.kv.KvBalance.Seen;
import dev.berth.plan.TestSizes;
import dev.berth.route.Seeds;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KvBalanceTest {
  private static final int BLOCK = 4;

  /** Two groups: full attention of 64 bytes a page, a window of 128. */
  private static final KvLayout TWO =
      KvLayout.plan(
          BLOCK,
          List.of(
              KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL),
              KvBuffer.of(1, KvBuffer.KEY, 128, new KvReach.Window(8, 0))));

  private static final int FULL = TWO.lifeCycle(0).group();
  private static final int WINDOW = TWO.lifeCycle(1).group();

  private static long[] pages(long full, long window) {
    long[] pages = new long[2];
    pages[FULL] = full;
    pages[WINDOW] = window;
    return pages;
  }

  private static KvSizes sizes(long full, long window) {
    return KvSizes.device(pages(full, window)).withRoomToBalance(TWO);
  }

  private static void code(Code code, org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  // ------------------------------------------------------------------------------ the split

  @Test
  void bytesGoWhereTheyAreAskedFor() {
    // 100 pages of 64 bytes and 100 of 128: 19200 bytes, of which two thirds are asked for pages of
    // 64.
    var seen = new Seen(2000, 120_000_000, pages(80, 20));
    assertThat(KvBalance.propose(TWO, sizes(100, 100), KvLevel.DEVICE, seen))
        .hasValueSatisfying(
            s -> assertThat(s.pages()[0]).isEqualTo(pages(1 + 19008 * 2 / 3 / 64, 50)));
  }

  @ParameterizedTest
  @CsvSource({
    "1999, 120000000, 80, 20, false",
    "2000, 119999999, 80, 20, false",
    "2000, 120000000, 80, 20, true",
    "2000, 120000000, 0, 0, false",
    "2000, 120000000, 100, 100, false", // as it is
    "2000, 120000000, 90, 80, false", // nearly
    "2000, 120000000, 0, 100, true"
  })
  void littleSeenOrLittleChangedIsNotWorthIt(
      long closed, long micros, long full, long window, boolean worth) {
    var seen = new Seen(closed, micros, pages(full, window));
    assertThat(KvBalance.propose(TWO, sizes(100, 100), KvLevel.DEVICE, seen).isPresent())
        .isEqualTo(worth);
  }

  @Test
  void noSplitHasMoreBytesOrLeavesAGroupWithoutAPage() {
    RandomGenerator random = Seeds.generator(Seeds.seed("KvBalanceTest"));
    for (int i = 0; i < 2000; i++) {
      KvSizes now = sizes(1 + random.nextInt(300), 1 + random.nextInt(300));
      var seen = new Seen(5000, 200_000_000, pages(random.nextInt(500), random.nextInt(5) * 100L));
      KvBalance.propose(TWO, now, KvLevel.DEVICE, seen)
          .ifPresent(s -> {
            assertThat(Arrays.stream(s.pages()[0]).allMatch(n -> n >= 1)).isTrue();
            assertThat(KvBalance.bytes(TWO, s.pages()[0]))
                .isLessThanOrEqualTo(KvBalance.bytes(TWO, now.pages()[0]));
            assertThat(s.most()).isDeepEqualTo(now.most());
          });
    }
  }

  @Test
  void whatIsNotOfTheLayoutIsRefused() {
    KvSizes now = sizes(10, 10);
    code(
        Code.ARGUMENT,
        () -> KvBalance.propose(TWO, now, KvLevel.DEVICE, new Seen(5000, 200_000_000, 1)));
    code(
        Code.ARGUMENT,
        () -> KvBalance.propose(TWO, now, KvLevel.DEVICE, new Seen(5000, 200_000_000, 1, -1)));
  }

  // ------------------------------------------------------------------------------ the cache

  private static KvCache cache(KvSizes sizes) {
    var config = KvConfig.of(TestSizes.leases(4), 16, 64).withMemory(KvConfig.Memory.HOST);
    return KvCache.create(TWO, config, sizes);
  }

  private static long run(KvCache cache, int row, int from, int n) {
    int[] tokens = IntStream.range(from, from + n).toArray();
    long s = ((KvOutcome.Done) cache.open(KvScope.NONE, tokens)).handle();
    assertThat(cache.resume(s, row)).isInstanceOf(KvOutcome.Done.class);
    assertThat(cache.resize(s, n)).isInstanceOf(KvOutcome.Done.class);
    for (int page : cache.pages(s, 0, 0)) {
      cache.page(KvLevel.DEVICE, poolOf(0), page).set(JAVA_LONG, 0, from);
    }
    cache.commit(s, Arrays.copyOfRange(tokens, cache.sequence(s).committed(), n));
    return s;
  }

  private static int poolOf(int lifeCycle) {
    for (int p = 0; p < TWO.pools(); p++) {
      if (TWO.pool(p).group() == TWO.lifeCycle(lifeCycle).group()) {
        return p;
      }
    }
    throw new AssertionError();
  }

  @Test
  void pagesMoveForwardAndKeepTheirBytes() {
    try (var cache = cache(sizes(20, 10))) {
      cache.close(run(cache, 0, 0, 32)); // eight pages that may go
      long s = run(cache, 0, 100, 32);
      KvSizes smaller = sizes(20, 10).with(KvLevel.DEVICE, pages(9, 12));
      code(Code.STATE, () -> cache.adjust(smaller));
      cache.suspend(s);
      assertThat(cache.adjust(smaller)).isInstanceOf(KvOutcome.Done.class);
      cache.check();
      assertThat(cache.usage().pages(KvLevel.DEVICE, FULL).total()).isEqualTo(9);
      assertThat(cache.usage().pages(KvLevel.DEVICE, WINDOW).total()).isEqualTo(12);
      assertThat(cache.resume(s, 0)).isInstanceOf(KvOutcome.Done.class);
      for (int page : cache.pages(s, 0, 0)) {
        assertThat(page).isBetween(0, 8);
        assertThat(cache.page(KvLevel.DEVICE, poolOf(0), page).get(JAVA_LONG, 0)).isEqualTo(100);
      }
      cache.suspend(s);
      assertThat(cache.adjust(sizes(20, 10).with(KvLevel.DEVICE, pages(7, 12))))
          .isEqualTo(new KvOutcome.PoolShort(KvLevel.DEVICE, FULL, 1));
      assertThat(cache.usage().pages(KvLevel.DEVICE, FULL).total()).isEqualTo(9);
    }
  }

  @Test
  void moreThanThereIsRoomForIsRefused() {
    try (var cache = cache(KvSizes.device(pages(20, 10)))) {
      code(Code.ARGUMENT, () -> cache.adjust(KvSizes.device(pages(21, 10))));
      code(Code.ARGUMENT, () -> cache.adjust(KvSizes.device(pages(0, 10))));
      code(Code.ARGUMENT, () -> cache.adjust(KvSizes.device(5)));
      code(
          Code.ARGUMENT,
          () -> cache.adjust(KvSizes.device(pages(20, 10)).with(KvLevel.DISK, 1, 1)));
      assertThat(cache.adjust(KvSizes.device(pages(20, 10)))).isInstanceOf(KvOutcome.Done.class);
    }
    var less = new KvSizes(sizes(20, 10).pages(), KvSizes.device(pages(19, 10)).pages());
    code(Code.ARGUMENT, () -> cache(less).close());
  }

  @Test
  void aWholeRoundFromUseToANewSplit() {
    KvSizes now = sizes(20, 20);
    try (var cache = cache(now)) {
      cache.close(run(cache, 0, 0, 32));
      var seen = new Seen(2000, 120_000_000, pages(16, 4));
      KvSizes next = KvBalance.propose(TWO, now, KvLevel.DEVICE, seen).orElseThrow();
      assertThat(cache.adjust(next)).isInstanceOf(KvOutcome.Done.class);
      assertThat(cache.usage().pages(KvLevel.DEVICE, FULL).total())
          .isEqualTo(next.pages()[0][FULL])
          .isGreaterThan(20);
      cache.check();
      // And back, from what is now.
      var other = new Seen(2000, 120_000_000, pages(4, 16));
      assertThat(cache.adjust(KvBalance.propose(TWO, next, KvLevel.DEVICE, other).orElseThrow()))
          .isInstanceOf(KvOutcome.Done.class);
      cache.check();
    }
  }
}
