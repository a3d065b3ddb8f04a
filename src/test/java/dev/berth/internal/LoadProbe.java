// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import java.io.File;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.concurrent.CountDownLatch;

/**
 * What the loader's tests run in JVMs of their own: loads the library and prints what came of it.
 */
public final class LoadProbe {
  private LoadProbe() {}

  /**
   * Steps in order: {@code load}, {@code threads} (8 at once), {@code list:<folder>}, {@code
   * clear:<property>}.
   */
  public static void main(String[] steps) throws InterruptedException {
    for (String step : steps) {
      String argument = step.substring(step.indexOf(':') + 1);
      switch (step.substring(0, step.contains(":") ? step.indexOf(':') : step.length())) {
        case "load" -> load();
        case "threads" -> threads(8);
        case "list" -> System.out.println("FILES " + Arrays.toString(new File(argument).list()));
        case "clear" -> System.clearProperty(argument);
        default -> throw new IllegalArgumentException(step);
      }
    }
  }

  private static void load() {
    try {
      System.out.println("LOADED " + NativeLibrary.describe());
      System.out.println("STATUS " + Status.exception(5, "probe").getMessage());
    } catch (BerthException e) {
      System.out.println("FAILED " + e.code() + " " + e.getMessage());
      for (Throwable attempt : e.getSuppressed()) {
        System.out.println("ATTEMPT " + attempt.getMessage());
      }
    }
  }

  private static void threads(int n) throws InterruptedException {
    Set<NativeLibrary.Loaded> seen =
        Collections.synchronizedSet(Collections.newSetFromMap(new IdentityHashMap<>()));
    CountDownLatch ready = new CountDownLatch(n);
    Thread[] all = new Thread[n];
    for (int i = 0; i < n; i++) {
      all[i] =
          Thread.ofPlatform()
              .start(() -> {
                ready.countDown();
                try {
                  ready.await();
                } catch (InterruptedException e) {
                  throw new IllegalStateException(e);
                }
                NativeLibrary.load();
                seen.add(NativeLibrary.describe());
              });
    }
    for (Thread thread : all) {
      thread.join();
    }
    System.out.println("DISTINCT " + seen.size());
  }
}
