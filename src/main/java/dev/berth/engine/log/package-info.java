// SPDX-License-Identifier: Apache-2.0
/**
 * The decision log: everything that reached a group of engines, and everything that it decided,
 * written while it runs and run again bit for bit (DESIGN.md decision 7, docs/decision-log.md).
 */
package dev.berth.engine.log;
