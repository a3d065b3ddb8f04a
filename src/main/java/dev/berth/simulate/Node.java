// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.engine.Admission;
import dev.berth.engine.Batch;
import dev.berth.engine.RankEngine;
import java.util.ArrayDeque;

/** One rank on one stage: its engine, its books, and where it stands in the iteration. */
final class Node {
  /** What it does or waits for. */
  enum Place {
    GATHERING,
    VOTING,
    LAUNCHING,
    COLLECTING,
    IDLE,
    DEAD,
    /** It gave up on a collective and said who was missing. */
    STALLED
  }

  final int number;
  final RankEngine engine;
  final Admission admission;
  final RankAudit audit;

  Place place = Place.GATHERING;

  /** When it acts next, virtual µs; {@link Long#MAX_VALUE}: when somebody wakes it. */
  long nextAt;

  /** The iteration that it is in. */
  long sequence;

  /** Whether it scheduled in this iteration. */
  boolean inIteration;

  /** The batch that it launches or collects. */
  Batch batch;

  int batchSize;

  // ---- what was told to it
  int commands;
  int changes;

  /** What clients want of requests that are here, until its engine has room for it. */
  final ArrayDeque<Wish> wishes = new ArrayDeque<>();

  /** A request is cancelled; its reader can't keep up, or can again. */
  record Wish(int request, RankAudit.Change change) {}

  // ---- its watch over collectives, by its own clock
  long clockOffset;
  long watchEnds;
  int suspicions;
  String stall = "";
  int missing;

  // ---- what befell it
  int slowFactor = 1;
  long slowUntil;
  int lateBy;
  long lateUntil;
  int losses;

  /** The batch that it launches or collects is lost. */
  boolean breaks;

  Node(int number, RankEngine engine, Admission admission, RankAudit audit, Batch batch) {
    this.number = number;
    this.engine = engine;
    this.admission = admission;
    this.audit = audit;
    this.batch = batch;
  }

  boolean leads() {
    return number == 0;
  }

  boolean alive() {
    return place != Place.DEAD;
  }

  @Override
  public String toString() {
    return engine.stage() == 0
        ? "rank " + engine.rank()
        : "rank %d, stage %d".formatted(engine.rank(), engine.stage());
  }
}
