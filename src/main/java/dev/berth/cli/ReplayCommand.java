// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.ShippedScenarios;
import dev.berth.replay.Scenario;
import dev.berth.replay.ScenarioRun;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code berth replay}. */
@Command(
    name = "replay",
    mixinStandardHelpOptions = true,
    description = "Replays a scenario on virtual time and compares it with its published figures.")
final class ReplayCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Parameters(paramLabel = "SCENARIO", description = "a shipped scenario or a file")
  private String scenario = "";

  @Override
  public Integer call() {
    Scenario loaded = ShippedScenarios.load(scenario);
    ScenarioRun.Result result = ScenarioRun.run(loaded, ended -> {});
    PrintWriter out = spec.commandLine().getOut();
    new ReplayReport(out).print(result);
    out.flush();
    return result.asExpected() ? 0 : 1;
  }
}
