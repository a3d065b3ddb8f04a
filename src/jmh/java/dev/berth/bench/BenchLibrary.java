// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

/** The library of native limit probes, built by the {@code bench} profile. */
public final class BenchLibrary {
  private static final SymbolLookup SYMBOLS =
      SymbolLookup.libraryLookup(
          Path.of(System.getProperty("berth.bench.library")), Arena.global());

  private static final MethodHandle CPU_NANOS =
      function("berth_bench_cpu_nanos", FunctionDescriptor.of(ValueLayout.JAVA_LONG));

  private BenchLibrary() {}

  /** CPU time of this thread. */
  static long cpuNanos() throws Throwable {
    return (long) CPU_NANOS.invokeExact();
  }

  /** A plain downcall to a probe. */
  public static MethodHandle function(String name, FunctionDescriptor descriptor) {
    return Linker.nativeLinker().downcallHandle(SYMBOLS.findOrThrow(name), descriptor);
  }
}
