// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

/** Why a request that is on a rank did not run in an iteration. The set is closed. */
public enum WaitReason {
  /** It ran, or there was nothing to run. */
  NONE,
  SEAT,
  LEASE,
  PAGES,
  /** The token budget of the batch. */
  TOKENS,
  /** The batch is full. */
  BATCH,
  /** Its KV is on the way. */
  TRANSFER,
  /** A gate holds the fleet. */
  GATE,
  /** Its micro-batch hasn't come back (pipeline). */
  IN_FLIGHT,
  /** Nothing is left to run but its teardown. */
  RETIRING,
  /** Device pages for its adapter. */
  ADAPTER,
  /** Another request is computing the prefix that it will share. */
  PREFIX,
  /** Its encoder hasn't run, or the encoder's output isn't ready. */
  ENCODER,
  /** Nobody reads its output fast enough. */
  READER;

  private static final WaitReason[] VALUES = values();

  /**
   * The reason with a native number.
   *
   * @throws IllegalArgumentException if there is none
   */
  public static WaitReason of(int value) {
    if (value < 0 || value >= VALUES.length) {
      throw new IllegalArgumentException("no wait reason has the value " + value);
    }
    return VALUES[value];
  }
}
