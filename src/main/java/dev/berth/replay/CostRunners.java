// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.Batch;
import dev.berth.engine.BatchResults;
import dev.berth.engine.BatchView;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.ModelRunner;
import dev.berth.engine.RankSetup;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * The {@link CostModel} as the model of a fleet: a forward takes virtual time and computes nothing.
 * All ranks' forwards of an iteration begin together and end together.
 */
final class CostRunners implements ModelRunner.Factory {
  private final EngineConfig config;
  private final CostModel cost;
  private final RequestTimes times;
  private final RunTotals totals;

  /** End of the forward of each rank's launched batches, by slot. */
  private final double[][] slotEnd;

  /** End of the forward whose results each rank settles in this step. */
  private final double[] dueEnds;

  private double now;
  private double forwardEnd;
  private long forwards;
  private long maxRankTokens;
  private long totalTokens;

  CostRunners(EngineConfig config, CostModel cost, RequestTimes times, RunTotals totals) {
    this.config = config;
    this.cost = cost;
    this.times = times;
    this.totals = totals;
    this.slotEnd = new double[config.ranks()][config.stages() + 2];
    this.dueEnds = new double[config.ranks()];
  }

  /** An iteration begins, at a virtual time in µs. */
  void begin(double micros) {
    now = micros;
    Arrays.fill(dueEnds, micros);
  }

  /** When the last forward ends. */
  double forwardEnd() {
    return forwardEnd;
  }

  /**
   * When the results were in that a rank settled in this iteration; its begin if there are none.
   */
  double settledAt(int rank) {
    return dueEnds[rank];
  }

  /** How long the encoders of so many tokens take, beside the forwards. */
  double encoderMicros(long tokens) {
    return cost.encoderMicros() * tokens;
  }

  CostModel.ForwardTotals forwards() {
    return new CostModel.ForwardTotals(forwards, maxRankTokens, totalTokens);
  }

  /** The first stage's runners know all that a cost depends on. */
  @Override
  public ModelRunner runner(RankSetup setup) {
    return setup.stage() == 0 ? new CostRunner() : ModelRunner.NONE;
  }

  private final class CostRunner implements ModelRunner {
    @Override
    public void launch(BatchView batch) {
      if (batch.rank() == 0) { // it launches before the others, if anybody does
        forward(batch.rankTokens());
      }
      slotEnd[batch.rank()][batch.slot()] = forwardEnd;
      // Contexts stand at the end of a batch.
      for (int i = batch.size() - 1; i >= 0 && batch.kind(i) == Batch.Kind.CONTEXT; i--) {
        if (batch.makesToken(i)) {
          times.firstToken((int) batch.table().tag(batch.row(i)), forwardEnd);
        } else {
          totals.partialContext();
        }
      }
    }

    @Override
    public void collect(BatchView batch, BatchResults results) {
      dueEnds[batch.rank()] = slotEnd[batch.rank()][batch.slot()];
    }
  }

  private void forward(MemorySegment rankTokens) {
    long most = 0;
    long total = 0;
    for (int rank = 0; rank < config.ranks(); rank++) {
      long tokens = rankTokens.getAtIndex(ValueLayout.JAVA_INT, rank);
      most = Math.max(most, tokens);
      total += tokens;
    }
    forwards++;
    maxRankTokens += most;
    totalTokens += total;
    forwardEnd = now + cost.forwardMicros(most, total);
  }
}
