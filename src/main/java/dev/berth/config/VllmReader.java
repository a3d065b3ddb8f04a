// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * vLLM's keys of one worker. Every data-parallel rank is an engine of its own, so {@code
 * max-num-seqs} is a rank's; one block is kept for nulls.
 */
final class VllmReader implements ServingForms.Reader {
  private static final int DEFAULT_BLOCK = 16;

  @Override
  public WorkerConfig read(ConfigNode node, String name, Role role, int servers, OptionalInt gpus) {
    var notes = new ArrayList<Finding>();
    var sequences = Keys.need(node, "max-num-seqs");
    var shape = WorkerShape.builder(sequences.asInt(1, WorkerShape.MAX_BATCH_SIZE));
    int tp = integer(node, 1, WorkerShape.MAX_RANKS, "tensor-parallel-size").orElse(1);
    int pp = integer(node, 1, WorkerShape.MAX_PIPELINE_SIZE, "pipeline-parallel-size").orElse(1);
    int dp = integer(node, 1, WorkerShape.MAX_RANKS, "data-parallel-size").orElse(1);
    shape.pipelineSize(pp).ranks(dp > 1 ? dp : tp);
    if (dp > 1) {
      shape.with(Trait.ATTENTION_DP);
      notes.add(
          Finding.note(
              "vllm-dp", name, "max-num-seqs is one data-parallel rank's own, as vLLM counts it"));
    }
    var tokens = integer(node, 1, Integer.MAX_VALUE, "max-num-batched-tokens");
    tokens.ifPresent(shape::maxNumTokens);
    integer(node, 1, Integer.MAX_VALUE, "max-model-len").ifPresent(shape::maxSeqLen);
    int block =
        integer(node, 1, WorkerShape.MAX_TOKENS_PER_BLOCK, "block-size").orElse(DEFAULT_BLOCK);
    shape.tokensPerBlock(block);
    Keys.any(node, "speculative-config")
        .map(Keys::document)
        .ifPresent(spec ->
            shape.draftTokens(
                spec.requireInt("num_speculative_tokens", 0, WorkerShape.MAX_DRAFT_TOKENS)));
    Keys.any(node, "kv-transfer-config")
        .map(Keys::document)
        .flatMap(transfer -> transfer.findString("kv_connector"))
        .ifPresent(shape::transferBackend);
    var overlap = overlap(node);
    if (overlap.effective()) {
      shape.with(Trait.OVERLAP);
    }
    inertThreshold(node, name, tokens, notes);
    var blocks = integer(node, 1, Integer.MAX_VALUE, "num-gpu-blocks-override");
    return new WorkerConfig(
        name,
        role,
        servers,
        shape.build(),
        overlap,
        new KvSettings(
            Keys.any(node, "gpu-memory-utilization")
                .map(value -> value.asDecimal(BigDecimal.ZERO, BigDecimal.ONE)),
            KvSettings.FractionOf.ALL_MEMORY,
            Keys.any(node, "kv-cache-dtype").map(ConfigNode::asString).orElse("auto"),
            blocks.isPresent()
                ? OptionalLong.of((long) blocks.getAsInt() * block)
                : OptionalLong.empty(),
            1,
            flag(node, "enable-prefix-caching"),
            0),
        OptionalInt.empty(),
        flag(node, "enable-chunked-prefill"),
        CapacityRule.MAX_UTILIZATION,
        SchedulerKind.TWO_STAGE,
        AdpSettings.DEFAULT,
        ContextWait.NONE,
        gpus,
        Math.toIntExact(Math.min(Integer.MAX_VALUE, (long) tp * pp * dp)),
        node.line(),
        WorkerConfig.Key.of(sequences),
        notes);
  }

  /** Asynchronous scheduling is vLLM's overlap; it is on unless switched off. */
  private static OverlapSetting overlap(ConfigNode node) {
    boolean named =
        node.has("async-scheduling")
            || node.has("async_scheduling")
            || node.has("no-async-scheduling")
            || node.has("no_async_scheduling");
    if (!flag(node, "async-scheduling")) {
      return OverlapSetting.OFF;
    }
    return named ? OverlapSetting.ON : OverlapSetting.DEFAULT_ON;
  }

  /** A switch that is on unless {@code name: false} or {@code no-name: true} says otherwise. */
  private static boolean flag(ConfigNode node, String name) {
    var positive = Keys.any(node, name);
    var negative = Keys.any(node, "no-" + name);
    if (positive.isPresent()
        && negative.isPresent()
        && positive.get().asBoolean() == negative.get().asBoolean()) {
      throw negative
          .get()
          .error(
              "found "
                  + negative.get().asString()
                  + ", but "
                  + name
                  + " says the same; remove one");
    }
    return positive.map(ConfigNode::asBoolean).orElse(true)
        && !negative.map(ConfigNode::asBoolean).orElse(false);
  }

  private static OptionalInt integer(ConfigNode node, int min, int max, String key) {
    return Keys.any(node, key)
        .map(value -> OptionalInt.of(value.asInt(min, max)))
        .orElse(OptionalInt.empty());
  }

  /** Spec 06 BC-46: a threshold above the budget never takes effect. */
  private static void inertThreshold(
      ConfigNode node, String name, OptionalInt budget, ArrayList<Finding> notes) {
    var threshold = integer(node, 0, Integer.MAX_VALUE, "long-prefill-token-threshold");
    if (threshold.isPresent() && budget.isPresent() && threshold.getAsInt() > budget.getAsInt()) {
      notes.add(
          Finding.warning(
              "inert-threshold",
              name,
              "long-prefill-token-threshold "
                  + threshold.getAsInt()
                  + " is above max-num-batched-tokens "
                  + budget.getAsInt()
                  + " and never takes effect"));
    }
  }
}
