// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/**
 * What one resident request adds to its rank's token load. Only prompt tokens count: the load
 * doesn't grow while a request generates. Source: spec 01 §2.1.
 */
public enum TokenLoad {
  /** The original prompt length: Default and Conversation routers. */
  PROMPT,
  /** The prompt that isn't cached yet, never negative: KV-aware router. */
  UNCACHED;

  /**
   * Load of one request in tokens.
   *
   * @param inputTokens original prompt length; under Helix context parallelism the total input
   *     length over all its ranks
   * @param cachedTokens tokens whose KV pages were reused, 0 or more
   */
  public long tokens(int inputTokens, int cachedTokens) {
    return switch (this) {
      case PROMPT -> inputTokens;
      case UNCACHED -> Math.max((long) inputTokens - cachedTokens, 0);
    };
  }
}
