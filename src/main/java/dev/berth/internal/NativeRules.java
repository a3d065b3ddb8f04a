// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.ffi.BerthNative;
import dev.berth.ffi.berth_rules;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** {@code berth_rules} in memory of its own, written once. The defaults are possible everywhere. */
public final class NativeRules {
  /** Runs the capacity stage. */
  public static final int CAPACITY = BerthNative.BERTH_STAGE_CAPACITY();

  /** Runs the batch stage on what fits. */
  public static final int BATCH = BerthNative.BERTH_STAGE_BATCH();

  /** Runs the batch stage on the whole active list. */
  public static final int BATCH_ACTIVE = BerthNative.BERTH_STAGE_BATCH_ACTIVE();

  /** Runs the one loop. */
  public static final int ONE_LOOP = BerthNative.BERTH_STAGE_ONE_LOOP();

  private static final String[] FIELDS = {
    "policy set",
    "stages",
    "capacity policy",
    "max requests",
    "lookahead",
    "begin of the state range",
    "end of the state range",
    "end of the batch's state range",
    "prefix sharing",
    "block reuse",
    "variable window",
    "adapter pages",
    "max batch size",
    "max number of tokens",
    "max context tokens",
    "chunking",
    "chunk unit (at least 1; in berth-1 no larger than a batch)",
    "tokens per block",
    "GPU pages",
    "index slots",
    "lower tier",
    "recompute pause",
    "late reuse",
    "exclusive flight"
  };

  final MemorySegment memory = Arena.ofAuto().allocate(berth_rules.layout());

  /** Rules for the given stages. */
  public NativeRules(int set, int stages) {
    berth_rules.struct_size(memory, (int) berth_rules.sizeof());
    berth_rules.set(memory, set);
    berth_rules.stages(memory, stages);
    berth_rules.exclusive_flight(memory, 1);
  }

  /** What the capacity stage reads. */
  public NativeRules capacity(
      int policy,
      int maxRequests,
      int lookahead,
      int rangeBegin,
      int rangeEnd,
      int prefixSharing,
      int reuse,
      int variableWindow,
      int adapterPages) {
    berth_rules.capacity(memory, policy);
    berth_rules.max_requests(memory, maxRequests);
    berth_rules.lookahead(memory, lookahead);
    berth_rules.range_begin(memory, rangeBegin);
    berth_rules.range_end(memory, rangeEnd);
    berth_rules.prefix_sharing(memory, prefixSharing);
    berth_rules.reuse(memory, reuse);
    berth_rules.variable_window(memory, variableWindow);
    berth_rules.adapter_pages(memory, adapterPages);
    return this;
  }

  /** What the batch stage and the one loop read. */
  public NativeRules batch(
      int rangeBegin,
      int rangeEnd,
      int maxBatchSize,
      int maxTokens,
      int maxContextTokens,
      int chunking,
      int chunkUnit) {
    berth_rules.range_begin(memory, rangeBegin);
    berth_rules.batch_range_end(memory, rangeEnd);
    berth_rules.max_batch_size(memory, maxBatchSize);
    berth_rules.max_num_tokens(memory, maxTokens);
    berth_rules.max_context_tokens(memory, maxContextTokens);
    berth_rules.chunking(memory, chunking);
    berth_rules.chunk_unit(memory, chunkUnit);
    return this;
  }

  /** What the one loop's own caches read. */
  public NativeRules caches(
      int tokensPerBlock,
      int gpuPages,
      int leases,
      int tierBelow,
      int recomputePause,
      int reuseLate) {
    berth_rules.tokens_per_block(memory, tokensPerBlock);
    berth_rules.gpu_pages(memory, gpuPages);
    berth_rules.leases(memory, leases);
    berth_rules.tier_below(memory, tierBelow);
    berth_rules.recompute_pause(memory, recomputePause);
    berth_rules.reuse_late(memory, reuseLate);
    return this;
  }

  /** The name of a field by the number that {@code berth_rules_check} gives. */
  static String field(int number) {
    return number >= 1 && number <= FIELDS.length ? FIELDS[number - 1] : "rule " + number;
  }
}
