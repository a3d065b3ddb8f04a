// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.RequestState;
import dev.berth.test.GoldenLines;
import dev.berth.test.GoldenLines.Line;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whole runs, iteration by iteration, all of them, under the parity set. */
class GoldenTraceTest {
  @ParameterizedTest
  @ValueSource(strings = {"guaranteed_no_evict", "max_utilization", "static_batch"})
  void everyTraceComesOut(String policy) {
    for (Line line : GoldenLines.read("capacity_trace_" + policy + ".jsonl")) {
      String name = policy + " case " + line.integer("case");
      try (V1Run run = run(line)) {
        for (Object entry : (List<?>) Objects.requireNonNull(line.values().get("expected"))) {
          List<?> span = (List<?>) entry;
          V1Run.Step expected =
              new V1Run.Step(ids(span, 2), ids(span, 3), ids(span, 4), ids(span, 5));
          int from = ((Number) span.get(0)).intValue();
          int to = ((Number) span.get(1)).intValue();
          for (int i = from; i < to; i++) {
            assertThat(run.iteration()).as(name).isEqualTo(i);
            assertThat(run.step()).as("%s iteration %d", name, i).isEqualTo(expected);
          }
        }
        assertThat(run.done()).as(name).isTrue();
        assertThat(run.iteration()).as(name).isEqualTo(line.integer("expected_iterations"));
        assertThat(run.reused()).as(name).isEqualTo(line.integer("expected_reused_blocks"));
      }
    }
  }

  private static List<Integer> ids(List<?> span, int field) {
    return ((List<?>) span.get(field)).stream().map(v -> ((Number) v).intValue()).toList();
  }

  private static V1Run run(Line line) {
    boolean reuse = line.bool("block_reuse");
    CapacityRules rules =
        CapacityRules.parity(
                CapacityRule.byName(line.text("policy")).orElseThrow(),
                line.integer("max_num_requests"))
            .withLookahead(
                line.bool("two_step_lookahead") ? Lookahead.TWO_STEPS : Lookahead.ONE_STEP)
            .withTraits(reuse ? EnumSet.of(CacheTrait.SELF_REUSE) : Set.of());
    return new V1Run(
        rules,
        new V1Run.Cache(
            line.integer("tokens_per_block"),
            line.integer("total_blocks"),
            0,
            line.integer("attention_window"),
            reuse),
        new int[0],
        line.maps("requests").stream().map(GoldenTraceTest::spec).toList());
  }

  private static V1Run.Spec spec(Map<String, Object> request) {
    Object tokens = request.get("prompt_tokens");
    return new V1Run.Spec(
        Lines.integer(request, "id", 0),
        Lines.integer(request, "arrival_iteration", 0),
        Lines.integer(request, "prompt_len", 0),
        Lines.integer(request, "max_new_tokens", 0),
        ((Number) Objects.requireNonNull(request.get("priority"))).doubleValue(),
        Lines.integer(request, "draft_tokens", 0),
        Lines.integer(request, "chunk_size", 0),
        RequestState.of(Lines.integer(request, "initial_state", 0)),
        tokens == null ? new int[0] : Lines.ints(tokens),
        -1,
        0);
  }
}
