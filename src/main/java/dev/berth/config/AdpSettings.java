// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.engine.BalanceGate;
import dev.berth.engine.ContextHold;
import dev.berth.route.ConversationRouter;
import dev.berth.route.KvAwareRouter;
import dev.berth.route.KvAwareRouter.ColdStart;
import dev.berth.route.KvAwareRouter.InTransfer;
import dev.berth.route.NewConversation;
import dev.berth.route.RouterChoice;

/**
 * Attention-DP settings of a worker (spec 01 §5); the defaults are the engine's.
 *
 * @param enableBalance hold contexts back until ranks are alike
 * @param timeoutIters iterations that a context waits at most, 0 or more
 * @param batchingWaitIters iterations that a release waits for more contexts, 0 or more
 * @param kvAware route by prefix matches
 * @param loadBalanceWeight β of the KV-aware score, 0 or more
 * @param matchRateThreshold match rate above which a match counts, 0 to 1
 * @param fairShareMultiplier multiple of the fair share that a rank may take, above 0
 * @param coldStartWarmup spread the first requests over the ranks
 * @param accountForInTransfer count requests that still send KV
 * @param conversationAffinity keep conversations on their rank; beats {@code kvAware}
 * @param maxSessions conversations remembered, 1 or more
 * @param newConversationPlacement where the first turn of a conversation goes
 */
public record AdpSettings(
    boolean enableBalance,
    int timeoutIters,
    int batchingWaitIters,
    boolean kvAware,
    double loadBalanceWeight,
    double matchRateThreshold,
    double fairShareMultiplier,
    boolean coldStartWarmup,
    boolean accountForInTransfer,
    boolean conversationAffinity,
    int maxSessions,
    NewConversation newConversationPlacement) {
  /** The engine's defaults. */
  public static final AdpSettings DEFAULT =
      new AdpSettings(
          false,
          50,
          10,
          false,
          1.0,
          0.1,
          2.0,
          false,
          false,
          false,
          65_536,
          NewConversation.ROUND_ROBIN);

  /**
   * The router that these settings choose, the first that matches: conversations, KV-aware, default
   * (spec 01 §4).
   *
   * @param blockReuse whether there is a KV cache that reuses blocks: without one nothing matches
   */
  public RouterChoice router(boolean blockReuse) {
    if (conversationAffinity) {
      return new RouterChoice.Conversation(
          ConversationRouter.Options.DEFAULTS
              .withMaxSessions(maxSessions)
              .withMultiplier(fairShareMultiplier)
              .with(newConversationPlacement));
    }
    return kvAware && blockReuse
        ? new RouterChoice.KvAware(
            KvAwareRouter.Options.DEFAULTS
                .withWeights(loadBalanceWeight, matchRateThreshold, fairShareMultiplier)
                .with(coldStartWarmup ? ColdStart.ONE_EACH : ColdStart.SCORED)
                .with(accountForInTransfer ? InTransfer.CHARGED : InTransfer.LEFT_OUT))
        : RouterChoice.DEFAULT;
  }

  /** What holds contexts back. */
  public ContextHold hold() {
    return enableBalance
        ? new ContextHold.Balanced(new BalanceGate.Rules(timeoutIters, batchingWaitIters, 0, 0))
        : ContextHold.NEVER;
  }

  static AdpSettings read(ConfigNode node) {
    return new AdpSettings(
        node.optBoolean("enable_balance", DEFAULT.enableBalance),
        node.optInt("timeout_iters", DEFAULT.timeoutIters, 0, Integer.MAX_VALUE),
        node.optInt("batching_wait_iters", DEFAULT.batchingWaitIters, 0, Integer.MAX_VALUE),
        node.optBoolean("enable_kv_cache_aware_routing", DEFAULT.kvAware),
        node.optDouble("kv_cache_routing_load_balance_weight", DEFAULT.loadBalanceWeight, 0, 1e9),
        node.optDouble("kv_cache_routing_match_rate_threshold", DEFAULT.matchRateThreshold, 0, 1),
        node.optDouble(
            "kv_cache_routing_fair_share_multiplier", DEFAULT.fairShareMultiplier, 1e-9, 1e9),
        node.optBoolean("kv_cache_routing_cold_start_warmup", DEFAULT.coldStartWarmup),
        node.optBoolean("kv_cache_routing_account_for_in_transfer", DEFAULT.accountForInTransfer),
        node.optBoolean("kv_cache_routing_conversation_affinity", DEFAULT.conversationAffinity),
        node.optInt(
            "kv_cache_routing_max_sessions",
            DEFAULT.maxSessions,
            1,
            ConversationRouter.Options.MOST_SESSIONS),
        node.optEnum("kv_cache_routing_new_conv_placement", DEFAULT.newConversationPlacement));
  }
}
