// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.internal.NativeCore;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.request.QueueRules;
import dev.berth.route.RankCap;
import dev.berth.route.RetiringRule;
import dev.berth.route.RouterChoice;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/**
 * Everything that decides how the engines of one worker run. Sizes come from the plan alone.
 *
 * @param plan seats, leases, caps
 * @param role what the worker does
 * @param rangeEnd schedulable = state in [10, rangeEnd): 14, or 20 to show what upstream's V1 range
 *     does
 * @param mark where state 14 is set
 * @param transfer whether requests go through transfer states before and after their KV moves
 * @param chunkedContext whether a context may be split over iterations, one of {@link #CHUNKINGS}
 * @param pages KV pages of one rank, -1 if they aren't limited
 * @param gate what holds a benchmark fill
 * @param retiringTokens what happens to the tokens of retirees that are excluded
 * @param cap whether the router's hard cap is on
 * @param queue order of the waiting queue; its clock is the engine's count of iterations
 * @param policies which versioned set of scheduling rules (docs/policies.md)
 * @param capacity how pages are promised, one of {@link #CAPACITY_RULES}
 * @param router how new requests are placed on ranks
 */
public record EngineConfig(
    SeatPlan plan,
    WorkerRole role,
    int rangeEnd,
    RetiringMark mark,
    Transfer transfer,
    Chunking chunkedContext,
    long pages,
    FillGate gate,
    RetiringTokens retiringTokens,
    RankCap cap,
    QueueRules queue,
    PolicySet policies,
    CapacityRule capacity,
    RouterChoice router) {
  /** End of the schedulable range that keeps retiring requests out of batches (evidence rule 4). */
  public static final int RANGE_END = 14;

  /** Most rows of a native core, as {@code berth.h} has it. */
  private static final int MOST_ROWS = 1 << 20;

  /** Is there a KV transfer engine at work? */
  public enum Transfer {
    NONE,
    TRANSCEIVER
  }

  /** Token load of retiring requests that admission leaves out. */
  public enum RetiringTokens {
    /** Left out too. */
    EXCLUDED,
    /** Still charged, as in the published run of evidence E1. */
    RAW
  }

  /** The capacity rules that an engine can keep: it promises pages up to the last token. */
  public static final Set<CapacityRule> CAPACITY_RULES =
      Collections.unmodifiableSet(
          EnumSet.of(CapacityRule.GUARANTEED_NO_EVICT, CapacityRule.STATIC_BATCH));

  /** How an engine can split a context that doesn't fit in one iteration's tokens. */
  public static final Set<Chunking> CHUNKINGS =
      Collections.unmodifiableSet(EnumSet.of(Chunking.NONE, Chunking.FIRST_COME_FIRST_SERVED));

  public EngineConfig {
    if (role == WorkerRole.GENERATION && transfer == Transfer.NONE) {
      throw new IllegalArgumentException(
          "a generation-only worker receives KV: it needs a transfer engine");
    }
    if (gate.active() && role != WorkerRole.GENERATION) {
      throw new IllegalArgumentException("a fill gate needs a generation-only worker");
    }
    if (!CAPACITY_RULES.contains(capacity)) {
      throw new IllegalArgumentException(
          "capacity policy "
              + capacity
              + ": the engine promises pages up to the last token; allowed: "
              + CAPACITY_RULES);
    }
    if (!CHUNKINGS.contains(chunkedContext)) {
      throw new IllegalArgumentException(
          "chunking " + chunkedContext + ": allowed in an engine: " + CHUNKINGS);
    }
    long held = Math.max(plan.seats().count(), rows(plan, cap));
    if (held > MOST_ROWS) {
      throw new BerthException(
          Code.CONFIGURATION,
          "a rank would hold up to %d requests and seats, its core holds up to %d: lower the batch size"
              .formatted(held, MOST_ROWS));
    }
  }

  /** With the default router. */
  public EngineConfig(
      SeatPlan plan,
      WorkerRole role,
      int rangeEnd,
      RetiringMark mark,
      Transfer transfer,
      Chunking chunkedContext,
      long pages,
      FillGate gate,
      RetiringTokens retiringTokens,
      RankCap cap,
      QueueRules queue,
      PolicySet policies,
      CapacityRule capacity) {
    this(
        plan,
        role,
        rangeEnd,
        mark,
        transfer,
        chunkedContext,
        pages,
        gate,
        retiringTokens,
        cap,
        queue,
        policies,
        capacity,
        RouterChoice.DEFAULT);
  }

  /** With the default policies. */
  public EngineConfig(
      SeatPlan plan,
      WorkerRole role,
      int rangeEnd,
      RetiringMark mark,
      Transfer transfer,
      Chunking chunkedContext,
      long pages,
      FillGate gate,
      RetiringTokens retiringTokens,
      RankCap cap,
      QueueRules queue) {
    this(
        plan,
        role,
        rangeEnd,
        mark,
        transfer,
        chunkedContext,
        pages,
        gate,
        retiringTokens,
        cap,
        queue,
        PolicySet.DEFAULT,
        CapacityRule.GUARANTEED_NO_EVICT);
  }

  /** The same engine with another order of the waiting queue. */
  public EngineConfig withQueue(QueueRules rules) {
    return new EngineConfig(
        plan,
        role,
        rangeEnd,
        mark,
        transfer,
        chunkedContext,
        pages,
        gate,
        retiringTokens,
        cap,
        rules,
        policies,
        capacity,
        router);
  }

  /** The same engine with other policies. */
  public EngineConfig withPolicies(PolicySet set, CapacityRule rule) {
    return new EngineConfig(
        plan,
        role,
        rangeEnd,
        mark,
        transfer,
        chunkedContext,
        pages,
        gate,
        retiringTokens,
        cap,
        queue,
        set,
        rule,
        router);
  }

  /** The same engine with another router. */
  public EngineConfig withRouter(RouterChoice other) {
    return new EngineConfig(
        plan,
        role,
        rangeEnd,
        mark,
        transfer,
        chunkedContext,
        pages,
        gate,
        retiringTokens,
        cap,
        queue,
        policies,
        capacity,
        other);
  }

  /** Requests that one rank may have to keep: admitted, retiring or in transfer, padding. */
  private static long rows(SeatPlan plan, RankCap cap) {
    long admitted = cap == RankCap.HARD ? plan.admissionCap() : plan.fleetCapacity();
    return admitted + plan.indexCapacity() + plan.batchPositions().count();
  }

  /**
   * The engine of a plan with every default: marked where the loop makes retirees, no gate,
   * unlimited pages.
   */
  public static EngineConfig of(SeatPlan plan, WorkerRole role) {
    return new EngineConfig(
        plan,
        role,
        RANGE_END,
        defaultMark(plan),
        transfer(role),
        Chunking.NONE,
        -1,
        FillGate.NONE,
        RetiringTokens.EXCLUDED,
        RankCap.HARD,
        QueueRules.FCFS);
  }

  /** Requests go through transfer states where KV is received: in generation-only workers. */
  public static Transfer transfer(WorkerRole role) {
    return role == WorkerRole.GENERATION ? Transfer.TRANSCEIVER : Transfer.NONE;
  }

  /** Overlap marks; a pipeline marks on every stage, so that the stages agree. */
  public static RetiringMark defaultMark(SeatPlan plan) {
    return loop(plan) == Loop.NON_OVERLAP ? RetiringMark.NEVER : RetiringMark.EVERY_STAGE;
  }

  private static Loop loop(SeatPlan plan) {
    if (plan.shape().pipelineSize() > 1) {
      return Loop.PIPELINE;
    }
    return plan.shape().overlap() ? Loop.OVERLAP : Loop.NON_OVERLAP;
  }

  /** The loop (spec 01 §10): a pipeline if there are stages, else overlap unless it is off. */
  public Loop loop() {
    return loop(plan);
  }

  /** Ranks that seat requests. */
  public int ranks() {
    return plan.shape().seatingRanks();
  }

  /** Pipeline stages. */
  public int stages() {
    return plan.shape().pipelineSize();
  }

  /** How the gather counts retiring requests. */
  public RetiringRule retiringRule() {
    if (!plan.excludesRetiring()) {
      return RetiringRule.CHARGED;
    }
    return retiringTokens == RetiringTokens.RAW
        ? RetiringRule.EXCLUDED_TOKENS_CHARGED
        : RetiringRule.EXCLUDED;
  }

  /** Batches launched before the oldest is settled. */
  int pendingBatches() {
    return switch (loop()) {
      case NON_OVERLAP -> 0;
      case OVERLAP -> 1;
      case PIPELINE -> stages() - 1;
    };
  }

  /**
   * Padding keeps an attention-DP fleet going; the pipeline loop pads before scheduling only (spec
   * 01 §10).
   */
  private NativeCore.Padding padding() {
    if (!plan.shape().attentionDp()) {
      return NativeCore.Padding.NONE;
    }
    return loop() == Loop.PIPELINE ? NativeCore.Padding.BEFORE : NativeCore.Padding.BOTH;
  }

  /** The native configuration of one rank on one stage. */
  NativeCore.CoreConfig core(int stage) {
    boolean marks =
        switch (mark) {
          case NEVER -> false;
          case LAST_STAGE -> stage == stages() - 1;
          case EVERY_STAGE -> true;
        };
    return new NativeCore.CoreConfig(
        Math.toIntExact(rows(plan, cap)),
        plan.seats().count(),
        plan.spendableLeases(),
        plan.withheldLeases(),
        plan.batchPositions().count(),
        plan.shape().maxNumTokens(),
        plan.shape().draftTokens(),
        plan.admissionCap(),
        plan.requestSlots(),
        rangeEnd,
        pendingBatches(),
        loop() == Loop.PIPELINE,
        marks,
        NativeCore.Retiring.valueOf(retiringRule().name()),
        padding(),
        transfer == Transfer.TRANSCEIVER,
        chunkedContext == Chunking.FIRST_COME_FIRST_SERVED,
        plan.shape().tokensPerBlock(),
        plan.shape().maxSeqLen(),
        pages,
        policies == PolicySet.BERTH_1 ? 1 : 0,
        capacity.ordinal());
  }
}
