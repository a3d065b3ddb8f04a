// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/**
 * What sizes depend on: one worker of a serving configuration, as it really runs.
 *
 * @param maxBatchSize B, sequences in one scheduled batch of one rank, 1 to 1 048 576
 * @param pipelineSize pp, pipeline stages, 1 to 1024
 * @param ranks tensor-parallel size, which is the number of attention-DP ranks where attention DP
 *     is on, 1 to 65 536
 * @param beamWidth 1 to 1024
 * @param maxNumTokens tokens in one step of one rank; 0 if unset
 * @param draftTokens draft tokens a generation step carries beside its own, 0 to 1024
 * @param maxSeqLen longest sequence in tokens; 0 if unset
 * @param tokensPerBlock tokens of one KV page, 1 to 65 536
 * @param transferBackend name of the KV transfer engine; empty if none is configured
 * @param paddingLeases leases kept for padding requests, if the KV manager asks for an exact number
 * @param traits the yes-or-no properties
 */
public record WorkerShape(
    int maxBatchSize,
    int pipelineSize,
    int ranks,
    int beamWidth,
    int maxNumTokens,
    int draftTokens,
    int maxSeqLen,
    int tokensPerBlock,
    Optional<String> transferBackend,
    OptionalInt paddingLeases,
    Set<Trait> traits) {
  /** Tokens of one KV page where the configuration names none. */
  public static final int DEFAULT_TOKENS_PER_BLOCK = 32;

  public static final int MAX_BATCH_SIZE = 1 << 20;
  public static final int MAX_PIPELINE_SIZE = 1024;
  public static final int MAX_RANKS = 1 << 16;
  public static final int MAX_BEAM_WIDTH = 1024;
  public static final int MAX_DRAFT_TOKENS = 1024;
  public static final int MAX_TOKENS_PER_BLOCK = 1 << 16;

  public WorkerShape {
    range("maxBatchSize", maxBatchSize, 1, MAX_BATCH_SIZE);
    range("pipelineSize", pipelineSize, 1, MAX_PIPELINE_SIZE);
    range("ranks", ranks, 1, MAX_RANKS);
    range("beamWidth", beamWidth, 1, MAX_BEAM_WIDTH);
    range("maxNumTokens", maxNumTokens, 0, Integer.MAX_VALUE);
    range("draftTokens", draftTokens, 0, MAX_DRAFT_TOKENS);
    range("maxSeqLen", maxSeqLen, 0, Integer.MAX_VALUE);
    range("tokensPerBlock", tokensPerBlock, 1, MAX_TOKENS_PER_BLOCK);
    paddingLeases.ifPresent(count -> range("paddingLeases", count, 0, MAX_BATCH_SIZE));
    traits =
        Collections.unmodifiableSet(
            traits.isEmpty() ? EnumSet.noneOf(Trait.class) : EnumSet.copyOf(traits));
  }

  /** A worker with one rank, one stage and nothing switched on. */
  public static Builder builder(int maxBatchSize) {
    return new Builder(maxBatchSize);
  }

  /** A builder that starts from this shape. */
  public Builder toBuilder() {
    return new Builder(this);
  }

  public boolean has(Trait trait) {
    return traits.contains(trait);
  }

  /** Attention data parallelism. */
  public boolean attentionDp() {
    return has(Trait.ATTENTION_DP);
  }

  /** The overlap scheduler really runs. */
  public boolean overlap() {
    return has(Trait.OVERLAP);
  }

  public boolean hybrid() {
    return has(Trait.HYBRID);
  }

  public boolean mropeDelta() {
    return has(Trait.MROPE_DELTA);
  }

  /**
   * The one predicate for "disaggregated": a transfer engine is configured and is not called {@code
   * none} (spec 01 §12.6).
   */
  public boolean disaggregated() {
    return transferBackend
        .filter(name -> !name.toLowerCase(Locale.ROOT).equals("none"))
        .isPresent();
  }

  /** Ranks that seat requests of their own: all of them under attention DP, else one group. */
  public int seatingRanks() {
    return attentionDp() ? ranks : 1;
  }

  /** Tokens that one generation takes in one step: its own and its drafts. */
  public int tokensPerGeneration() {
    return 1 + draftTokens;
  }

  private static void range(String name, int value, int min, int max) {
    if (value < min || value > max) {
      throw new BerthException(
          BerthException.Code.ARGUMENT,
          name + " must be from " + min + " to " + max + ", got " + value);
    }
  }

  /** Collects a shape. Not thread-safe. */
  public static final class Builder {
    private final int maxBatchSize;
    private int pipelineSize = 1;
    private int ranks = 1;
    private int beamWidth = 1;
    private int maxNumTokens;
    private int draftTokens;
    private int maxSeqLen;
    private int tokensPerBlock = DEFAULT_TOKENS_PER_BLOCK;
    private Optional<String> transferBackend = Optional.empty();
    private OptionalInt paddingLeases = OptionalInt.empty();
    private final EnumSet<Trait> traits = EnumSet.noneOf(Trait.class);

    private Builder(int maxBatchSize) {
      this.maxBatchSize = maxBatchSize;
    }

    private Builder(WorkerShape from) {
      maxBatchSize = from.maxBatchSize;
      pipelineSize = from.pipelineSize;
      ranks = from.ranks;
      beamWidth = from.beamWidth;
      maxNumTokens = from.maxNumTokens;
      draftTokens = from.draftTokens;
      maxSeqLen = from.maxSeqLen;
      tokensPerBlock = from.tokensPerBlock;
      transferBackend = from.transferBackend;
      paddingLeases = from.paddingLeases;
      traits.addAll(from.traits);
    }

    public Builder pipelineSize(int stages) {
      pipelineSize = stages;
      return this;
    }

    public Builder ranks(int count) {
      ranks = count;
      return this;
    }

    public Builder beamWidth(int beams) {
      beamWidth = beams;
      return this;
    }

    /** 0 for unset. */
    public Builder maxNumTokens(int tokens) {
      maxNumTokens = tokens;
      return this;
    }

    public Builder draftTokens(int tokens) {
      draftTokens = tokens;
      return this;
    }

    /** 0 for unset. */
    public Builder maxSeqLen(int tokens) {
      maxSeqLen = tokens;
      return this;
    }

    public Builder tokensPerBlock(int tokens) {
      tokensPerBlock = tokens;
      return this;
    }

    /** Name of the KV transfer engine; {@code none} is as good as none. */
    public Builder transferBackend(String name) {
      transferBackend = Optional.of(name);
      return this;
    }

    /** An exact number of leases for padding requests, in place of the derived one. */
    public Builder paddingLeases(int count) {
      paddingLeases = OptionalInt.of(count);
      return this;
    }

    public Builder with(Trait... more) {
      Collections.addAll(traits, more);
      return this;
    }

    public Builder with(Set<Trait> more) {
      traits.addAll(more);
      return this;
    }

    public Builder without(Trait... less) {
      for (Trait trait : less) {
        traits.remove(trait);
      }
      return this;
    }

    public WorkerShape build() {
      return new WorkerShape(
          maxBatchSize,
          pipelineSize,
          ranks,
          beamWidth,
          maxNumTokens,
          draftTokens,
          maxSeqLen,
          tokensPerBlock,
          transferBackend,
          paddingLeases,
          traits);
    }
  }
}
