// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Worlds hold every rule, and a rule that is broken on purpose is noticed, made small and shown
 * again. {@code -Dberth.seed=} gives the first world.
 */
class SimulationTest {
  private static final long SEED = Long.getLong("berth.seed", 1);

  /** Worlds of the run in {@code .ci/run}: whatever is broken must be found in fewer. */
  private static final int CI_WORLDS = 20_000;

  private static void worldsHold(long count) {
    System.out.println("SimulationTest: -Dberth.seed=" + SEED);
    SimulationReport report = Simulation.of(SEED, count).run(2, () -> false);
    System.out.printf(
        "%,d worlds, %,d rank-iterations%n", report.worlds(), report.rankIterations());
    assertThat(report.failure().map(SimulationTest::told)).isEmpty();
    assertThat(report.worlds()).isEqualTo(count);
    assertThat(report.done() + report.stalled() + report.outOfReach()).isEqualTo(count);
    assertThat(report.stalled()).isPositive();
    assertThat(report.coverage().surprises()).isEmpty();
    assertThat(report.medianRanks()).isGreaterThanOrEqualTo(3);
    assertThat(report.medianIterations()).isGreaterThanOrEqualTo(100);
    assertThat(report.medianRequests()).isGreaterThanOrEqualTo(50);
  }

  private static String told(Failure failure) {
    return "%s%n%s%n%s%n%s%n%s"
        .formatted(
            failure.violation(),
            failure.shrunk(),
            failure.world(),
            String.join("\n", failure.history()),
            failure.reproduction());
  }

  @Test
  void everyWorldHoldsEveryRule() {
    worldsHold(600);
  }

  @Test
  @Tag("deep")
  void manyWorldsHoldEveryRule() {
    worldsHold(60_000);
  }

  // ------------------------------------------------------------------------------ what is broken

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "NONE")
  void aBrokenRuleIsFoundAndMadeSmall(BrokenRule rule) {
    SimulationReport report = Simulation.of(SEED, CI_WORLDS).breaking(rule).run();
    Failure failure = report.failure().orElseThrow();
    System.out.printf(
        "%s: world %d, %d of %d requests and more, %s%n",
        rule.id(), report.worlds(), failure.kept().size(), failure.requests(), failure.shrunk());
    assertThat(failure.shrunk().invariant()).isEqualTo(failure.violation().invariant());
    assertThat(failure.kept()).hasSizeLessThan(16);
    assertThat(failure.events()).hasSameSizeAs(failure.kept());

    Simulation again =
        Simulation.of(failure.seed(), 1).breaking(rule).only(Failure.ranges(failure.kept()));
    Failure shown = again.run().failure().orElseThrow();
    assertThat(shown.violation()).isEqualTo(failure.shrunk());
    assertThat(shown.reproduction()).isEqualTo(failure.reproduction());
    assertThat(failure.reproduction())
        .isEqualTo(
            "berth simulate --worlds 1 --seed %d --break %s --only %s",
            failure.seed(), rule.id(), Failure.ranges(failure.kept()));
  }

  /** Without any one of its events the smallest world is no failure. */
  @ParameterizedTest
  @EnumSource(names = {"LOCAL_CANCEL", "CAP_OFF", "NO_WATCH"})
  void nothingCanBeLeftOutOfTheSmallestWorld(BrokenRule rule) {
    Failure failure = Simulation.of(SEED, CI_WORLDS).breaking(rule).run().failure().orElseThrow();
    for (int event : failure.kept()) {
      List<Integer> fewer = new ArrayList<>(failure.kept());
      fewer.remove((Integer) event);
      Optional<Failure> without =
          Simulation.of(failure.seed(), 1)
              .breaking(rule)
              .only(Failure.ranges(fewer))
              .run()
              .failure();
      assertThat(without.map(f -> f.violation().invariant()))
          .as("without event %d", event)
          .isNotEqualTo(Optional.of(failure.violation().invariant()));
    }
  }

  /** Spec 06 BC-03: not only does it open too early, it never opens. */
  @Test
  void theCountGateThatNeverOpensIsFound() {
    Optional<Violation> hang = Optional.empty();
    for (long seed = SEED; seed < SEED + CI_WORLDS && hang.isEmpty(); seed++) {
      hang =
          World.run(WorldDraw.of(seed, BrokenRule.COUNT_GATE), History.NONE)
              .violation()
              .filter(violation -> violation.invariant() == Invariant.LIVENESS);
    }
    assertThat(hang.orElseThrow().what())
        .contains("the gate is closed", "none before or in its transfer");
  }

  // ------------------------------------------------------------------------------ dead ranks

  /** Spec 06 BC-69: every other rank says so, in time, whatever its clock does. */
  @Test
  void aDeadRankIsNamedByAllOthersInTime() {
    int named = 0;
    for (long seed = SEED; named < 20; seed++) {
      WorldPlan plan = WorldDraw.of(seed, BrokenRule.NONE);
      List<Happening> deaths =
          plan.happenings().stream().filter(h -> h.fault() == Fault.DEAD_RANK).toList();
      if (deaths.isEmpty() || plan.nodes() == 1) {
        continue;
      }
      var said = new ArrayList<String>();
      var times = new ArrayList<Long>();
      var died = new ArrayList<Long>();
      WorldResult result =
          World.run(
              plan,
              (micros, node, what) -> {
                if (what.equals("dies")) {
                  died.add(micros);
                } else if (what.contains(" waits for ")) {
                  said.add(node + ": " + what);
                  times.add(micros);
                }
              });
      if (result.ending() != WorldResult.Ending.STALLED_BY_NAME) {
        continue; // it missed nothing
      }
      named++;
      assertThat(said).as("seed %d", seed).hasSize(plan.nodes() - 1);
      long jumps =
          plan.happenings().stream()
              .filter(h -> h.fault() == Fault.CLOCK_JUMPS)
              .mapToLong(h -> Math.abs(h.amount()))
              .sum();
      // a fill's pause and the poll of an idle fleet come before
      assertThat(times.getLast() - died.getFirst())
          .as("seed %d", seed)
          .isLessThan((World.WATCH_TURNS + 2) * World.WATCH_MICROS + 2 * jumps);
    }
  }

  // ------------------------------------------------------------------------------ determinism

  @Test
  void theSameSeedIsTheSameWorldOnAnyNumberOfThreads() {
    SimulationReport one = Simulation.of(SEED, 60).run(1, () -> false);
    SimulationReport three = Simulation.of(SEED, 60).run(3, () -> false);
    assertThat(three.rankIterations()).isEqualTo(one.rankIterations());
    assertThat(three.coverage().gaps()).isEqualTo(one.coverage().gaps());
    assertThat(history(SEED + 7)).isEqualTo(history(SEED + 7)).isNotEqualTo(history(SEED + 8));
  }

  private static List<String> history(long seed) {
    var lines = new ArrayList<String>();
    World.run(
        WorldDraw.of(seed, BrokenRule.NONE),
        (micros, node, what) -> lines.add(micros + " " + node + " " + what));
    return lines;
  }

  /** The first bad world is told, not the one that was noticed first. */
  @Test
  void theFirstBadWorldIsTheOneThatIsTold() {
    Simulation simulation = Simulation.of(SEED, CI_WORLDS).breaking(BrokenRule.LOCAL_CANCEL);
    long first = simulation.run(1, () -> false).failure().orElseThrow().seed();
    assertThat(simulation.run(4, () -> false).failure().orElseThrow().seed()).isEqualTo(first);
  }

  @Test
  void aRunThatIsInterruptedTellsWhatItHas() {
    var asked = new int[1];
    SimulationReport report = Simulation.of(SEED, 1000).run(1, () -> ++asked[0] > 5);
    assertThat(report.worlds()).isEqualTo(5);
    assertThat(report.failure()).isEmpty();
  }

  // ------------------------------------------------------------------------------ bad input

  @ParameterizedTest
  @ValueSource(strings = {"", "a", "3-", "-3", "4-2", "1,,2", "1;2", "99999999999", "0-9999999"})
  void whatIsNoListOfEventsIsRefused(String events) {
    assertThatThrownBy(() -> Simulation.of(1, 1).only(events))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.ARGUMENT))
        .hasMessageContaining("'" + events + "'");
  }

  @ParameterizedTest
  @ValueSource(longs = {0, -1, Long.MAX_VALUE})
  void aNumberOfWorldsIsHeldToItsRange(long worlds) {
    assertThatThrownBy(() -> Simulation.of(1, worlds))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining(String.valueOf(worlds));
  }

  @Test
  void aNumberOfThreadsIsHeldToItsRange() {
    Simulation simulation = Simulation.of(1, 1);
    assertThatThrownBy(() -> simulation.run(0, () -> false)).isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> simulation.run(257, () -> false)).isInstanceOf(BerthException.class);
  }

  @Test
  void aListOfEventsIsReadAsItIsWritten() {
    for (List<Integer> numbers :
        List.of(List.<Integer>of(), List.of(3), List.of(0, 1, 2, 7, 9, 10))) {
      BitSet read = Failure.numbers(Failure.ranges(numbers));
      assertThat(read.stream().boxed().toList()).isEqualTo(numbers);
    }
    assertThat(Failure.ranges(List.of(0, 1, 2, 7, 9, 10))).isEqualTo("0-2,7,9-10");
  }
}
