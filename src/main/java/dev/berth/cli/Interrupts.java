// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Lets a run that is interrupted (Ctrl-C, SIGTERM) print what it knows: the virtual machine waits
 * until this is closed, a few seconds at most, and then goes down with the signal's status.
 */
final class Interrupts implements AutoCloseable {
  private static final long PATIENCE_SECONDS = 5;

  private final AtomicBoolean requested = new AtomicBoolean();
  private final CountDownLatch reported = new CountDownLatch(1);
  private final Thread hook = new Thread(this::onShutdown, "berth-interrupt");

  private Interrupts() {}

  /** Listens from now on. */
  static Interrupts listen() {
    var interrupts = new Interrupts();
    Runtime.getRuntime().addShutdownHook(interrupts.hook);
    return interrupts;
  }

  /** True once the process was told to stop. */
  boolean requested() {
    return requested.get();
  }

  void onShutdown() {
    requested.set(true);
    try {
      reported.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Everything is printed. */
  @Override
  public void close() {
    reported.countDown();
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException e) {
      // the machine is going down already; the hook has just been let go
    }
  }
}
