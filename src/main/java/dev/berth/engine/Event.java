// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.exchange.FrameBoard;

/** What a driver tells a {@link RankEngine}. Each answers the effect before it. */
public sealed interface Event {
  /**
   * Collective A is complete: the answer to {@link Effect.NeedGather}.
   *
   * @param board every rank's frame, verified
   */
  record Gathered(FrameBoard board) implements Event {}

  /**
   * Collective B is complete: the answer to {@link Effect.NeedVote}.
   *
   * @param board every rank's frame, verified
   */
  record Voted(FrameBoard board) implements Event {}

  /** The forward was handed to the device: the answer to {@link Effect.Launch}. */
  record Launched() implements Event {}

  /** The results of the due batch are in: the answer to {@link Effect.Collect}. */
  record Collected() implements Event {}

  /** Time passed or something arrived: the answer to {@link Effect.Idle}. */
  record Woken() implements Event {}

  /** The one Launched. */
  Event LAUNCHED = new Launched();

  /** The one Collected. */
  Event COLLECTED = new Collected();

  /** The one Woken. */
  Event WOKEN = new Woken();
}
