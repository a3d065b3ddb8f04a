// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.Request;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every line of the router's golden file, in order of the lists and with the target E. */
class GoldenRouterTest {
  private static final AdpRouter ROUTER = new DefaultRouter();

  static Stream<Golden> lines() {
    return Golden.lines("adp_router_default.jsonl", 400).stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("lines")
  void theDefaultRouterPlacesAsRecorded(Golden line) {
    var states = new ArrayList<RankState>();
    for (Golden state : line.list("rank_states")) {
      states.add(
          RankState.of(
              state.integer("rank"),
              state.integer("num_active_requests"),
              state.integer("num_active_tokens"),
              state.integer("num_retiring_requests")));
    }
    List<Request> requests = line.list("requests").stream().map(Golden::request).toList();
    int cap = line.at("config").integer("max_num_active_requests");

    Routed routed = Routed.by(ROUTER, RankLoads.of(states), requests, cap);

    Golden expected = line.at("expected");
    if (expected.has("error")) {
      assertThat(expected.text("error")).isEqualTo("empty_heap");
      assertThat(routed.unassigned()).isNotEmpty();
      return;
    }
    assertThat(routed.unassigned()).isEmpty();
    assertThat(routed.expectedActive()).isEqualTo(expected.integer("expected_num_active_requests"));
    Golden assignment = expected.at("assignment");
    assertThat(routed.ranks()).hasSameSizeAs(assignment.fields().keySet());
    for (int rank = 0; rank < states.size(); rank++) {
      assertThat(routed.ranks().get(rank))
          .as("rank %d", rank)
          .isEqualTo(assignment.longs(String.valueOf(rank)));
    }
  }
}
