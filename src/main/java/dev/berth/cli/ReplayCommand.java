// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.cli.TraceReplay.ArrivalKind;
import dev.berth.config.FleetSetup;
import dev.berth.config.ServingConfig;
import dev.berth.config.ShippedConfigs;
import dev.berth.config.ShippedScenarios;
import dev.berth.config.ShippedTraces;
import dev.berth.engine.log.LogReplay;
import dev.berth.replay.Arm;
import dev.berth.replay.Arrivals;
import dev.berth.replay.ClosedTraceArrivals;
import dev.berth.replay.CostModel;
import dev.berth.replay.Progress;
import dev.berth.replay.RequestTimes;
import dev.berth.replay.Scenario;
import dev.berth.replay.ScenarioRun;
import dev.berth.replay.Trace;
import dev.berth.replay.TraceArrivals;
import dev.berth.replay.TraceResult;
import dev.berth.replay.TraceRun;
import dev.berth.replay.TransferModel;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * {@code berth replay}: a scenario against its published figures, or a trace through a
 * configuration.
 */
@Command(
    name = "replay",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    sortOptions = false,
    customSynopsis = {
      "berth replay [--arm=name]... [--write-log=<file>] [--json] SCENARIO",
      "berth replay --config=<serving.yaml> --trace=<file> [OPTIONS]",
      "berth replay --log=<file> [--json]",
      "berth replay --list"
    },
    description = {
      "Replay a load on virtual time: a scenario, compared with its published figures, or a request"
          + " trace through all workers of a serving configuration. Or run a decision log again and"
          + " name the first decision that is not the logged one."
    },
    footer = {
      "",
      "Exit status: 0 as expected, or every request of the trace done or refused by name, or every"
          + " decision as logged; 1 not as expected, or stopped with work left; 2 bad input or a configuration that cannot"
          + " work.",
    })
final class ReplayCommand implements Callable<Integer> {
  /** A machine for those who don't name one: 10 µs a token, 8 ms a forward. */
  private static final CostModel DEFAULT_COST =
      new CostModel(10, 10 * CostModel.FITTED_BETA_OVER_ALPHA, 8000);

  private static final TransferModel DEFAULT_TRANSFER = new TransferModel(1000, 0.7);

  @SuppressWarnings("NullAway.Init") // set by picocli
  @Spec
  private CommandSpec spec;

  @Parameters(
      index = "0",
      arity = "0..1",
      paramLabel = "SCENARIO",
      description = "A shipped scenario (--list) or a file.")
  private @Nullable String scenario;

  @Option(names = "--list", description = "List the scenarios and traces that are shipped.")
  private boolean list;

  @Option(
      names = "--arm",
      paramLabel = "name",
      description = "Run this arm of the scenario only; may be given several times.")
  private List<String> arms = List.of();

  @Option(
      names = "--write-log",
      paramLabel = "<file>",
      description = "Write the decision log of the arm (docs/decision-log.md).")
  private @Nullable String writeLog;

  @Option(
      names = "--log",
      paramLabel = "<file>",
      description = "Run a decision log again; the first decision that differs is named.")
  private @Nullable String log;

  @Option(names = "--json", description = "Print JSON (docs/json.md).")
  private boolean json;

  @Option(
      names = "--config",
      paramLabel = "<serving.yaml>",
      description = "A configuration, or the name of a shipped one (berth plan --list).")
  private @Nullable String config;

  @Option(
      names = "--trace",
      paramLabel = "file",
      description = "A Mooncake JSONL or Azure CSV trace, or the name of a shipped one (--list).")
  private @Nullable String trace;

  @Option(
      names = "--requests",
      paramLabel = "n",
      description = "Send the first n requests; more than there are: the trace is repeated.")
  private @Nullable Integer requests;

  @Option(
      names = "--arrivals",
      paramLabel = "trace|closed",
      description = "At the trace's times (default), or as soon as another request has ended.")
  private ArrivalKind arrivals = ArrivalKind.TRACE;

  @Option(
      names = "--speedup",
      paramLabel = "f",
      description = "Send the trace f times faster than it was.")
  private @Nullable Double speedup;

  @Option(
      names = "--concurrency",
      paramLabel = "n",
      description = "Requests in the system with closed arrivals; default: the configuration's.")
  private @Nullable Integer concurrency;

  @Option(
      names = "--deployment",
      paramLabel = "name",
      description = "Which deployment, if the configuration has several.")
  private @Nullable String deployment;

  @Option(
      names = "--worker",
      paramLabel = "ctx|gen|all",
      description = "Which workers take part; default all.")
  private FleetSetup.Workers workers = FleetSetup.Workers.ALL;

  @Option(
      names = "--servers",
      split = ",",
      paramLabel = "n|ctx=n,gen=n",
      description = "How many servers of each kind, in place of the configuration's numbers.")
  private List<String> servers = List.of();

  @Option(
      names = "--cost",
      split = ",",
      paramLabel = "alpha,beta,fixed",
      description =
          "Time of a forward in µs: a token of the fullest rank, a token of all ranks, a forward;"
              + " default 10,1.349,8000.")
  private List<Double> cost = List.of();

  @Option(
      names = "--transfer",
      split = ",",
      paramLabel = "base,token",
      description = "Time of a KV transfer in µs: each, and a prompt token; default 1000,0.7.")
  private List<Double> transfer = List.of();

  @Option(
      names = "--kv-pages",
      paramLabel = "n",
      description = "KV pages of a rank; default: by --free-memory, or not limited.")
  private @Nullable Long kvPages;

  @Option(
      names = "--prefix-reuse",
      paramLabel = "on|off|file",
      description =
          "Whether prompts find what earlier ones left in the KV cache; by default as the file"
              + " says, where the trace tells prefixes and KV pages are limited.")
  private FleetSetup.PrefixReuse prefixReuse = FleetSetup.PrefixReuse.FILE;

  @Mixin private final PlanningOptions planning = new PlanningOptions();

  @Override
  public Integer call() {
    if (list) {
      return list();
    }
    if (log != null) {
      require(
          scenario == null && config == null && trace == null && writeLog == null && arms.isEmpty(),
          "--log says what ran: give nothing else but --json");
      return logReplay(log);
    }
    if (config != null && scenario == null) {
      require(writeLog == null, "--write-log belongs to a scenario");
      require(arms.isEmpty(), "--arm belongs to a scenario");
      require(trace != null, "--config needs a --trace");
      return traceReplay(config, trace == null ? "" : trace);
    }
    require(config == null, "a scenario brings its own configuration: leave out --config");
    require(trace == null, "--trace needs a --config");
    if (scenario == null) {
      throw usage("a scenario is needed (--list names the shipped ones), or --config and --trace");
    }
    return scenarioReplay(scenario);
  }

  private int list() {
    var out = spec.commandLine().getOut();
    int width = ShippedScenarios.names().stream().mapToInt(String::length).max().orElse(0);
    for (String name : ShippedScenarios.names()) {
      out.println(
          name + " ".repeat(width + 2 - name.length()) + ShippedScenarios.load(name).title());
    }
    out.println();
    out.println("traces: " + String.join(", ", ShippedTraces.names()));
    out.flush();
    return 0;
  }

  private int scenarioReplay(String name) {
    Scenario loaded = ShippedScenarios.load(name);
    Scenario selected = arms.isEmpty() ? loaded : loaded.withArms(arms);
    try (var interrupts = Interrupts.listen()) {
      ScenarioRun.Result result;
      try (var progress = progress(interrupts)) {
        result =
            writeLog == null
                ? ScenarioRun.run(selected, progress)
                : logged(selected, writeLog, progress);
      }
      var out = spec.commandLine().getOut();
      if (json) {
        out.println(ReplayJson.of(result).text());
      } else {
        new ReplayReport(out).print(result);
      }
      out.flush();
      return result.asExpected() ? 0 : 1;
    }
  }

  private ScenarioRun.Result logged(Scenario selected, String file, Progress progress) {
    List<String> names = selected.arms().stream().map(Arm::name).toList();
    require(
        names.size() == 1,
        "--write-log writes the log of one arm: choose one with --arm="
            + String.join(", --arm=", names));
    try (var writer = LogFiles.create(file, selected.name() + "/" + names.getFirst())) {
      return ScenarioRun.run(selected, progress, arm -> writer);
    } catch (UncheckedIOException e) {
      throw new BerthException(
          Code.ARGUMENT, "%s can't be written: %s".formatted(file, e.getMessage()), e);
    }
  }

  private int logReplay(String file) {
    LogReplay.Result result = LogFiles.replay(file);
    var out = spec.commandLine().getOut();
    if (json) {
      out.println(LogFiles.json(result).text());
    } else {
      LogFiles.print(result, out);
    }
    out.flush();
    return LogFiles.exitStatus(result);
  }

  private ProgressLine progress(Interrupts interrupts) {
    return new ProgressLine(
        spec.commandLine().getErr(),
        StandardError.isTerminal() ? ProgressLine.Audience.TERMINAL : ProgressLine.Audience.NOBODY,
        System::nanoTime,
        interrupts::requested);
  }

  // ------------------------------------------------------------------------------ traces

  private int traceReplay(String configName, String traceName) {
    FleetSetup.Options options = options();
    int wanted =
        Arguments.positive(spec, "--requests", requests, RequestTimes.mostRequests()).orElse(0);
    OptionalInt clients = Arguments.positive(spec, "--concurrency", concurrency, Integer.MAX_VALUE);
    double factor = speedup();
    ServingConfig serving = ShippedConfigs.load(configName);
    Trace loaded = ShippedTraces.load(traceName);
    FleetSetup setup = FleetSetup.of(serving, options.with(reuse(loaded)));
    int total = wanted == 0 ? loaded.requests() : wanted;
    int inSystem =
        switch (arrivals) {
          case TRACE -> 0;
          case CLOSED -> inSystem(clients, setup);
        };
    Arrivals source =
        switch (arrivals) {
          case TRACE -> new TraceArrivals(loaded, factor, total);
          case CLOSED -> new ClosedTraceArrivals(loaded, inSystem, total);
        };
    try (var interrupts = Interrupts.listen()) {
      long started = System.nanoTime();
      TraceResult result;
      try (var progress = progress(interrupts)) {
        result = run(loaded, setup, source, progress);
      }
      double seconds = (System.nanoTime() - started) / 1e9;
      var replay = new TraceReplay(configName, setup, arrivals, factor, inSystem, result, seconds);
      var out = spec.commandLine().getOut();
      if (json) {
        out.println(ReplayJson.of(replay).text());
      } else {
        new TraceReport(out).print(replay);
      }
      out.flush();
      return result.complete() ? 0 : 1;
    }
  }

  private static TraceResult run(
      Trace trace, FleetSetup setup, Arrivals source, Progress progress) {
    return TraceRun.run(trace, setup.stages(), source, progress);
  }

  private int inSystem(OptionalInt clients, FleetSetup setup) {
    if (clients.isPresent()) {
      return clients.getAsInt();
    }
    return setup
        .concurrency()
        .orElseThrow(
            () -> usage("--arrivals closed needs --concurrency: the configuration names none"));
  }

  /** A trace that tells nothing of prefixes shares nothing. */
  private FleetSetup.PrefixReuse reuse(Trace loaded) {
    if (loaded.prefixes().isPresent()) {
      return prefixReuse;
    }
    require(
        prefixReuse != FleetSetup.PrefixReuse.ON,
        "--prefix-reuse on needs a trace with prefix blocks: " + loaded.name() + " has none");
    return FleetSetup.PrefixReuse.OFF;
  }

  private FleetSetup.Options options() {
    if (kvPages != null && (kvPages < 1 || kvPages > Long.MAX_VALUE / 2)) {
      throw usage("--kv-pages: found " + kvPages + "; allowed: an integer from 1");
    }
    require(
        kvPages == null || !planning.hasFreeMemory(),
        "--kv-pages and --free-memory exclude each other");
    require(!planning.hasModel() || planning.hasFreeMemory(), "--model is for --free-memory");
    return new FleetSetup.Options(
        Optional.ofNullable(deployment),
        workers,
        planning.read(),
        kvPages == null ? OptionalLong.empty() : OptionalLong.of(kvPages),
        prefixReuse,
        servers("ctx"),
        servers("gen"),
        cost(),
        transfer());
  }

  /** A bare number is for every kind; {@code gen} stands for aggregated servers too. */
  private OptionalInt servers(String kind) {
    OptionalInt found = OptionalInt.empty();
    for (String part : servers) {
      int at = part.indexOf('=');
      String name = at < 0 ? kind : part.substring(0, at);
      if (!name.equals("ctx") && !name.equals("gen")) {
        throw usage("--servers: found '" + part + "'; allowed: n, or ctx=n,gen=n");
      }
      if (name.equals(kind)) {
        found = OptionalInt.of(count("--servers", part.substring(at + 1)));
      }
    }
    return found;
  }

  private int count(String name, String text) {
    try {
      int value = Integer.parseInt(text);
      if (value >= 1 && value <= 4096) {
        return value;
      }
    } catch (NumberFormatException e) {
      // told below
    }
    throw usage(name + ": found '" + text + "'; allowed: an integer from 1 to 4096");
  }

  private CostModel cost() {
    if (cost.isEmpty()) {
      return DEFAULT_COST;
    }
    require(cost.size() == 3, "--cost takes three numbers: alpha,beta,fixed");
    try {
      return new CostModel(cost.get(0), cost.get(1), cost.get(2));
    } catch (IllegalArgumentException e) {
      throw usage("--cost: " + e.getMessage());
    }
  }

  private TransferModel transfer() {
    if (transfer.isEmpty()) {
      return DEFAULT_TRANSFER;
    }
    require(transfer.size() == 2, "--transfer takes two numbers: base,token");
    try {
      return new TransferModel(transfer.get(0), transfer.get(1));
    } catch (IllegalArgumentException e) {
      throw usage("--transfer: " + e.getMessage());
    }
  }

  private double speedup() {
    if (speedup == null) {
      return 1;
    }
    require(arrivals == ArrivalKind.TRACE, "--speedup is for the trace's own arrivals");
    require(
        speedup > 0 && speedup <= 1e9,
        "--speedup: found " + speedup + "; allowed: a number above 0, up to 1e9");
    return speedup;
  }

  private void require(boolean condition, String otherwise) {
    if (!condition) {
      throw usage(otherwise);
    }
  }

  private ParameterException usage(String problem) {
    return new ParameterException(spec.commandLine(), problem);
  }
}
