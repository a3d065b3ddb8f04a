// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.function.Consumer;

/**
 * The runners of all ranks and stages of a group as its device. What one of them throws becomes a
 * broken batch of its rank; nothing that it throws gets past here but what no program can go on
 * from.
 */
public final class ModelRunners implements LockstepGroup.Device, AutoCloseable {
  private final EngineConfig config;
  private final ModelRunner[] runners;
  private final Consumer<BrokenBatchException> listener;

  /** Runners for a group, from a factory. */
  public ModelRunners(LockstepGroup group, ModelRunner.Factory factory) {
    this(group, factory, broken -> {});
  }

  /**
   * Runners for a group, from a factory.
   *
   * @param listener hears of every batch that breaks, on the group's thread
   */
  public ModelRunners(
      LockstepGroup group, ModelRunner.Factory factory, Consumer<BrokenBatchException> listener) {
    this.config = group.config();
    this.listener = listener;
    this.runners = new ModelRunner[config.ranks() * config.stages()];
    int made = 0;
    try {
      for (; made < runners.length; made++) {
        RankEngine engine = group.engine(made % config.ranks(), made / config.ranks());
        runners[made] = factory.runner(engine.setup());
      }
    } finally {
      for (int i = 0; made < runners.length && i < made; i++) {
        runners[i].close();
      }
    }
  }

  private ModelRunner of(RankEngine engine) {
    return runners[engine.stage() * config.ranks() + engine.rank()];
  }

  @Override
  public void launch(RankEngine engine, Batch batch) {
    BatchView view = engine.view(batch.slot());
    try {
      of(engine).launch(view);
    } catch (OutOfMemoryError | InternalError e) {
      throw e;
    } catch (Throwable e) {
      throw broken(engine, "couldn't be launched", e);
    }
  }

  @Override
  public void collect(RankEngine engine, Batch batch) {
    BatchView view = engine.view(batch.slot());
    try {
      of(engine).collect(view, view.results());
    } catch (OutOfMemoryError | InternalError e) {
      throw e;
    } catch (Throwable e) {
      throw broken(engine, "was lost", e);
    }
  }

  private BrokenBatchException broken(RankEngine engine, String what, Throwable cause) {
    var broken =
        new BrokenBatchException(
            "a batch of rank %d, stage %d %s: %s"
                .formatted(engine.rank(), engine.stage(), what, cause),
            cause);
    listener.accept(broken);
    return broken;
  }

  /** Ends the runners, all of them whatever one throws; the group is closed after them. */
  @Override
  public void close() {
    for (ModelRunner runner : runners) {
      try {
        runner.close();
      } catch (RuntimeException e) {
        listener.accept(new BrokenBatchException("a runner couldn't be ended: " + e, e));
      }
    }
  }
}
