// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EngineConfig;
import dev.berth.engine.WorkerRole;

/**
 * Servers of one kind that share the requests.
 *
 * @param name what reports call it
 * @param engine what runs on each of them
 * @param servers how many, 1 or more
 * @param cost time of a forward
 * @param transfer time of a KV transfer; of no effect unless KV is received
 */
public record ServerStage(
    String name, EngineConfig engine, int servers, CostModel cost, TransferModel transfer) {
  public ServerStage {
    if (servers < 1) {
      throw new IllegalArgumentException("a stage needs a server, got " + servers);
    }
    FleetRun.requireRoom(engine, servers);
  }

  /**
   * Longest sequence that a request makes here, tokens: a context worker makes one output token
   * only.
   */
  long sequenceTokens(int promptTokens, int outputTokens) {
    return promptTokens + (long) (engine.role() == WorkerRole.CONTEXT ? 1 : outputTokens);
  }
}
