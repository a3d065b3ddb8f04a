// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityPolicy;
import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.internal.NativeCore;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvLevel;
import dev.berth.kv.KvView;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.request.QueueRules;
import dev.berth.route.RankCap;
import dev.berth.route.RetiringRule;
import dev.berth.route.RouterChoice;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
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
 * @param kv what the KV cache of one rank is made of
 * @param gate what holds a benchmark fill
 * @param retiringTokens what happens to the tokens of retirees that are excluded
 * @param cap whether the router's hard cap is on
 * @param queue order of the waiting queue; its clock is the engine's count of iterations
 * @param policies which versioned set of scheduling rules (docs/policies.md)
 * @param capacity who is let in and how pages are promised; all but MAX_UTILIZATION promise them up
 *     to the last token
 * @param scheduler the design of an iteration
 * @param ownPolicy who is let in, in place of {@code capacity}, by which pages are promised
 *     nevertheless
 * @param router how new requests are placed on ranks
 * @param hold what holds contexts back
 * @param encoderWait how long encoder work waits for more of it; {@link EncoderWait#NONE}: it is
 *     started at once
 * @param fill how a benchmark's fill goes on
 */
public record EngineConfig(
    SeatPlan plan,
    WorkerRole role,
    int rangeEnd,
    RetiringMark mark,
    Transfer transfer,
    Chunking chunkedContext,
    KvSetup kv,
    FillGate gate,
    RetiringTokens retiringTokens,
    RankCap cap,
    QueueRules queue,
    PolicySet policies,
    CapacityRule capacity,
    SchedulerKind scheduler,
    Optional<CapacityPolicy> ownPolicy,
    RouterChoice router,
    ContextHold hold,
    EncoderWait encoderWait,
    FillRules fill) {
  /** End of the schedulable range that keeps retiring requests out of batches (evidence rule 4). */
  public static final int RANGE_END = 14;

  /** Most requests, seats or leases of one rank, as {@code berth.h} has it. */
  public static final int MOST_ROWS = 1 << 20;

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
    hold.impossible(plan)
        .ifPresent(reason -> {
          throw new IllegalArgumentException(reason);
        });
    if (scheduler == SchedulerKind.ONE_LOOP && capacity != CapacityRule.MAX_UTILIZATION) {
      throw new IllegalArgumentException(
          "capacity policy "
              + capacity
              + ": the one loop lets a request in with what its next step takes, it knows "
              + CapacityRule.MAX_UTILIZATION
              + " only");
    }
    if (scheduler == SchedulerKind.ONE_LOOP && ownPolicy.isPresent()) {
      throw new IllegalArgumentException(
          "a capacity policy of one's own: the one loop has no capacity stage, take "
              + SchedulerKind.TWO_STAGE);
    }
    if (capacity == CapacityRule.MAX_REQUESTS
        && role == WorkerRole.GENERATION
        && ownPolicy.isEmpty()) {
      throw new IllegalArgumentException(
          "capacity policy MAX_REQUESTS starts no KV transfer, and a generation-only worker lives on"
              + " them");
    }
    if (!CHUNKINGS.contains(chunkedContext)) {
      throw new IllegalArgumentException(
          "chunking " + chunkedContext + ": allowed in an engine: " + CHUNKINGS);
    }
    if (gate.active() && capacity == CapacityRule.STATIC_BATCH) {
      throw new BerthException(
          Code.CONFIGURATION,
          "a fill gate and a static batch exclude each other: nobody receives KV while somebody"
              + " holds a place, and whoever came first holds it until the gate opens");
    }
    var reasons = new ArrayList<String>(impossible(plan, rangeEnd, kv));
    reasons.addAll(outOfReach(plan, gate));
    if (!reasons.isEmpty()) {
      throw new BerthException(Code.CONFIGURATION, String.join("; ", reasons));
    }
    tooLarge(plan, cap)
        .ifPresent(reason -> {
          throw new BerthException(Code.CONFIGURATION, reason);
        });
  }

  /** Why a rank's core has no room for what a plan lets in, if it has none. */
  public static Optional<String> tooLarge(SeatPlan plan, RankCap cap) {
    long held = held(plan, cap);
    return held <= MOST_ROWS
        ? Optional.empty()
        : Optional.of(
            "a rank would hold up to %d requests and seats, its core holds up to %d: lower the batch size"
                .formatted(held, MOST_ROWS));
  }

  /** The same engine with another order of the waiting queue. */
  public EngineConfig withQueue(QueueRules rules) {
    return toBuilder().queue(rules).build();
  }

  /** The same engine with other policies. */
  public EngineConfig withPolicies(PolicySet set, CapacityRule rule) {
    return toBuilder().policies(set).capacity(rule).build();
  }

  /** The same engine with another design of its iterations; the one loop brings its policy. */
  public EngineConfig withScheduler(SchedulerKind kind) {
    return toBuilder().scheduler(kind).build();
  }

  /** The same engine with a policy of one's own that says who is let in. */
  public EngineConfig withPolicy(CapacityPolicy own) {
    return toBuilder().policy(own).build();
  }

  /** The same engine with another router. */
  public EngineConfig withRouter(RouterChoice other) {
    return toBuilder().router(other).build();
  }

  /** The same engine with another KV cache. */
  public EngineConfig withKv(KvSetup setup) {
    return toBuilder().kv(setup).build();
  }

  /** KV pages of one rank on the device, of all pools; -1 if they aren't limited. */
  public long pages() {
    return switch (kv) {
      case KvSetup.Counted counted -> counted.pages();
      case KvSetup.Paged paged -> Arrays.stream(paged.sizes().pages()[0]).sum();
    };
  }

  /** Every reason why a gate could never open: so many requests are never there at a time. */
  private static List<String> outOfReach(SeatPlan plan, FillGate gate) {
    var reasons = new ArrayList<String>();
    int ranks = plan.shape().seatingRanks();
    if (gate.target() > plan.fleetCapacity()) {
      reasons.add(
          "the fill gate waits for %d requests, the fleet admits %d: %d ranks of %d"
              .formatted(gate.target(), plan.fleetCapacity(), ranks, plan.admissionCap()));
    }
    long leases = (long) ranks * plan.spendableLeases();
    if (gate.target() > leases && !plan.whatIf().has(WhatIf.Switch.VALIDATOR_OVERRIDDEN)) {
      reasons.add(
          "the fill gate waits for %d requests, the ranks have %d leases: %d of %d"
              .formatted(gate.target(), leases, ranks, plan.spendableLeases()));
    }
    return reasons;
  }

  /** Every reason why a rank can't have that cache. */
  private static List<String> impossible(SeatPlan plan, int rangeEnd, KvSetup kv) {
    if (!(kv instanceof KvSetup.Paged paged)) {
      return List.of();
    }
    var reasons = new ArrayList<String>();
    var shape = plan.shape();
    KvLayout layout = paged.layout();
    if (layout.tokensPerBlock() != shape.tokensPerBlock()) {
      reasons.add(
          "the KV layout has %d tokens a block, the plan %d"
              .formatted(layout.tokensPerBlock(), shape.tokensPerBlock()));
    }
    if (shape.maxSeqLen() < 1) {
      reasons.add("block tables and tokens need a longest sequence (maxSeqLen), the plan has none");
    }
    long blocks = maxBlocks(shape);
    if (blocks * layout.tokensPerBlock() >= 1 << 30) {
      reasons.add(
          "sequences of %d tokens: a block table has room for less than %d"
              .formatted(blocks * layout.tokensPerBlock(), 1 << 30));
    }
    if (rangeEnd > RANGE_END) {
      reasons.add(
          "a schedulable range to %d runs sequences past their end, where they have no pages"
              .formatted(rangeEnd));
    }
    if (paged.indexBlocks() < 0 || paged.indexBlocks() > 1 << 28) {
      reasons.add("an index of %d blocks: 0 to 2^28".formatted(paged.indexBlocks()));
    }
    if (paged.scopes() < 1 || paged.scopes() > 1 << 20) {
      reasons.add("%d scopes: 1 to 2^20".formatted(paged.scopes()));
    }
    if (paged.offloadMinPriority() < 0 || paged.offloadMinPriority() > 101) {
      reasons.add("offloading from priority %d: 0 to 101".formatted(paged.offloadMinPriority()));
    }
    if (paged.eventRingLog2() != 0 && (paged.eventRingLog2() < 4 || paged.eventRingLog2() > 24)) {
      reasons.add("a ring of 2^%d events: 4 to 24, or 0".formatted(paged.eventRingLog2()));
    }
    long[][] pages = paged.sizes().pages();
    if (pages.length != KvLevel.values().length) {
      reasons.add("pages of %d levels: %d".formatted(pages.length, KvLevel.values().length));
      return reasons;
    }
    for (int level = 0; level < pages.length; level++) {
      if (pages[level].length != layout.groups()) {
        reasons.add(
            "pages of %d pool groups on level %s, the layout has %d"
                .formatted(pages[level].length, KvLevel.values()[level], layout.groups()));
        continue;
      }
      for (int group = 0; group < layout.groups(); group++) {
        long least = level == 0 ? 1 : 0;
        long most = Math.min(layout.maxSlots(group), (1 << 28) - 1);
        if (pages[level][group] < least || pages[level][group] > most) {
          reasons.add(
              "%d pages of pool group %d on level %s: %d to %d"
                  .formatted(pages[level][group], group, KvLevel.values()[level], least, most));
        }
      }
    }
    return reasons;
  }

  /** Blocks of the longest sequence with its drafts, a multiple of 4. */
  private static long maxBlocks(WorkerShape shape) {
    long tokens = (long) shape.maxSeqLen() + shape.draftTokens();
    long blocks = Math.ceilDiv(tokens, shape.tokensPerBlock());
    return Math.max(4, Math.ceilDiv(blocks, 4) * 4);
  }

  /** What a rank's cache is made of. */
  NativeCore.Cache cacheParts() {
    return switch (kv) {
      case KvSetup.Counted ignored -> new NativeCore.Cache.Counted();
      case KvSetup.Paged paged -> KvView.parts(paged.layout(), cacheConfig(paged), paged.sizes());
    };
  }

  /** The cache of a core, if pages aren't only counted. */
  Optional<KvView> cacheView(NativeCore core) {
    return switch (kv) {
      case KvSetup.Counted ignored -> Optional.empty();
      case KvSetup.Paged paged ->
          Optional.of(KvView.of(core.kv(), paged.layout(), cacheConfig(paged)));
    };
  }

  private KvConfig cacheConfig(KvSetup.Paged paged) {
    int rows = plan.spendableLeases() + Math.max(1, plan.withheldLeases());
    int maxBlocks = Math.toIntExact(maxBlocks(plan.shape()));
    return KvConfig.of(plan.leases(), maxBlocks, paged.indexBlocks())
        .withReserved(rows - plan.leases().count())
        .withSequences(plan.spendableLeases() + 1, 0) // the dummy's
        .withScopes(paged.scopes(), 1)
        .withPartialReuse(paged.partialReuse())
        .withPriorities(35, paged.offloadMinPriority())
        .withEvents(paged.eventRingLog2())
        .withMemory(paged.memory())
        .withTokenArena(plan.shape().maxSeqLen());
  }

  /** Rows of the request table of one rank: as many requests as it may have to keep. */
  public long requestRows() {
    return rows(plan, cap);
  }

  private static long held(SeatPlan plan, RankCap cap) {
    return Math.max(plan.seats().count(), rows(plan, cap));
  }

  /** Requests, or seats if they are more, that all ranks and stages of the worker make room for. */
  public long workerRows() {
    return held(plan, cap) * ranks() * stages();
  }

  /** Requests that one rank may have to keep: admitted, retiring or in transfer, padding. */
  private static long rows(SeatPlan plan, RankCap cap) {
    long admitted = cap == RankCap.HARD ? plan.admissionCap() : plan.fleetCapacity();
    return admitted + plan.indexCapacity() + plan.batchPositions().count();
  }

  /** The engine of a plan with every default. */
  public static EngineConfig of(SeatPlan plan, WorkerRole role) {
    return builder(plan, role).build();
  }

  /**
   * Starts with every default: marked where the loop makes retirees, a transfer engine where KV is
   * received, no chunking, unlimited pages, no gate, the router's hard cap.
   */
  public static Builder builder(SeatPlan plan, WorkerRole role) {
    return new Builder(plan, role);
  }

  /** Starts with this engine. */
  public Builder toBuilder() {
    return new Builder(this);
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

  /** Without overlap who retires or waits for the scheduler is no work (spec 01 §7.1). */
  private NativeCore.PadCount padCount() {
    if (transfer == Transfer.NONE) {
      return NativeCore.PadCount.ACTIVE;
    }
    return loop() == Loop.NON_OVERLAP
        ? NativeCore.PadCount.SCHEDULABLE
        : NativeCore.PadCount.KV_HERE;
  }

  /**
   * Whether a request that has finished keeps its lease and its pages until its KV has been sent
   * (states 21 and 22): in a context-only worker with a transfer engine.
   */
  public boolean sends() {
    return transfer == Transfer.TRANSCEIVER && role == WorkerRole.CONTEXT;
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
        plan.residentRequests(),
        rangeEnd,
        pendingBatches(),
        loop() == Loop.PIPELINE,
        marks,
        NativeCore.Retiring.valueOf(retiringRule().name()),
        padding(),
        transfer == Transfer.TRANSCEIVER && role != WorkerRole.CONTEXT,
        chunkedContext == Chunking.FIRST_COME_FIRST_SERVED,
        plan.shape().tokensPerBlock(),
        plan.shape().maxSeqLen(),
        kv instanceof KvSetup.Counted counted ? counted.pages() : 0,
        policies == PolicySet.BERTH_1 ? 1 : 0,
        capacity.ordinal(),
        kv instanceof KvSetup.Paged paged ? paged.paused().ordinal() : 0,
        kv instanceof KvSetup.Paged paged && paged.sharing() == KvSetup.Sharing.WAITS,
        scheduler == SchedulerKind.ONE_LOOP,
        ownPolicy.isPresent(),
        padCount(),
        sends());
  }

  /** Collects what differs from the defaults. For one thread; may be used again. */
  public static final class Builder {
    private SeatPlan plan;
    private final WorkerRole role;
    private int rangeEnd = RANGE_END;
    private RetiringMark mark;
    private Transfer transfer;
    private Chunking chunkedContext = Chunking.NONE;
    private KvSetup kv = KvSetup.UNLIMITED;
    private FillGate gate = FillGate.NONE;
    private RetiringTokens retiringTokens = RetiringTokens.EXCLUDED;
    private RankCap cap = RankCap.HARD;
    private QueueRules queue = QueueRules.FCFS;
    private PolicySet policies = PolicySet.DEFAULT;
    private CapacityRule capacity = CapacityRule.GUARANTEED_NO_EVICT;
    private SchedulerKind scheduler = SchedulerKind.TWO_STAGE;
    private Optional<CapacityPolicy> ownPolicy = Optional.empty();
    private RouterChoice router = RouterChoice.DEFAULT;
    private ContextHold hold = ContextHold.NEVER;
    private EncoderWait encoderWait = EncoderWait.NONE;
    private Optional<FillRules> fill = Optional.empty();

    private Builder(SeatPlan plan, WorkerRole role) {
      this.plan = plan;
      this.role = role;
      mark = defaultMark(plan);
      transfer = EngineConfig.transfer(role);
    }

    private Builder(EngineConfig from) {
      plan = from.plan;
      role = from.role;
      rangeEnd = from.rangeEnd;
      mark = from.mark;
      transfer = from.transfer;
      chunkedContext = from.chunkedContext;
      kv = from.kv;
      gate = from.gate;
      retiringTokens = from.retiringTokens;
      cap = from.cap;
      queue = from.queue;
      policies = from.policies;
      capacity = from.capacity;
      scheduler = from.scheduler;
      ownPolicy = from.ownPolicy;
      router = from.router;
      hold = from.hold;
      encoderWait = from.encoderWait;
      fill = Optional.of(from.fill).filter(f -> !f.equals(FillRules.of(from.policies)));
    }

    /** Another plan, all else as it is: the mark too. */
    public Builder plan(SeatPlan other) {
      plan = other;
      return this;
    }

    /** End of the schedulable range. */
    public Builder rangeEnd(int state) {
      rangeEnd = state;
      return this;
    }

    /** Where state 14 is set. */
    public Builder mark(RetiringMark where) {
      mark = where;
      return this;
    }

    /** Whether a KV transfer engine is at work. */
    public Builder transfer(Transfer engine) {
      transfer = engine;
      return this;
    }

    /** How contexts are split. */
    public Builder chunkedContext(Chunking chunking) {
      chunkedContext = chunking;
      return this;
    }

    /** What the KV cache of a rank is made of. */
    public Builder kv(KvSetup setup) {
      kv = setup;
      return this;
    }

    /** What holds a benchmark fill. */
    public Builder gate(FillGate fill) {
      gate = fill;
      return this;
    }

    /** What happens to the tokens of retirees that are excluded. */
    public Builder retiringTokens(RetiringTokens load) {
      retiringTokens = load;
      return this;
    }

    /** Whether the router's hard cap is on. */
    public Builder cap(RankCap rankCap) {
      cap = rankCap;
      return this;
    }

    /** Order of the waiting queue. */
    public Builder queue(QueueRules rules) {
      queue = rules;
      return this;
    }

    /** The versioned set of scheduling rules. */
    public Builder policies(PolicySet set) {
      policies = set;
      return this;
    }

    /** Who is let in and how pages are promised. */
    public Builder capacity(CapacityRule rule) {
      capacity = rule;
      return this;
    }

    /**
     * The design of an iteration. The one loop brings its capacity policy, the only one it knows.
     */
    public Builder scheduler(SchedulerKind kind) {
      scheduler = kind;
      if (kind == SchedulerKind.ONE_LOOP) {
        capacity = CapacityRule.MAX_UTILIZATION;
      }
      return this;
    }

    /**
     * A policy of one's own that says who is let in; pages are promised by the capacity rule. Every
     * rank and stage asks it, on the driver's thread. What it selects is checked, and runs as far
     * as there are seats, leases, pages, places and tokens.
     */
    public Builder policy(CapacityPolicy own) {
      ownPolicy = Optional.of(own);
      return this;
    }

    /** How new requests are placed on ranks. */
    public Builder router(RouterChoice choice) {
      router = choice;
      return this;
    }

    /** What holds contexts back. */
    public Builder hold(ContextHold contexts) {
      hold = contexts;
      return this;
    }

    /** How long encoder work waits for more of it. */
    public Builder encoderWait(EncoderWait wait) {
      encoderWait = wait;
      return this;
    }

    /** How a benchmark's fill goes on; without it as the policies have it. */
    public Builder fill(FillRules rules) {
      fill = Optional.of(rules);
      return this;
    }

    /**
     * The configuration.
     *
     * @throws IllegalArgumentException if two of its settings exclude each other
     * @throws BerthException CONFIGURATION with every reason, if a rank can't have such a cache or
     *     so many requests
     */
    public EngineConfig build() {
      return new EngineConfig(
          plan,
          role,
          rangeEnd,
          mark,
          transfer,
          chunkedContext,
          kv,
          gate,
          retiringTokens,
          cap,
          queue,
          policies,
          capacity,
          scheduler,
          ownPolicy,
          router,
          hold,
          encoderWait,
          fill.orElseGet(() -> FillRules.of(policies)));
    }
  }
}
