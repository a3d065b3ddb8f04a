// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import picocli.CommandLine;
import picocli.CommandLine.Command;

/** Entry point of the {@code berth} command. */
@Command(
    name = "berth",
    mixinStandardHelpOptions = true,
    subcommands = ReplayCommand.class,
    description = "Admission, seating and KV pages for LLM serving: plan a configuration, replay a load.")
public final class Main implements Runnable {
  /** Runs the command line and exits with its status. */
  public static void main(String[] args) {
    System.exit(new CommandLine(new Main()).execute(args));
  }

  @Override
  public void run() {
    CommandLine.usage(this, System.out);
  }
}
