// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

/** Where a page lies; each is larger and slower than the one before. The order is the ABI's. */
public enum KvLevel {
  /** What attention reads. */
  DEVICE,
  /** Host memory. */
  HOST,
  /** A file ({@link KvDisk}): what comes from it comes later. */
  DISK
}
