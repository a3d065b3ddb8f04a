// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/**
 * Whether requests are served or only warm the worker up: then a fill gate doesn't hold, and
 * nothing that is fetched counts for it.
 */
public enum FillWarmUp {
  ON,
  OFF
}
