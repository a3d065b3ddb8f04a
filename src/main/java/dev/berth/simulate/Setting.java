// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillGate;
import dev.berth.engine.KvSetup;
import dev.berth.engine.Loop;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPolicy;
import dev.berth.request.WaitingQueue;
import dev.berth.route.PlacementView;
import dev.berth.route.RouterChoice;
import java.util.Locale;
import java.util.function.Predicate;

/** A value of one of the axes that worlds are drawn from. A world has one of each axis. */
public enum Setting {
  AGGREGATED(world -> world.config().role() == WorkerRole.AGGREGATED),
  CONTEXT_ONLY(world -> world.config().role() == WorkerRole.CONTEXT),
  GENERATION_ONLY(world -> world.config().role() == WorkerRole.GENERATION),

  NON_OVERLAP(world -> world.config().loop() == Loop.NON_OVERLAP),
  OVERLAP(world -> world.config().loop() == Loop.OVERLAP),
  PIPELINE(world -> world.config().loop() == Loop.PIPELINE),

  PAGES_UNLIMITED(world -> world.config().kv().equals(KvSetup.UNLIMITED)),
  PAGES_COUNTED(world -> world.config().kv() instanceof KvSetup.Counted(var pages) && pages >= 0),
  CACHE_RECOMPUTE(world -> paused(world.config(), KvSetup.Paused.RECOMPUTE)),
  CACHE_SUSPEND(world -> paused(world.config(), KvSetup.Paused.SUSPEND)),

  NO_EVICT(world -> world.config().capacity() == CapacityRule.GUARANTEED_NO_EVICT),
  MAX_UTILIZATION(world -> world.config().capacity() == CapacityRule.MAX_UTILIZATION),
  STATIC_BATCH(world -> world.config().capacity() == CapacityRule.STATIC_BATCH),

  BERTH_1(world -> world.config().policies() == PolicySet.BERTH_1),
  TRTLLM_2026_09(world -> world.config().policies() == PolicySet.TRTLLM_2026_09),

  WHOLE_CONTEXTS(world -> world.config().chunkedContext() == Chunking.NONE),
  CHUNKED_CONTEXTS(world -> world.config().chunkedContext() != Chunking.NONE),

  NO_GATE(world -> !world.config().gate().active()),
  STATE_GATE(world -> world.config().gate().kind() == FillGate.Kind.STATE),

  DEFAULT_ROUTER(world -> world.config().router() instanceof RouterChoice.Default),
  KV_AWARE_ROUTER(world -> world.config().router() instanceof RouterChoice.KvAware),
  CONVERSATION_ROUTER(world -> world.config().router() instanceof RouterChoice.Conversation),

  ADMISSION_VIEW(world -> world.config().router().view() == PlacementView.ADMISSION),
  RESIDENT_VIEW(world -> world.config().router().view() == PlacementView.RESIDENT),

  FCFS(world -> queue(world, WaitingQueue.Policy.FCFS)),
  PRIORITY(world -> queue(world, WaitingQueue.Policy.PRIORITY)),
  FAIR(world -> queue(world, WaitingQueue.Policy.FAIR)),
  DEADLINE(world -> queue(world, WaitingQueue.Policy.DEADLINE)),

  ATTENTION_DP(world -> world.config().plan().shape().attentionDp()),
  ONE_GROUP(world -> !world.config().plan().shape().attentionDp()),

  ADMISSION_SHARED(world -> world.admissions() == WorldPlan.Admissions.ONE_A_STAGE),
  ADMISSION_EACH(world -> world.admissions() == WorldPlan.Admissions.ONE_A_RANK),

  TOKENS_EXCLUDED(world -> world.config().retiringTokens() == EngineConfig.RetiringTokens.EXCLUDED),
  TOKENS_RAW(world -> world.config().retiringTokens() == EngineConfig.RetiringTokens.RAW),

  SEATS_UNIFIED(world -> world.config().plan().policy() == SeatPolicy.UNIFIED),
  SEATS_SPLIT(world -> world.config().plan().policy() == SeatPolicy.SPLIT),

  NO_DRAFTS(world -> world.config().plan().shape().draftTokens() == 0),
  DRAFTS(world -> world.config().plan().shape().draftTokens() > 0),

  TOKENS_UNLIMITED(world -> world.config().plan().shape().maxNumTokens() == 0),
  TOKENS_LIMITED(world -> world.config().plan().shape().maxNumTokens() > 0);

  private final Predicate<WorldPlan> holds;

  Setting(Predicate<WorldPlan> holds) {
    this.holds = holds;
  }

  private static boolean paused(EngineConfig config, KvSetup.Paused treatment) {
    return config.kv() instanceof KvSetup.Paged paged && paged.paused() == treatment;
  }

  private static boolean queue(WorldPlan world, WaitingQueue.Policy policy) {
    return world.config().queue().policy() == policy;
  }

  /** Does a world have it? */
  boolean of(WorldPlan world) {
    return holds.test(world);
  }

  /** The name that reports use. */
  public String word() {
    return name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }
}
