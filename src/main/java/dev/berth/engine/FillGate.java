// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/**
 * What holds a generation-only worker back until a benchmark's requests are on it (spec 01 §8).
 *
 * @param kind which question is asked
 * @param target requests that must have been fetched; 0 without a gate
 */
public record FillGate(Kind kind, long target) {
  /** The question. */
  public enum Kind {
    /** No gate. */
    NONE,
    /**
     * Are that many generation requests resident? Routing and early ends can make it unreachable.
     */
    COUNT,
    /**
     * Fetched that many, and none before, in or after a failed transfer, none pending, on any rank?
     */
    STATE
  }

  /** No gate. */
  public static final FillGate NONE = new FillGate(Kind.NONE, 0);

  /** Pause of a closed gate while no rank makes progress, in µs (spec 01 §8.2). */
  public static final long PAUSE_MICROS = 100_000;

  public FillGate {
    if (kind == Kind.NONE ? target != 0 : target < 1) {
      throw new IllegalArgumentException("fill target " + target + " with gate " + kind);
    }
  }

  /**
   * Is a rank's share of a fill here (spec 01 §8.1 B)?
   *
   * @param init requests whose KV hasn't been asked for
   * @param transfer requests whose KV is on the way
   * @param error requests whose transfer failed and that are still there
   */
  public static boolean settled(int init, int transfer, int error) {
    return init == 0 && transfer == 0 && error == 0;
  }

  /**
   * Does the gate open?
   *
   * @param fetched requests popped from the queue so far
   * @param allSettled {@link #settled} on every rank
   * @param resident generation requests on all ranks whose KV is here
   */
  public boolean opens(long fetched, boolean allSettled, long resident) {
    return switch (kind) {
      case NONE -> true;
      case COUNT -> resident >= target;
      case STATE -> fetched >= target && allSettled;
    };
  }

  /** True if there is a gate. */
  public boolean active() {
    return kind != Kind.NONE;
  }
}
