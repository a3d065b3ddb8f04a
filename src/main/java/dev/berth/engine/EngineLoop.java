// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.Objects;
import java.util.concurrent.ThreadFactory;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** A thread that drives an {@link Engine} with models. It decides nothing. */
final class EngineLoop implements Runnable {
  /** The JVM's clock, µs. */
  static final LongSupplier CLOCK = () -> System.nanoTime() / 1000;

  /** Daemon threads. */
  static final ThreadFactory THREADS =
      task -> Thread.ofPlatform().daemon().name("berth-engine").unstarted(task);

  private final Engine engine;
  private final ModelRunners models;
  private final LongSupplier clock;
  private volatile @Nullable Thread thread;

  EngineLoop(Engine engine, ModelRunners models, LongSupplier clock) {
    this.engine = engine;
    this.models = models;
    this.clock = clock;
  }

  void start(ThreadFactory threads) {
    Thread made = Objects.requireNonNull(threads.newThread(this));
    thread = made;
    made.start();
  }

  @Override
  public void run() {
    try {
      while (!engine.over()) {
        StepPlan plan = engine.begin(clock.getAsLong());
        if (!plan.idle()) {
          engine.finish(models);
        }
        if (Thread.interrupted()) {
          return; // whoever interrupts it wants it to end
        }
        if (!engine.over()) {
          engine.awaitWork();
        }
      }
    } catch (Throwable e) {
      engine.fail(e);
    } finally {
      engine.release();
    }
  }

  /** Ends the models; whatever they throw, each is asked to. */
  void closeRunners() {
    models.close();
  }

  /**
   * Waits for the end of the thread; at once on the thread itself.
   *
   * @return false if the waiting thread was interrupted; it still is
   */
  boolean join() {
    Thread loop = thread;
    if (loop == null || loop == Thread.currentThread()) {
      return true;
    }
    try {
      loop.join();
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }
}
