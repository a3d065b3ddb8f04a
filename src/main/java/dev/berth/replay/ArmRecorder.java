// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.Admission;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;

/**
 * What is written down of every iteration of an arm. A record is one rank in one iteration; states are read at the
 * gather, before routing and without padding (evidence rule 8).
 */
final class ArmRecorder implements RunObserver {
  private static final RequestState[] STATES = RequestState.values();

  private final int ranks;
  private final int cap;
  private final int batchPositions;
  private final int seats;
  private final int leases;
  private final long[] tokensIn;
  private final int[] assigned;

  final Histogram assignedVectors = new Histogram();
  final Histogram batches = new Histogram();
  final Histogram states = new Histogram();
  final Histogram gates = new Histogram();
  final Histogram tokenVectors = new Histogram();
  private int[] rankZeroBatch = new int[1024];
  private int[] rankZeroContexts = new int[1024];
  private int iterations;
  private long forwardHash;
  private long peakResident;
  private long peakRankLoad;
  private long gateOpenedAt = -1;
  private final Map<Check, Long> violations = new EnumMap<>(Check.class);

  ArmRecorder(Arm arm) {
    var plan = arm.engine().plan();
    ranks = arm.engine().ranks();
    cap = plan.admissionCap();
    batchPositions = plan.batchPositions().count();
    seats = plan.seats().count();
    leases = plan.spendableLeases();
    tokensIn = new long[ranks];
    assigned = new int[ranks];
  }

  @Override
  public void beforeStep(LockstepGroup group) {
    for (int rank = 0; rank < ranks; rank++) {
      RankEngine engine = group.engine(rank);
      states.add(describeStates(engine));
      tokensIn[rank] = engine.routableTokens();
      peakRankLoad = Math.max(peakRankLoad, engine.routable());
      violate(Check.WITHIN_CAP, engine.routable() > cap);
      violate(Check.WITHIN_POOLS, engine.seatsUsed() > seats || engine.leasesUsed() > leases);
    }
    tokenVectors.add(Arrays.toString(tokensIn).replace(" ", ""));
  }

  private static String describeStates(RankEngine engine) {
    var text = new StringBuilder();
    for (RequestState state : STATES) {
      int n = engine.count(state);
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
      batches.add(Integer.toString(engine.batch()));
      peakResident = Math.max(peakResident, engine.resident());
      hash = (hash ^ engine.batch()) * 0x9E3779B97F4A7C15L;
      hash ^= hash >>> 32;
      violate(
          Check.FULL_BATCHES,
          waiting
              && group.launched()
              && engine.batch() < batchPositions
              && engine.deferred(WaitReason.TOKENS) == 0);
    }
    if (group.launched()) {
      forwardHash = hash;
    }
    violate(Check.NO_VETO, waiting && !admission.held() && !group.launched());
    assignedVectors.add(Arrays.toString(assigned).replace(" ", ""));
    gates.add(admission.charged() + "->" + Math.max(0, admission.budget()));
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
    var histogram = new Histogram();
    for (int i = iterations / 10; i < iterations; i++) {
      histogram.add(Integer.toString(values[i]));
    }
    return histogram;
  }
}
