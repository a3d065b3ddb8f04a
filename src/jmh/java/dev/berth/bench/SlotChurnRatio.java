// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import dev.berth.bench.SlotChurnBenchmark.Ids;
import java.util.Arrays;

/**
 * Workload W1 as one ratio: probe and product take turns in one thread, 5 to 25 ms each, so that
 * whatever else the machine does hits both. Prints ns of CPU time an operation, best and median,
 * and fails if the product takes more than 1.3 times the probe, by the best turns.
 */
public final class SlotChurnRatio {
  private static final double GOAL = 1.3;
  private static final int WARM_TURNS = 150;
  private static final int TURNS = 120;

  private SlotChurnRatio() {}

  /** Runs it. */
  public static void main(String[] args) throws Throwable {
    boolean reached = true;
    System.out.println(
        "W1, ns/op         probe best/median   batches of 64 through FFM   ratio best/median");
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
    double[] floor = new double[TURNS];
    double[] ours = new double[TURNS];
    long sum = 0;
    for (int turn = -WARM_TURNS; turn < TURNS; turn++) {
      long start = BenchLibrary.cpuNanos();
      sum += benchmark.probe(probe);
      long middle = BenchLibrary.cpuNanos();
      sum += benchmark.batchesOf64(pool);
      long end = BenchLibrary.cpuNanos();
      if (turn >= 0) {
        floor[turn] = (middle - start) / (double) SlotChurnBenchmark.OPERATIONS;
        ours[turn] = (end - middle) / (double) SlotChurnBenchmark.OPERATIONS;
      }
    }
    pool.count();
    pool.destroy();
    probe.destroy();
    Arrays.sort(floor);
    Arrays.sort(ours);
    System.out.printf(
        "%6d %-10s  %8.2f /%6.2f  %18.2f /%6.2f  %17.2f /%5.2f%s%n",
        capacity,
        ids,
        floor[0],
        floor[TURNS / 2],
        ours[0],
        ours[TURNS / 2],
        ours[0] / floor[0],
        ours[TURNS / 2] / floor[TURNS / 2],
        sum == 42 ? " " : "");
    return ours[0] / floor[0] <= GOAL;
  }
}
