// SPDX-License-Identifier: Apache-2.0
package dev.berth.test;

import dev.berth.capacity.Chunking;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillGate;
import dev.berth.engine.KvSetup;
import dev.berth.engine.RetiringMark;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.request.QueueRules;
import dev.berth.route.RankCap;
import java.util.Optional;

/** Collects an engine configuration; everything unset has its default. */
public final class TestConfig {
  private final WorkerShape.Builder shape;
  private final WhatIf.Builder whatIf = WhatIf.builder();
  private WorkerRole role = WorkerRole.AGGREGATED;
  private SeatPolicy policy = SeatPolicy.UNIFIED;
  private int rangeEnd = EngineConfig.RANGE_END;
  private Optional<RetiringMark> mark = Optional.empty();
  private Chunking chunking = Chunking.NONE;
  private long pages = -1;
  private FillGate gate = FillGate.NONE;
  private RankCap cap = RankCap.HARD;
  private QueueRules queue = QueueRules.FCFS;

  private TestConfig(int batch) {
    shape = WorkerShape.builder(batch);
  }

  /** Attention-DP ranks, overlap on. */
  public static TestConfig overlap(int ranks, int batch) {
    return new TestConfig(batch).with(Trait.ATTENTION_DP, Trait.OVERLAP).ranks(ranks);
  }

  /** Attention-DP ranks, overlap off. */
  public static TestConfig nonOverlap(int ranks, int batch) {
    return new TestConfig(batch).with(Trait.ATTENTION_DP).ranks(ranks);
  }

  /** One group without attention DP. */
  public static TestConfig oneGroup(int batch, Trait... traits) {
    return new TestConfig(batch).with(traits);
  }

  private TestConfig with(Trait... traits) {
    shape.with(traits);
    return this;
  }

  private TestConfig ranks(int ranks) {
    shape.ranks(ranks);
    return this;
  }

  public TestConfig stages(int stages) {
    shape.pipelineSize(stages);
    return this;
  }

  public TestConfig maxNumTokens(int tokens) {
    shape.maxNumTokens(tokens);
    return this;
  }

  public TestConfig draftTokens(int tokens) {
    shape.draftTokens(tokens);
    return this;
  }

  public TestConfig tokensPerBlock(int tokens) {
    shape.tokensPerBlock(tokens);
    return this;
  }

  public TestConfig maxSeqLen(int tokens) {
    shape.maxSeqLen(tokens);
    return this;
  }

  public TestConfig role(WorkerRole newRole) {
    role = newRole;
    if (newRole == WorkerRole.GENERATION) {
      shape.transferBackend("NIXL");
    }
    return this;
  }

  public TestConfig policy(SeatPolicy newPolicy) {
    policy = newPolicy;
    return this;
  }

  public TestConfig seats(int count) {
    whatIf.seats(count);
    return this;
  }

  public TestConfig leases(int count) {
    whatIf.leases(count);
    return this;
  }

  public TestConfig whatIf(WhatIf.Switch... switches) {
    whatIf.with(switches);
    return this;
  }

  public TestConfig rangeEnd(int end) {
    rangeEnd = end;
    return this;
  }

  public TestConfig mark(RetiringMark newMark) {
    mark = Optional.of(newMark);
    return this;
  }

  public TestConfig chunked() {
    chunking = Chunking.FIRST_COME_FIRST_SERVED;
    return this;
  }

  public TestConfig pages(long count) {
    pages = count;
    return this;
  }

  public TestConfig gate(FillGate newGate) {
    gate = newGate;
    return this;
  }

  public TestConfig cap(RankCap newCap) {
    cap = newCap;
    return this;
  }

  public TestConfig queue(QueueRules rules) {
    queue = rules;
    return this;
  }

  public EngineConfig build() {
    SeatPlan plan = SeatPlan.of(shape.build(), policy).orThrow().withWhatIf(whatIf.build());
    var engine = EngineConfig.builder(plan, role);
    mark.ifPresent(engine::mark);
    return engine
        .rangeEnd(rangeEnd)
        .chunkedContext(chunking)
        .kv(KvSetup.counted(pages))
        .gate(gate)
        .cap(cap)
        .queue(queue)
        .build();
  }
}
