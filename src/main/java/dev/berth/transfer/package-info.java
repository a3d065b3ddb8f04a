// SPDX-License-Identifier: Apache-2.0
/**
 * Moving KV pages from one cache into another (spec 08 §11): what a transport can do, the leases
 * and signals that keep pages safe meanwhile, and the transport within one process.
 */
package dev.berth.transfer;
