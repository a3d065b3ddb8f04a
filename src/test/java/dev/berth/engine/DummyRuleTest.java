// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.engine.DummyRule.After;
import dev.berth.engine.DummyRule.Before;
import dev.berth.engine.DummyRule.Decision;
import dev.berth.engine.DummyRule.Role;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** When a rank pads, with what, and how a dummy ends (spec 01 §7, §12.7). */
class DummyRuleTest {
  private static final long UNLIMITED = Long.MAX_VALUE;

  @ParameterizedTest(name = "routable {0}, schedulable {1}, E {2}, filling {3}: {4}")
  @CsvSource({
    "0, 0, 2, false, PLACED",
    "0, 0, 0, false, NOT_NEEDED",
    "0, 1, 2, false, NOT_NEEDED",
    "0, 2, 0, false, NOT_NEEDED",
    "0, 0, 2, true, FILLING",
    "3, 0, 0, false, PLACED",
    "0, 1, 2, true, NOT_NEEDED",
  })
  void aRankWithoutSchedulableRequestsPadsBeforeScheduling(
      int routable, int schedulable, int expected, boolean filling, Decision decision) {
    assertThat(
            new DummyRule()
                .beforeScheduling(
                    new Before(routable, schedulable, expected, filling, UNLIMITED, 1)))
        .isEqualTo(decision);
  }

  @ParameterizedTest(name = "batch {0}, active {1}, K {2}, E {3}, filling {4}: {5}")
  @CsvSource({
    "0, 1, 2, 2, false, PLACED",
    "1, 1, 2, 2, false, NOT_NEEDED",
    "0, 0, 2, 2, false, NOT_NEEDED",
    "0, 1, 2, 0, false, NOT_NEEDED",
    "0, 2, 2, 2, false, FULL",
    "0, 1, 2, 2, true, FILLING",
  })
  void aRankThatScheduledNothingPadsUnlessItIsFull(
      int batch, int active, int cap, int expected, boolean filling, Decision decision) {
    assertThat(
            new DummyRule()
                .afterScheduling(new After(batch, active, cap, expected, filling, UNLIMITED, 1)))
        .isEqualTo(decision);
  }

  @Test
  void kvForTheWholeDummyIsAskedForFirst() {
    var rule = new DummyRule();

    assertThat(rule.beforeScheduling(new Before(0, 0, 1, false, 1, 2)))
        .isEqualTo(Decision.SHORT_OF_KV);
    assertThat(rule.alive()).isFalse();
    assertThat(rule.afterScheduling(new After(0, 1, 2, 1, false, 2, 2))).isEqualTo(Decision.PLACED);
  }

  @Test
  void thereAreNeverTwo() {
    var rule = new DummyRule();
    assertThat(before(rule)).isEqualTo(Decision.PLACED);

    assertThat(before(rule)).isEqualTo(Decision.ALIVE);
    assertThat(rule.afterScheduling(new After(0, 1, 2, 1, false, UNLIMITED, 1)))
        .isEqualTo(Decision.ALIVE);
  }

  @Test
  void aVetoRemovesTheTentativeOneAndAForwardTheCommittedOne() {
    var rule = new DummyRule();
    before(rule);
    assertThat(rule.rollBack()).isTrue();
    assertThat(rule.rollBack()).isFalse();
    assertThat(rule.alive()).isFalse();

    before(rule);
    assertThatThrownBy(rule::settled)
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("neither committed nor rolled back");
    rule.commit();
    assertThat(rule.rollBack()).as("a forward runs it").isFalse();
    assertThat(rule.alive()).isTrue();
    assertThat(rule.settled()).isTrue();
    assertThat(rule.settled()).isFalse();
    rule.commit();
    assertThat(rule.alive()).as("nothing to commit").isFalse();
  }

  @Test
  void theRoleFollowsWhatWasRoutedAndStaysWhereNothingWas() {
    var rule = new DummyRule();
    assertThat(rule.role()).isEqualTo(Role.GENERATION);

    rule.routed(1, 3);
    assertThat(rule.role()).isEqualTo(Role.CONTEXT);
    rule.routed(0, 0);
    assertThat(rule.role()).isEqualTo(Role.CONTEXT);
    rule.routed(0, 1);
    assertThat(rule.role()).isEqualTo(Role.GENERATION);
    rule.routed(0, 0);
    assertThat(rule.role()).isEqualTo(Role.GENERATION);
  }

  private static Decision before(DummyRule rule) {
    return rule.beforeScheduling(new Before(0, 0, 1, false, UNLIMITED, 1));
  }
}
