// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EndKind;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.request.Request;
import dev.berth.request.WaitReason;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** What a run adds up over ranks and iterations. */
public final class RunTotals {
  private static final WaitReason[] REASONS = WaitReason.values();
  private static final int NAMED = 3;

  private final long[] ends = new long[EndKind.values().length];
  private final long[] deferrals = new long[REASONS.length];
  private final Map<WaitReason, Long> refused = new EnumMap<>(WaitReason.class);
  private final List<String> refusals = new ArrayList<>();
  private long rankRecords;
  private long scheduled;
  private long launchedReal;
  private long tokens;
  private long partialContexts;

  RunTotals() {}

  void refuse(Request request, Outcome.Refused outcome) {
    refused.merge(outcome.reason(), 1L, Long::sum);
    if (refusals.size() < NAMED) {
      refusals.add(
          "request %d (prompt %d, output %d) can never run: %s needed %d, there are %d"
              .formatted(
                  request.id(),
                  request.promptTokens(),
                  request.maxNewTokens(),
                  outcome.reason().name().toLowerCase(java.util.Locale.ROOT),
                  outcome.required(),
                  outcome.available()));
    }
  }

  void end(EndKind kind) {
    ends[kind.ordinal()]++;
  }

  void add(RankEngine engine) {
    rankRecords++;
    scheduled += engine.batch();
    tokens += engine.tokensOut();
    if (engine.launched()) {
      launchedReal += engine.real();
    }
    for (WaitReason reason : REASONS) {
      deferrals[reason.ordinal()] += engine.deferred(reason);
    }
  }

  void partialContext() {
    partialContexts++;
  }

  /** Requests that ended in a way. */
  public long ended(EndKind kind) {
    return ends[kind.ordinal()];
  }

  /** Requests refused because they could never run. */
  public long refused() {
    return refused.values().stream().mapToLong(Long::longValue).sum();
  }

  /** The same by reason. */
  public Map<WaitReason, Long> refusedByReason() {
    return Map.copyOf(refused);
  }

  /** The first few of them, named. */
  public List<String> refusals() {
    return List.copyOf(refusals);
  }

  /** Times that a request could have run and did not, for a reason. */
  public long deferrals(WaitReason reason) {
    return deferrals[reason.ordinal()];
  }

  /** Mean size of the scheduled batch over all rank records, padding included. */
  public double meanBatch() {
    return rankRecords == 0 ? 0 : (double) scheduled / rankRecords;
  }

  /** Output tokens settled. */
  public long tokens() {
    return tokens;
  }

  /** Launched batch positions of requests whose token was never wanted. */
  public long wastedPositions() {
    return launchedReal - partialContexts - tokens;
  }

  /** Launched batch positions of requests, a row of requests counted once each time. */
  public long launchedPositions() {
    return launchedReal;
  }
}
