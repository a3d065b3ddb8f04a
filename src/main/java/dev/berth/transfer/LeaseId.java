// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

/** Pages that peers may take. Never used again for others. */
public record LeaseId(long number) {}
