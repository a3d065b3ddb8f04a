// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.request.RequestState;
import java.util.ArrayList;
import java.util.List;

/** Runs of the batch stage alone: what it schedules happens, nothing else limits it. */
final class BatchRun implements AutoCloseable {
  private final SchedulingTable table;
  private final MicroBatchScheduler scheduler;
  private final int[] row = new int[1];
  private int iteration;

  BatchRun(BatchRules rules) {
    this(rules, 0);
  }

  BatchRun(BatchRules rules, int snapshotPoints) {
    table = new SchedulingTable(TableShape.of(64).withSnapshotPoints(snapshotPoints));
    scheduler = MicroBatchScheduler.of(table, rules);
  }

  /** A context, in the order of calls; its id is its row. */
  BatchRun request(int prompt, int maxNew) {
    return request(prompt, maxNew, 0, 1);
  }

  BatchRun request(int prompt, int maxNew, int drafts, int beam) {
    int index = row[0]++;
    table.begin(index, index, RequestState.CONTEXT_INIT, prompt, maxNew);
    table.draftTokens(index, drafts);
    table.beamWidth(index, beam);
    table.enter(index);
    return this;
  }

  SchedulingTable table() {
    return table;
  }

  int iteration() {
    return iteration;
  }

  int position(int id) {
    return table.cursor(id);
  }

  int drafts(int id) {
    return table.draftTokens(id);
  }

  /** Schedules and applies; rows that ran, contexts first. */
  List<Integer> step() {
    for (int place = 0; place < table.size(); place++) {
      table.markDirty(table.row(place));
    }
    MicroBatch batch = scheduler.schedule();
    List<Integer> ran = new ArrayList<>();
    List<Integer> finished = new ArrayList<>();
    int contexts = batch.contexts();
    int[] generations = new int[batch.generations()];
    batch.generations(generations);
    for (int i = 0; i < contexts; i++) {
      int id = batch.contextRow(i);
      ran.add(id);
      int cursor = batch.contextPosition(i) + batch.contextTokens(i);
      table.draftTokens(id, batch.contextDrafts(i));
      if (cursor == table.promptTokens(id)) {
        table.state(id, RequestState.GENERATION);
        table.context(id, cursor, 0);
        table.generatedTokens(id, 1);
        if (table.maxNewTokens(id) == 1) {
          finished.add(id);
        }
      } else {
        table.context(id, cursor, 0);
      }
    }
    for (int id : generations) {
      ran.add(id);
      table.generatedTokens(id, table.generatedTokens(id) + 1);
      if (table.generatedTokens(id) >= table.maxNewTokens(id)) {
        finished.add(id);
      }
    }
    finished.forEach(table::leave);
    iteration++;
    return ran.stream().sorted().toList();
  }

  boolean done() {
    return table.size() == 0;
  }

  @Override
  public void close() {
    table.close();
  }
}
