// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import java.util.OptionalInt;

/** Rows of the pools that speculative decoding keeps beside the seats (spec 01 §12.6). */
public enum SpeculativePool {
  /** One row a seat and a dummy row. */
  MTP,
  /** One row a seat, no dummy. */
  SUFFIX_AUTOMATON,
  /** At least a row for every token of the longest sequence, and a dummy row. */
  EAGLE3,
  /** One slot a seat and a dummy slot. */
  TREE;

  /**
   * Rows to allocate, dummies included.
   *
   * @param maxSeqLen longest sequence in tokens; only Eagle3 asks for it
   */
  public int rows(Seats seats, OptionalInt maxSeqLen) {
    return switch (this) {
      case MTP, TREE -> Math.addExact(seats.count(), 1);
      case SUFFIX_AUTOMATON -> seats.count();
      case EAGLE3 -> Math.addExact(Math.max(seats.count(), maxSeqLen.orElse(0)), 1);
    };
  }
}
