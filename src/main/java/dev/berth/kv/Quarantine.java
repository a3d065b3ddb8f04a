// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/** When a released slot may be handed out again. */
public enum Quarantine {
  /** At once: nothing outside this process reads it. Fences are ignored. */
  OFF,
  /** When its fence has completed: a device may still read what the slot named. */
  UNTIL_FENCE
}
