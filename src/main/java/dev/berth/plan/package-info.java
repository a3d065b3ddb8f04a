// SPDX-License-Identifier: Apache-2.0
/**
 * Sizes: seats, leases, batch positions, KV pages, admission. The only place where any of them is
 * computed (DESIGN.md decisions 3 and 4). Pure arithmetic, no state.
 */
package dev.berth.plan;
