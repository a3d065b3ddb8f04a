// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static dev.berth.route.KvAwareRouterTest.loads;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.route.ConversationRouter.Options;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** The rows of spec 01 §12.5, and what the router refuses. */
class ConversationRouterTest {
  private static final int CAP = 100;

  @Test
  void newConversationsGoRoundAndLaterTurnsReturn() {
    var router = new ConversationRouter();
    RankLoads idle = loads("0 0 0 0", "0 0 0 0");

    assertThat(ranks(route(router, idle, CAP, "a 10", "b 10", "c 10", "d 10"), 4))
        .containsExactly(0, 1, 2, 3);
    assertThat(ranks(route(router, idle, CAP, "d 10", "b 10", "a 10", "c 10"), 4))
        .containsExactly(3, 1, 0, 2);
  }

  @Test
  void requestsOfNoConversationSpreadAndAreForgotten() {
    var router = new ConversationRouter();

    Routed routed =
        route(
            router,
            loads("0 0 0", "0 0 0"),
            CAP,
            "- 10",
            "- 10",
            "- 10",
            "- 10",
            "- 10",
            "- 10",
            "- 10",
            "- 10");

    assertThat(routed.ranks()).allSatisfy(given -> assertThat(given).hasSizeBetween(2, 3));
    assertThat(router.conversations()).isZero();
  }

  @Test
  void theLeastRecentlyUsedConversationIsForgotten() {
    var router = new ConversationRouter(Options.DEFAULTS.withMaxSessions(2));

    route(router, loads("0 0", "0 0"), CAP, "c0 1", "c1 1", "c2 1", "c3 1", "c4 1");

    assertThat(router.bindings().stream().map(Map.Entry::getKey).toList())
        .containsExactly("c3", "c4");
  }

  @Test
  void anExplicitFirstTurnBindsAndALaterHintIsIgnored() {
    var router = new ConversationRouter();
    RankLoads idle = loads("0 0 0", "0 0 0");

    assertThat(ranks(route(router, idle, CAP, "a 10 relaxed 2"), 3)).containsExactly(2);
    assertThat(ranks(route(router, idle, CAP, "a 10"), 3)).containsExactly(2);
    assertThat(ranks(route(router, idle, CAP, "a 10 strict 1"), 3)).containsExactly(2);
    assertThat(router.home("a")).hasValue(2);
    assertThat(router.home("b")).isEmpty();
  }

  @Test
  void theSecondTurnInABatchSeesTheBindingOfTheFirst() {
    var router = new ConversationRouter();

    Routed routed = route(router, loads("0 0 0", "0 0 0"), CAP, "a 1 strict 2", "a 1 strict 1");

    assertThat(ranks(routed, 3)).containsExactly(2, 2);
  }

  @ParameterizedTest
  @EnumSource
  void aFullHomeIsLeftOnceAndKept(NewConversation rule) {
    var router = new ConversationRouter(Options.DEFAULTS.with(rule));
    route(router, loads("0 0", "0 0"), 8, "a 1 strict 1");

    Routed full = route(router, loads("0 8", "0 800"), 8, "a 1");

    assertThat(ranks(full, 2)).containsExactly(0);
    assertThat(router.home("a")).hasValue(1);
    assertThat(ranks(route(router, loads("0 7", "0 0"), 8, "a 1"), 2)).containsExactly(1);
  }

  @Test
  void aHomeAboveItsFairShareStillTakesItsConversations() {
    var router = new ConversationRouter();
    route(router, loads("0 0", "0 0"), CAP, "a 1 strict 1");

    assertThat(ranks(route(router, loads("0 9", "0 0"), CAP, "a 1"), 2)).containsExactly(1);
  }

  @ParameterizedTest
  @CsvSource({
    "LEAST_QUEUED, 5 1 3 4, 0 0 0 0, 1, 1",
    "LEAST_QUEUED, 3 0 2 3, 0 0 0 0, 4, 1 1 1 2",
    "ROUND_ROBIN, 3 1 2, 1000 500 10, 1, 0",
    "LEAST_QUEUED, 3 1 2, 1000 500 10, 1, 1",
    "LEAST_TOKENS, 3 1 2, 1000 500 10, 1, 2",
  })
  void newConversationsGoByTheRule(
      NewConversation rule, String active, String tokens, int count, String expected) {
    var router = new ConversationRouter(Options.DEFAULTS.with(rule));
    String[] requests =
        IntStream.range(0, count).mapToObj(i -> "c" + i + " 1").toArray(String[]::new);

    Routed routed = route(router, loads(active, tokens), CAP, requests);

    assertThat(ranks(routed, active.split(" ").length).stream().sorted().toList())
        .isEqualTo(IntStream.of(KvAwareRouterTest.ints(expected)).boxed().sorted().toList());
  }

  @Test
  void fourMoreOnTheLeastQueuedRanksEvenThemOut() {
    var router = new ConversationRouter(Options.DEFAULTS.with(NewConversation.LEAST_QUEUED));

    Routed routed = route(router, loads("3 0 2 3", "0 0 0 0"), CAP, "a 1", "b 1", "c 1", "d 1");

    assertThat(routed.ranks().stream().map(List::size).toList()).containsExactly(0, 3, 1, 0);
  }

  @ParameterizedTest
  @CsvSource({"-", "c"})
  void leastTokensCountsWhatItPlaces(String conversation) {
    var router = new ConversationRouter(Options.DEFAULTS.with(NewConversation.LEAST_TOKENS));
    String[] requests = new String[5];
    int[] sizes = {500, 500, 100, 100, 100};
    for (int i = 0; i < sizes.length; i++) {
      requests[i] = (conversation.equals("-") ? "-" : "c" + i) + " " + sizes[i];
    }

    Routed routed = route(router, loads("0 0 0 0", "0 0 0 0"), CAP, requests);

    assertThat(ranks(routed, 4)).containsExactly(0, 1, 2, 3, 2);
  }

  @Test
  void equalLoadsGoByRequestsAndThenRound() {
    var router = new ConversationRouter(Options.DEFAULTS.with(NewConversation.LEAST_TOKENS));

    assertThat(ranks(route(router, loads("2 1 1", "5 5 5"), CAP, "- 1"), 3)).containsExactly(1);
    assertThat(ranks(route(router, loads("1 1 1", "5 5 5"), CAP, "- 1"), 3)).containsExactly(2);
    assertThat(ranks(route(router, loads("1 1 1", "5 5 5"), CAP, "- 1"), 3)).containsExactly(0);
  }

  @Test
  void explicitAndStickyTokensCountForTheNextNewConversation() {
    var router = new ConversationRouter(Options.DEFAULTS.with(NewConversation.LEAST_TOKENS));

    Routed explicit = route(router, loads("0 0", "0 100"), CAP, "a 500 strict 0", "b 1");
    assertThat(ranks(explicit, 2)).containsExactly(0, 1);

    Routed sticky = route(router, loads("0 0", "0 100"), CAP, "a 500", "c 1");
    assertThat(ranks(sticky, 2)).containsExactly(0, 1);
  }

  @Test
  void theTargetCoversARankThatItsConversationFilled() {
    var router = new ConversationRouter();
    route(router, loads("0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0"), 256, "a 1");
    String[] turns = IntStream.range(0, 40).mapToObj(i -> "a 1").toArray(String[]::new);

    Routed routed = route(router, loads("0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0"), 256, turns);

    assertThat(routed.ranks().get(0)).hasSize(40);
    assertThat(routed.expectedActive()).isGreaterThanOrEqualTo(40);
  }

  @Test
  void noRankIsGivenMoreThanTheCap() {
    String[] untagged = IntStream.range(0, 8).mapToObj(i -> "- 1").toArray(String[]::new);

    Routed routed = route(new ConversationRouter(), loads("40 40 40 64", "0 0 0 0"), 64, untagged);

    assertThat(routed.ranks().get(3)).isEmpty();
    assertThat(routed.expectedActive()).isLessThanOrEqualTo(64);
  }

  @ParameterizedTest
  @EnumSource
  void beyondTheBudgetTheRestIsUnassigned(NewConversation rule) {
    var router = new ConversationRouter(Options.DEFAULTS.with(rule));

    Routed routed = route(router, loads("1 2", "0 0"), 2, "a 1", "b 1", "c 1");

    assertThat(routed.ranks().get(0)).containsExactly(0L);
    assertThat(routed.unassigned()).containsExactly(1L, 2L);
    assertThat(router.home("b")).isEmpty();
  }

  @Test
  void theSubAgentsIdCountsInsteadOfTheConversation() {
    RouteKey key = RouteKey.conversation("own");

    assertThat(key.affinity()).isEqualTo("own");
    assertThat(key.withSubagent("parent").affinity()).isEqualTo("parent");
    assertThat(key.withSubagent("").affinity()).isEqualTo("own");
    assertThat(RouteKey.NONE.affinity()).isEmpty();
  }

  @Test
  void theHomeOfAClosedRankMoves() {
    var router = new ConversationRouter();
    route(router, loads("0 0 0", "0 0 0"), CAP, "a 1 strict 1");
    RankLoads closed = loads("0 0 0", "0 0 0");
    closed.close(1);

    int rank = ranks(route(router, closed, CAP, "a 1"), 3).getFirst();

    assertThat(rank).isNotEqualTo(1);
    assertThat(router.home("a")).hasValue(rank);
    assertThat(ranks(route(router, loads("0 0 0", "0 0 0"), CAP, "a 1"), 3)).containsExactly(rank);
  }

  @Test
  void optionsOutsideTheirRangeAreRefused() {
    for (double wrong : new double[] {0, -1, Double.NaN, Double.POSITIVE_INFINITY}) {
      assertThatThrownBy(() -> Options.DEFAULTS.withMultiplier(wrong))
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("multiplier");
    }
    for (int wrong : new int[] {0, -1, Integer.MAX_VALUE}) {
      assertThatThrownBy(() -> Options.DEFAULTS.withMaxSessions(wrong))
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("sessions");
    }
  }

  /** Requests written as "conversation tokens [wish rank]"; a dash is no conversation. */
  private static Routed route(AdpRouter router, RankLoads loads, int cap, String... texts) {
    var requests = new ArrayList<Request>();
    for (String text : texts) {
      String[] words = text.split(" ");
      Request request = Request.of(requests.size(), Integer.parseInt(words[1]), 1);
      if (!words[0].equals("-")) {
        request = request.withRoute(RouteKey.conversation(words[0]));
      }
      if (words.length > 2) {
        request =
            request.withScheduling(
                SchedulingParams.target(
                    Integer.parseInt(words[3]), Relax.valueOf(words[2].toUpperCase())));
      }
      requests.add(request);
    }
    return Routed.by(router, loads, requests, cap);
  }

  /** The rank of each request, in arrival order. */
  private static List<Integer> ranks(Routed routed, int ranks) {
    return IntStream.range(0, routed.ranks().stream().mapToInt(List::size).sum())
        .mapToObj(id ->
            IntStream.range(0, ranks)
                .filter(rank -> routed.ranks().get(rank).contains((long) id))
                .boxed()
                .findFirst()
                .orElseThrow())
        .toList();
  }
}
