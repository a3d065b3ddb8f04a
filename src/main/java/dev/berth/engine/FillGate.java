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

  /** True if there is a gate. */
  public boolean active() {
    return kind != Kind.NONE;
  }
}
