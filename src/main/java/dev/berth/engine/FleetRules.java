// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/**
 * What a fleet decides from gathered numbers alone: the same numbers on every rank, hence the same
 * decision. Pure functions, so that whoever explores what a fleet can do asks the engine's own
 * rules.
 */
public final class FleetRules {
  private FleetRules() {}

  /**
   * May the fleet block until something arrives? Decided from live totals: a rank with nothing but
   * retirees must not stop, or their results are never delivered (spec 01 §3.6).
   *
   * @param live requests that live on any rank, retirees among them
   * @param waiting requests that wait for admission
   */
  public static boolean idle(long live, long waiting) {
    return live == 0 && waiting == 0;
  }

  /**
   * Requests that an iteration may admit (spec 01 §3.2); may be negative.
   *
   * @param fleetCapacity most requests on all ranks
   * @param routable requests that are charged
   */
  public static long budget(long fleetCapacity, long routable) {
    return fleetCapacity - routable;
  }

  /**
   * Most requests that an iteration admits while a gate holds, however many there were to fetch
   * (spec 01 §8.4).
   *
   * @param last what it gave in the iteration before, 0 in the first
   */
  public static long ramp(FillRules.Ramp ramp, long last, int ranks, long fleetCapacity) {
    return switch (ramp) {
      case DOUBLING -> last == 0 ? ranks : Math.min(2 * last, fleetCapacity);
      case CONSTANT -> ranks;
    };
  }

  /**
   * What the next dummy does: contexts win, and where neither kind was routed it stays (spec 01
   * §7.1).
   *
   * @param before what it did
   * @param contextOnly requests routed to any rank in this iteration that end with their first
   *     token
   * @param generationOnly of those whose KV comes from elsewhere
   */
  public static DummyRole dummyRole(DummyRole before, long contextOnly, long generationOnly) {
    if (contextOnly > 0) {
      return DummyRole.CONTEXT;
    }
    return generationOnly > 0 ? DummyRole.GENERATION : before;
  }

  /**
   * Does a rank vote for the forward? One that has no batch vetoes it everywhere (spec 01 §7).
   *
   * @param batch batch positions in use, the dummy's included
   */
  public static boolean votesToQueue(long batch) {
    return batch != 0;
  }

  /**
   * Does a rank pause before it asks again? Only a closed gate that saw no progress lets it (spec
   * 01 §8.2).
   *
   * @param held the gate held this iteration's forward
   * @param progress KV arrived on any rank since the gather before
   * @param admitted requests that this iteration admitted
   */
  public static boolean pauses(boolean held, boolean progress, long admitted) {
    return held && !progress && admitted == 0;
  }
}
