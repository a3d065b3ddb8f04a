// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.plan.PlanOutcome.Planned;
import dev.berth.plan.PlanOutcome.Refused;
import java.util.ArrayList;
import java.util.List;

/**
 * Every combination of the inputs that seats and leases depend on, and a second statement of the
 * rules.
 */
final class SeatTable {
  static final int B = 8;

  private SeatTable() {}

  /** One combination. */
  record Row(
      int pp,
      boolean adp,
      boolean overlap,
      boolean disagg,
      boolean hybrid,
      boolean mrope,
      int beam) {
    WorkerShape shape() {
      var builder = WorkerShape.builder(B).pipelineSize(pp).beamWidth(beam).ranks(4);
      if (adp) {
        builder.with(Trait.ATTENTION_DP);
      }
      if (overlap) {
        builder.with(Trait.OVERLAP);
      }
      if (disagg) {
        builder.transferBackend("UCX");
      }
      if (hybrid) {
        builder.with(Trait.HYBRID);
      }
      if (mrope) {
        builder.with(Trait.MROPE_DELTA);
      }
      return builder.build();
    }
  }

  /** Sizes in units of B; negative where there is no plan. */
  record Sizes(int seats, int leases, int transfer, int overlap, boolean excludes) {
    static final Sizes REFUSED = new Sizes(-1, -1, -1, -1, false);
  }

  static List<Row> rows() {
    var rows = new ArrayList<Row>();
    for (int pp : new int[] {1, 4}) {
      for (int bits = 0; bits < 64; bits++) {
        rows.add(
            new Row(
                pp,
                (bits & 32) != 0,
                (bits & 16) != 0,
                (bits & 8) != 0,
                (bits & 4) != 0,
                (bits & 2) != 0,
                (bits & 1) != 0 ? 4 : 1));
      }
    }
    return rows;
  }

  /** The rules of DESIGN.md decision 4 and spec 01 §6, stated by cases instead of by allowances. */
  static Sizes expected(Row row, SeatPolicy policy) {
    boolean widened =
        row.adp && row.pp == 1 && row.overlap && !row.hybrid && !row.mrope && row.beam == 1;
    if (policy == SeatPolicy.UNIFIED) {
      if (row.hybrid || row.mrope) {
        return Sizes.REFUSED;
      }
      int seats = row.disagg || widened ? 2 * row.pp : row.pp;
      return new Sizes(seats, seats, 0, 0, widened);
    }
    int seats = widened ? 2 : row.pp;
    int leases = row.disagg || (row.pp == 1 && row.overlap) ? 2 * row.pp : row.pp;
    int surplus = leases - seats;
    return row.disagg
        ? new Sizes(seats, leases, surplus, 0, widened)
        : new Sizes(seats, leases, 0, surplus, widened);
  }

  static Sizes actual(Row row, SeatPolicy policy) {
    return switch (SeatPlan.of(row.shape(), policy)) {
      case Refused refused -> Sizes.REFUSED;
      case Planned(var plan) ->
          new Sizes(
              units(plan.seats().count()),
              units(plan.leases().count()),
              units(plan.transferAllowance()),
              units(plan.overlapAllowance()),
              plan.excludesRetiring());
    };
  }

  private static int units(int rows) {
    if (rows % B != 0) {
      throw new AssertionError(rows + " is no multiple of B = " + B);
    }
    return rows / B;
  }

  static String markdown() {
    var text = new StringBuilder();
    text.append("| pp | ADP | overlap | disagg | hybrid | MRoPE | beam | unified: seats = leases |")
        .append(" split: seats | leases | surplus | retiring |\n")
        .append("|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (Row row : rows()) {
      var unified = actual(row, SeatPolicy.UNIFIED);
      var split = actual(row, SeatPolicy.SPLIT);
      text.append(
          "| %d | %s | %s | %s | %s | %s | %d | %s | %d | %d | %s | %s |\n"
              .formatted(
                  row.pp,
                  yes(row.adp),
                  row.overlap ? "on" : "off",
                  yes(row.disagg),
                  yes(row.hybrid),
                  yes(row.mrope),
                  row.beam,
                  unified.equals(Sizes.REFUSED) ? "refused" : Integer.toString(unified.seats),
                  split.seats,
                  split.leases,
                  surplus(split),
                  split.excludes ? "excluded" : "charged"));
    }
    return text.toString();
  }

  private static String surplus(Sizes split) {
    if (split.transfer > 0) {
      return split.transfer + " transfer";
    }
    return split.overlap > 0 ? split.overlap + " overlap" : "0";
  }

  private static String yes(boolean value) {
    return value ? "yes" : "no";
  }
}
