// SPDX-License-Identifier: Apache-2.0
package dev.berth.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.FillGate;
import dev.berth.model.Exploration.Hang;
import dev.berth.model.FleetModel.IdleView;
import dev.berth.model.FleetModel.Padding;
import dev.berth.model.FleetModel.Setup;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Fill gate, idle wait and vote of up to four ranks in every order in which things can happen. With
 * the engine's rules a fleet that has work gets on with it; with a rule that was broken in public
 * it hangs, and the shortest way there is printed.
 */
class FleetModelTest {
  /** Context workers: overlap or not, no transfers. */
  private static Setup contexts(int ranks, int batch, int requests) {
    return new Setup(
        ranks,
        batch,
        true,
        false,
        1,
        "L".repeat(requests),
        0,
        FillGate.NONE,
        IdleView.GATHERED_LIVE,
        Padding.BOTH);
  }

  private static Setup withoutOverlap(Setup s) {
    return new Setup(
        s.ranks(),
        s.batch(),
        false,
        s.transfers(),
        s.forwards(),
        s.requests(),
        s.failures(),
        s.gate(),
        s.idle(),
        s.padding());
  }

  /** Generation workers. */
  private static Setup generations(
      int ranks, int batch, int forwards, String requests, int failures) {
    return new Setup(
        ranks,
        batch,
        true,
        true,
        forwards,
        requests,
        failures,
        FillGate.NONE,
        IdleView.GATHERED_LIVE,
        Padding.BOTH);
  }

  /** A benchmark fill of all requests. */
  private static Setup filled(Setup setup, FillGate.Kind kind) {
    return setup.with(new FillGate(kind, setup.requests().length()));
  }

  private static Exploration explore(Setup setup) {
    // A fill waits for all of its requests.
    var exploration = new Exploration(new FleetModel(setup), setup.gate().active());
    System.out.printf(
        "%,d states, %,d transitions: %s%n",
        exploration.states(), exploration.transitions(), setup);
    return exploration;
  }

  private static Hang hang(Setup setup) {
    Optional<Hang> hang = explore(setup).hang();
    assertThat(hang).as("%s", setup).isPresent();
    System.out.println(hang.get());
    return hang.get();
  }

  // ------------------------------------------------------------------------------ the right rules

  private static List<Setup> right(int ranks) {
    var setups = new ArrayList<Setup>();
    for (int batch = 1; batch <= 2; batch++) {
      setups.add(contexts(ranks, batch, 5));
      setups.add(withoutOverlap(contexts(ranks, batch, 5)));
    }
    String mixed = ranks == 4 ? "LSL" : "LSLL";
    setups.add(generations(ranks, 1, 2, mixed, 1));
    setups.add(generations(ranks, 2, 2, mixed, 1));
    setups.add(withoutOverlap(generations(ranks, 1, 2, mixed, 1)));
    String fill = ranks == 4 ? "LSLL" : "LSLLL".substring(0, Math.min(5, 2 * ranks));
    int batch = Math.ceilDiv(fill.length(), ranks);
    setups.add(filled(generations(ranks, batch, 1, fill, ranks == 4 ? 0 : 1), FillGate.Kind.STATE));
    return setups;
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void aFleetWithWorkGetsOnWithIt(int ranks) {
    long states = 0;
    for (Setup setup : right(ranks)) {
      Exploration exploration = explore(setup);
      assertThat(exploration.hang()).as("%s", setup).isEmpty();
      states += exploration.states();
    }
    System.out.printf("%d ranks: %,d states%n", ranks, states);
    assertThat(states).isGreaterThan(List.of(0, 1000, 50_000, 100_000, 200_000).get(ranks));
  }

  @Test
  @Tag("deep")
  void aLargerFleetWithWorkGetsOnWithIt() {
    for (Setup setup :
        List.of(
            generations(4, 1, 2, "LSLL", 1),
            filled(generations(4, 1, 2, "LSLL", 1), FillGate.Kind.STATE),
            generations(3, 2, 2, "LSLLL", 1),
            contexts(4, 2, 9))) {
      assertThat(explore(setup).hang()).as("%s", setup).isEmpty();
    }
  }

  // ------------------------------------------------------------------------------ the published
  // hangs

  /**
   * Spec 06 BC-03: the gate counts requests that generate, and one of them is over as soon as its
   * KV has landed.
   */
  @ParameterizedTest
  @CsvSource({"1, LS", "2, LS", "3, LSL", "4, LLLS"})
  void theCountGateNeverOpensIfARequestEndsEarly(int ranks, String requests) {
    int batch = Math.ceilDiv(requests.length(), ranks);
    Setup fill = generations(ranks, batch, 1, requests, 0);
    Hang found = hang(filled(fill, FillGate.Kind.COUNT));
    assertThat(found.kind()).isEqualTo(Hang.Kind.GOES_ROUND);
    assertThat(found.steps().getLast()).contains("gate closed", "done 1");
    assertThat(explore(filled(fill, FillGate.Kind.STATE)).hang()).isEmpty();
  }

  /** The same where a transfer fails, as happens to the best. */
  @Test
  void theCountGateNeverOpensIfATransferFails() {
    Setup fill = generations(2, 1, 1, "LL", 1);
    assertThat(hang(filled(fill, FillGate.Kind.COUNT)).steps().toString()).contains("fail on rank");
    assertThat(explore(filled(fill, FillGate.Kind.STATE)).hang()).isEmpty();
  }

  /** Why it went unnoticed: nothing ends early, nothing fails, and it opens. */
  @Test
  void theCountGateOpensIfEverythingGoesWell() {
    assertThat(explore(filled(generations(3, 1, 1, "LLL", 0), FillGate.Kind.COUNT)).hang())
        .isEmpty();
  }

  /**
   * Spec 06 BC-04, BC-74: a fleet with nothing but retirees blocks, and their last tokens are not
   * delivered before new traffic comes.
   */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void anIdleTestOfRoutableRequestsLeavesRetireesBehind(int ranks) {
    Hang found = hang(contexts(ranks, 1, 1).with(IdleView.GATHERED_ROUTABLE));
    assertThat(found.kind()).isEqualTo(Hang.Kind.STANDS_STILL);
    assertThat(found.steps().getLast()).contains("sent 1, done 0", "rank 0 idle, 1 retiring");
    Hang generating = hang(generations(ranks, 1, 1, "L", 0).with(IdleView.GATHERED_ROUTABLE));
    assertThat(generating.steps().getLast()).contains("idle, 1 retiring");
  }

  /** Without overlap nothing retires, and the same test is right: it took overlap to show. */
  @Test
  void withoutOverlapRoutableRequestsAreAllThereAre() {
    assertThat(explore(withoutOverlap(contexts(3, 1, 3)).with(IdleView.GATHERED_ROUTABLE)).hang())
        .isEmpty();
  }

  /**
   * Spec 06 rule 7: a rank that asks only itself blocks on its queue while peers wait for it.
   * Woken, it begins an iteration anew: it gathers while they still vote.
   */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4})
  void anIdleTestOfOwnRequestsLeavesPeersInACollective(int ranks) {
    Hang found = hang(contexts(ranks, 1, 2).with(IdleView.OWN_LIVE));
    assertThat(found.kind()).isEqualTo(Hang.Kind.STANDS_STILL);
    assertThat(found.steps()).anyMatch(step -> step.contains("voting") && step.contains("idle"));
    assertThat(found.steps().getLast()).contains("voting", "gathering");
    assertThat(explore(contexts(1, 1, 2).with(IdleView.OWN_LIVE)).hang()).isEmpty();
  }

  /**
   * Spec 01 §7: one rank without a batch vetoes the forward everywhere; that is what dummies are
   * for.
   */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4})
  void aVoteWithoutDummiesNeverPasses(int ranks) {
    Hang found = hang(contexts(ranks, 1, 1).with(Padding.NONE));
    assertThat(found.kind()).isEqualTo(Hang.Kind.GOES_ROUND);
    assertThat(found.steps().getLast()).contains("1 ready");
    assertThat(explore(contexts(1, 1, 1).with(Padding.NONE)).hang()).isEmpty();
  }
}
