// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class SeatTableTest {
  private static final String START = "<!-- seat table: generated, see SeatTableTest -->\n";
  private static final String END = "<!-- end of seat table -->\n";

  static List<SeatTable.Row> rows() {
    return SeatTable.rows();
  }

  @Test
  void theTableHasEveryCombinationOnce() {
    assertThat(rows()).hasSize(128).doesNotHaveDuplicates();
  }

  @ParameterizedTest
  @MethodSource("rows")
  void sizesAreWhatTheRulesSayByCases(SeatTable.Row row) {
    for (SeatPolicy policy : SeatPolicy.values()) {
      assertThat(SeatTable.actual(row, policy))
          .as("%s", policy)
          .isEqualTo(SeatTable.expected(row, policy));
    }
  }

  @ParameterizedTest
  @EnumSource(SeatPolicy.class)
  void everyPlanPassesItsOwnStartUpCheck(SeatPolicy policy) {
    int planned = 0;
    for (SeatTable.Row row : rows()) {
      if (SeatPlan.of(row.shape(), policy) instanceof PlanOutcome.Planned(var plan)) {
        planned++;
        assertThat(StartupValidator.check(plan, List.of()).disagreements()).as("%s", row).isEmpty();
        assertThat(plan.leases().count() - plan.seats().count())
            .isEqualTo(plan.transferAllowance() + plan.overlapAllowance());
      }
    }
    assertThat(planned).isEqualTo(policy == SeatPolicy.UNIFIED ? 32 : 128);
  }

  /** Sizes scale with B and pp; the table's two values of pp are no special cases. */
  @Test
  void sizesAreTheSameMultiplesForAnyBatchAndPipelineSize() {
    long seed = Long.getLong("berth.seed", 20_260_901L);
    System.out.println("berth.seed=" + seed);
    var random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    for (int i = 0; i < 20_000; i++) {
      var row = rows().get(random.nextInt(128));
      int b = random.nextInt(1, 2000);
      int pp = row.pp() == 1 ? 1 : random.nextInt(2, 64);
      var shape = WorkerShape.builder(b).pipelineSize(pp).beamWidth(row.beam()).ranks(4);
      row.shape().transferBackend().ifPresent(shape::transferBackend);
      shape.with(row.shape().traits());
      var wanted =
          new SeatTable.Row(
              pp, row.adp(), row.overlap(), row.disagg(), row.hybrid(), row.mrope(), row.beam());
      var plan = SeatPlan.of(shape.build(), SeatPolicy.SPLIT).orThrow();
      var expected = SeatTable.expected(wanted, SeatPolicy.SPLIT);
      assertThat(plan.seats().count()).isEqualTo(expected.seats() * b);
      assertThat(plan.leases().count()).isEqualTo(expected.leases() * b);
      assertThat(plan.batchPositions().count()).isEqualTo(b);
    }
  }

  /** Rewrite the page with {@code -Dberth.docs.update=true}. */
  @Test
  void theDocumentShowsThisTable() throws IOException {
    var page = Path.of(System.getProperty("berth.test.basedir", "."), "docs", "plan.md");
    var text = Files.readString(page);
    int start = text.indexOf(START) + START.length();
    int end = text.indexOf(END);
    assertThat(text).contains(START, END);
    if (Boolean.getBoolean("berth.docs.update")) {
      Files.writeString(
          page, text.substring(0, start) + SeatTable.markdown() + text.substring(end));
      text = Files.readString(page);
      end = text.indexOf(END);
    }
    assertThat(text.substring(start, end)).isEqualTo(SeatTable.markdown());
  }
}
