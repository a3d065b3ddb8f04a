// SPDX-License-Identifier: Apache-2.0
package dev.berth.test;

import dev.berth.capacity.CapacityPolicy;
import dev.berth.capacity.SchedulingTable;
import dev.berth.capacity.Selection;
import dev.berth.request.RequestState;
import java.util.ArrayList;
import java.util.List;

/**
 * GUARANTEED_NO_EVICT once more (spec 02 §3.2, as berth-1 has it), as a user would write it: who
 * runs goes on, then transfers start, then contexts begin, each list until one lacks pages.
 */
public final class NoEvictPolicy implements CapacityPolicy {
  private final int rangeEnd;

  public NoEvictPolicy(int rangeEnd) {
    this.rangeEnd = rangeEnd;
  }

  @Override
  public void select(SchedulingTable table, Selection selection) {
    int pools = table.shape().pools().size();
    long[] free = new long[pools];
    for (int pool = 0; pool < pools; pool++) {
      free[pool] = table.freePages(pool);
    }
    List<Integer> begun = new ArrayList<>();
    List<Integer> receiving = new ArrayList<>();
    List<Integer> fresh = new ArrayList<>();
    for (int place = 0; place < table.size(); place++) {
      int row = table.row(place);
      RequestState state = table.state(row);
      boolean inside = state.value() >= 10 && state.value() < rangeEnd;
      if (state == RequestState.GENERATION_INIT) {
        receiving.add(row);
      } else if (inside && state == RequestState.CONTEXT_INIT) {
        (table.cursor(row) > table.cachedTokens(row) ? begun : fresh).add(row);
      } else if (inside) {
        take(table, selection, row, free);
      }
    }
    begun.forEach(row -> take(table, selection, row, free));
    waiting(table, selection, receiving, free);
    waiting(table, selection, fresh, free);
  }

  private static void waiting(
      SchedulingTable table, Selection selection, List<Integer> rows, long[] free) {
    int shortOf = -1;
    for (int row : rows) {
      for (int pool = 0; pool < free.length && shortOf < 0; pool++) {
        int need = table.remainingPages(row, pool);
        shortOf = need > 0 && need > free[pool] ? pool : -1;
      }
      if (shortOf >= 0) {
        selection.deferForPages(row, shortOf);
      } else {
        take(table, selection, row, free);
      }
    }
  }

  private static void take(SchedulingTable table, Selection selection, int row, long[] free) {
    for (int pool = 0; pool < free.length; pool++) {
      free[pool] -= table.remainingPages(row, pool);
    }
    if (table.state(row) == RequestState.GENERATION_INIT) {
      selection.receive(row);
    } else {
      selection.fit(row);
    }
  }

  @Override
  public String toString() {
    return "no-evict copy";
  }
}
