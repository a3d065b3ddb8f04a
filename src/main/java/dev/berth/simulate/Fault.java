// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.Locale;

/** What happens to a world besides work. */
public enum Fault {
  /** Nobody wants a request any more, whatever its state. */
  CANCEL,
  /** A sequence ends before its limit. */
  EARLY_END,
  /** A KV transfer takes long. */
  TRANSFER_LATE,
  /** A KV transfer fails. */
  TRANSFER_FAILS,
  /** A KV transfer has no end; its time-out fails it. */
  TRANSFER_TIMES_OUT,
  /** The end of a transfer is told again, or after its time-out. */
  SIGNAL_REPEATED,
  /** A rank's forward fails: the requests of its batch are given up. */
  RUNNER_ERROR,
  /** A rank takes many times as long. */
  SLOW_RANK,
  /** A rank stops for good. */
  DEAD_RANK,
  /** A rank's frames arrive late at some of the others. */
  MESSAGES_LATE,
  /** A rank's frames are lost and sent again. */
  MESSAGES_LOST,
  /** A rank's clock jumps forward or backward. */
  CLOCK_JUMPS,
  /** A request is offered again while it waits or lives. */
  OFFERED_TWICE,
  /** A request comes with the id of one that is over. */
  ID_REUSED,
  /** A request comes that can never fit. */
  NEVER_FITS,
  /** A request comes after its deadline. */
  EXPIRED;

  /** The name that reports use. */
  public String word() {
    return name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }
}
