// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.journey.PagedDevice;
import dev.berth.route.Seeds;
import java.util.EnumSet;
import java.util.Optional;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * The oracle: a transformer whose attention reads keys and values only through the cache's tables
 * says what it says on contiguous memory, whatever is reused, copied, moved, preempted or under
 * way.
 */
class KvOracleTest {
  @Test
  void tokensAreThoseOfContiguousMemoryUnderEveryPolicy() {
    workloads(1_000);
  }

  @Test
  @Tag("deep")
  void tokensAreThoseOfContiguousMemoryUnderEveryPolicyForLong() {
    workloads(20_000);
  }

  private static void workloads(int n) {
    long seed = Seeds.seed("KvOracleTest");
    var seen = EnumSet.noneOf(KvWorkload.Seen.class);
    for (int i = 0; i < n; i++) {
      RandomGenerator random = Seeds.generator(seed + i);
      KvWorkload.Policy policy = KvWorkload.Policy.random(random);
      try {
        var workload = new KvWorkload(random, policy, new KvWorkload.Meddling()).run();
        assertThat(workload.outputs()).isEqualTo(workload.alone());
        seen.addAll(workload.seen());
      } catch (AssertionError | RuntimeException e) {
        throw new AssertionError("seed " + (seed + i) + ", " + policy, e);
      }
    }
    assertThat(seen).isEqualTo(EnumSet.allOf(KvWorkload.Seen.class));
  }

  // ------------------------------------------------------------------------------ that it can fail

  /** Meddles with workloads until enough were meddled with, and looks how many say otherwise. */
  private static void changesTheTokens(
      UnaryOperator<KvWorkload.Policy> adapt, Supplier<KvWorkload.Meddling> meddling) {
    long seed = Seeds.seed("KvOracleTest");
    int done = 0;
    int changed = 0;
    for (int i = 0; i < 100 && done < 16; i++) {
      RandomGenerator random = Seeds.generator(seed + i);
      KvWorkload.Policy policy = adapt.apply(KvWorkload.Policy.random(random));
      KvWorkload.Meddling meddles = meddling.get();
      KvWorkload workload;
      try {
        workload = new KvWorkload(random, policy, meddles).run();
      } catch (AssertionError e) {
        throw new AssertionError(
            "seed " + (seed + i) + ", meddled " + meddles.times + ", " + policy, e);
      }
      boolean same = workload.outputs().equals(workload.alone());
      if (meddles.times == 0) {
        assertThat(same).isTrue();
      } else {
        done++;
        changed += same ? 0 : 1;
      }
    }
    assertThat(done).isEqualTo(16);
    // A token more or less of what it attends to needn't change what a model says; three times of
    // four and more it does.
    assertThat(changed).as("of %d", done).isGreaterThan(done / 3);
  }

  /** Full attention alone, so that a swapped page is there at all. */
  private static KvWorkload.Policy fullAttention(KvWorkload.Policy policy) {
    return policy.with(0, policy.partial(), 1, 0, 0, KvConfig.Timing.SYNCHRONOUS);
  }

  private abstract static class Tables extends KvWorkload.Meddling {
    @Override
    KvTables tables(KvTables published, PagedDevice device, int rows, RandomGenerator random) {
      device.rowLens = IntUnaryOperator.identity();
      device.blockLens = IntUnaryOperator.identity();
      return meddled(published, device, rows);
    }

    abstract KvTables meddled(KvTables published, PagedDevice device, int rows);
  }

  @Test
  void twoRowsSwappedChangeTheTokens() {
    changesTheTokens(
        KvOracleTest::fullAttention,
        () ->
            new Tables() {
              @Override
              KvTables meddled(KvTables published, PagedDevice device, int rows) {
                // Two generations of the same place in their blocks, or a page may be missing.
                if (rows > 1 && longEnough(published, 0) && longEnough(published, 1)) {
                  device.rowLens = row -> row < 2 ? 1 - row : row;
                  times++;
                }
                return published;
              }

              private boolean longEnough(KvTables tables, int row) {
                return tables.lastPageLength().getAtIndex(JAVA_INT, row) > 0
                    && length(tables, row) == length(tables, 1 - row);
              }
            });
  }

  private static int length(KvTables tables, int row) {
    return tables.indptr().getAtIndex(JAVA_INT, row + 1)
        - tables.indptr().getAtIndex(JAVA_INT, row);
  }

  @Test
  void twoPagesSwappedChangeTheTokens() {
    changesTheTokens(
        KvOracleTest::fullAttention,
        () ->
            new Tables() {
              @Override
              KvTables meddled(KvTables published, PagedDevice device, int rows) {
                boolean pages = true;
                for (int row = 0; row < rows; row++) {
                  pages &= length(published, row) > 1;
                }
                if (pages) {
                  device.blockLens = block -> block < 2 ? 1 - block : block;
                  times++;
                }
                return published;
              }
            });
  }

  @Test
  void theTablesOfTheBatchBeforeChangeTheTokens() {
    changesTheTokens(
        policy -> policy.with(0, policy.partial(), 1, 0, 2, KvConfig.Timing.SYNCHRONOUS),
        () ->
            new Tables() {
              private Optional<KvTables> before = Optional.empty();

              @Override
              KvTables meddled(KvTables published, PagedDevice device, int rows) {
                Optional<KvTables> last = before;
                before = Optional.of(published);
                boolean stale =
                    last.isPresent()
                        && last.get().rows() >= rows
                        && last.get() != published
                        && IntStream.range(0, rows)
                            .allMatch(row -> length(last.get(), row) >= length(published, row));
                times += stale ? 1 : 0;
                return stale ? last.orElseThrow() : published;
              }
            });
  }

  /** What resumes copied: of a part of a block, or from a lower level. */
  private abstract static class Resumes extends KvWorkload.Meddling {
    @Override
    boolean watchesResumes() {
      return true;
    }

    @Override
    void resumed(boolean wrote, Runnable undo, Runnable redo) {
      if (wrote) {
        times++;
        meddle(undo, redo);
      }
    }

    abstract void meddle(Runnable undo, Runnable redo);
  }

  private static KvWorkload.Policy copying(KvWorkload.Policy policy) {
    return policy.with(0, KvConfig.Partial.COPY, 1, 0, 1, KvConfig.Timing.SYNCHRONOUS);
  }

  @Test
  void aCopyThatIsSkippedChangesTheTokens() {
    changesTheTokens(
        KvOracleTest::copying,
        () ->
            new Resumes() {
              @Override
              void meddle(Runnable undo, Runnable redo) {
                undo.run();
              }
            });
  }

  @Test
  void aCopyThatIsUndoneAndDoneAgainChangesNothing() {
    long seed = Seeds.seed("KvOracleTest");
    int times = 0;
    for (int i = 0; i < 10; i++) {
      RandomGenerator random = Seeds.generator(seed + i);
      var meddling =
          new Resumes() {
            @Override
            void meddle(Runnable undo, Runnable redo) {
              undo.run();
              redo.run();
            }
          };
      var policy = copying(KvWorkload.Policy.random(random));
      var workload = new KvWorkload(random, policy, meddling).run();
      assertThat(workload.outputs()).isEqualTo(workload.alone());
      times += meddling.times;
    }
    assertThat(times).isPositive();
  }
}
