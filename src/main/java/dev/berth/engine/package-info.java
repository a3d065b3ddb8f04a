// SPDX-License-Identifier: Apache-2.0
/**
 * One rank's iteration as events and effects, and the lockstep driver that runs many ranks in one
 * thread.
 */
package dev.berth.engine;
