// SPDX-License-Identifier: Apache-2.0
/** What ranks tell each other: the frame of a collective and the in-process exchange. */
package dev.berth.exchange;
