// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EndKind;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.request.Request;
import dev.berth.request.WaitReason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What a run adds up over ranks and iterations. */
public final class RunTotals {
  private static final WaitReason[] REASONS = WaitReason.values();
  private static final int NAMED = 3;

  private final long[] ends = new long[EndKind.values().length];
  private final long[] deferrals = new long[REASONS.length];
  private final Map<String, Long> refused = new TreeMap<>();
  private final List<String> refusals = new ArrayList<>();
  private long rankRecords;
  private long scheduled;
  private long launchedReal;
  private long tokens;
  private long partialContexts;
  private long paused;
  private long askedTokens;
  private long foundTokens;
  private long evictedBlocks;

  RunTotals() {}

  void refuse(Request request, Outcome.Refused outcome) {
    String reason = outcome.reason().name().toLowerCase(java.util.Locale.ROOT);
    refused.merge(reason, 1L, Long::sum);
    if (refusals.size() < NAMED) {
      refusals.add(
          "request %d (prompt %d, output %d) can never run: %s needed %d, there are %d"
              .formatted(
                  request.id(),
                  request.promptTokens(),
                  request.maxNewTokens(),
                  reason,
                  outcome.required(),
                  outcome.available()));
    }
  }

  /** Adds what another run added up. */
  void merge(RunTotals other) {
    for (int i = 0; i < ends.length; i++) {
      ends[i] += other.ends[i];
    }
    for (int i = 0; i < deferrals.length; i++) {
      deferrals[i] += other.deferrals[i];
    }
    other.refused.forEach((reason, count) -> refused.merge(reason, count, Long::sum));
    other.refusals.stream().limit(NAMED - refusals.size()).forEach(refusals::add);
    rankRecords += other.rankRecords;
    scheduled += other.scheduled;
    launchedReal += other.launchedReal;
    tokens += other.tokens;
    partialContexts += other.partialContexts;
    paused += other.paused;
    askedTokens += other.askedTokens;
    foundTokens += other.foundTokens;
    evictedBlocks += other.evictedBlocks;
  }

  void end(EndKind kind) {
    ends[kind.ordinal()]++;
  }

  void add(RankEngine engine) {
    rankRecords++;
    scheduled += engine.batch();
    tokens += engine.tokensOut();
    paused += engine.paused();
    if (engine.launched()) {
      launchedReal += engine.real();
    }
    for (WaitReason reason : REASONS) {
      deferrals[reason.ordinal()] += engine.deferred(reason);
    }
  }

  /** What the KV caches of all ranks have counted by now. */
  void caches(long asked, long found, long evicted) {
    askedTokens = asked;
    foundTokens = found;
    evictedBlocks = evicted;
  }

  void partialContext() {
    partialContexts++;
  }

  /** Requests that ended in a way. */
  public long ended(EndKind kind) {
    return ends[kind.ordinal()];
  }

  /** Requests of so many that neither ended nor were refused. */
  long unaccounted(long requests) {
    return requests - Arrays.stream(ends).sum() - refused();
  }

  /** Requests refused because they could never run. */
  public long refused() {
    return refused.values().stream().mapToLong(Long::longValue).sum();
  }

  /** The same by reason, in the order of their names. */
  public Map<String, Long> refusedByReason() {
    return Collections.unmodifiableMap(refused);
  }

  /** The first few of them, named. */
  public List<String> refusals() {
    return List.copyOf(refusals);
  }

  /** Times that a request could have run and did not, for a reason. */
  public long deferrals(WaitReason reason) {
    return deferrals[reason.ordinal()];
  }

  /** Times that a request gave its pages to another. */
  public long paused() {
    return paused;
  }

  /** Prompt tokens that were looked for in KV caches; 0 where pages are only counted. */
  public long askedTokens() {
    return askedTokens;
  }

  /** Those of them that were found and not computed again. */
  public long foundTokens() {
    return foundTokens;
  }

  /** Blocks that left the caches for want of pages. */
  public long evictedBlocks() {
    return evictedBlocks;
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
