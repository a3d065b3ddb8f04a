// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

/** What a worker does with a request. */
public enum Role {
  /** Prompt and generation. */
  AGGREGATED,
  /** Prompt only; the KV is sent away. */
  CONTEXT,
  /** Generation only; the KV is received. */
  GENERATION;

  /** Whether prompts are run here. */
  public boolean runsPrompts() {
    return this != GENERATION;
  }

  /** Whether tokens are generated here for a request's whole life. */
  public boolean generates() {
    return this != CONTEXT;
  }
}
