// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.EngineConfig;
import dev.berth.engine.LockstepGroup;
import dev.berth.ffi.berth_cold_row;
import dev.berth.ffi.berth_row;
import dev.berth.request.RequestTable;
import dev.berth.request.SchedulingParams;
import dev.berth.test.TestConfig;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The no-leak check against an engine whose rows lose what they hold: the leak is a real one. */
class LeakTest {
  private static final int REQUESTS = 40;

  /** 6 + 4 tokens in pages of 4. */
  private static final int PAGES_A_REQUEST = 3;

  /** What a row forgets in the middle of a run, and what the pools miss for ever after. */
  private enum Loss {
    SEAT {
      @Override
      long from(MemorySegment row, MemorySegment cold) {
        berth_row.seat(row, -1);
        return 1;
      }
    },
    /** Pages are held under a lease: both are gone. */
    LEASE_AND_PAGES {
      @Override
      long from(MemorySegment row, MemorySegment cold) {
        long pages = berth_cold_row.pages(cold);
        berth_row.lease(row, -1);
        berth_cold_row.pages(cold, 0);
        return 1 + pages;
      }
    };

    /** How many are missing from then on. */
    abstract long from(MemorySegment row, MemorySegment cold);
  }

  private record Ran(RunResult result, ArmRecorder recorder) {
    ArmResult.CheckOutcome noLeak(Arm arm) {
      return ArmResult.of(arm, result, recorder).checks().stream()
          .filter(outcome -> outcome.check() == Check.NO_LEAK)
          .findFirst()
          .orElseThrow();
    }
  }

  private static EngineConfig engine() {
    return TestConfig.overlap(2, 4).tokensPerBlock(4).pages(64).build();
  }

  private static Arm arm(Map<Check, Long> mustFail) {
    return new Arm("a", "an arm", engine(), List.of(), mustFail, Optional.empty());
  }

  private static Ran run(Arm arm, Consumer<LockstepGroup> tamper, Progress progress) {
    var load =
        new Load(
            List.of(new Load.Group(REQUESTS, 6, 4, SchedulingParams.NONE)), REQUESTS, List.of());
    var recorder = new ArmRecorder(arm, load);
    var observer =
        new RunObserver() {
          @Override
          public void beforeStep(LockstepGroup group) {
            tamper.accept(group);
            recorder.beforeStep(group);
          }

          @Override
          public void afterStep(LockstepGroup group, double startedAtMicros) {
            recorder.afterStep(group, startedAtMicros);
          }
        };
    RunResult result =
        FleetRun.run(arm.engine(), load.arrivals(), CostModel.fitted(1), 0, observer, progress);
    return new Ran(result, recorder);
  }

  private static MemorySegment memory(RequestTable table, String field) {
    try {
      var found = RequestTable.class.getDeclaredField(field);
      found.setAccessible(true);
      return (MemorySegment) found.get(table);
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  /** Takes it from the first row of rank 1 that holds a seat and pages, in the third step. */
  private static Consumer<LockstepGroup> losing(Loss loss) {
    return losing(loss, lost -> {});
  }

  private static Consumer<LockstepGroup> losing(Loss loss, LongConsumer lost) {
    return group -> {
      RequestTable table = group.engine(1).table();
      if (group.steps() != 2) {
        return;
      }
      for (int row = 0; row < table.rows() - 1; row++) {
        if (table.seat(row) >= 0 && table.pages(row) > 0) {
          lost.accept(
              loss.from(
                  berth_row.asSlice(memory(table, "rows"), row),
                  berth_cold_row.asSlice(memory(table, "cold"), row)));
          return;
        }
      }
      throw new AssertionError("no row holds anything");
    };
  }

  @ParameterizedTest
  @EnumSource
  void whatARowLosesIsCountedAndFailsTheArm(Loss loss) {
    Arm arm = arm(Map.of());
    var lost = new AtomicLong();
    Ran ran = run(arm, losing(loss, lost::set), done -> {});
    assertThat(lost.get()).isEqualTo(loss == Loss.SEAT ? 1 : 1 + PAGES_A_REQUEST);
    assertThat(ran.result().leaked()).isEqualTo(lost.get());
    var outcome = ran.noLeak(arm);
    assertThat(outcome.violations()).isEqualTo(ran.result().leaked());
    assertThat(outcome.status()).isEqualTo(ArmResult.Status.FAILED);
    assertThat(ArmResult.of(arm, ran.result(), ran.recorder()).asDeclared()).isFalse();
  }

  @Test
  void aRunThatLosesNothingPasses() {
    Arm arm = arm(Map.of());
    Ran ran = run(arm, group -> {}, done -> {});
    assertThat(ran.result().done()).isEqualTo(REQUESTS);
    assertThat(ran.result().leaked()).isZero();
    assertThat(ran.noLeak(arm).status()).isEqualTo(ArmResult.Status.PASSED);
  }

  /**
   * The request whose lease is gone can neither run nor end, while padding keeps the fleet in step:
   * forwards of padding alone are no progress.
   */
  @Test
  void paddingAloneKeepsNoReplayAlive() {
    Ran ran = run(arm(Map.of()), losing(Loss.LEASE_AND_PAGES), done -> {});
    assertThat(ran.result().ending()).isEqualTo(RunResult.Ending.STALLED);
    assertThat(ran.result().unaccounted()).isEqualTo(1);
    assertThat(ran.result().detail()).contains("rank 1: 1 wait for");
  }

  /** What requests still hold when a run is stopped is held by somebody. */
  @Test
  void whatResidentRequestsHoldIsNoLeak() {
    Arm arm = arm(Map.of());
    var stopAtOnce =
        new Progress() {
          @Override
          public void ended(long requests) {}

          @Override
          public boolean interrupted() {
            return true;
          }
        };
    Ran ran = run(arm, group -> {}, stopAtOnce);
    assertThat(ran.result().ending()).isEqualTo(RunResult.Ending.INTERRUPTED);
    assertThat(ran.result().resident()).isPositive();
    assertThat(ran.result().leaked()).isZero();
    // and a loss among them is seen although they still run
    Ran losing =
        run(
            arm,
            losing(Loss.SEAT),
            new Progress() {
              private long steps;

              @Override
              public void ended(long requests) {
                steps++;
              }

              @Override
              public boolean interrupted() {
                return steps > 3;
              }
            });
    assertThat(losing.result().resident()).isPositive();
    assertThat(losing.result().leaked()).isEqualTo(1);
  }

  @Test
  void everyKindOfHoldingCounts() {
    assertThat(new Holdings(4, 4, 5, 5, 6, 6).leaked()).isZero();
    assertThat(new Holdings(4, 3, 5, 3, 6, 3).leaked()).isEqualTo(6);
    assertThat(new Holdings(4, 5, 5, 3, 6, 6).leaked()).as("no set-off between pools").isEqualTo(2);
  }
}
