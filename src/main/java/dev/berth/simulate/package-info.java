// SPDX-License-Identifier: Apache-2.0
/**
 * Deterministic simulation: seeded worlds that try to make a fleet of engines hang, leak or
 * disagree, and books of their own that notice.
 */
package dev.berth.simulate;
