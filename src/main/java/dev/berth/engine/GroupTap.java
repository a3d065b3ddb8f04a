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

  /** What can fail of a batch as a whole. The order is that of the decision log. */
  enum Fault {
    /** Its forward. */
    LAUNCH,
    /** The way of its results. */
    COLLECT
  }

  /** What a reader does to a request. The order is that of the decision log. */
  enum Hold {
    /** It isn't scheduled. */
    HELD,
    /** It is again. */
    RESUMED
  }

  /** What becomes of a rank. The order is that of the decision log. */
  enum Placement {
    /** Takes new requests. */
    OPEN,
    /** Takes none. */
    CLOSED
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
  default void warmUp(FillWarmUp phase) {}

  /** An engine was told about a row. */
  default void changed(RankEngine engine, Change change, int row, long requestId) {}

  /** The device said that the sequence at a batch position ends with this token. */
  default void stopped(RankEngine engine, int position) {}

  /** The device said that the request at a batch position fails. */
  default void lost(RankEngine engine, int position) {}

  /**
   * The device could not launch a rank's batch or has lost its results; said once for all stages.
   *
   * @param kind what failed
   */
  default void faulted(int rank, Fault kind) {}

  /** A reader is too slow for a request, or not any more. */
  default void held(RankEngine engine, Hold change, int row, long requestId) {}

  /** Sequences of a request that had no row on their rank yet were taken back. */
  default void withdrawn(int rank, long id) {}

  /** From the next step on ranks take fewer requests, or more again. */
  default void limited(int admissionCap) {}

  /** From the next step on a rank takes no new requests, or takes them again. */
  default void placement(int rank, Placement change) {}

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
