// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import dev.berth.BerthException;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The rows of spec 01 §12.2, and what the router refuses. */
class DefaultRouterTest {
  private static final int[] ACTIVE = {2, 1, 3, 0};
  private static final long[] TOKENS = {10, 5, 15, 8};

  static Stream<Arguments> explicitRanks() {
    return Stream.of(
        arguments(
            "two strict to one rank",
            "strict 0, strict 0",
            ranks(ids(0, 1), ids(), ids(), ids()),
            4),
        arguments(
            "strict to two ranks", "strict 1, strict 2", ranks(ids(), ids(0), ids(1), ids()), 4),
        arguments(
            "relaxed to two ranks", "relaxed 0, relaxed 1", ranks(ids(0), ids(1), ids(), ids()), 3),
        arguments(
            "strict before relaxed",
            "strict 0, strict 1, relaxed 0, relaxed 2",
            ranks(ids(0, 2), ids(1), ids(3), ids()),
            4));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("explicitRanks")
  void explicitRanksAreHonouredBelowTheCap(
      String name, String wishes, List<List<Long>> expected, int target) {
    Routed routed = route(ACTIVE, TOKENS, 8, Wishes.requests(3, wishes));

    assertThat(routed.ranks()).isEqualTo(expected);
    assertThat(routed.expectedActive()).isEqualTo(target);
  }

  @ParameterizedTest
  @MethodSource("bothWishes")
  void aFullTargetIsNeverChosen(String wish) {
    Routed routed = route(new int[] {8, 1, 3, 0}, TOKENS, 8, Wishes.requests(3, wish + " 0"));

    assertThat(routed.ranks().get(0)).isEmpty();
    assertThat(routed.ranks().stream().mapToInt(List::size).sum()).isEqualTo(1);
  }

  static Stream<String> bothWishes() {
    return Stream.of("relaxed", "strict");
  }

  @Test
  void explicitRequestsComeBeforeUntargetedOnes() {
    Routed routed = route(ACTIVE, TOKENS, 8, Wishes.requests(3, "strict 0, relaxed 0, none"));

    assertThat(routed.ranks().get(0)).startsWith(0L, 1L);
  }

  @Test
  void onlyTheFirstStrictRequestTakesTheLastPlace() {
    Routed routed =
        route(new int[] {7, 1, 3, 0}, TOKENS, 8, Wishes.requests(3, "strict 0, strict 0"));

    assertThat(routed.ranks().get(0)).containsExactly(0L);
    assertThat(routed.unassigned()).isEmpty();
  }

  @Test
  void parametersWithEverythingUnsetAreNoWishAtAll() {
    Routed routed = route(ACTIVE, TOKENS, 8, Wishes.requests(3, "params, params, params, params"));

    assertThat(routed.ranks().stream().mapToInt(List::size).sum()).isEqualTo(4);
  }

  @Test
  void unsetRelaxIsRelaxedInTheOrderOfExplicitRanks() {
    Routed routed =
        route(new int[] {0, 0}, new long[] {0, 0}, 1, Wishes.requests(3, "unset 0, strict 0"));

    assertThat(routed.ranks()).isEqualTo(ranks(ids(1), ids(0)));
  }

  @Test
  void aTargetBelowTheCapBeatsBalance() {
    Routed routed = route(new int[] {0, 1}, new long[] {0, 0}, 2, Wishes.requests(3, "strict 1"));

    assertThat(routed.ranks()).isEqualTo(ranks(ids(), ids(0)));
  }

  @Test
  void tokensOfExplicitRequestsDoNotEnterTheLoad() {
    List<Request> requests =
        List.of(
            Wishes.requests(1000, "strict 0").getFirst(),
            Request.of(1, 10, 1),
            Request.of(2, 9, 1));

    Routed routed = route(new int[] {0, 1}, new long[] {4, 5}, 8, requests);

    assertThat(routed.ranks()).isEqualTo(ranks(ids(0, 1), ids(2)));
  }

  @Test
  void oneRankTakesEverything() {
    Routed routed = route(new int[] {0}, new long[] {0}, 10, Wishes.plain(5, 3));

    assertThat(routed.expectedActive()).isEqualTo(5);
    assertThat(routed.ranks()).isEqualTo(ranks(ids(0, 1, 2, 3, 4)));
  }

  @Test
  void equalRequestsSpreadEvenly() {
    Routed routed = route(new int[4], new long[4], 8, Wishes.plain(8, 3));

    assertThat(routed.ranks()).allSatisfy(rank -> assertThat(rank).hasSize(2));
    assertThat(routed.expectedActive()).isEqualTo(2);
  }

  @Test
  void aRunOfEmptyPromptsStaysOnOneRankUntilCountsBreakTheTie() {
    Routed routed = route(new int[] {0, 0}, new long[] {7, 8}, 8, Wishes.plain(4, 0));

    assertThat(routed.ranks()).isEqualTo(ranks(ids(0, 1), ids(2, 3)));
  }

  static Stream<Arguments> heaps() {
    return Stream.of(
        arguments(
            "two ranks below the target",
            new int[] {0, 1, 2, 1},
            new long[] {5, 15, 25, 10},
            2,
            new int[] {3, 6, 2},
            ranks(ids(1, 2), ids(), ids(), ids(0))),
        arguments(
            "the lightest rank is filled first",
            new int[] {3, 1, 0, 2},
            new long[] {30, 10, 5, 20},
            4,
            new int[] {3, 3, 3},
            ranks(ids(), ids(2), ids(0, 1), ids())),
        arguments(
            "the longest request goes first",
            new int[] {0, 0, 0, 0},
            new long[] {5, 5, 5, 5},
            2,
            new int[] {1, 5, 3},
            ranks(ids(1), ids(2), ids(0), ids())),
        arguments(
            "one place each",
            new int[] {1, 1, 1, 1},
            new long[] {5, 5, 5, 5},
            2,
            new int[] {3, 3, 3, 3},
            ranks(ids(0), ids(1), ids(2), ids(3))));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("heaps")
  void theHeapAloneFillsByTokens(
      String name,
      int[] active,
      long[] tokens,
      int target,
      int[] sizes,
      List<List<Long>> expected) {
    var batch = new RequestBatch();
    var order = new DescendingTokens();
    order.begin(sizes.length);
    for (int id = 0; id < sizes.length; id++) {
      batch.add(Request.of(id, sizes[id], 1));
      order.add(id);
    }
    var heap = new LeastLoaded();
    var table = new RankTable();
    table.begin(Routed.loads(active, tokens), batch, 8, RankCap.HARD, PlacementView.ADMISSION);
    heap.build(table, target, 0);
    List<List<Long>> ranks = new ArrayList<>();
    IntStream.range(0, active.length).forEach(rank -> ranks.add(new ArrayList<>()));
    int[] sorted = order.sort(batch);
    for (int i = 0; i < sizes.length; i++) {
      ranks.get(heap.rank()).add((long) sorted[i]);
      heap.charge(sizes[sorted[i]], target);
    }

    assertThat(ranks).isEqualTo(expected);
  }

  @Test
  void theCapIsAppliedLastAndMayLieBelowAnOverloadedRank() {
    Routed routed = route(new int[] {6, 0, 0, 0}, new long[4], 4, Wishes.plain(3, 3));

    assertThat(routed.expectedActive()).isEqualTo(4);
    assertThat(routed.ranks().get(0)).isEmpty();
    assertThat(routed.unassigned()).isEmpty();
  }

  @Test
  void noRankIsGivenA257th() {
    int[] active = {255, 254, 250, 253};

    Routed routed = route(active, new long[4], 256, Wishes.plain(10, 3));

    assertThat(routed.unassigned()).isEmpty();
    for (int rank = 0; rank < 4; rank++) {
      assertThat(active[rank] + routed.ranks().get(rank).size()).isLessThanOrEqualTo(256);
    }
  }

  @Test
  void idleRanksShareEvenlyUnderAWideCap() {
    Routed routed = route(new int[4], new long[4], 256, Wishes.plain(8, 3));

    assertThat(routed.expectedActive()).isEqualTo(2);
    assertThat(routed.unassigned()).isEmpty();
  }

  @Test
  void withoutTheCapExplicitRanksAndTheTargetPassIt() {
    List<Request> requests = Wishes.requests(3, "strict 0, strict 0, none, none, none, none");
    RankLoads loads = Routed.loads(new int[] {2, 2}, new long[2]);

    Routed capped = Routed.by(new DefaultRouter(), loads, requests, 2);
    Routed open = Routed.by(new DefaultRouter(RankCap.OFF), loads, requests, 2);

    assertThat(capped.ranks()).isEqualTo(ranks(ids(), ids()));
    assertThat(capped.unassigned()).isEqualTo(ids(0, 1, 2, 3, 4, 5));
    assertThat(open.ranks().get(0)).startsWith(0L, 1L);
    assertThat(open.expectedActive()).isEqualTo(5);
    assertThat(open.unassigned()).isEmpty();
  }

  @Test
  void overBudgetIsAResultThatNamesWhatFoundNoRank() {
    List<Request> requests =
        List.of(Request.of(10, 1, 1), Request.of(11, 9, 1), Request.of(12, 2, 1));
    var batch = new RequestBatch();
    requests.forEach(batch::add);
    var out = new Assignment();

    new DefaultRouter().route(Routed.loads(new int[] {1}, new long[1]), batch, 2, out);

    assertThat(out.outcome()).isEqualTo(Assignment.Outcome.EXHAUSTED);
    Routed routed = Routed.of(out, batch);
    assertThat(routed.ranks()).isEqualTo(ranks(ids(11)));
    assertThat(routed.unassigned()).as("in arrival order").isEqualTo(ids(10, 12));
  }

  @Test
  void anEmptyBatchStillHasATarget() {
    Routed routed = route(new int[] {5, 0, 0}, new long[3], 4, List.of());

    assertThat(routed.expectedActive()).isEqualTo(4);
    assertThat(routed.ranks()).isEqualTo(ranks(ids(), ids(), ids()));
    assertThat(route(new int[] {1, 0, 0}, new long[3], 4, List.of()).expectedActive()).isEqualTo(1);
  }

  @Test
  void aTargetRankThatDoesNotExistIsRefusedAndNamed() {
    assertThatThrownBy(() -> route(ACTIVE, TOKENS, 8, Wishes.requests(3, "none, strict 4")))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(BerthException.Code.ARGUMENT))
        .hasMessageContaining("request 1")
        .hasMessageContaining("rank 4");
  }

  @Test
  void aRefusedCallLeavesTheResultAlone() {
    var router = new DefaultRouter();
    var batch = new RequestBatch();
    batch.add(Request.of(1, 3, 1));
    var out = new Assignment();
    router.route(Routed.loads(ACTIVE, TOKENS), batch, 8, out);

    assertThatThrownBy(() -> router.route(Routed.loads(ACTIVE, TOKENS), batch, 0, out))
        .isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> router.route(new RankLoads(), batch, 8, out))
        .isInstanceOf(BerthException.class);

    assertThat(Routed.of(out, batch).ranks()).isEqualTo(ranks(ids(), ids(1), ids(), ids()));
  }

  private static Routed route(int[] active, long[] tokens, int cap, List<Request> requests) {
    return Routed.by(new DefaultRouter(), Routed.loads(active, tokens), requests, cap);
  }

  private static List<Long> ids(long... ids) {
    return LongStream.of(ids).boxed().toList();
  }

  @SafeVarargs
  private static List<List<Long>> ranks(List<Long>... ranks) {
    var list = new ArrayList<List<Long>>();
    for (List<Long> rank : ranks) {
      list.add(rank);
    }
    return list;
  }
}
