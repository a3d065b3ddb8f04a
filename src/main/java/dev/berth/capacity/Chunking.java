// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import java.util.Arrays;
import java.util.Optional;

/** How contexts share the token budget of a batch (spec 02 §6). The order is {@code berth_chunking}'s. */
public enum Chunking {
  /** A context runs whole or not at all. */
  NONE,
  /** In order of the list, each as much as is left. */
  FIRST_COME_FIRST_SERVED,
  /** A unit each, round after round. */
  EQUAL_PROGRESS,
  /** Up to the next snapshot point, even where everything fits. */
  FORCE_CHUNK;

  /** The chunking of that name, as configurations spell it. */
  public static Optional<Chunking> byName(String name) {
    return Arrays.stream(values()).filter(value -> value.name().equals(name)).findFirst();
  }
}
