// SPDX-License-Identifier: Apache-2.0
/** Seats and leases: who holds which row, by handles that go stale. Thin over the native core. */
package dev.berth.kv;
