// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.request.RequestState;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;
import org.junit.jupiter.params.provider.ValueSource;

/** The rows of spec 01 §12.3: wire form and tally. */
class RankStateTest {

  @Test
  void encodesInWireOrderWithDefaults() {
    long[] words = new long[16];
    Arrays.fill(words, 99);

    RankState.of(0, 5, 100, 0).encode(words, 1);

    assertThat(words).containsExactly(99, 0, 5, 100, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 99);
  }

  @Test
  void aShortPayloadHasDefaultsForItsTail() {
    assertThat(RankState.decode(new long[] {2, 3, 50}, 0, 3)).isEqualTo(RankState.of(2, 3, 50, 0));
    assertThat(RankState.decode(new long[] {2}, 0, 1)).isEqualTo(RankState.of(2, 0, 0, 0));
  }

  @Test
  void everyWordSurvivesTheRoundTrip() {
    long[] words = {1, 2, 3, 4, 5, 1, 7, 8, 9, 10, 11, 12, 13, 14};
    long[] again = new long[RankState.WORDS];

    RankState state = RankState.decode(words, 0, words.length);
    state.encode(again, 0);

    assertThat(again).isEqualTo(words);
    assertThat(state.statistics().iteration()).isEqualTo(7);
    assertThat(state.statistics().pausedKvTokens()).isEqualTo(14);
  }

  @ParameterizedTest
  @ValueSource(ints = {-1, 0, 15})
  void anEmptyOrTooLongPayloadIsRefused(int length) {
    assertRefused(() -> RankState.decode(new long[16], 0, length), "1 to 14 words");
  }

  @ParameterizedTest
  @CsvSource({"0, rank", "1, activeRequests", "2, activeTokens", "3, retiring", "4, pendingNew"})
  void aNegativeWordIsRefusedByName(int index, String field) {
    long[] words = new long[RankState.WORDS];
    words[index] = -1;

    assertRefused(() -> RankState.decode(words, 0, words.length), field);
  }

  @ParameterizedTest
  @ValueSource(ints = {RankState.RANK, RankState.ACTIVE_REQUESTS, RankState.RETIRING_REQUESTS})
  void aCountBeyondAnIntIsRefused(int index) {
    long[] words = new long[RankState.WORDS];
    words[index] = 1L << 31;

    assertRefused(() -> RankState.decode(words, 0, words.length), "2147483648");
  }

  @Test
  void aLoadThatCouldOverflowIsRefused() {
    assertRefused(() -> RankState.of(0, 1, RankState.MAX_TOKENS + 1, 0), "activeTokens");
  }

  @ParameterizedTest
  @CsvSource({"-1, 3", "3, 2", "2147483647, 1"})
  void wordsOutsideTheArrayAreRefused(int offset, int length) {
    assertRefused(() -> RankState.decode(new long[4], offset, length), "outside");
    assertRefused(() -> RankState.of(0, 0, 0, 0).encode(new long[14], offset), "don't fit");
  }

  @Test
  void retiringRequestsAreResidentButNotRoutable() {
    RankTally tally = tally(RetiringRule.EXCLUDED);

    assertThat(tally.state(3, 0)).isEqualTo(RankState.of(3, 1, 100, 2));
  }

  @Test
  void withoutTheExclusionRetiringRequestsAreCharged() {
    assertThat(tally(RetiringRule.CHARGED).state(0, 0)).isEqualTo(RankState.of(0, 3, 600, 0));
  }

  @Test
  void theWhatIfKeepsTheirTokens() {
    assertThat(tally(RetiringRule.EXCLUDED_TOKENS_CHARGED).state(0, 0))
        .isEqualTo(RankState.of(0, 1, 600, 2));
  }

  @Test
  void aRankWithNothingButRetireesIsNotRoutableAndStillLive() {
    var tally = new RankTally(RetiringRule.EXCLUDED);
    tally.addActive(RequestState.RETIRING, 5);
    tally.addActive(RequestState.RETIRING, 5);

    RankLoads loads = RankLoads.of(java.util.List.of(tally.state(0, 0)));

    assertThat(loads.routable()).isZero();
    assertThat(loads.live()).isEqualTo(2);
    assertThat(loads.activeTokens(0)).isZero();
  }

  @Test
  void requestsInTransferComposeWithTheExclusion() {
    var tally = new RankTally(RetiringRule.EXCLUDED);
    tally.addActive(RequestState.GENERATION, TokenLoad.UNCACHED.tokens(100, 0));
    tally.addActive(RequestState.RETIRING, TokenLoad.UNCACHED.tokens(200, 0));
    tally.addInTransfer(TokenLoad.UNCACHED.tokens(70, 0));

    assertThat(tally.state(0, 0)).isEqualTo(RankState.of(0, 2, 170, 1));
  }

  @Test
  void cachedTokensNeverMakeALoadNegative() {
    assertThat(TokenLoad.UNCACHED.tokens(10, 12)).isZero();
    assertThat(TokenLoad.UNCACHED.tokens(12, 10)).isEqualTo(2);
    assertThat(TokenLoad.PROMPT.tokens(10, 12)).isEqualTo(10);
  }

  @ParameterizedTest
  @EnumSource(value = RequestState.class, mode = Mode.EXCLUDE, names = "RETIRING")
  void onlyStateFourteenIsRetiring(RequestState state) {
    var tally = new RankTally(RetiringRule.EXCLUDED);
    tally.addActive(state, 150);
    tally.addActive(state, 250);

    assertThat(tally.state(0, 0)).isEqualTo(RankState.of(0, 2, 400, 0));
  }

  @Test
  void aResetTallyStartsAgain() {
    RankTally tally = tally(RetiringRule.EXCLUDED);
    tally.reset();

    assertThat(tally.state(0, 7))
        .isEqualTo(new RankState(0, 0, 0, 0, 7, RankState.IterationStatistics.NONE));
  }

  private static RankTally tally(RetiringRule rule) {
    var tally = new RankTally(rule);
    tally.addActive(RequestState.GENERATION, 100);
    tally.addActive(RequestState.RETIRING, 200);
    tally.addActive(RequestState.RETIRING, 300);
    return tally;
  }

  private static void assertRefused(
      org.assertj.core.api.ThrowableAssert.ThrowingCallable call, String what) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(BerthException.Code.ARGUMENT))
        .hasMessageContaining(what);
  }
}
