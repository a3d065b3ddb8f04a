// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/** How a request left its rank. */
public enum EndKind {
  FINISHED,
  CANCELLED,
  FAILED;

  private static final EndKind[] VALUES = values();

  static EndKind of(int nativeKind) {
    return VALUES[nativeKind - 1];
  }
}
