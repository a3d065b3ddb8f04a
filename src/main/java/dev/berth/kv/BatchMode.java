// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/** What a batch does when one of its items fails. The order is that of {@code berth_batch_mode}. */
public enum BatchMode {
  /**
   * The first item that fails undoes those before it: state is as if the call had not been made.
   */
  ALL_OR_NOTHING,
  /** Every item stands for itself. */
  EACH
}
