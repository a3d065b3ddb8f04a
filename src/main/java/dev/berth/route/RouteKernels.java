// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.route.kernel.Kernels;

/**
 * The code that routers run for every request and rank: scalar, or on vectors where the JVM has
 * them ({@code --add-modules jdk.incubator.vector}). Both give the same results bit for bit.
 */
public final class RouteKernels {
  private RouteKernels() {}

  /**
   * Compiles the vector code before traffic comes and has it used from then on, where there is any.
   * Without this call routers stay scalar.
   */
  public static void preload() {
    Kernels.preload();
  }

  /**
   * What is used once preloaded: the width of the vectors, or the reason for scalar code with what
   * to do about it. The system property {@value Kernels#PROPERTY} forces either: {@code on}, {@code
   * off}.
   */
  public static String describe() {
    return Kernels.describe();
  }
}
