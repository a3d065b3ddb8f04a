// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/** What padding does in its batch; the order is {@code berth_dummy_role}'s (spec 01 §7.1). */
public enum DummyRole {
  /** One token of a generation and its drafts. */
  GENERATION,
  /** A prompt of one token: in a fleet whose requests end with their first token. */
  CONTEXT
}
