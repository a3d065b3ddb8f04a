// SPDX-License-Identifier: Apache-2.0
/** Requests, their states, the table that holds the live ones, and the queue of those that wait. */
package dev.berth.request;
