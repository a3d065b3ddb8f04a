// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

/** Ends a world at the place where an invariant didn't hold. */
final class BrokenInvariant extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final Invariant invariant;

  BrokenInvariant(Invariant invariant, String what) {
    super(what, null, false, false);
    this.invariant = invariant;
  }

  Invariant invariant() {
    return invariant;
  }

  String what() {
    return String.valueOf(getMessage());
  }
}
