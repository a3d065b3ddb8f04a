// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;

/** TensorRT-LLM's keys of one worker. */
final class TrtllmReader implements ServingForms.Reader {
  private static final Set<CapacityRule> CAPACITY_POLICIES =
      EnumSet.of(
          CapacityRule.GUARANTEED_NO_EVICT,
          CapacityRule.MAX_UTILIZATION,
          CapacityRule.STATIC_BATCH);

  @Override
  public WorkerConfig read(ConfigNode node, String name, Role role, int servers, OptionalInt gpus) {
    var kv = node.findChild("kv_cache_config");
    var transceiver = node.findChild("cache_transceiver_config");
    var overlap = overlap(node);
    var batch = node.require("max_batch_size");
    var shape = WorkerShape.builder(batch.asInt(1, WorkerShape.MAX_BATCH_SIZE));
    node.findInt("max_num_tokens", 1, Integer.MAX_VALUE).ifPresent(shape::maxNumTokens);
    node.findInt("max_seq_len", 1, Integer.MAX_VALUE).ifPresent(shape::maxSeqLen);
    int tp = node.optInt("tensor_parallel_size", 1, 1, WorkerShape.MAX_RANKS);
    int pp = node.optInt("pipeline_parallel_size", 1, 1, WorkerShape.MAX_PIPELINE_SIZE);
    int cp = node.optInt("context_parallel_size", 1, 1, WorkerShape.MAX_RANKS);
    shape.ranks(tp).pipelineSize(pp);
    shape.beamWidth(node.optInt("max_beam_width", 1, 1, WorkerShape.MAX_BEAM_WIDTH));
    shape.draftTokens(
        node.findChild("speculative_config").map(TrtllmReader::draftTokens).orElse(0));
    kv.ifPresent(cache ->
        cache
            .findInt("tokens_per_block", 1, WorkerShape.MAX_TOKENS_PER_BLOCK)
            .ifPresent(shape::tokensPerBlock));
    transceiver.flatMap(cache -> cache.findString("backend")).ifPresent(shape::transferBackend);
    if (node.optBoolean("enable_attention_dp", false)) {
      shape.with(Trait.ATTENTION_DP);
    }
    if (overlap.effective()) {
      shape.with(Trait.OVERLAP);
    }
    var hybrid = kv.flatMap(TrtllmReader::stateType);
    hybrid.ifPresent(type -> shape.with(Trait.HYBRID));
    var notes = new ArrayList<Finding>();
    hybrid.ifPresent(type ->
        notes.add(
            Finding.note(
                "hybrid", name, "read as a hybrid (SSM) model: its state is kept in " + type)));
    var policy =
        node.findChild("scheduler_config")
            .flatMap(scheduler -> scheduler.find("capacity_scheduler_policy"))
            .map(value -> value.asEnum(CAPACITY_POLICIES));
    boolean oneLoop =
        kv.map(cache -> cache.optBoolean("use_kv_cache_manager_v2", false)).orElse(false);
    if (oneLoop && policy.isPresent() && policy.get() != CapacityRule.MAX_UTILIZATION) {
      notes.add(
          Finding.warning(
              "one-loop",
              name,
              "capacity_scheduler_policy %s is replaced with MAX_UTILIZATION, the only one of the scheduler that comes with use_kv_cache_manager_v2"
                  .formatted(policy.get())));
    }
    return new WorkerConfig(
        name,
        role,
        servers,
        shape.build(),
        overlap,
        kv(node, kv),
        transceiver
            .map(cache -> cache.findInt("max_tokens_in_buffer", 0, Integer.MAX_VALUE))
            .orElse(OptionalInt.empty()),
        node.optBoolean("enable_chunked_prefill", false),
        oneLoop ? CapacityRule.MAX_UTILIZATION : policy.orElse(CapacityRule.GUARANTEED_NO_EVICT),
        oneLoop ? SchedulerKind.ONE_LOOP : SchedulerKind.TWO_STAGE,
        node.findChild("attention_dp_config").map(AdpSettings::read).orElse(AdpSettings.DEFAULT),
        new ContextWait(
            node.optInt("batch_wait_timeout_iters", 0, 0, Integer.MAX_VALUE),
            node.optDouble("batch_wait_max_tokens_ratio", 0, 0, 1)),
        gpus,
        Math.toIntExact(Math.min(Integer.MAX_VALUE, (long) tp * pp * cp)),
        node.line(),
        WorkerConfig.Key.of(batch),
        notes);
  }

  /** Absent means on; drafting with a second model forces it off (spec 01 §13). */
  private static OverlapSetting overlap(ConfigNode node) {
    var disabled = node.findBoolean("disable_overlap_scheduler");
    if (disabled.orElse(false)) {
      return OverlapSetting.OFF;
    }
    if (node.findChild("speculative_config").map(TrtllmReader::draftsWithTwoModels).orElse(false)) {
      return OverlapSetting.FORCED_OFF;
    }
    return disabled.isPresent() ? OverlapSetting.ON : OverlapSetting.DEFAULT_ON;
  }

  private static boolean draftsWithTwoModels(ConfigNode speculative) {
    var type = speculative.findString("decoding_type").orElse("").toLowerCase(Locale.ROOT);
    return type.equals("draft_target")
        || type.equals("drafttarget")
        || !speculative.optBoolean("eagle3_one_model", true);
  }

  /** Both spellings are known; if both are there they must agree. */
  private static int draftTokens(ConfigNode speculative) {
    return Keys.any(speculative, "max_draft_len", "num_nextn_predict_layers")
        .orElseThrow(() ->
            speculative.error(
                "has no draft length; max_draft_len (or num_nextn_predict_layers) is needed"))
        .asInt(0, WorkerShape.MAX_DRAFT_TOKENS);
  }

  /** Only hybrid models keep recurrent state. */
  private static Optional<String> stateType(ConfigNode kv) {
    return kv.findString("mamba_ssm_cache_dtype").filter(type -> !type.equals("auto"));
  }

  private static KvSettings kv(ConfigNode node, Optional<ConfigNode> kv) {
    var flat = fraction(node, "kv_cache_free_gpu_memory_fraction");
    var nested = kv.flatMap(cache -> fraction(cache, "free_gpu_memory_fraction"));
    if (flat.isPresent() && nested.isPresent() && flat.get().compareTo(nested.get()) != 0) {
      throw node.error(
          "kv_cache_free_gpu_memory_fraction",
          "found "
              + flat.get()
              + ", but kv_cache_config.free_gpu_memory_fraction says "
              + nested.get()
              + "; remove one");
    }
    return new KvSettings(
        nested.or(() -> flat),
        KvSettings.FractionOf.FREE_MEMORY,
        kv.map(cache -> cache.optString("dtype", "auto")).orElse("auto"),
        kv.map(cache -> cache.findLong("max_tokens", 1, Long.MAX_VALUE))
            .orElse(OptionalLong.empty()),
        0,
        kv.map(cache -> cache.optBoolean("enable_block_reuse", true)).orElse(true),
        kv.map(cache -> cache.optLong("host_cache_size", 0, 0, Long.MAX_VALUE)).orElse(0L));
  }

  private static Optional<BigDecimal> fraction(ConfigNode node, String key) {
    return node.findDecimal(key, BigDecimal.ZERO, BigDecimal.ONE);
  }
}
