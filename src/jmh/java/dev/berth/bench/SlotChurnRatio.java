// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import dev.berth.bench.SlotChurnBenchmark.Ids;

/**
 * Workload W1 as a ratio: seats in batches of 64 through FFM against the native probe. Fails above
 * 1.3.
 */
public final class SlotChurnRatio {
  private static final double LIMIT = 1.3;
  private static final int WARM_TURNS = 150;

  private SlotChurnRatio() {}

  /** Runs it; exit status 1 if a ratio is above the limit. */
  public static void main(String[] args) throws Throwable {
    boolean reached = true;
    for (int capacity : new int[] {4096, 65536}) {
      for (Ids ids : Ids.values()) {
        reached &= compare(capacity, ids);
      }
    }
    System.exit(reached ? 0 : 1);
  }

  private static boolean compare(int capacity, Ids ids) throws Throwable {
    var benchmark = new SlotChurnBenchmark();
    benchmark.capacity = capacity;
    benchmark.ids = ids;
    benchmark.positions();
    var probe = new SlotChurnBenchmark.Probe();
    probe.create(benchmark);
    var pool = new SlotChurnBenchmark.Pool();
    pool.create(benchmark);
    boolean within =
        PairedTurns.within(
            LIMIT,
            "W1 %d slots, ids %s".formatted(capacity, ids),
            SlotChurnBenchmark.OPERATIONS,
            WARM_TURNS,
            () -> benchmark.probe(probe),
            () -> benchmark.batchesOf64(pool));
    pool.count();
    pool.destroy();
    probe.destroy();
    return within;
  }
}
