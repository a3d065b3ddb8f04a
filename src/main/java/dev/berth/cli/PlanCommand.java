// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.ConfigException;
import dev.berth.config.Finding.Severity;
import dev.berth.config.ModelShape;
import dev.berth.config.PlanOptions;
import dev.berth.config.ServingConfig;
import dev.berth.config.ServingPlan;
import dev.berth.config.ShippedConfigs;
import dev.berth.config.WorkerConfig.AssumedOverlap;
import dev.berth.plan.Bytes;
import dev.berth.plan.Reserve;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

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

  @Option(
      names = "--assume-overlap",
      paramLabel = "on|off|file",
      description = "Plan with the overlap scheduler on or off, or as the file says (default).")
  private AssumedOverlap overlap = AssumedOverlap.FILE;

  @Option(
      names = "--policy",
      paramLabel = "unified|split",
      description = "Seat policy; default unified, or split where the model forces it.")
  private @Nullable SeatPolicy policy;

  @Option(
      names = "--trait",
      split = ",",
      paramLabel = "hybrid|mrope-delta|confidence-scheduling",
      converter = TraitConverter.class,
      description = "Properties of the model that the file doesn't tell.")
  private List<Trait> traits = List.of();

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

  @Option(
      names = "--model",
      paramLabel = "shape",
      converter = ModelConverter.class,
      description =
          "Model shape for the KV budget: layers=61,latent=576[,dtype=fp8] or"
              + " layers=32,kv-heads=8,head-dim=128[,dtype=bf16].")
  private @Nullable ModelShape model;

  @Option(
      names = "--free-memory",
      paramLabel = "size",
      converter = BytesConverter.class,
      description =
          "Memory of one rank that is free once the weights are loaded, such as 102.26GiB.")
  private @Nullable Long freeMemory;

  @Option(
      names = "--fraction",
      paramLabel = "0..1",
      converter = FractionConverter.class,
      description = "Share of it for the KV pool, in place of the file's.")
  private @Nullable BigDecimal fraction;

  @Option(
      names = "--reserve",
      split = ",",
      paramLabel = "part=size",
      description =
          "Memory needed beside the KV pool: transfer, nccl, experts, fragmentation, such as"
              + " nccl=4GiB,experts=8GiB.")
  private Map<String, String> reserve = Map.of();

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
    var options = options();
    var plan = ServingPlan.of(read(file), options);
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

  private static ServingConfig read(String name) {
    var path = Path.of(name);
    if (Files.exists(path)) {
      return ServingConfig.read(path);
    }
    return ShippedConfigs.read(name)
        .orElseThrow(() ->
            new ConfigException(
                name,
                0,
                "",
                "there is no such file, and no shipped configuration of that name (--list)"));
  }

  private PlanOptions options() {
    return new PlanOptions(
        overlap,
        Optional.ofNullable(policy),
        traits.isEmpty() ? EnumSet.noneOf(Trait.class) : EnumSet.copyOf(traits),
        Optional.ofNullable(model),
        freeMemory == null ? OptionalLong.empty() : OptionalLong.of(freeMemory),
        Optional.ofNullable(fraction),
        reserve(),
        positive("--isl", inputTokens, Integer.MAX_VALUE / 2),
        positive("--osl", outputTokens, Integer.MAX_VALUE / 2),
        positive("--concurrency", concurrency, Integer.MAX_VALUE));
  }

  private OptionalInt positive(String name, @Nullable Integer value, int max) {
    if (value == null) {
      return OptionalInt.empty();
    }
    if (value < 1 || value > max) {
      throw new ParameterException(
          spec.commandLine(), name + ": found " + value + "; allowed: an integer from 1 to " + max);
    }
    return OptionalInt.of(value);
  }

  private Reserve reserve() {
    long transfer = 0;
    long nccl = 0;
    long experts = 0;
    long fragmentation = 0;
    for (var part : reserve.entrySet()) {
      long bytes = bytes("--reserve " + part.getKey(), part.getValue());
      switch (part.getKey().toLowerCase(Locale.ROOT)) {
        case "transfer" -> transfer = bytes;
        case "nccl" -> nccl = bytes;
        case "experts" -> experts = bytes;
        case "fragmentation" -> fragmentation = bytes;
        default ->
            throw new ParameterException(
                spec.commandLine(),
                "--reserve: found '"
                    + part.getKey()
                    + "'; allowed: transfer, nccl, experts, fragmentation");
      }
    }
    return new Reserve(transfer, nccl, experts, fragmentation);
  }

  private long bytes(String name, String text) {
    return Bytes.parse(text)
        .orElseThrow(() ->
            new ParameterException(spec.commandLine(), name + ": " + BytesConverter.problem(text)));
  }

  static final class BytesConverter implements ITypeConverter<Long> {
    static String problem(String text) {
      return "found '" + text + "'; allowed: an amount of memory such as 80GiB or 85.9GB";
    }

    @Override
    public Long convert(String text) {
      return Bytes.parse(text).orElseThrow(() -> new TypeConversionException(problem(text)));
    }
  }

  static final class FractionConverter implements ITypeConverter<BigDecimal> {
    @Override
    public BigDecimal convert(String text) {
      try {
        var value = text.length() <= 40 ? new BigDecimal(text) : BigDecimal.TEN;
        if (value.scale() <= 100 && value.signum() >= 0 && value.compareTo(BigDecimal.ONE) <= 0) {
          return value;
        }
      } catch (NumberFormatException e) {
        // told below
      }
      throw new TypeConversionException("found '" + text + "'; allowed: a number from 0 to 1");
    }
  }

  static final class ModelConverter implements ITypeConverter<ModelShape> {
    @Override
    public ModelShape convert(String text) {
      try {
        return ModelShape.parse(text);
      } catch (IllegalArgumentException e) {
        throw new TypeConversionException(String.valueOf(e.getMessage()));
      }
    }
  }

  static final class TraitConverter implements ITypeConverter<Trait> {
    @Override
    public Trait convert(String text) {
      return switch (text.toLowerCase(Locale.ROOT).replace('_', '-')) {
        case "hybrid" -> Trait.HYBRID;
        case "mrope-delta" -> Trait.MROPE_DELTA;
        case "confidence-scheduling" -> Trait.CONFIDENCE_SCHEDULING;
        default ->
            throw new TypeConversionException(
                "found '" + text + "'; allowed: hybrid, mrope-delta, confidence-scheduling");
      };
    }
  }
}
