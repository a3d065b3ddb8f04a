// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/**
 * Where the conversation router places what has no home, among the ranks below E (spec 01 §4.4).
 */
public enum NewConversation {
  /** The next rank from a cursor, which passes every rank that it inspects. */
  ROUND_ROBIN,
  /** The rank with the fewest requests, the lowest of several. */
  LEAST_QUEUED,
  /** The rank with the least load, then the fewest requests, then the first from a cursor on. */
  LEAST_TOKENS
}
