// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.ffi.BerthNative;
import dev.berth.ffi.berth_slots_config;
import dev.berth.ffi.berth_slots_stats;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Cleaner;

/**
 * A native slot map as Java sees it, for one thread at a time.
 *
 * <p>Columns are native segments: {@code long[n]} ids and handles, {@code int[n]} statuses, with
 * the codes and meanings of {@code berth.h}. Every call checks that n items fit in each column
 * before it enters native code.
 */
public final class NativeSlots extends Exclusive {
  /** Most slots of a map, and most items of a batch. */
  public static final int MAX = 1 << 20;

  private static final Cleaner CLEANER = Cleaner.create();

  private final MemorySegment address;
  private final Cleaner.Cleanable memory;

  private NativeSlots(String name, MemorySegment address) {
    super(name);
    this.address = address;
    this.memory = CLEANER.register(this, () -> BerthNative.berth_slots_destroy(address));
  }

  /**
   * Creates a map.
   *
   * @param name what messages call it, as in {@code "seat pool"}
   * @param capacity slots that are handed out, 1 to {@link #MAX}
   * @param reserved slots behind them that never are, 0 to {@link #MAX}
   * @param quarantine whether a released slot waits for its fence
   * @throws BerthException ARGUMENT, MEMORY, UNAVAILABLE
   */
  public static NativeSlots create(String name, int capacity, int reserved, boolean quarantine) {
    if (capacity < 1 || capacity > MAX || reserved < 0 || reserved > MAX) {
      throw new BerthException(
          Code.ARGUMENT,
          "%s of %d slots and %d reserved: 1 to %d and 0 to %d are possible"
              .formatted(name, capacity, reserved, MAX, MAX));
    }
    NativeLibrary.load();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment config = berth_slots_config.allocate(arena);
      berth_slots_config.struct_size(config, (int) berth_slots_config.sizeof());
      berth_slots_config.capacity(config, capacity);
      berth_slots_config.reserved(config, reserved);
      berth_slots_config.quarantine(config, quarantine ? 1 : 0);
      MemorySegment out = arena.allocate(ValueLayout.ADDRESS);
      Status.check(BerthNative.berth_slots_create(config, out), "create " + name);
      return new NativeSlots(name, out.get(ValueLayout.ADDRESS, 0));
    }
  }

  /** {@code berth_slots_acquire}; the batch's status. */
  public int acquire(
      MemorySegment ids, int n, int mode, long now, MemorySegment handles, MemorySegment statuses) {
    check(n, ids, Long.BYTES);
    check(n, handles, Long.BYTES);
    check(n, statuses, Integer.BYTES);
    enter();
    try {
      return n <= CriticalCalls.SLOT_ITEMS
          ? CriticalCalls.slotsAcquire(address, ids, n, mode, now, handles, statuses)
          : BerthNative.berth_slots_acquire(address, ids, n, mode, now, handles, statuses);
    } finally {
      leave();
    }
  }

  /** {@code berth_slots_find}. */
  public int find(MemorySegment ids, int n, MemorySegment handles, MemorySegment statuses) {
    check(n, ids, Long.BYTES);
    check(n, handles, Long.BYTES);
    check(n, statuses, Integer.BYTES);
    enter();
    try {
      return n <= CriticalCalls.SLOT_ITEMS
          ? CriticalCalls.slotsFind(address, ids, n, handles, statuses)
          : BerthNative.berth_slots_find(address, ids, n, handles, statuses);
    } finally {
      leave();
    }
  }

  /** {@code berth_slots_touch}. */
  public int touch(MemorySegment handles, int n, long now, MemorySegment statuses) {
    check(n, handles, Long.BYTES);
    check(n, statuses, Integer.BYTES);
    enter();
    try {
      return BerthNative.berth_slots_touch(address, handles, n, now, statuses);
    } finally {
      leave();
    }
  }

  /** {@code berth_slots_release}; the batch's status. */
  public int release(MemorySegment handles, int n, int mode, long fence, MemorySegment statuses) {
    check(n, handles, Long.BYTES);
    check(n, statuses, Integer.BYTES);
    enter();
    try {
      return n <= CriticalCalls.SLOT_ITEMS
          ? CriticalCalls.slotsRelease(address, handles, n, mode, fence, statuses)
          : BerthNative.berth_slots_release(address, handles, n, mode, fence, statuses);
    } finally {
      leave();
    }
  }

  /** {@code berth_slots_release_ids}; the batch's status. */
  public int releaseIds(MemorySegment ids, int n, int mode, long fence, MemorySegment statuses) {
    check(n, ids, Long.BYTES);
    check(n, statuses, Integer.BYTES);
    enter();
    try {
      return n <= CriticalCalls.SLOT_ITEMS
          ? CriticalCalls.slotsReleaseIds(address, ids, n, mode, fence, statuses)
          : BerthNative.berth_slots_release_ids(address, ids, n, mode, fence, statuses);
    } finally {
      leave();
    }
  }

  /** {@code berth_slots_complete}; how many slots became reusable. */
  public int complete(long epoch) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment reusable = arena.allocate(ValueLayout.JAVA_INT);
      Status.check(
          BerthNative.berth_slots_complete(address, epoch, reusable), "complete " + name());
      return reusable.get(ValueLayout.JAVA_INT, 0);
    } finally {
      leave();
    }
  }

  /**
   * {@code berth_slots_sweep} into {@code long[capacity]} ids; how many were reclaimed.
   *
   * @throws BerthException ARGUMENT if they don't fit; nothing was released then
   */
  public int sweep(long now, long idle, long fence, MemorySegment ids, int capacity) {
    check(capacity, ids, Long.BYTES);
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment count = arena.allocate(ValueLayout.JAVA_INT);
      int status = BerthNative.berth_slots_sweep(address, now, idle, fence, ids, capacity, count);
      if (status == BerthNative.BERTH_E_CAPACITY()) {
        throw new BerthException(
            Code.ARGUMENT,
            "sweep of a %s would reclaim %d, room for %d"
                .formatted(name(), count.get(ValueLayout.JAVA_INT, 0), capacity));
      }
      Status.check(status, "sweep " + name());
      return count.get(ValueLayout.JAVA_INT, 0);
    } finally {
      leave();
    }
  }

  /**
   * {@code berth_slots_rows} into {@code int[capacity]} rows; how many were written.
   *
   * @throws BerthException ARGUMENT for a shape that can't be or doesn't fit; STALE or NOT_FOUND if
   *     a handle isn't live
   */
  public int rows(
      MemorySegment handles,
      int n,
      int contexts,
      int beam,
      int width,
      boolean replicate,
      MemorySegment rows,
      int capacity) {
    check(n, handles, Long.BYTES);
    check(capacity, rows, Integer.BYTES);
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment count = arena.allocate(ValueLayout.JAVA_INT);
      int status =
          BerthNative.berth_slots_rows(
              address, handles, n, contexts, beam, width, replicate ? 1 : 0, rows, capacity, count);
      if (status != BerthNative.BERTH_OK()) {
        String what =
            "rows of %d requests, %d of them contexts, beam %d of %d, into %d"
                .formatted(n, contexts, beam, width, capacity);
        throw status == BerthNative.BERTH_E_CAPACITY()
            ? new BerthException(Code.ARGUMENT, what + ": no room")
            : Status.exception(status, what);
      }
      return count.get(ValueLayout.JAVA_INT, 0);
    } finally {
      leave();
    }
  }

  /** {@code berth_slots_stats}. */
  public record Stats(int capacity, int reserved, int used, int quarantined, int highWater) {}

  /** {@code berth_slots_describe}. */
  public Stats describe() {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment stats = berth_slots_stats.allocate(arena);
      berth_slots_stats.struct_size(stats, (int) berth_slots_stats.sizeof());
      Status.check(BerthNative.berth_slots_describe(address, stats), "describe " + name());
      return new Stats(
          berth_slots_stats.capacity(stats),
          berth_slots_stats.reserved(stats),
          berth_slots_stats.used(stats),
          berth_slots_stats.quarantined(stats),
          berth_slots_stats.high_water(stats));
    } finally {
      leave();
    }
  }

  private void check(int n, MemorySegment column, int bytes) {
    if (n < 0 || n > MAX || n * (long) bytes > column.byteSize()) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d items in a column of %d bytes of a %s".formatted(n, column.byteSize(), name()));
    }
  }

  @Override
  void free() {
    memory.clean();
  }
}
