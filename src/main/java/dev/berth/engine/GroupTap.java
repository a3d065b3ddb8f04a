// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.request.Request;

/**
 * Hears of everything that reaches a {@link LockstepGroup} from outside, in its order, and of every
 * step: all that a run is a function of, and what it came to. A tap looks; it changes nothing and
 * throws nothing.
 */
public interface GroupTap {
  /** Hears nothing. */
  GroupTap NONE = new GroupTap() {};

  /** What a caller told an engine about a live request. The order is that of the decision log. */
  enum Change {
    /** Its KV is here. */
    ARRIVED,
    /** Its transfer failed. */
    FAILED,
    /** Nobody wants it any more. */
    CANCELLED,
    /** Its encoder's output is here. */
    ENCODED
  }

  /**
   * The group has nothing behind it and everything before it.
   *
   * @param group stays the same for all that follows
   */
  default void begin(LockstepGroup group) {}

  /** A request was offered. */
  default void offered(Request request, Outcome outcome) {}

  /** A waiting request was to be taken out again. */
  default void cancelled(long id, boolean waited) {}

  /** What follows warms up, or doesn't any more. */
  default void warmUp(WarmUp phase) {}

  /** An engine was told about a row. */
  default void changed(RankEngine engine, Change change, int row, long requestId) {}

  /** The device said that the sequence at a batch position ends with this token. */
  default void stopped(RankEngine engine, int position) {}

  /** A step begins. */
  default void stepping() {}

  /** The step is about to call the device. */
  default void calling() {}

  /**
   * The step is over.
   *
   * @param ran false if nothing lived and nothing waited
   */
  default void stepped(boolean ran) {}

  /** The step threw: the group is of no further use. */
  default void failed(RuntimeException cause) {}
}
