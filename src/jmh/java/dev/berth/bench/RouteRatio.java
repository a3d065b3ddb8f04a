// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

/**
 * Workload W4 as a ratio: one call of the Default router for 4,096 requests against the native
 * probe, after both placed every input alike. Fails above 1.4 at 512 ranks; the smaller fleets are
 * held to the same.
 */
public final class RouteRatio {
  private static final double LIMIT = 1.4;
  private static final int WARM_TURNS = 120;
  private static final int CALLS = 64;

  private RouteRatio() {}

  /** Runs it; exit status 1 if a ratio is above the limit. */
  public static void main(String[] args) throws Throwable {
    boolean reached = true;
    for (int ranks : new int[] {8, 64, 512}) {
      reached &= compare(ranks);
    }
    System.exit(reached ? 0 : 1);
  }

  private static boolean compare(int ranks) throws Throwable {
    var benchmark = new RouteBenchmark();
    benchmark.ranks = ranks;
    benchmark.prepare();
    boolean within =
        PairedTurns.within(
            LIMIT,
            "W4 4096 requests, %d ranks".formatted(ranks),
            CALLS,
            WARM_TURNS,
            () -> {
              long sum = 0;
              for (int i = 0; i < CALLS; i++) {
                sum += benchmark.probe();
              }
              return sum;
            },
            () -> {
              long sum = 0;
              for (int i = 0; i < CALLS; i++) {
                sum += benchmark.berth().expectedActive();
              }
              return sum;
            });
    benchmark.free();
    return within;
  }
}
