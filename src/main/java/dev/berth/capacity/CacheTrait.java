// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

/** What a cache of the model can do. */
public enum CacheTrait {
  /** Blocks of the self cache are found again by later requests. */
  SELF_REUSE,
  /** Blocks of the cross cache are. */
  CROSS_REUSE,
  /** Layers of the self cache attend to windows of different size; prefixes aren't shared then. */
  SELF_VARIABLE_WINDOW,
  /** Layers of the cross cache do. */
  CROSS_VARIABLE_WINDOW
}
