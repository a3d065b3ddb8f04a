// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.ModelShape;
import dev.berth.config.PlanOptions;
import dev.berth.config.WorkerConfig.AssumedOverlap;
import dev.berth.plan.Bytes;
import dev.berth.plan.Reserve;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import java.math.BigDecimal;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** What a user can say about a serving configuration beside its file, to every command alike. */
final class PlanningOptions {
  @SuppressWarnings("NullAway.Init") // set by picocli
  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

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

  /** Whether memory was given, from which the KV budget follows. */
  boolean hasFreeMemory() {
    return freeMemory != null;
  }

  /** Whether the model's shape was given. */
  boolean hasModel() {
    return model != null;
  }

  /** The options as planning takes them; the file's load is left as it is. */
  PlanOptions read() {
    return new PlanOptions(
        overlap,
        Optional.ofNullable(policy),
        traits.isEmpty() ? EnumSet.noneOf(Trait.class) : EnumSet.copyOf(traits),
        Optional.ofNullable(model),
        freeMemory == null ? OptionalLong.empty() : OptionalLong.of(freeMemory),
        Optional.ofNullable(fraction),
        reserve(),
        OptionalInt.empty(),
        OptionalInt.empty(),
        OptionalInt.empty());
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
