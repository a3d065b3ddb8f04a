// SPDX-License-Identifier: Apache-2.0
package dev.berth.test;

import dev.berth.engine.Batch;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.id.BatchPosition;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.stream.IntStream;

/**
 * Reads a real fleet into the terms of {@link NaiveFleet.Iteration}. Translates, decides nothing.
 */
public final class FleetProbe implements LockstepGroup.Device {
  private final LockstepGroup group;
  private final Map<Long, Integer> stopAt = new HashMap<>();
  private List<Map<RequestState, Integer>> states = List.of();
  private List<Long> tokensIn = List.of();

  public FleetProbe(LockstepGroup group) {
    this.group = group;
  }

  /** The sequence ends with its n-th output token whatever its limit says. */
  public void stopAt(long id, int token) {
    stopAt.put(id, token);
  }

  @Override
  public void collect(RankEngine engine, Batch batch) {
    for (int i = 0; i < batch.size(); i++) {
      long id = engine.table().id(batch.row(i));
      int number = engine.table().outputTokens(batch.row(i)) + 1;
      if (batch.makesToken(i) && number >= stopAt.getOrDefault(id, Integer.MAX_VALUE)) {
        batch.stop(new BatchPosition(i));
      }
    }
  }

  /** Before the step: states as the gather shows them. */
  public void gather() {
    states = ranks(r -> states(group.engine(r)));
    tokensIn = ranks(r -> group.engine(r).routableTokens());
  }

  private static Map<RequestState, Integer> states(RankEngine engine) {
    Map<RequestState, Integer> counts = new EnumMap<>(RequestState.class);
    for (RequestState state : RequestState.values()) {
      counts.put(state, engine.count(state));
    }
    counts.values().removeIf(n -> n == 0);
    return counts;
  }

  /** After the step. */
  public NaiveFleet.Iteration read() {
    var admission = group.admission();
    return new NaiveFleet.Iteration(
        states,
        tokensIn,
        admission.charged(),
        admission.budget(),
        admission.expectedActive(),
        ranks(r -> assigned(r, admission.assigned(r))),
        ranks(r -> group.engine(r).padded()),
        ranks(r -> group.engine(r).resident()),
        ranks(r -> group.engine(r).batch()),
        ranks(r -> group.engine(r).contexts()),
        ranks(r -> group.engine(r).batchTokens()),
        ranks(r -> deferred(group.engine(r))),
        ranks(r -> group.engine(r).paused()),
        admission.held(),
        group.engine(0).canQueue(),
        admission.contextsHeld(),
        ranks(r -> encodes(group.engine(r))),
        ranks(r -> group.engine(r).tokensOut()),
        ranks(r -> done(group.engine(r))),
        ranks(r -> group.engine(r).seatsUsed()),
        ranks(r -> group.engine(r).leasesUsed()),
        ranks(r -> group.engine(r).pagesUsed()));
  }

  private static List<Long> encodes(RankEngine engine) {
    return IntStream.range(0, engine.encodes())
        .mapToObj(i -> engine.table().id(engine.encodeRow(i)))
        .toList();
  }

  private List<Long> assigned(int rank, int count) {
    return IntStream.range(0, count).mapToObj(i -> group.admission().assignedId(rank, i)).toList();
  }

  private static Map<WaitReason, Integer> deferred(RankEngine engine) {
    Map<WaitReason, Integer> counts = new EnumMap<>(WaitReason.class);
    for (WaitReason reason : WaitReason.values()) {
      counts.put(reason, engine.deferred(reason));
    }
    counts.values().removeIf(n -> n == 0);
    return counts;
  }

  private static List<String> done(RankEngine engine) {
    var all = new ArrayList<String>();
    for (int i = 0; i < engine.ended(); i++) {
      all.add(engine.endedId(i) + ":" + engine.endedKind(i) + ":" + engine.endedTokens(i));
    }
    all.sort(null);
    return all;
  }

  private <T> List<T> ranks(IntFunction<T> value) {
    return IntStream.range(0, group.config().ranks()).mapToObj(value).toList();
  }

  /** The row of a request that lives on a rank of the first stage, -1 if it does on none. */
  public int rowOn(int rank, long id) {
    RankEngine engine = group.engine(rank);
    return IntStream.range(0, engine.table().rows() - 1)
        .filter(row -> engine.table().id(row) == id)
        .findFirst()
        .orElse(-1);
  }
}
