// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * SGLang's keys of one worker. Under attention DP {@code max-running-requests} and {@code
 * chunked-prefill-size} are the whole worker's: SGLang divides both by the data-parallel size.
 */
final class SglangReader implements ServingForms.Reader {
  private static final int DEFAULT_PAGE = 1;

  @Override
  public WorkerConfig read(ConfigNode node, String name, Role role, int servers, OptionalInt gpus) {
    var notes = new ArrayList<Finding>();
    int tp =
        integer(node, WorkerShape.MAX_RANKS, "tensor-parallel-size", "tp-size", "tp").orElse(1);
    int pp =
        integer(node, WorkerShape.MAX_PIPELINE_SIZE, "pipeline-parallel-size", "pp-size", "pp")
            .orElse(1);
    int dp = integer(node, WorkerShape.MAX_RANKS, "data-parallel-size", "dp-size", "dp").orElse(1);
    boolean attentionDp =
        dp > 1 && Keys.any(node, "enable-dp-attention").map(ConfigNode::asBoolean).orElse(false);
    int groups = attentionDp ? dp : 1;
    if (attentionDp && tp % dp != 0) {
      throw Keys.need(node, "data-parallel-size", "dp-size", "dp")
          .error(
              "found "
                  + dp
                  + "; allowed under attention DP: a divisor of the tensor-parallel size "
                  + tp);
    }
    var requests = Keys.need(node, "max-running-requests");
    int whole = requests.asInt(1, Integer.MAX_VALUE);
    int own = whole / groups;
    if (own < 1 || own > WorkerShape.MAX_BATCH_SIZE) {
      throw requests.error(
          "found "
              + whole
              + "; allowed: from "
              + groups
              + ", one for each of the "
              + groups
              + " ranks, to "
              + (long) groups * WorkerShape.MAX_BATCH_SIZE);
    }
    if (attentionDp) {
      notes.add(
          Finding.note(
              "sglang-global",
              name,
              "max-running-requests "
                  + whole
                  + " is the whole worker's, so one of "
                  + dp
                  + " ranks runs "
                  + own));
    }
    var shape = WorkerShape.builder(own).pipelineSize(pp).ranks(attentionDp ? dp : tp);
    if (attentionDp) {
      shape.with(Trait.ATTENTION_DP);
    }
    int page = integer(node, WorkerShape.MAX_TOKENS_PER_BLOCK, "page-size").orElse(DEFAULT_PAGE);
    shape.tokensPerBlock(page);
    integer(node, Integer.MAX_VALUE, "context-length").ifPresent(shape::maxSeqLen);
    shape.draftTokens(draftTokens(node, name, notes));
    var chunk = chunk(node, groups);
    if (role.runsPrompts()) {
      chunk.ifPresent(shape::maxNumTokens);
    }
    backend(node).ifPresent(shape::transferBackend);
    var overlap = overlap(node);
    if (overlap.effective()) {
      shape.with(Trait.OVERLAP);
    }
    int replicas = attentionDp ? 1 : dp;
    if ((long) servers * replicas > ServingForms.MAX_COUNT) {
      throw Keys.need(node, "data-parallel-size", "dp-size", "dp")
          .error(
              "found "
                  + dp
                  + " replicas of "
                  + servers
                  + " workers; allowed: "
                  + ServingForms.MAX_COUNT
                  + " in all");
    }
    return new WorkerConfig(
        name,
        role,
        servers * replicas,
        shape.build(),
        overlap,
        new KvSettings(
            Keys.any(node, "mem-fraction-static")
                .map(value -> value.asDecimal(BigDecimal.ZERO, BigDecimal.ONE)),
            KvSettings.FractionOf.ALL_MEMORY,
            Keys.any(node, "kv-cache-dtype").map(ConfigNode::asString).orElse("auto"),
            Keys.any(node, "max-total-tokens")
                .map(value -> OptionalLong.of(value.asLong(1, Long.MAX_VALUE)))
                .orElse(OptionalLong.empty()),
            0,
            !Keys.any(node, "disable-radix-cache").map(ConfigNode::asBoolean).orElse(false),
            0),
        OptionalInt.empty(),
        chunk.isPresent(),
        CapacityRule.MAX_UTILIZATION,
        SchedulerKind.TWO_STAGE,
        AdpSettings.DEFAULT,
        ContextWait.NONE,
        gpus,
        Math.toIntExact(Math.min(Integer.MAX_VALUE, (long) tp * pp * replicas)),
        node.line(),
        WorkerConfig.Key.of(requests),
        notes);
  }

  /** Tokens of one rank's chunk; empty if chunking is off or left to the engine. */
  private static OptionalInt chunk(ConfigNode node, int groups) {
    var whole = Keys.any(node, "chunked-prefill-size");
    if (whole.isEmpty()) {
      return OptionalInt.empty();
    }
    int tokens = whole.get().asInt(-1, Integer.MAX_VALUE);
    if (tokens == 0 || (tokens > 0 && tokens < groups)) {
      throw whole
          .get()
          .error(
              "found "
                  + tokens
                  + "; allowed: -1 for off, or at least one token for each of "
                  + groups
                  + " ranks");
    }
    var budget = integer(node, Integer.MAX_VALUE, "max-prefill-tokens");
    if (budget.isPresent() && tokens / groups > budget.getAsInt()) {
      throw whole
          .get()
          .error(
              "found a chunk of "
                  + tokens / groups
                  + " tokens a rank; allowed: at most max-prefill-tokens "
                  + budget.getAsInt());
    }
    return tokens < 0 ? OptionalInt.empty() : OptionalInt.of(tokens / groups);
  }

  /**
   * With a single candidate a step verifies the drafted tokens and one more; SGLang corrects the
   * count likewise.
   */
  private static int draftTokens(ConfigNode node, String name, List<Finding> notes) {
    if (Keys.any(node, "speculative-algorithm").isEmpty()) {
      return 0;
    }
    var steps = integer(node, WorkerShape.MAX_DRAFT_TOKENS, "speculative-num-steps");
    var verified = integer(node, WorkerShape.MAX_DRAFT_TOKENS, "speculative-num-draft-tokens");
    int candidates =
        integer(node, WorkerShape.MAX_DRAFT_TOKENS, "speculative-eagle-topk").orElse(1);
    if (steps.isEmpty() && verified.isEmpty()) {
      throw node.error(
          "speculative-algorithm",
          "stands without a draft length; speculative-num-steps or speculative-num-draft-tokens is"
              + " needed");
    }
    if (steps.isPresent() && candidates == 1) {
      if (verified.isPresent() && verified.getAsInt() != steps.getAsInt() + 1) {
        notes.add(
            Finding.note(
                "sglang-draft",
                name,
                "speculative-num-draft-tokens "
                    + verified.getAsInt()
                    + " is taken as speculative-num-steps + 1 = "
                    + (steps.getAsInt() + 1)
                    + ", as SGLang does with one candidate"));
      }
      return steps.getAsInt();
    }
    if (verified.isEmpty()) {
      throw node.error(
          "speculative-num-steps",
          "several candidates need speculative-num-draft-tokens, which is missing");
    }
    return verified.getAsInt() - 1;
  }

  /** A mode without a named engine uses SGLang's default one. */
  private static Optional<String> backend(ConfigNode node) {
    var mode = Keys.any(node, "disaggregation-mode").map(ConfigNode::asString).orElse("null");
    var named = Keys.any(node, "disaggregation-transfer-backend").map(ConfigNode::asString);
    return switch (mode) {
      case "prefill", "decode" -> named.or(() -> Optional.of("mooncake"));
      case "null" -> Optional.empty();
      default ->
          throw Keys.need(node, "disaggregation-mode")
              .error("found " + mode + "; allowed: one of null, prefill, decode");
    };
  }

  private static OverlapSetting overlap(ConfigNode node) {
    var disabled = Keys.any(node, "disable-overlap-schedule").map(ConfigNode::asBoolean);
    if (disabled.isEmpty()) {
      return OverlapSetting.DEFAULT_ON;
    }
    return disabled.get() ? OverlapSetting.OFF : OverlapSetting.ON;
  }

  private static OptionalInt integer(ConfigNode node, int max, String... spellings) {
    return Keys.any(node, spellings)
        .map(value -> OptionalInt.of(value.asInt(1, max)))
        .orElse(OptionalInt.empty());
  }
}
