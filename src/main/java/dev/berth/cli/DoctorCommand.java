// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code berth doctor}: does Berth work on this machine, and if not, what is to be done? */
@Command(
    name = "doctor",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    description = {
      "Look at what Berth needs here: Java, native calls, its library, folders, vector code, memory,"
          + " GPU. What isn't as it should be is told with what to do."
    },
    footer = {
      "",
      "Example: berth doctor --json",
      "",
      "Exit status: 0 Berth works here, also with warnings; 1 it doesn't; 2 bad input."
    })
final class DoctorCommand implements Callable<Integer> {
  @SuppressWarnings("NullAway.Init") // set by picocli
  @Spec
  private CommandSpec spec;

  @Option(names = "--json", description = "Print JSON (docs/json.md).")
  private boolean json;

  @Override
  public Integer call() {
    Checkup checkup = Checkup.of(Checkup.Machine.here());
    var out = spec.commandLine().getOut();
    out.println(json ? checkup.json().text() : checkup.text());
    out.flush();
    return checkup.exitStatus();
  }
}
