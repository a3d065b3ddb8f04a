// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

/** What the books of a world say of a request. */
enum Whereabouts {
  /** It hasn't been offered. */
  TO_COME,
  WAITING,
  /** On a rank. */
  LIVE,
  /** Over on every stage of its rank. */
  OVER,
  /** It could never run. */
  REFUSED,
  /** Its id was in use, or its deadline over. */
  TURNED_AWAY,
  /** Cancelled while it waited. */
  WITHDRAWN
}
