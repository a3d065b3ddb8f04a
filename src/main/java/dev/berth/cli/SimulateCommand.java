// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.simulate.BrokenRule;
import dev.berth.simulate.Simulation;
import dev.berth.simulate.SimulationReport;
import java.util.Arrays;
import java.util.OptionalInt;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code berth simulate}: seeded worlds that try to make a fleet hang, leak or disagree. */
@Command(
    name = "simulate",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    sortOptions = false,
    description = {
      "Run fleets of engines in seeded worlds on virtual time: random configurations and loads,"
          + " cancels, failing transfers, slow and dead ranks, late and lost messages, clock jumps."
          + " After every iteration independent books are compared (docs/simulation.md). The first"
          + " failure is made small and told with the command that shows it again."
    },
    footer = {
      "",
      "Exit status: 0 every world held every rule; 1 one didn't, or what was required was not met;"
          + " 2 bad input.",
    })
final class SimulateCommand implements Callable<Integer> {
  private static final long DEFAULT_WORLDS = 1000;

  @SuppressWarnings("NullAway.Init") // set by picocli
  @Spec
  private CommandSpec spec;

  @Option(
      names = "--worlds",
      paramLabel = "n",
      description = "Worlds to run (default " + DEFAULT_WORLDS + ").")
  private long worlds = DEFAULT_WORLDS;

  @Option(
      names = "--seed",
      paramLabel = "s",
      description = "Seed of the first world, the next has the next (default 1).")
  private long seed = 1;

  @Option(
      names = "--threads",
      paramLabel = "n",
      description = "Worlds at a time (default: as many as processors).")
  private @Nullable Integer threads;

  @Option(
      names = "--break",
      paramLabel = "rule",
      description = "Break a rule in every world where it can be, to see it noticed.")
  private @Nullable String broken;

  @Option(
      names = "--only",
      paramLabel = "events",
      description = "Let only these events of a world happen: 0-3,17. For reproductions.")
  private @Nullable String only;

  @Option(
      names = "--require-rank-iterations",
      paramLabel = "n",
      description = "Exit 1 if fewer were run.")
  private long requiredRankIterations;

  @Option(
      names = "--require-coverage",
      description =
          "Exit 1 if a cell of the coverage table is empty, or the median world is below 3 ranks,"
              + " 100 iterations and 50 requests.")
  private boolean requireCoverage;

  @Option(names = "--json", description = "Print JSON.")
  private boolean json;

  @Override
  public Integer call() {
    Simulation simulation = Simulation.of(seed, checked("--worlds", worlds)).breaking(rule());
    if (only != null) {
      simulation = simulation.only(only);
    }
    OptionalInt given = Arguments.positive(spec, "--threads", threads, Simulation.MOST_THREADS);
    int workers =
        given.orElse(Math.min(Simulation.MOST_THREADS, Runtime.getRuntime().availableProcessors()));
    var out = spec.commandLine().getOut();
    try (var interrupts = Interrupts.listen()) {
      long started = System.nanoTime();
      SimulationReport report = simulation.run(workers, interrupts::requested);
      double seconds = (System.nanoTime() - started) / 1e9;
      var required = SimulateText.missing(report, requiredRankIterations, requireCoverage);
      out.println(
          json
              ? SimulateJson.of(report, required, seconds).text()
              : SimulateText.of(report, required, seconds));
      out.flush();
      return report.failure().isEmpty() && required.isEmpty() ? 0 : 1;
    }
  }

  private long checked(String name, long value) {
    if (value < 1 || value > Simulation.MOST_WORLDS) {
      throw new ParameterException(
          spec.commandLine(),
          "%s: found %d; allowed: an integer from 1 to %d"
              .formatted(name, value, Simulation.MOST_WORLDS));
    }
    return value;
  }

  private BrokenRule rule() {
    if (broken == null) {
      return BrokenRule.NONE;
    }
    String name = broken;
    return BrokenRule.byId(name)
        .orElseThrow(() ->
            new ParameterException(
                spec.commandLine(),
                "--break: found '%s'; allowed: %s"
                    .formatted(
                        name,
                        Arrays.stream(BrokenRule.values())
                            .map(rule -> rule.id() + " (" + rule.text() + ")")
                            .collect(Collectors.joining(", ")))));
  }
}
