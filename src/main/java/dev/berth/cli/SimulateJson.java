// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.simulate.Coverage;
import dev.berth.simulate.Failure;
import dev.berth.simulate.SimulationReport;
import java.util.List;

/** A simulation as JSON. */
final class SimulateJson {
  private SimulateJson() {}

  static Json of(SimulationReport report, List<String> missing, double seconds) {
    return new Json()
        .put("seed", report.seed())
        .put("broken", report.broken().id())
        .put("worlds", report.worlds())
        .put("rank_iterations", report.rankIterations())
        .put("seconds", seconds)
        .put(
            "median",
            new Json()
                .put("ranks", report.medianRanks())
                .put("iterations", report.medianIterations())
                .put("requests", report.medianRequests()))
        .put(
            "endings",
            new Json()
                .put("done", report.done())
                .put("stalled_by_name", report.stalled())
                .put("fill_out_of_reach", report.outOfReach()))
        .put(
            "coverage",
            new Json()
                .put("cells", Coverage.size())
                .put("empty", report.coverage().gaps())
                .put("thought_impossible", report.coverage().surprises()))
        .put("missing", missing)
        .put("failure", report.failure().map(SimulateJson::failure));
  }

  private static Json failure(Failure failure) {
    return new Json()
        .put("seed", failure.seed())
        .put("world", failure.world())
        .put("rule", failure.violation().invariant().number())
        .put("violated", failure.violation().toString())
        .put("shrunk", failure.shrunk().toString())
        .put("kept", failure.kept())
        .put("events", failure.events())
        .put("history", failure.history())
        .put("reproduction", failure.reproduction());
  }
}
