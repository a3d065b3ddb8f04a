// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.kv.KvView;
import dev.berth.request.RequestTable;
import java.util.Optional;

/**
 * What a {@link ModelRunner} runs for.
 *
 * @param config of the worker
 * @param rank 0 .. ranks - 1
 * @param stage 0 .. stages - 1
 * @param positions most batch positions, the padding's included
 * @param slots most batches under way, and one that is being made
 * @param kv the rank's KV cache, if pages aren't only counted; read on the engine's thread
 * @param table the rank's requests; read on the engine's thread
 */
public record RankSetup(
    EngineConfig config,
    int rank,
    int stage,
    int positions,
    int slots,
    Optional<KvView> kv,
    RequestTable table) {
  /**
   * Rows of the runner's own, as many as the plan has use for.
   *
   * @param rowBytes bytes of a row, 1 or more
   * @throws BerthException CONFIGURATION for more than {@link SlotStore#MOST_BYTES}
   */
  public SlotStore store(SlotStore.Use use, long rowBytes) {
    return new SlotStore(this, use, rowBytes);
  }
}
