// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EndKind;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.request.Request;

/** How full each rank of a server was, over the forwards that it launched. */
public final class Occupancy {
  private final int batchPositions;
  private final long[] scheduled;
  private final long[] resident;
  private final long[] padded;
  private long forwards;

  Occupancy(int ranks, int batchPositions) {
    this.batchPositions = batchPositions;
    this.scheduled = new long[ranks];
    this.resident = new long[ranks];
    this.padded = new long[ranks];
  }

  void add(LockstepGroup group) {
    if (!group.launched()) {
      return;
    }
    forwards++;
    for (int rank = 0; rank < scheduled.length; rank++) {
      RankEngine engine = group.engine(rank);
      scheduled[rank] += engine.real();
      resident[rank] += engine.resident();
      padded[rank] += engine.padded() ? 1 : 0;
    }
  }

  /** Ranks of the server. */
  public int ranks() {
    return scheduled.length;
  }

  /** Forwards of the server. */
  public long forwards() {
    return forwards;
  }

  /** Requests in the rank's batch, mean over forwards; padding isn't counted. */
  public double meanBatch(int rank) {
    return mean(scheduled[rank]);
  }

  /** The same as a share of the batch positions, 0 to 1. */
  public double occupancy(int rank) {
    return meanBatch(rank) / batchPositions;
  }

  /** Requests on the rank, mean over forwards: those that wait there included. */
  public double meanResident(int rank) {
    return mean(resident[rank]);
  }

  /** Forwards in which the rank had nothing but padding. */
  public long padded(int rank) {
    return padded[rank];
  }

  private double mean(long sum) {
    return forwards == 0 ? 0 : (double) sum / forwards;
  }

  /** An observer that fills this and tells another about ends and refusals. */
  RunObserver observer(RunObserver ends) {
    return new RunObserver() {
      @Override
      public void afterStep(LockstepGroup group, double startedAtMicros) {
        add(group);
      }

      @Override
      public void ended(int tag, EndKind kind, double atMicros) {
        ends.ended(tag, kind, atMicros);
      }

      @Override
      public void refused(Request request, double atMicros) {
        ends.refused(request, atMicros);
      }
    };
  }
}
