// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.Finding.Severity;
import dev.berth.config.ServingPlan;
import dev.berth.config.ShippedConfigs;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code berth plan}: what a configuration will seat, lease and admit, and what cannot work. */
@Command(
    name = "plan",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    sortOptions = false,
    description = {
      "Say what a serving configuration will seat, lease and admit, what is inert in it, and what"
          + " cannot work and why.",
      "Reads TensorRT-LLM, vLLM and SGLang YAML."
    },
    footer = {
      "",
      "Exit status: 0 fine, 1 warnings (only with --strict), 2 refused or bad input.",
    })
final class PlanCommand implements Callable<Integer> {
  @SuppressWarnings("NullAway.Init") // set by picocli
  @Spec
  private CommandSpec spec;

  @Parameters(
      index = "0",
      arity = "0..1",
      paramLabel = "<file.yaml>",
      description = "A configuration, or the name of a shipped one (--list).")
  private @Nullable String file;

  @Option(names = "--list", description = "List the configurations that are shipped.")
  private boolean list;

  @Mixin private final PlanningOptions planning = new PlanningOptions();

  @Option(
      names = "--isl",
      paramLabel = "tokens",
      description = "Prompt length in place of the file's.")
  private @Nullable Integer inputTokens;

  @Option(
      names = "--osl",
      paramLabel = "tokens",
      description = "Output length in place of the file's.")
  private @Nullable Integer outputTokens;

  @Option(
      names = "--concurrency",
      paramLabel = "requests",
      description = "Requests that clients keep in flight, in place of the file's.")
  private @Nullable Integer concurrency;

  @Option(names = "--strict", description = "Exit 1 if there are warnings.")
  private boolean strict;

  @Option(names = "--json", description = "Print JSON.")
  private boolean json;

  @Override
  public Integer call() {
    var out = spec.commandLine().getOut();
    if (list) {
      ShippedConfigs.names().forEach(out::println);
      return 0;
    }
    if (file == null) {
      throw new ParameterException(
          spec.commandLine(), "a configuration is needed: a file, or a name of --list");
    }
    var options =
        planning
            .read()
            .withLoad(
                Arguments.positive(spec, "--isl", inputTokens, Integer.MAX_VALUE / 2),
                Arguments.positive(spec, "--osl", outputTokens, Integer.MAX_VALUE / 2),
                Arguments.positive(spec, "--concurrency", concurrency, Integer.MAX_VALUE));
    var plan = ServingPlan.of(ShippedConfigs.load(file), options);
    out.println(json ? PlanJson.of(plan).text() : PlanText.of(plan));
    out.flush();
    return plan.worst().map(this::status).orElse(0);
  }

  private int status(Severity worst) {
    return switch (worst) {
      case REFUSED -> ErrorHandler.BAD_INPUT;
      case WARNING -> strict ? 1 : 0;
      case NOTE -> 0;
    };
  }
}
