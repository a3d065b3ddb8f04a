// SPDX-License-Identifier: Apache-2.0
/**
 * Replays serving loads on virtual time: scenarios and their arms, the cost model, what is measured
 * and what is checked. Plain records; files are read in {@code config}, printed in {@code cli}.
 */
package dev.berth.replay;
