// SPDX-License-Identifier: Apache-2.0
/** Which requests run in an iteration, with how many tokens: thin over the native core. */
package dev.berth.capacity;
