// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;
import dev.berth.plan.WhatIf.Switch;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Collectors;

/**
 * Every size that one rank of a worker needs, each computed here and nowhere else (DESIGN.md
 * decisions 3 and 4). Immutable.
 *
 * <p>Notation of the formulas: B = max batch size of a rank, pp = pipeline stages, H = the headroom
 * gate.
 */
public final class SeatPlan {
  private final WorkerShape shape;
  private final SeatPolicy policy;
  private final Sizes sizes;
  private final List<Advice> advice;
  private final WhatIf whatIf;

  private SeatPlan(
      WorkerShape shape, SeatPolicy policy, Sizes sizes, List<Advice> advice, WhatIf whatIf) {
    this.shape = shape;
    this.policy = policy;
    this.sizes = sizes;
    this.advice = List.copyOf(advice);
    this.whatIf = whatIf;
  }

  private record Sizes(
      Seats seats,
      Leases leases,
      int reserved,
      int transferAllowance,
      int overlapAllowance,
      int admissionCap) {}

  /**
   * What decides about the effect of a plan: two plans with equal values here run alike.
   *
   * @param excludesRetiring whether retiring requests are left out of admission
   * @param spendableLeases leases that ordinary requests can hold
   */
  public record Effective(
      int batchPositions,
      int seats,
      int leases,
      int reservedLeases,
      int spendableLeases,
      int admissionCap,
      int fleetCapacity,
      HeadroomGate headroom,
      boolean overlap,
      boolean excludesRetiring) {}

  /** The plan for a shape, or every reason why it cannot work. */
  public static PlanOutcome of(WorkerShape shape, SeatPolicy policy) {
    var reasons = new ArrayList<Reason>();
    var seats = seats(shape, policy);
    var transfer = transferAllowance(shape, policy);
    var overlap = overlapAllowance(shape, policy);
    var cap = admissionCap(shape);
    var reserved = shape.paddingLeases().orElse(paddingRequirement(shape));

    checkPolicy(shape, policy, reasons);
    checkPadding(shape, reserved, reasons);
    checkStep(shape, reasons);
    checkMropeRows(shape, seats, reasons);
    checkWidth("leases with the reserved ones", seats + transfer + overlap + reserved, reasons);
    checkWidth("fleet capacity", shape.seatingRanks() * cap, reasons);
    if (!reasons.isEmpty()) {
      return new PlanOutcome.Refused(reasons);
    }
    var sizes =
        new Sizes(
            new Seats((int) seats),
            new Leases((int) (seats + transfer + overlap)),
            reserved,
            (int) transfer,
            (int) overlap,
            (int) cap);
    return new PlanOutcome.Planned(
        new SeatPlan(shape, policy, sizes, capAdvice(shape, cap), WhatIf.NONE));
  }

  /** B·pp: sequences that the stages of one rank hold in flight. */
  private static long resident(WorkerShape shape) {
    return (long) shape.maxBatchSize() * shape.pipelineSize();
  }

  /**
   * UNIFIED: B·pp, + B if H; disaggregated max(that, 2·B·pp) (DESIGN.md decision 4). SPLIT: B·pp,
   * 2·B if H; no disaggregation term (spec 01 §6.2).
   */
  private static long seats(WorkerShape shape, SeatPolicy policy) {
    long running = resident(shape) + (HeadroomGate.of(shape).open() ? shape.maxBatchSize() : 0);
    return switch (policy) {
      case UNIFIED -> shape.disaggregated() ? Math.max(running, 2 * resident(shape)) : running;
      case SPLIT -> running;
    };
  }

  /**
   * Leases beyond the seats for requests whose KV is in transfer: they hold a lease and no seat
   * (spec 01 §6.2). None where H doubles the seats already: transfers share that room.
   */
  private static long transferAllowance(WorkerShape shape, SeatPolicy policy) {
    boolean owed =
        policy == SeatPolicy.SPLIT && shape.disaggregated() && !HeadroomGate.of(shape).open();
    return owed ? resident(shape) : 0;
  }

  /**
   * Leases beyond the seats for requests that retire under overlap without headroom seats (spec 01
   * §6.2). Where the transfer allowance stands they share it.
   */
  private static long overlapAllowance(WorkerShape shape, SeatPolicy policy) {
    boolean owed =
        policy == SeatPolicy.SPLIT
            && shape.pipelineSize() == 1
            && shape.overlap()
            && !HeadroomGate.of(shape).open()
            && !shape.disaggregated();
    return owed ? shape.maxBatchSize() : 0;
  }

  /** K = pp·B; under attention DP at most ⌊max_num_tokens / (1 + draft)⌋ (spec 01 §3.1). */
  private static long admissionCap(WorkerShape shape) {
    if (!shape.attentionDp() || shape.maxNumTokens() == 0) {
      return resident(shape);
    }
    return Math.min(resident(shape), stepSequences(shape));
  }

  /** Generations that one step's tokens carry. */
  private static long stepSequences(WorkerShape shape) {
    return shape.maxNumTokens() / shape.tokensPerGeneration();
  }

  /**
   * Leases that padding needs: one request, or a target and a draft under confidence scheduling
   * (spec 03 §3).
   */
  private static int paddingRequirement(WorkerShape shape) {
    return shape.has(Trait.CONFIDENCE_SCHEDULING) ? 2 : 1;
  }

  private static void checkPolicy(WorkerShape shape, SeatPolicy policy, List<Reason> reasons) {
    if (policy != SeatPolicy.UNIFIED) {
      return;
    }
    var ends = "its rows end at B x pp = " + resident(shape) + "; use the split seat policy";
    if (shape.hybrid()) {
      reasons.add(
          new Reason(
              "unified-hybrid", "unified seats cannot be used with a hybrid (SSM) model: " + ends));
    }
    if (shape.mropeDelta()) {
      reasons.add(
          new Reason(
              "unified-mrope-delta",
              "unified seats cannot be used with an MRoPE delta cache: " + ends));
    }
  }

  private static void checkPadding(WorkerShape shape, int reserved, List<Reason> reasons) {
    if (reserved < paddingRequirement(shape)) {
      reasons.add(
          new Reason(
              "padding-leases",
              "padding needs "
                  + paddingRequirement(shape)
                  + " reserved leases, configured are "
                  + reserved));
    }
  }

  /** Spec 06 BC-12: a step that carries no generation at all can never finish a request. */
  private static void checkStep(WorkerShape shape, List<Reason> reasons) {
    if (shape.maxNumTokens() > 0 && stepSequences(shape) == 0) {
      reasons.add(
          new Reason(
              "step-tokens",
              "max_num_tokens "
                  + shape.maxNumTokens()
                  + " holds no generation of 1 + "
                  + shape.draftTokens()
                  + " tokens: nothing could ever be admitted; at least "
                  + shape.tokensPerGeneration()
                  + " are needed"));
    }
  }

  /**
   * Spec 01 §6.1: the cache has max_num_tokens·pp + 1 rows keyed by seat, and the last one is
   * reserved.
   */
  private static void checkMropeRows(WorkerShape shape, long seats, List<Reason> reasons) {
    long rows = (long) shape.maxNumTokens() * shape.pipelineSize();
    if (shape.mropeDelta() && shape.maxNumTokens() > 0 && seats > rows) {
      reasons.add(
          new Reason(
              "mrope-rows",
              "the MRoPE delta cache has "
                  + rows
                  + " rows beside its reserved one, but there are "
                  + seats
                  + " seats"));
    }
  }

  private static void checkWidth(String what, long size, List<Reason> reasons) {
    if (size > Integer.MAX_VALUE) {
      reasons.add(
          new Reason(
              "size", what + " would be " + size + "; the most allowed is " + Integer.MAX_VALUE));
    }
  }

  private static List<Advice> capAdvice(WorkerShape shape, long cap) {
    if (cap == resident(shape)) {
      return List.of();
    }
    return List.of(
        new Advice(
            "token-cap",
            "max_num_tokens "
                + shape.maxNumTokens()
                + " holds only "
                + cap
                + " generations of 1 + "
                + shape.draftTokens()
                + " tokens, so a rank admits "
                + cap
                + " requests, not "
                + resident(shape)
                + "; that needs max_num_tokens >= "
                + resident(shape) * shape.tokensPerGeneration()));
  }

  /**
   * The same plan with departures that an experiment asks for, in place of earlier ones. Declared
   * allowances stay, so that the validator sees what no longer agrees.
   *
   * @throws BerthException with code ARGUMENT if a size passes the range of int
   */
  public SeatPlan withWhatIf(WhatIf departures) {
    var derived = of(shape, policy).orThrow().sizes;
    int derivedSeats = derived.seats.count();
    int derivedLeases = derived.leases.count();
    if (departures.has(Switch.HEADROOM_UNDER_PIPELINE)) {
      derivedSeats = narrow((shape.pipelineSize() + 1L) * shape.maxBatchSize());
      derivedLeases =
          narrow((long) derivedSeats + sizes.transferAllowance + sizes.overlapAllowance);
    }
    var changed =
        new Sizes(
            new Seats(departures.seats().orElse(derivedSeats)),
            new Leases(departures.leases().orElse(derivedLeases)),
            departures.reserved().orElse(derived.reserved),
            sizes.transferAllowance,
            sizes.overlapAllowance,
            sizes.admissionCap);
    narrow((long) changed.leases.count() + changed.reserved);
    return new SeatPlan(shape, policy, changed, advice, departures);
  }

  private static int narrow(long size) {
    if (size > Integer.MAX_VALUE) {
      throw new BerthException(
          BerthException.Code.ARGUMENT, "what-if size " + size + " is above " + Integer.MAX_VALUE);
    }
    return (int) size;
  }

  /** The shape that was planned for. */
  public WorkerShape shape() {
    return shape;
  }

  public SeatPolicy policy() {
    return policy;
  }

  /** Seats of one rank. */
  public Seats seats() {
    return sizes.seats;
  }

  /** Leases of one rank that requests can hold, reserved ones not included. */
  public Leases leases() {
    return sizes.leases;
  }

  /** Rows of the scheduled batch of one rank: B, whatever seats and pipeline size are. */
  public BatchPositions batchPositions() {
    return new BatchPositions(shape.maxBatchSize());
  }

  /** The gate that feeds both the seat pool and the router (spec 01 §6.1). */
  public HeadroomGate headroom() {
    return HeadroomGate.of(shape);
  }

  /** Leases kept for padding requests; never handed out to requests. */
  public int reservedLeases() {
    return sizes.reserved;
  }

  /** Rows of the index mapper of the target model: leases + reserved. */
  public int indexCapacity() {
    return sizes.leases.count() + sizes.reserved;
  }

  /** Rows of the index mapper of a draft model, which hosts no padding request: leases. */
  public int draftIndexCapacity() {
    return sizes.leases.count();
  }

  /**
   * Leases that ordinary requests can hold; the reserved ones are among them only under a what-if.
   */
  public int spendableLeases() {
    return sizes.leases.count() + (whatIf.has(Switch.RESERVED_SPENDABLE) ? sizes.reserved : 0);
  }

  /** Leases that ordinary requests never hold: the reserved ones, none of them under a what-if. */
  public int withheldLeases() {
    return indexCapacity() - spendableLeases();
  }

  /** K, most requests admitted to one rank (spec 01 §3.1). Seats never enter it. */
  public int admissionCap() {
    return sizes.admissionCap;
  }

  /** A, most requests admitted to all ranks: ranks·K under attention DP, else K (spec 01 §3.1). */
  public int fleetCapacity() {
    return shape.seatingRanks() * sizes.admissionCap;
  }

  /** Whether retiring requests are left out of admission: H, or as a what-if says. */
  public boolean excludesRetiring() {
    if (whatIf.has(Switch.CHARGE_RETIRING)) {
      return false;
    }
    return headroom().open() || whatIf.has(Switch.HEADROOM_UNDER_PIPELINE);
  }

  /**
   * Leases that the plan declares beyond the seats for requests whose KV is in transfer; 0 under
   * UNIFIED.
   */
  public int transferAllowance() {
    return sizes.transferAllowance;
  }

  /** Leases that the plan declares beyond the seats for requests that retire; 0 under UNIFIED. */
  public int overlapAllowance() {
    return sizes.overlapAllowance;
  }

  /**
   * Recurrent-state slots of one rank, one for each live sequence: B·pp for a hybrid model, else 0
   * (spec 03 §3).
   */
  public int stateRows() {
    return shape.hybrid() ? (int) resident(shape) : 0;
  }

  /**
   * Rows of the recurrent-state index tensor with the padding requests: B + reserved if hybrid,
   * else 0 (spec 03 §3).
   */
  public int stateIndexRows() {
    return shape.hybrid() ? shape.maxBatchSize() + sizes.reserved : 0;
  }

  /**
   * Rows of the MRoPE delta cache, keyed by seat, the last one reserved: max_num_tokens·pp + 1
   * (spec 01 §6.1); empty without that cache or without max_num_tokens.
   */
  public OptionalLong mropeRows() {
    return shape.mropeDelta() && shape.maxNumTokens() > 0
        ? OptionalLong.of((long) shape.maxNumTokens() * shape.pipelineSize() + 1)
        : OptionalLong.empty();
  }

  /**
   * Most requests that the capacity scheduler keeps resident: B·pp, at least 2 under attention DP
   * (spec 01 §6.5).
   */
  public int residentRequests() {
    return atLeastTwoUnderAttentionDp((int) resident(shape));
  }

  /** Most requests in one iteration's batch: B, at least 2 under attention DP (spec 01 §6.5). */
  public int batchBudget() {
    return atLeastTwoUnderAttentionDp(shape.maxBatchSize());
  }

  /** A single place would let a pad dummy keep out every real request. */
  private int atLeastTwoUnderAttentionDp(int requests) {
    return shape.attentionDp() ? Math.max(requests, 2) : requests;
  }

  /** What works but probably isn't meant. */
  public List<Advice> advice() {
    return advice;
  }

  /** The departures that this plan was given. */
  public WhatIf whatIf() {
    return whatIf;
  }

  /** What decides about the effect of this plan. */
  public Effective effective() {
    return new Effective(
        shape.maxBatchSize(),
        sizes.seats.count(),
        sizes.leases.count(),
        sizes.reserved,
        spendableLeases(),
        sizes.admissionCap,
        fleetCapacity(),
        headroom(),
        shape.overlap(),
        excludesRetiring());
  }

  /** One line for tables and logs; departures are listed at its end. */
  public String describe() {
    var line =
        "B "
            + shape.maxBatchSize()
            + ", seats "
            + sizes.seats.count()
            + ", leases "
            + sizes.leases.count()
            + " + "
            + sizes.reserved
            + " reserved, H "
            + (headroom().open() ? "open" : "closed")
            + ", overlap "
            + (shape.overlap() ? "on" : "off")
            + ", K "
            + sizes.admissionCap
            + ", A "
            + fleetCapacity()
            + ", retiring "
            + (excludesRetiring() ? "excluded" : "charged");
    return whatIf.equals(WhatIf.NONE)
        ? line
        : line + whatIf.describe().stream().collect(Collectors.joining("; ", " [what if: ", "]"));
  }

  @Override
  public String toString() {
    return describe();
  }
}
