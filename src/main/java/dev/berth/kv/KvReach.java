// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/** How far back a layer looks, hence what is kept for it (spec 03 §10). */
public sealed interface KvReach {
  /** Every token: every block is kept. */
  record Full() implements KvReach {}

  /**
   * The last tokens only.
   *
   * @param tokens of the window, the present one included, 1 or more
   * @param sinks tokens at the front that stay for ever, 0 or more
   */
  record Window(int tokens, int sinks) implements KvReach {}

  /** One recurrent state a sequence, updated in place. */
  record State() implements KvReach {}

  /** Every token. */
  KvReach FULL = new Full();

  /** One recurrent state. */
  KvReach STATE = new State();

  /** The last tokens. */
  static KvReach window(int tokens) {
    return new Window(tokens, 0);
  }
}
