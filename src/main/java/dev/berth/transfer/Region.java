// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/** A pool that a transport may read and write, valid until it is deregistered. */
public record Region(long number) {}
