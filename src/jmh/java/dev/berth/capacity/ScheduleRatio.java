// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.bench.PairedTurns;

/**
 * Capacity and batch of 4,096 live generations as a ratio to one native pass over the same rows,
 * after both chose alike; 1 % of them are replaced before every turn of either. Fails above 1.5.
 */
public final class ScheduleRatio {
  private static final double LIMIT = 1.5;
  private static final int WARM_TURNS = 120;
  private static final int CALLS = 512;

  private ScheduleRatio() {}

  /** Runs it; exit status 1 if a ratio is above the limit. */
  public static void main(String[] args) throws Throwable {
    boolean reached = true;
    for (var rule :
        new CapacityRule[] {CapacityRule.GUARANTEED_NO_EVICT, CapacityRule.MAX_UTILIZATION}) {
      reached &= compare(rule);
    }
    System.exit(reached ? 0 : 1);
  }

  private static boolean compare(CapacityRule rule) throws Throwable {
    var benchmark = new ScheduleBenchmark();
    benchmark.requests = 4096;
    benchmark.contexts = 0;
    benchmark.rule = rule;
    benchmark.fill();
    var turnover = new ScheduleBenchmark.Turnover();
    boolean within =
        PairedTurns.within(
            LIMIT,
            "4096 generations, " + rule,
            CALLS,
            WARM_TURNS,
            () -> {
              turnover.turn(benchmark);
              long sum = 0;
              for (int i = 0; i < CALLS; i++) {
                sum += benchmark.probe(turnover);
              }
              return sum;
            },
            () -> {
              turnover.turn(benchmark);
              long sum = 0;
              for (int i = 0; i < CALLS; i++) {
                sum += benchmark.berth(turnover).tokens();
              }
              return sum;
            });
    benchmark.close();
    return within;
  }
}
