// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.BitSet;
import java.util.Optional;

/**
 * Makes a failing world smaller: leaves out events, halves at first, single ones at last, as long
 * as the same invariant fails.
 */
final class Shrinker {
  private static final int MOST_RUNS = 1500;

  private final WorldPlan plan;
  private final Invariant invariant;
  private int runs;

  private Shrinker(WorldPlan plan, Invariant invariant) {
    this.plan = plan;
    this.invariant = invariant;
  }

  /** A smaller world in which the same invariant fails; at worst the same. */
  static WorldPlan shrink(WorldPlan plan, Invariant invariant) {
    return new Shrinker(plan, invariant).shrink();
  }

  private WorldPlan shrink() {
    BitSet kept = plan.eventNumbers();
    int chunk = Math.max(1, kept.cardinality() / 2);
    while (runs < MOST_RUNS) {
      boolean smaller = pass(kept, chunk);
      if (chunk == 1 && !smaller) {
        break;
      }
      chunk =
          smaller ? Math.min(chunk, Math.max(1, kept.cardinality() / 2)) : Math.max(1, chunk / 2);
    }
    return plan.only(kept);
  }

  /** Tries to do without each run of so many events. */
  private boolean pass(BitSet kept, int chunk) {
    boolean smaller = false;
    int from = kept.nextSetBit(0);
    while (from >= 0 && runs < MOST_RUNS) {
      var tried = (BitSet) kept.clone();
      int next = from;
      for (int i = 0; i < chunk && next >= 0; i++) {
        tried.clear(next);
        next = kept.nextSetBit(next + 1);
      }
      if (fails(tried)) {
        kept.clear();
        kept.or(plan.only(tried).eventNumbers());
        smaller = true;
      }
      from = next < 0 ? -1 : kept.nextSetBit(next);
    }
    return smaller;
  }

  private boolean fails(BitSet events) {
    runs++;
    Optional<Violation> violation = World.run(plan.only(events), History.NONE).violation();
    return violation.isPresent() && violation.get().invariant() == invariant;
  }
}
