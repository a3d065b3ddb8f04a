// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import java.util.Arrays;

/**
 * A product and its native limit probe on the same work, as one ratio. They take turns in one
 * thread, some 5 to 25 ms each, and CPU time is counted, so that whatever else the machine does
 * hits both. A turn's ratio is taken to that of its neighbour; a round's is the median of its turns
 * and the result the median of the rounds.
 */
public final class PairedTurns {
  private static final int ROUNDS = 5;
  private static final int TURNS = 24;
  private static final int AGAIN = 2;

  /** -Dberth.bench.short=true: two turns and no measure, to see that it runs. */
  private static final boolean SHORT = Boolean.getBoolean("berth.bench.short");

  /** So that nothing can be left out. */
  @SuppressWarnings("UnusedVariable")
  private static volatile long sink;

  private PairedTurns() {}

  /** One turn; returns something that depends on the work. */
  public interface Turn {
    long run() throws Throwable;
  }

  /**
   * What came out.
   *
   * @param probe CPU ns an operation, median
   * @param ours the same of the product
   * @param ratio ours / probe
   * @param least round's ratio
   * @param most round's ratio
   */
  record Result(double probe, double ours, double ratio, double least, double most) {}

  /**
   * Measures, and prints a line. What is above its limit is measured up to twice more before it
   * counts.
   *
   * @param operations of one turn
   * @return whether the ratio is within the limit
   */
  public static boolean within(
      double limit, String name, double operations, int warmTurns, Turn probe, Turn ours)
      throws Throwable {
    for (int turn = 0; turn < (SHORT ? 2 : warmTurns); turn++) {
      sink += probe.run() + ours.run();
    }
    if (SHORT) {
      System.out.println(name + ": ran");
      return true;
    }
    Result result = measure(operations, probe, ours);
    String again = "";
    for (int i = 0; i < AGAIN && result.ratio > limit; i++) {
      again += " (before: %.2f)".formatted(result.ratio);
      result = measure(operations, probe, ours);
    }
    boolean within = result.ratio <= limit;
    System.out.printf(
        "%-34s probe %9.2f ns   ours %9.2f ns   ratio %.2f (rounds %.2f to %.2f)   limit %.2f: %s%s%n",
        name,
        result.probe,
        result.ours,
        result.ratio,
        result.least,
        result.most,
        limit,
        within ? "held" : "MISSED",
        again);
    return within;
  }

  private static Result measure(double operations, Turn probe, Turn ours) throws Throwable {
    double[] floors = new double[ROUNDS];
    double[] products = new double[ROUNDS];
    double[] ratios = new double[ROUNDS];
    double[] floor = new double[TURNS];
    double[] mine = new double[TURNS];
    double[] ratio = new double[TURNS];
    for (int round = 0; round < ROUNDS; round++) {
      for (int turn = 0; turn < TURNS; turn++) {
        long start = BenchLibrary.cpuNanos();
        sink += probe.run();
        long middle = BenchLibrary.cpuNanos();
        sink += ours.run();
        long end = BenchLibrary.cpuNanos();
        floor[turn] = (middle - start) / operations;
        mine[turn] = (end - middle) / operations;
        ratio[turn] = mine[turn] / floor[turn];
      }
      floors[round] = median(floor);
      products[round] = median(mine);
      ratios[round] = median(ratio);
    }
    double middle = median(ratios);
    return new Result(
        median(floors), median(products), middle, ratios[0], ratios[ratios.length - 1]);
  }

  /** Sorts. */
  private static double median(double[] values) {
    Arrays.sort(values);
    return values[values.length / 2];
  }
}
