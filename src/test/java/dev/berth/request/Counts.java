// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.List;

/** Active requests of each rank as a plain list. */
record Counts(List<Long> active) implements RankOccupancy {
  static Counts of(List<Long> active) {
    return new Counts(active);
  }

  static Counts of(long... active) {
    return new Counts(java.util.stream.LongStream.of(active).boxed().toList());
  }

  @Override
  public int ranks() {
    return active.size();
  }

  @Override
  public int activeRequests(int rank) {
    return Math.toIntExact(active.get(rank));
  }
}
