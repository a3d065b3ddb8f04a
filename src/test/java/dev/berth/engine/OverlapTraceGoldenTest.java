// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.test.GoldenLines;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every golden line of a whole context-only overlap run, iteration by iteration, through native
 * seats.
 */
class OverlapTraceGoldenTest {
  static List<GoldenLines.Line> lines() {
    return GoldenLines.read("adp_overlap_ctx_only_trace.jsonl");
  }

  @ParameterizedTest
  @MethodSource("lines")
  void everyIterationIsTheGoldenOne(GoldenLines.Line line) {
    var config = line.object("config");
    int ranks = config.integer("tp_size");
    int tokens = config.integer("tokens_per_request");
    int batch = config.integer("max_batch_size");
    var shape =
        WorkerShape.builder(batch).ranks(ranks).with(Trait.ATTENTION_DP, Trait.OVERLAP).build();
    var whatIf = WhatIf.builder();
    if (!config.bool("exclude_retiring_requests")) {
      whatIf.with(WhatIf.Switch.CHARGE_RETIRING);
    }
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow().withWhatIf(whatIf.build());
    assertThat(plan.admissionCap()).isEqualTo(config.integer("max_num_active_requests"));

    var expected = line.object("expected");
    List<Map<String, Object>> trace = expected.maps("trace");
    int peak = 0;
    int forwards = 0;
    var actual = new ArrayList<Map<String, Object>>();
    try (var group = new LockstepGroup(EngineConfig.of(plan, WorkerRole.CONTEXT))) {
      int offered = 0;
      List<Integer> prefix = config.integers("arrivals_prefix");
      for (int iteration = 0; iteration < trace.size(); iteration++) {
        int arrivals =
            iteration < prefix.size()
                ? prefix.get(iteration)
                : config.integer("total_requests") - offered;
        for (int i = 0; i < arrivals; i++) {
          group.offer(Request.of(offered++, tokens, 1));
        }
        List<Integer> retiringBefore =
            perRank(ranks, r -> group.engine(r).count(RequestState.RETIRING));
        assertThat(group.step(LockstepGroup.NO_DEVICE)).isTrue();
        var admission = group.admission();
        var row = new LinkedHashMap<String, Object>();
        row.put("iter", iteration);
        row.put("charged_total", (int) admission.charged());
        row.put("budget", (int) admission.budget());
        row.put("admitted", admission.admitted());
        row.put("assigned", perRank(ranks, admission::assigned));
        row.put("retiring_before", retiringBefore);
        row.put("expected_num_active_requests", admission.expectedActive());
        row.put("padded", perRank(ranks, r -> group.engine(r).padded() ? 1 : 0));
        row.put("scheduled", perRank(ranks, r -> group.engine(r).batch()));
        row.put("can_queue", group.engine(0).canQueue());
        row.put("resident_after_admit", perRank(ranks, r -> group.engine(r).resident()));
        actual.add(row);
        forwards += group.launched() ? 1 : 0;
        peak =
            Math.max(
                peak,
                perRank(ranks, r -> group.engine(r).resident()).stream()
                    .mapToInt(i -> i)
                    .max()
                    .orElse(0));
      }
      assertThat(actual).isEqualTo(trace);
      assertThat(group.step(LockstepGroup.NO_DEVICE)).as("everything ended").isFalse();
      assertThat(forwards).isEqualTo(expected.integer("forward_iterations"));
      assertThat(peak).isEqualTo(expected.integer("peak_resident_per_rank"));
      for (int rank = 0; rank < ranks; rank++) {
        assertThat(group.engine(rank).seatsUsed() + group.engine(rank).leasesUsed()).isZero();
      }
    }
  }

  private static List<Integer> perRank(int ranks, java.util.function.IntUnaryOperator value) {
    return java.util.stream.IntStream.range(0, ranks).map(value).boxed().toList();
  }
}
