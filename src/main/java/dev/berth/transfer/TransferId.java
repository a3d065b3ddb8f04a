// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/** A fetch. Never used again for another one. */
public record TransferId(long number) {}
