// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

/** What is made of prompts that begin alike (spec 02 §5). */
public enum PrefixSharing {
  /** Nothing: no delay, no credit. */
  OFF,
  /** A request whose next new block is just being computed waits for it; reusable pages are credited. */
  ON
}
