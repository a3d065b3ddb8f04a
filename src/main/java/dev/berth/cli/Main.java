// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.io.BufferedOutputStream;
import java.io.PrintStream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Option;
import picocli.CommandLine.ScopeType;

/** Entry point of the {@code berth} command. */
@Command(
    name = "berth",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    subcommands = {
      PlanCommand.class,
      ReplayCommand.class,
      SimulateCommand.class,
      TraceCommand.class,
      DoctorCommand.class,
      CompletionCommand.class
    },
    description =
        "Admission, seating and KV pages for LLM serving: plan a configuration, replay a load, simulate a fleet.")
public final class Main implements Runnable {
  @Option(
      names = "--verbose",
      scope = ScopeType.INHERIT,
      description = "Show the stack trace of an error.")
  private boolean verbose;

  /** Runs the command line and exits with its status. */
  public static void main(String[] args) {
    var output = new StandardOutput();
    System.setOut(new PrintStream(new BufferedOutputStream(output), true, System.out.charset()));
    int status = commandLine().execute(args);
    System.out.flush();
    output
        .failure()
        .ifPresent(problem ->
            System.err.println("berth: the output could not be written to its end: " + problem));
    System.exit(output.failure().isPresent() ? ErrorHandler.OUTPUT_LOST : status);
  }

  /** The command line with its error handling, as tests use it too. */
  static CommandLine commandLine() {
    var main = new Main();
    var handler = new ErrorHandler(main);
    return new CommandLine(main)
        .setCaseInsensitiveEnumValuesAllowed(true)
        .setExecutionStrategy(handler)
        .setExecutionExceptionHandler(handler)
        .setParameterExceptionHandler(handler);
  }

  /** The version in the jar's manifest. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = Main.class.getPackage().getImplementationVersion();
      return new String[] {"berth " + (version == null ? "(not packaged)" : version)};
    }
  }

  boolean verbose() {
    return verbose;
  }

  @Override
  public void run() {
    CommandLine.usage(this, System.out);
  }
}
