// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.config.WorkerConfig.AssumedOverlap;
import dev.berth.plan.Reserve;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import java.math.BigDecimal;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;

/**
 * What a user adds to a configuration before it is planned.
 *
 * @param overlap which overlap setting to plan with
 * @param policy seat policy; empty for unified, or split where the model forces it
 * @param traits properties of the model that no file tells
 * @param model shape of the model; empty if there is to be no KV budget
 * @param freeBytes memory of one rank that is free once the weights are loaded
 * @param fraction share of it in place of the file's
 * @param reserve memory needed beside the KV pool; transfer buffers of 0 are derived from the file
 * @param inputTokens prompt length in place of the file's
 * @param outputTokens output length in place of the file's
 * @param concurrency requests in flight in place of the file's
 */
public record PlanOptions(
    AssumedOverlap overlap,
    Optional<SeatPolicy> policy,
    Set<Trait> traits,
    Optional<ModelShape> model,
    OptionalLong freeBytes,
    Optional<BigDecimal> fraction,
    Reserve reserve,
    OptionalInt inputTokens,
    OptionalInt outputTokens,
    OptionalInt concurrency) {
  /** The file as it stands. */
  public static final PlanOptions NONE =
      new PlanOptions(
          AssumedOverlap.FILE,
          Optional.empty(),
          Set.of(),
          Optional.empty(),
          OptionalLong.empty(),
          Optional.empty(),
          Reserve.NONE,
          OptionalInt.empty(),
          OptionalInt.empty(),
          OptionalInt.empty());

  public PlanOptions {
    traits =
        Collections.unmodifiableSet(
            traits.isEmpty() ? EnumSet.noneOf(Trait.class) : EnumSet.copyOf(traits));
  }

  /** The same with another overlap assumption. */
  public PlanOptions withOverlap(AssumedOverlap assumed) {
    return new PlanOptions(
        assumed,
        policy,
        traits,
        model,
        freeBytes,
        fraction,
        reserve,
        inputTokens,
        outputTokens,
        concurrency);
  }

  /** The same with lengths and concurrency in place of the file's, where they are given. */
  public PlanOptions withLoad(OptionalInt input, OptionalInt output, OptionalInt clients) {
    return new PlanOptions(
        overlap, policy, traits, model, freeBytes, fraction, reserve, input, output, clients);
  }

  /** A load with what the user gave in place of what the file says. */
  Workload apply(Workload load) {
    return new Workload(
        inputTokens.isPresent() ? inputTokens : load.inputTokens(),
        outputTokens.isPresent() ? outputTokens : load.outputTokens(),
        concurrency.isPresent() ? concurrency : load.concurrency());
  }
}
