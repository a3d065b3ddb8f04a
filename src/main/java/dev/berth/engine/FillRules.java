// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.plan.PolicySet;
import java.util.Locale;

/**
 * How a benchmark's fill goes on while its {@link FillGate} is closed (spec 01 §8).
 *
 * @param ramp how many requests an iteration may admit
 * @param failFast when requests that can't get KV fail the fleet
 * @param stallMicros longest time without any progress, in µs of the pauses that the engines ask
 *     for, so that it is the same on every rank and in every replay; 0 or less: no bound
 */
public record FillRules(Ramp ramp, FailFast failFast, long stallMicros) {
  /** Most requests of an iteration while the gate is closed (spec 01 §8.4). */
  public enum Ramp {
    /** As many as ranks, then twice as many each time. */
    DOUBLING,
    /**
     * As many as ranks each time: what #13347 had, given up for the first at a cost of 7 to 13 %.
     */
    CONSTANT
  }

  /**
   * When a rank's requests wait for their KV to be asked for, none fits, and nothing on the rank
   * will make room: does the fleet fail? Who waits for a transfer that is held back isn't meant.
   */
  public enum FailFast {
    /** Never. A closed gate is ended by its stall bound. */
    OFF,
    /** Always but during a fill that isn't a warm-up (#13347). */
    SUPPRESS_DURING_FILL,
    /** Only during a fill that isn't a warm-up, once all were fetched (spec 01 §8.3). */
    FILL_ONLY_VOTE
  }

  /** Ten minutes (spec 01 §5). */
  public static final long STALL_MICROS = 600_000_000;

  /** What a set of policies has. */
  public static FillRules of(PolicySet policies) {
    return new FillRules(
        Ramp.DOUBLING,
        switch (policies) {
          case TRTLLM_2026_09 -> FailFast.FILL_ONLY_VOTE;
          case BERTH_1 -> FailFast.OFF;
        },
        STALL_MICROS);
  }

  /**
   * Does the fleet fail for want of KV? A function of what every rank gathered, so all of them do
   * or none.
   *
   * @param held a fill goes on and it isn't a warm-up
   * @param allFetched as many were fetched as the gate waits for
   * @param anyStuck whether some rank is stuck
   */
  public boolean fails(boolean held, boolean allFetched, boolean anyStuck) {
    return switch (failFast) {
      case OFF -> false;
      case SUPPRESS_DURING_FILL -> anyStuck && !held;
      case FILL_ONLY_VOTE -> anyStuck && held && allFetched;
    };
  }

  /**
   * Is a closed gate stalled?
   *
   * @param pauses that all ranks made since the last progress
   */
  public boolean stalls(long pauses) {
    return stallMicros > 0 && pauses >= Math.ceilDiv(stallMicros, FillGate.PAUSE_MICROS);
  }

  /** The same with another ramp. */
  public FillRules with(Ramp other) {
    return new FillRules(other, failFast, stallMicros);
  }

  /** The same with another mode. */
  public FillRules with(FailFast other) {
    return new FillRules(ramp, other, stallMicros);
  }

  /** The same with another bound in µs. */
  public FillRules withStall(long micros) {
    return new FillRules(ramp, failFast, micros);
  }

  /** In a few words. */
  public String describe() {
    return "%s ramp, fail-fast %s, stall bound %d ms"
        .formatted(word(ramp), word(failFast), stallMicros / 1000);
  }

  private static String word(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT).replace('_', '-');
  }

  BerthException shortOfKv(String who) {
    return new BerthException(
        Code.STALLED, "requests wait for KV that can't be there, nothing will make room: " + who);
  }

  BerthException stalled(String who) {
    return new BerthException(
        Code.STALLED, "no KV arrived for %d ms: %s".formatted(stallMicros / 1000, who));
  }
}
