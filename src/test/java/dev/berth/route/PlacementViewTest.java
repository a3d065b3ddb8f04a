// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.request.Request;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Retiring requests in placement, and ranks that take nothing (spec 01 §4.5). */
class PlacementViewTest {
  @Test
  void aRankThatParkedItsRequestsLooksLightestToAdmissionOnly() {
    int[] active = {1, 1};
    long[] tokens = {50, 100};
    int[] retiring = {2, 0};

    assertThat(rankOf(PlacementView.ADMISSION, active, tokens, retiring)).isZero();
    assertThat(rankOf(PlacementView.RESIDENT, active, tokens, retiring)).isEqualTo(1);
  }

  /** Rank 0: 150 tokens of 3 routable requests and 1 retiring one, so 200. */
  @Test
  void aRetiringRequestWeighsAsMuchAsItsRanksMean() {
    int[] active = {3, 3};
    int[] retiring = {1, 0};

    assertThat(rankOf(PlacementView.RESIDENT, active, new long[] {150, 199}, retiring))
        .isEqualTo(1);
    assertThat(rankOf(PlacementView.RESIDENT, active, new long[] {150, 201}, retiring)).isZero();
  }

  @Test
  void whereNothingIsRoutableTheNewPromptsAreTheMeasure() {
    assertThat(rankOf(PlacementView.RESIDENT, new int[2], new long[2], new int[] {1, 0}))
        .isEqualTo(1);
  }

  /** E and K go by routable requests in every view: retirees don't close a rank. */
  @ParameterizedTest
  @EnumSource
  void admissionIsTheSameInEveryView(PlacementView view) {
    var router = new DefaultRouter(RankCap.HARD, view, TieRule.LOWEST_RANK);

    Routed routed =
        Routed.by(router, loads(new int[2], new long[2], new int[] {2, 2}), Wishes.plain(4, 7), 2);

    assertThat(routed.expectedActive()).isEqualTo(2);
    assertThat(routed.ranks()).allSatisfy(given -> assertThat(given).hasSize(2));
  }

  @ParameterizedTest
  @EnumSource
  void theGreatestNumbersDoNotOverflow(PlacementView view) {
    int[] most = {Integer.MAX_VALUE - 4, 1};
    var router = new DefaultRouter(RankCap.HARD, view, TieRule.LOWEST_RANK);

    Routed routed =
        Routed.by(
            router,
            loads(most, new long[] {RankState.MAX_TOKENS, 5}, new int[] {Integer.MAX_VALUE, 0}),
            Wishes.plain(2, 3),
            Integer.MAX_VALUE);

    assertThat(routed.ranks().get(1)).hasSize(2);
  }

  @ParameterizedTest
  @EnumSource
  void aClosedRankTakesNothingAndTheOthersShareItsPart(PlacementView view) {
    RankLoads loads = loads(new int[] {0, 0, 1}, new long[3], new int[3]);
    loads.close(0);
    loads.close(0);

    Routed routed =
        Routed.by(
            new DefaultRouter(RankCap.HARD, view, TieRule.LOWEST_RANK),
            loads,
            Wishes.requests(3, "strict 0, relaxed 0, none"),
            8);

    assertThat(loads.openRanks()).isEqualTo(2);
    assertThat(loads.routable()).as("still the fleet's").isEqualTo(1);
    assertThat(routed.ranks().get(0)).isEmpty();
    assertThat(routed.unassigned()).isEmpty();
    assertThat(routed.expectedActive()).isEqualTo(2);
  }

  @Test
  void withEveryRankClosedEverythingIsUnassigned() {
    for (AdpRouter router :
        List.of(new DefaultRouter(), new KvAwareRouter(), new ConversationRouter())) {
      RankLoads loads = loads(new int[2], new long[2], new int[2]);
      loads.close(0);
      loads.close(1);

      Routed routed = Routed.by(router, loads, Wishes.plain(3, 1), 8);

      assertThat(routed.unassigned()).containsExactly(0L, 1L, 2L);
      assertThat(routed.expectedActive()).isZero();
    }
  }

  @Test
  void aReadOpensAllRanksAgain() {
    RankLoads loads = loads(new int[2], new long[2], new int[2]);
    loads.close(1);

    loads.read(new long[] {0, 5, 1, 6}, 2, 2, 2);

    assertThat(loads.isClosed(1)).isFalse();
    assertThat(loads.openRanks()).isEqualTo(2);
    assertThatThrownBy(() -> loads.close(2)).isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> loads.close(-1)).isInstanceOf(BerthException.class);
  }

  private static int rankOf(PlacementView view, int[] active, long[] tokens, int[] retiring) {
    var router = new DefaultRouter(RankCap.HARD, view, TieRule.LOWEST_RANK);
    Routed routed =
        Routed.by(router, loads(active, tokens, retiring), List.of(Request.of(0, 10, 1)), 8);
    return routed.ranks().get(0).isEmpty() ? 1 : 0;
  }

  private static RankLoads loads(int[] active, long[] tokens, int[] retiring) {
    var states = new ArrayList<RankState>();
    for (int rank = 0; rank < active.length; rank++) {
      states.add(RankState.of(rank, active[rank], tokens[rank], retiring[rank]));
    }
    return RankLoads.of(states);
  }
}
