// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * Heap bytes that the current thread allocates. By method handle: the module itself doesn't read
 * jdk.management.
 */
public final class AllocatedBytes {
  private static final MethodHandle COUNTER = counter();

  private AllocatedBytes() {}

  /**
   * What a block allocates in every run, the measurement's own share taken off: the least of a few
   * runs, since any of them may link a call site.
   */
  public static long by(Runnable block) {
    return least(block) - least(() -> {});
  }

  private static long least(Runnable block) {
    long least = Long.MAX_VALUE;
    for (int run = 0; run < 5; run++) {
      least = Math.min(least, measure(block));
    }
    return least;
  }

  private static long measure(Runnable block) {
    long before = now();
    block.run();
    return now() - before;
  }

  private static long now() {
    try {
      return (long) COUNTER.invokeExact();
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  private static MethodHandle counter() {
    try {
      Object threads =
          Class.forName("java.lang.management.ManagementFactory")
              .getMethod("getThreadMXBean")
              .invoke(null);
      Class<?> type = Class.forName("com.sun.management.ThreadMXBean");
      return MethodHandles.publicLookup()
          .findVirtual(type, "getCurrentThreadAllocatedBytes", MethodType.methodType(long.class))
          .bindTo(threads);
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }
}
