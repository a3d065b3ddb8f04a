// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/** A pool of another transport that pages can be fetched from. */
public record Peer(long number) {}
