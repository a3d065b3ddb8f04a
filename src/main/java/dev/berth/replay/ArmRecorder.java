// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.Admission;
import dev.berth.engine.GroupTap;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.request.RequestState;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;

/**
 * What is written down of every iteration of an arm. A record is one rank in one iteration; states
 * are read at the gather, before routing and without padding (evidence rule 8).
 */
final class ArmRecorder implements RunObserver {
  private static final RequestState[] STATES = RequestState.values();

  private final GroupTap tap;
  private final int ranks;
  private final int cap;
  private final int batchPositions;
  private final int seats;
  private final int leases;

  /** Batch tokens above which not even the smallest prompt of the load would have fitted. */
  private final int fullAt;

  private final int[] tokensIn;
  private final int[] assigned;
  private final int[] counts = new int[STATES.length];
  private final int[] pair = new int[2];
  private final int[] single = new int[1];

  final Histogram assignedVectors = new Histogram(ArmRecorder::list);
  final Histogram batches = Histogram.ofNumbers();
  final Histogram states = new Histogram((vector, length) -> describeStates(vector));
  final Histogram gates = new Histogram((vector, length) -> vector[0] + "->" + vector[1]);
  final Histogram tokenVectors = new Histogram(ArmRecorder::list);
  private int[] rankZeroBatch = new int[1024];
  private int[] rankZeroContexts = new int[1024];
  private int iterations;
  private long forwardHash;
  private long peakResident;
  private long peakRankLoad;
  private long gateOpenedAt = -1;
  private final Map<Check, Long> violations = new EnumMap<>(Check.class);

  ArmRecorder(Arm arm, Load load) {
    this(arm, load, GroupTap.NONE);
  }

  ArmRecorder(Arm arm, Load load, GroupTap tap) {
    this.tap = tap;
    var plan = arm.engine().plan();
    int tokens = plan.shape().maxNumTokens();
    int smallest = load.groups().stream().mapToInt(Load.Group::inputTokens).min().orElse(1);
    fullAt = tokens == 0 ? Integer.MAX_VALUE : tokens - smallest;
    ranks = arm.engine().ranks();
    cap = plan.admissionCap();
    batchPositions = plan.batchPositions().count();
    seats = plan.seats().count();
    leases = plan.spendableLeases();
    tokensIn = new int[ranks];
    assigned = new int[ranks];
  }

  @Override
  public void begin(LockstepGroup group) {
    group.listen(tap);
  }

  @Override
  public void beforeStep(LockstepGroup group) {
    for (int rank = 0; rank < ranks; rank++) {
      RankEngine engine = group.engine(rank);
      for (RequestState state : STATES) {
        counts[state.ordinal()] = engine.count(state);
      }
      states.add(counts, counts.length);
      tokensIn[rank] = (int) Math.min(Integer.MAX_VALUE, engine.routableTokens());
      peakRankLoad = Math.max(peakRankLoad, engine.routable());
      violate(Check.WITHIN_CAP, engine.routable() > cap);
      violate(Check.WITHIN_POOLS, engine.seatsUsed() > seats || engine.leasesUsed() > leases);
    }
    tokenVectors.add(tokensIn, ranks);
  }

  private static String list(int[] vector, int length) {
    return Arrays.toString(Arrays.copyOf(vector, length)).replace(" ", "");
  }

  private static String describeStates(int[] counts) {
    var text = new StringBuilder();
    for (RequestState state : STATES) {
      int n = counts[state.ordinal()];
      if (n > 0) {
        text.append('(').append(state.value()).append(")x").append(n);
      }
    }
    return text.isEmpty() ? "empty" : text.toString();
  }

  @Override
  public void afterStep(LockstepGroup group, double startedAtMicros) {
    Admission admission = group.admission();
    boolean waiting = admission.waiting() > 0;
    long hash = forwardHash;
    for (int rank = 0; rank < ranks; rank++) {
      RankEngine engine = group.engine(rank);
      assigned[rank] = admission.assigned(rank);
      single[0] = engine.batch();
      batches.add(single, 1);
      peakResident = Math.max(peakResident, engine.resident());
      hash = (hash ^ engine.batch()) * 0x9E3779B97F4A7C15L;
      hash ^= hash >>> 32;
      violate(
          Check.FULL_BATCHES,
          waiting
              && group.launched()
              && engine.batch() < batchPositions
              && engine.batchTokens() <= fullAt);
    }
    if (group.launched()) {
      forwardHash = hash;
    }
    violate(Check.NO_VETO, waiting && !admission.held() && !group.launched());
    assignedVectors.add(assigned, ranks);
    pair[0] = (int) admission.charged();
    pair[1] = (int) Math.max(0, admission.budget());
    gates.add(pair, 2);
    if (admission.gateOpen() && gateOpenedAt < 0) {
      gateOpenedAt = iterations;
    }
    if (iterations == rankZeroBatch.length) {
      rankZeroBatch = Arrays.copyOf(rankZeroBatch, iterations * 2);
      rankZeroContexts = Arrays.copyOf(rankZeroContexts, iterations * 2);
    }
    rankZeroBatch[iterations] = group.engine(0).batch();
    rankZeroContexts[iterations] = group.engine(0).contexts();
    iterations++;
  }

  private void violate(Check check, boolean broken) {
    if (broken) {
      violations.merge(check, 1L, Long::sum);
    }
  }

  long violations(Check check) {
    return violations.getOrDefault(check, 0L);
  }

  /** Sizes of all launched forwards, in order, as one number. */
  long forwardHash() {
    return forwardHash;
  }

  long peakResident() {
    return peakResident;
  }

  /** Most requests that a rank was charged with at a gather. */
  long peakRankLoad() {
    return peakRankLoad;
  }

  /** Iteration in which the fill gate was found open, -1 if never. */
  long gateOpenedAt() {
    return gateOpenedAt;
  }

  /** Rank 0 without the first tenth of its records: batch sizes. */
  Histogram steadyBatches() {
    return steady(rankZeroBatch);
  }

  /** Rank 0 without the first tenth of its records: contexts in the batch. */
  Histogram steadyContexts() {
    return steady(rankZeroContexts);
  }

  /** Mean batch of rank 0 without the first tenth of its records. */
  double steadyMeanBatch() {
    return Arrays.stream(rankZeroBatch, iterations / 10, iterations).average().orElse(Double.NaN);
  }

  private Histogram steady(int[] values) {
    var histogram = Histogram.ofNumbers();
    for (int i = iterations / 10; i < iterations; i++) {
      single[0] = values[i];
      histogram.add(single, 1);
    }
    return histogram;
  }
}
