// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/** What a {@link RankEngine} wants done next. The objects belong to the engine and are reused. */
public sealed interface Effect {
  /**
   * Exchange this rank's frame with all others (collective A), then {@link Event.Gathered}.
   *
   * @param frame header and payload, the engine's own memory
   */
  record NeedGather(long[] frame) implements Effect {}

  /**
   * Exchange this rank's frame with all others (collective B), then {@link Event.Voted}.
   *
   * @param frame header and payload, the engine's own memory
   */
  record NeedVote(long[] frame) implements Effect {}

  /**
   * Run the forward of a batch, then {@link Event.Launched}.
   *
   * @param batch valid until the event after {@link Collect} for it
   */
  record Launch(Batch batch) implements Effect {}

  /**
   * Deliver the results of a batch launched before, then {@link Event.Collected}.
   *
   * @param batch the batch; {@link Batch#stop} says which sequences ended
   */
  record Collect(Batch batch) implements Effect {}

  /** Nothing to do before something arrives, or before {@code pauseMicros} have passed. */
  record Idle(long pauseMicros) implements Effect {}

  /** Until something arrives. */
  Effect IDLE = new Idle(Long.MAX_VALUE);

  /** While a closed gate sees no progress. */
  Effect PAUSE = new Idle(FillGate.PAUSE_MICROS);
}
