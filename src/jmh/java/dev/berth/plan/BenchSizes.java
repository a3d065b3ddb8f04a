// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

/** Sizes for benchmarks, which no plan produced. */
public final class BenchSizes {
  private BenchSizes() {}

  /** That many seats. */
  public static Seats seats(int count) {
    return new Seats(count);
  }

  /** That many leases. */
  public static Leases leases(int count) {
    return new Leases(count);
  }
}
