// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.util.concurrent.Callable;
import picocli.AutoComplete;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code berth completion}: a script for bash and zsh. */
@Command(
    name = "completion",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    description = "Print a script that lets bash or zsh complete commands and options.",
    footer = {"", "Example: source <(berth completion)", "", "Exit status: 0."})
final class CompletionCommand implements Callable<Integer> {
  @SuppressWarnings("NullAway.Init") // set by picocli
  @Spec
  private CommandSpec spec;

  @Override
  public Integer call() {
    var out = spec.commandLine().getOut();
    out.print(AutoComplete.bash("berth", spec.root().commandLine()));
    out.flush();
    return 0;
  }
}
