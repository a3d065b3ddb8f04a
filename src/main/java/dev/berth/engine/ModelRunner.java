// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

/**
 * Runs the forwards of one rank on one pipeline stage. The engine calls it on one thread; a batch
 * that was launched is collected once, in the order of the launches.
 *
 * <p>With overlap a batch is launched before the one before it is collected, so {@link #launch}
 * should start the work and return, and {@link #collect} wait for it.
 *
 * <p>What it throws from {@code launch} or {@code collect} is told to all ranks with the next
 * exchange: the requests of that batch fail, the others go on, and no rank waits for another. With
 * several stages it is enough that one of them throws.
 */
public interface ModelRunner extends AutoCloseable {
  /** Makes the runners of an engine. Those of one engine may share what they like. */
  @FunctionalInterface
  interface Factory {
    /** The runner of a rank and stage; called once for each, stage by stage. */
    ModelRunner runner(RankSetup setup);
  }

  /** A runner that computes nothing. */
  ModelRunner NONE =
      new ModelRunner() {
        @Override
        public void launch(BatchView batch) {}

        @Override
        public void collect(BatchView batch, BatchResults results) {}
      };

  /**
   * Starts the forward of a batch.
   *
   * @param batch valid until it is collected
   */
  void launch(BatchView batch);

  /**
   * Delivers the results of the oldest batch that was launched and not collected. A batch whose
   * launch threw isn't collected.
   *
   * @param results takes them, during this call
   */
  void collect(BatchView batch, BatchResults results);

  /**
   * Ends the runner. Nothing of it touches memory of the engine after this, batches that were
   * launched and never collected included.
   */
  @Override
  default void close() {}
}
