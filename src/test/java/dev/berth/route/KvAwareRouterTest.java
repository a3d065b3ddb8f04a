// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.route.KvAwareRouter.ColdStart;
import dev.berth.route.KvAwareRouter.Options;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The rows of spec 01 §12.4 and of the published cases, and what the router refuses. */
class KvAwareRouterTest {
  private static final int CAP = 100;

  /** One 100-token request on two ranks. */
  @ParameterizedTest(name = "weight {0}, threshold {1}, match {2}, n {3}, tau {4}: rank {5}")
  @CsvSource({
    "0.5, 0.1, 0 50, 0 0, 0 0, 1",
    "1.0, 0.1, 80 0, 0 0, 0 0, 0",
    "1.0, 0.1, 0 0, 5 1, 500 100, 1",
    "10, 0.1, 80 0, 0 0, 5000 0, 1",
    "0.1, 0.5, 60 0, 0 0, 100 0, 0",
    "0.1, 0.7, 60 0, 0 0, 100 0, 1",
  })
  void theLeastScoreWins(
      double weight, double threshold, String match, String active, String tokens, int rank) {
    var router = new KvAwareRouter(Options.DEFAULTS.withWeights(weight, threshold, 2));

    Routed routed = route(router, loads(active, tokens), Wishes.plain(1, 100), CAP, ints(match));

    assertThat(routed.ranks().get(rank)).containsExactly(0L);
  }

  @Test
  void anExplicitRankBeatsAMatch() {
    Routed routed =
        route(
            new KvAwareRouter(),
            loads("0 0", "0 0"),
            Wishes.requests(100, "relaxed 1"),
            CAP,
            ints("80 0"));

    assertThat(routed.ranks().get(1)).containsExactly(0L);
  }

  @Test
  void withoutRoomForMoreThanAFairShareTheMatchesFillTheirRankAndTheRestGoesElsewhere() {
    var router = new KvAwareRouter(Options.DEFAULTS.withWeights(1, 0.1, 1));

    Routed routed =
        route(
            router,
            loads("0 0", "0 0"),
            Wishes.plain(4, 100),
            CAP,
            ints("80 0"),
            ints("80 0"),
            ints("0 0"),
            ints("0 0"));

    assertThat(routed.ranks()).isEqualTo(List.of(List.of(0L, 1L), List.of(2L, 3L)));
  }

  @Test
  void whatAMatchLeavesToComputeIsTheNextRequestsLoad() {
    Routed routed =
        route(
            new KvAwareRouter(),
            loads("0 0", "0 0"),
            Wishes.plain(2, 100),
            CAP,
            ints("80 0"),
            ints("0 0"));

    assertThat(routed.ranks()).isEqualTo(List.of(List.of(0L), List.of(1L)));
  }

  @ParameterizedTest
  @CsvSource({"4, 8", "1, 2"})
  void theMultiplierSaysHowManyMayFollowTheirPrefix(double multiplier, int onRankZero) {
    var router = new KvAwareRouter(Options.DEFAULTS.withWeights(0.1, 0, multiplier));
    int[][] matches = new int[8][];
    Arrays.fill(matches, ints("80 0 0 0"));

    Routed routed = route(router, loads("0 0 0 0", "0 0 0 0"), Wishes.plain(8, 100), CAP, matches);

    assertThat(routed.ranks().get(0)).hasSize(onRankZero);
    assertThat(routed.unassigned()).isEmpty();
  }

  @Test
  void withoutMatchesRequestsSpread() {
    Routed routed =
        Routed.by(new KvAwareRouter(), loads("0 0 0 0", "0 0 0 0"), Wishes.plain(8, 10), CAP);

    assertThat(routed.ranks()).allSatisfy(given -> assertThat(given).hasSize(2));
  }

  @Test
  void everyRequestWithinTheBudgetIsPlaced() {
    Routed routed = Routed.by(new KvAwareRouter(), loads("0 0", "0 0"), Wishes.plain(3, 100), 2);

    assertThat(routed.unassigned()).isEmpty();
    assertThat(routed.ranks()).allSatisfy(given -> assertThat(given).hasSizeLessThanOrEqualTo(2));
  }

  /** What the published router loses in silence is reported, in arrival order. */
  @Test
  void beyondTheBudgetTheRestIsUnassigned() {
    Routed routed = Routed.by(new KvAwareRouter(), loads("0 0", "0 0"), Wishes.plain(7, 100), 2);

    assertThat(routed.unassigned()).hasSize(3).isSorted();
  }

  // ------------------------------------------------------------------------------ cold start

  @Test
  void aColdFleetGetsOneRequestOnEachRankFirst() {
    var router = new KvAwareRouter(Options.DEFAULTS.with(ColdStart.ONE_EACH));

    Routed routed = Routed.by(router, loads("0 0 0 0", "0 0 0 0"), Wishes.plain(4, 100), CAP);

    assertThat(routed.ranks())
        .isEqualTo(List.of(List.of(0L), List.of(1L), List.of(2L), List.of(3L)));
    assertThat(router.pendingWarmUp()).isEmpty();
  }

  @Test
  void aColdFleetIsWarmedOverManyCalls() {
    var router = new KvAwareRouter(Options.DEFAULTS.with(ColdStart.ONE_EACH));
    var ranks = new ArrayList<Integer>();
    for (int call = 0; call < 4; call++) {
      // All share a prefix that rank 0 holds from the first call on.
      Routed routed =
          route(
              router,
              loads("0 0 0", "0 0 0"),
              Wishes.plain(1, 100),
              CAP,
              ints(call == 0 ? "0 0 0" : "90 0 0"));
      IntStream.range(0, 3).filter(r -> !routed.ranks().get(r).isEmpty()).forEach(ranks::add);
    }

    assertThat(ranks).containsExactly(0, 1, 2, 0);
  }

  @Test
  void anExplicitRankCountsAsItsFirstRequest() {
    var router = new KvAwareRouter(Options.DEFAULTS.with(ColdStart.ONE_EACH));

    Routed routed =
        Routed.by(router, loads("0 0 0 0", "0 0 0 0"), Wishes.requests(100, "strict 2, none"), CAP);

    assertThat(routed.ranks().get(2)).containsExactly(0L);
    assertThat(routed.ranks().get(0)).containsExactly(1L);
    assertThat(router.pendingWarmUp()).containsExactly(1, 3);
  }

  @Test
  void aFullRankGoesOnWaitingForItsFirstRequest() {
    var router = new KvAwareRouter(Options.DEFAULTS.with(ColdStart.ONE_EACH));

    Routed.by(router, loads("1 0", "5 0"), Wishes.plain(1, 100), 1);

    assertThat(router.pendingWarmUp()).contains(0);
  }

  @Test
  void aRankThatJoinsLaterIsWarmedToo() {
    var router = new KvAwareRouter(Options.DEFAULTS.with(ColdStart.ONE_EACH));
    Routed.by(router, loads("0 0", "0 0"), Wishes.plain(2, 100), CAP);

    Routed routed =
        route(router, loads("1 1 1", "9 9 9"), Wishes.plain(1, 100), CAP, ints("90 90 0"));

    assertThat(routed.ranks().get(2)).containsExactly(0L);
  }

  // ---------------------------------------------------------------------------- published bugs

  /** Eight requests of 1000 tokens on four empty ranks: a match counts above its rate only. */
  @ParameterizedTest
  @CsvSource({"900, 4", "50, 2", "100, 2", "101, 4"})
  void aSharedPromptDoesNotDrawEverythingToOneRank(int match, int onRankZero) {
    int[][] matches = new int[8][];
    Arrays.fill(matches, new int[] {match, 0, 0, 0});
    var router = new KvAwareRouter(Options.DEFAULTS.withWeights(0.1, 0.1, 2));

    Routed routed = route(router, loads("0 0 0 0", "0 0 0 0"), Wishes.plain(8, 1000), CAP, matches);

    assertThat(routed.expectedActive()).isEqualTo(4);
    assertThat(routed.ranks().get(0)).hasSize(onRankZero);
  }

  // ----------------------------------------------------------------------------------- order

  @Test
  void promptsThatBeginAlikeAreNeighbours() {
    var order = new PromptOrder();
    var batch = new RequestBatch();
    int[][] prompts = {{5, 6}, {}, {5}, {5, 6, 7}, {4, 9}, {5, 6}, {5, Integer.MAX_VALUE}};
    order.begin(prompts.length);
    for (int i = 0; i < prompts.length; i++) {
      batch.add(Request.of(i, prompts[i].length, 1).withRoute(RouteKey.prompt(prompts[i])));
      order.add(i);
    }

    assertThat(Arrays.copyOf(order.sort(batch), order.size())).containsExactly(1, 4, 2, 0, 5, 3, 6);
  }

  @Test
  void beyondTheFirstTokensTheLongerPromptGoesFirst() {
    var batch = new RequestBatch();
    int[] head = IntStream.range(0, 64).toArray();
    int[] longer = IntStream.range(0, 70).toArray();
    batch.add(Request.of(0, 64, 1).withRoute(RouteKey.prompt(head)));
    batch.add(Request.of(1, 70, 1).withRoute(RouteKey.prompt(longer)));
    batch.add(Request.of(2, 64, 1).withRoute(RouteKey.prompt(head)));
    var order = new PromptOrder();
    order.begin(3);
    IntStream.range(0, 3).forEach(order::add);

    assertThat(Arrays.copyOf(order.sort(batch), 3)).containsExactly(1, 0, 2);
  }

  // ------------------------------------------------------------------------------ probe rows

  @Test
  void gatheredPairsAreReadRankByRank() {
    var batch = new RequestBatch();
    batch.add(Request.of(1, 100, 1));
    batch.add(Request.of(2, 100, 1));
    var matches = new PrefixMatches();
    matches.begin(2, 2);

    matches.read(batch, 0, new long[] {1, 64, 2, 0}, 0, 2);
    matches.read(batch, 1, new long[] {-7, 2, 0, 1, 32}, 1, 2);

    assertThat(matches.get(0, 0)).isEqualTo(64);
    assertThat(matches.get(0, 1)).isEqualTo(32);
    assertThat(matches.get(1, 0)).isZero();
    assertThat(matches.get(1, 1)).isZero();
  }

  @Test
  void aRequestThatARankDoesNotNameHasNoMatchThere() {
    var batch = new RequestBatch();
    Wishes.plain(3, 10).forEach(batch::add);
    var matches = new PrefixMatches();
    matches.begin(3, 1);

    matches.read(batch, 0, new long[] {2, 8}, 0, 1);

    assertThat(IntStream.range(0, 3).map(i -> matches.get(i, 0)).toArray())
        .containsExactly(0, 0, 8);
  }

  // --------------------------------------------------------------------------------- refusals

  @Test
  void foreignMatchesAreRefused() {
    var matches = new PrefixMatches();
    matches.begin(2, 2);
    var batch = new RequestBatch();
    batch.add(Request.of(5, 10, 1));
    batch.add(Request.of(6, 10, 1));

    refused(() -> matches.read(batch, 0, new long[] {7, 1}, 0, 1), "request 7");
    refused(() -> matches.read(batch, 0, new long[] {5, -1}, 0, 1), "-1");
    refused(() -> matches.read(batch, 0, new long[] {5, 1L << 31}, 0, 1), "2147483648");
    refused(() -> matches.read(batch, 2, new long[] {5, 1}, 0, 1), "rank 2");
    refused(() -> matches.read(batch, 0, new long[] {5, 1}, 0, 2), "2 pairs");
    refused(() -> matches.set(0, 0, -1), "-1");
    refused(() -> matches.begin(1 << 20, 1 << 20), "can't be tabled");
    refused(() -> PrefixMatches.NONE.begin(1, 1), "shared");
    refused(
        () ->
            Routed.by(
                new KvAwareRouter(), loads("0 0 0", "0 0 0"), Wishes.plain(2, 10), matches, CAP),
        "2 requests on 2 ranks for 2 requests on 3 ranks");
  }

  @Test
  void loadsThatDoublesCannotHoldAreRefused() {
    RankLoads loads =
        RankLoads.of(List.of(RankState.of(0, 1, 1L << 52, 0), RankState.of(1, 1, 1L << 52, 0)));

    refused(() -> Routed.by(new KvAwareRouter(), loads, Wishes.plain(1, 1), CAP), "2^53");
  }

  @ParameterizedTest
  @ValueSource(doubles = {-0.1, Double.NaN, Double.POSITIVE_INFINITY})
  void optionsOutsideTheirRangeAreRefused(double wrong) {
    refused(() -> Options.DEFAULTS.withWeights(wrong, 0.1, 2), "load weight");
    refused(() -> Options.DEFAULTS.withWeights(1, 0.1, wrong), "multiplier");
    if (wrong != Double.POSITIVE_INFINITY) {
      refused(() -> Options.DEFAULTS.withWeights(1, wrong, 2), "threshold");
    }
  }

  @Test
  void aCallThatIsRefusedChangesNothing() {
    var router = new KvAwareRouter(Options.DEFAULTS.with(ColdStart.ONE_EACH));
    router.resumeWarmUp(2, 1);
    List<Request> wrong =
        List.of(
            Request.of(0, 5, 1),
            Request.of(1, 5, 1).withScheduling(SchedulingParams.target(9, Relax.STRICT)));

    refused(() -> Routed.by(router, loads("0 0", "0 0"), wrong, CAP), "rank 9");

    assertThat(router.pendingWarmUp()).containsExactly(1);
    refused(() -> new KvAwareRouter().resumeWarmUp(2, 1), "scores from the first");
    refused(() -> router.resumeWarmUp(2, 2), "rank 2");
  }

  @Test
  void anEmptyPromptOnIdleRanksIsPlaced() {
    Routed routed = Routed.by(new KvAwareRouter(), loads("0 0", "0 0"), Wishes.plain(2, 0), CAP);

    assertThat(routed.unassigned()).isEmpty();
  }

  private static void refused(Runnable call, String with) {
    assertThatThrownBy(call::run).isInstanceOf(BerthException.class).hasMessageContaining(with);
  }

  private static Routed route(
      AdpRouter router, RankLoads loads, List<Request> requests, int cap, int[]... rows) {
    var matches = new PrefixMatches();
    matches.begin(requests.size(), loads.ranks());
    for (int item = 0; item < rows.length; item++) {
      for (int rank = 0; rank < rows[item].length; rank++) {
        matches.set(item, rank, rows[item][rank]);
      }
    }
    return Routed.by(router, loads, requests, matches, cap);
  }

  static RankLoads loads(String active, String tokens) {
    return Routed.loads(ints(active), IntStream.of(ints(tokens)).asLongStream().toArray());
  }

  static int[] ints(String numbers) {
    return Arrays.stream(numbers.split(" ")).mapToInt(Integer::parseInt).toArray();
  }
}
