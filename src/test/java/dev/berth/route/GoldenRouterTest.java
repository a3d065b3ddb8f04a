// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.Request;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every line of the routers' golden files, in order of the lists and with the target E. */
class GoldenRouterTest {
  private static final AdpRouter DEFAULT = new DefaultRouter();

  static Stream<Golden> defaultLines() {
    return Golden.lines("adp_router_default.jsonl", 400).stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("defaultLines")
  void theDefaultRouterPlacesAsRecorded(Golden line) {
    Routed routed = Routed.by(DEFAULT, line.loads(), requests(line), cap(line));

    Golden expected = line.at("expected");
    if (expected.has("error")) {
      assertThat(expected.text("error")).isEqualTo("empty_heap");
      assertThat(routed.unassigned()).isNotEmpty();
      return;
    }
    assertThat(routed.unassigned()).isEmpty();
    assertPlaced(routed, expected);
  }

  static Stream<Golden> kvAwareLines() {
    return Golden.lines("adp_router_kv_aware.jsonl", 400).stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("kvAwareLines")
  void theKvAwareRouterPlacesAsRecorded(Golden line) {
    Golden config = line.at("config");
    var router =
        new KvAwareRouter(
            KvAwareRouter.Options.DEFAULTS
                .with(KvAwareRouter.ColdStart.ONE_EACH)
                .withWeights(
                    config.number("load_balance_weight"),
                    config.number("match_rate_threshold"),
                    config.number("fair_share_multiplier")));
    router.resumeWarmUp(config.integer("tp_size"), ints(line.longs("pending_warmup_before")));
    List<Request> requests = requests(line);
    var matches = new PrefixMatches();
    matches.begin(requests.size(), config.integer("tp_size"));
    for (int item = 0; item < requests.size(); item++) {
      List<Long> lengths = line.list("requests").get(item).longs("match_lens");
      for (int rank = 0; rank < lengths.size(); rank++) {
        matches.set(item, rank, Math.toIntExact(lengths.get(rank)));
      }
    }

    Routed routed = Routed.by(router, line.loads(), requests, matches, cap(line));

    Golden expected = line.at("expected");
    assertThat(expected.has("error")).isFalse();
    assertThat(routed.unassigned()).isEqualTo(expected.longs("unassigned"));
    assertPlaced(routed, expected);
    assertThat(router.pendingWarmUp()).isEqualTo(ints(expected.longs("pending_warmup_after")));
  }

  static Stream<Golden> conversationLines() {
    return Golden.lines("adp_router_conversation.jsonl", 288).stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("conversationLines")
  void theConversationRouterPlacesAsRecorded(Golden line) {
    Golden config = line.at("config");
    var router =
        new ConversationRouter(
            ConversationRouter.Options.DEFAULTS
                .withMaxSessions(config.integer("max_sessions"))
                .withMultiplier(config.number("fair_share_multiplier"))
                .with(NewConversation.valueOf(config.text("new_conv_placement").toUpperCase())));
    for (Golden step : line.list("steps")) {
      Routed routed = Routed.by(router, step.loads(), requests(step), cap(line));

      Golden expected = step.at("expected");
      assertThat(routed.unassigned()).isEmpty();
      assertPlaced(routed, expected);
      assertThat(router.bindings()).isEqualTo(expected.pairs("conv_to_rank_lru"));
      assertThat(router.conversations()).isEqualTo(router.bindings().size());
      assertThat(router.cursor()).isEqualTo(expected.integer("round_robin_cursor"));
    }
  }

  private static List<Request> requests(Golden call) {
    return call.list("requests").stream().map(Golden::request).toList();
  }

  private static int cap(Golden line) {
    return line.at("config").integer("max_num_active_requests");
  }

  private static int[] ints(List<Long> numbers) {
    return numbers.stream().mapToInt(Math::toIntExact).toArray();
  }

  private static void assertPlaced(Routed routed, Golden expected) {
    assertThat(routed.expectedActive()).isEqualTo(expected.integer("expected_num_active_requests"));
    Golden assignment = expected.at("assignment");
    assertThat(routed.ranks()).hasSameSizeAs(assignment.fields().keySet());
    for (int rank = 0; rank < routed.ranks().size(); rank++) {
      assertThat(routed.ranks().get(rank))
          .as("rank %d", rank)
          .isEqualTo(assignment.longs(String.valueOf(rank)));
    }
  }
}
