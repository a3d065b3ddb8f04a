// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/** Where pages lie. */
public enum MemoryKind {
  HOST,
  DEVICE
}
