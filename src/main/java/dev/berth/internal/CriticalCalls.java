// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.ffi.BerthNative;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * Second handles of native functions, linked as critical: the thread stays in Java state, which
 * makes a call cheaper and holds up every safepoint while it lasts. Allowed only for leaf functions
 * with a bound on their work, given here.
 */
final class CriticalCalls {
  /**
   * Most items of one critical batch call on slots. An item takes 5 ns when the tables are in the
   * cache and at most a few cache misses, so 64 of them take 0.3 to 3 µs.
   */
  static final int SLOT_ITEMS = 64;

  private static final MethodHandle SLOTS_ACQUIRE =
      critical(
          BerthNative.berth_slots_acquire$address(), BerthNative.berth_slots_acquire$descriptor());
  private static final MethodHandle SLOTS_FIND =
      critical(BerthNative.berth_slots_find$address(), BerthNative.berth_slots_find$descriptor());
  private static final MethodHandle SLOTS_RELEASE =
      critical(
          BerthNative.berth_slots_release$address(), BerthNative.berth_slots_release$descriptor());
  private static final MethodHandle SLOTS_RELEASE_IDS =
      critical(
          BerthNative.berth_slots_release_ids$address(),
          BerthNative.berth_slots_release_ids$descriptor());

  private CriticalCalls() {}

  /** {@code berth_slots_acquire} of at most {@link #SLOT_ITEMS}. */
  static int slotsAcquire(
      MemorySegment slots,
      MemorySegment ids,
      int n,
      int mode,
      long now,
      MemorySegment handles,
      MemorySegment statuses) {
    try {
      return (int) SLOTS_ACQUIRE.invokeExact(slots, ids, n, mode, now, handles, statuses);
    } catch (Throwable t) {
      throw unexpected(t);
    }
  }

  /** {@code berth_slots_find} of at most {@link #SLOT_ITEMS}. */
  static int slotsFind(
      MemorySegment slots,
      MemorySegment ids,
      int n,
      MemorySegment handles,
      MemorySegment statuses) {
    try {
      return (int) SLOTS_FIND.invokeExact(slots, ids, n, handles, statuses);
    } catch (Throwable t) {
      throw unexpected(t);
    }
  }

  /** {@code berth_slots_release} of at most {@link #SLOT_ITEMS}. */
  static int slotsRelease(
      MemorySegment slots,
      MemorySegment handles,
      int n,
      int mode,
      long fence,
      MemorySegment statuses) {
    try {
      return (int) SLOTS_RELEASE.invokeExact(slots, handles, n, mode, fence, statuses);
    } catch (Throwable t) {
      throw unexpected(t);
    }
  }

  /** {@code berth_slots_release_ids} of at most {@link #SLOT_ITEMS}. */
  static int slotsReleaseIds(
      MemorySegment slots, MemorySegment ids, int n, int mode, long fence, MemorySegment statuses) {
    try {
      return (int) SLOTS_RELEASE_IDS.invokeExact(slots, ids, n, mode, fence, statuses);
    } catch (Throwable t) {
      throw unexpected(t);
    }
  }

  private static MethodHandle critical(MemorySegment address, FunctionDescriptor descriptor) {
    return Linker.nativeLinker().downcallHandle(address, descriptor, Linker.Option.critical(false));
  }

  private static RuntimeException unexpected(Throwable t) {
    if (t instanceof Error e) {
      throw e;
    }
    return t instanceof RuntimeException e ? e : new IllegalStateException(t);
  }
}
