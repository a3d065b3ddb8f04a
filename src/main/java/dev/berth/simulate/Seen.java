// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.Locale;

/** Where a request can be found in a world. */
public enum Seen {
  /** In the waiting queue. */
  WAITING,
  /** On a rank, nothing of its prompt computed. */
  CONTEXT,
  /** On a rank, a part of its prompt launched. */
  CHUNKED_CONTEXT,
  /** On a rank, its KV not asked for. */
  TRANSFER_DUE,
  /** Its KV is on the way. */
  IN_TRANSFER,
  /** Its KV is here, nothing of it launched. */
  TRANSFER_COMPLETE,
  /** It generates. */
  GENERATION,
  /** Its last forward was launched. */
  RETIRING,
  /** It gave its pages back and hasn't begun again. */
  GAVE_WAY,
  /** It is over, but a launched batch holds it. */
  ENDING;

  int bit() {
    return 1 << ordinal();
  }

  /** The name that reports use. */
  public String word() {
    return name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }
}
