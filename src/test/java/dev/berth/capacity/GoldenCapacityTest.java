// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.test.GoldenLines;
import dev.berth.test.GoldenLines.Line;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Single-step capacity vectors, all of them, under the parity set. */
class GoldenCapacityTest {
  @ParameterizedTest
  @ValueSource(
      strings = {"guaranteed_no_evict", "max_utilization", "static_batch", "max_requests"})
  void everyLineComesOut(String policy) {
    for (Line line : GoldenLines.read("capacity_" + policy + ".jsonl")) {
      try (SchedulingTable table = Lines.capacity(line)) {
        CapacityScheduler scheduler =
            CapacityScheduler.of(
                table, Lines.capacityRules(line, line.integer("max_num_requests")));
        Line expected = line.object("expected");
        String name = policy + " case " + line.integer("case");
        if (!Lines.isNull(expected, "error")) {
          assertThatThrownBy(scheduler::schedule)
              .as(name)
              .isInstanceOf(BerthException.class)
              .hasMessageContaining("bad state");
          continue;
        }
        CapacityPlan plan = scheduler.schedule();
        assertThat(Lines.ids(table, plan.fitting(), plan::fitting))
            .as(name)
            .isEqualTo(expected.integers("fitting"));
        assertThat(Lines.ids(table, plan.receiving(), plan::receiving))
            .as(name)
            .isEqualTo(expected.integers("disagg_gen_init"));
        assertThat(Lines.ids(table, plan.paused(), plan::paused))
            .as(name)
            .isEqualTo(expected.integers("paused"));
      }
    }
  }
}
