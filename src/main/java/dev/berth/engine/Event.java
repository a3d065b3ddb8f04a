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

  /**
   * The forward could not be started, on any stage of the rank: an answer to {@link Effect.Launch}.
   * What the batch ran fails; the next gather tells the others.
   */
  record LaunchFailed() implements Event {}

  /**
   * The results of the due batch are lost, on all stages of the rank: an answer to {@link
   * Effect.Collect}. What the batch ran fails; the next gather tells the others.
   */
  record CollectFailed() implements Event {}

  /** The results of the due batch are in: the answer to {@link Effect.Collect}. */
  record Collected() implements Event {}

  /** Time passed or something arrived: the answer to {@link Effect.Idle}. */
  record Woken() implements Event {}

  /** The one Launched. */
  Event LAUNCHED = new Launched();

  /** The one Collected. */
  Event COLLECTED = new Collected();

  /** The one LaunchFailed. */
  Event LAUNCH_FAILED = new LaunchFailed();

  /** The one CollectFailed. */
  Event COLLECT_FAILED = new CollectFailed();

  /** The one Woken. */
  Event WOKEN = new Woken();
}
