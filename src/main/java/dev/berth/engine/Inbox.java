// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * What any thread may hand to the one that drives an engine: requests in a bounded ring, in the
 * order of their arrival, and cancellations in a list without bound, each at most once. The bound
 * is that of the waiting requests: a place is free again when a request stops waiting, which is
 * never before it was taken out of the ring.
 *
 * <p>Fields that different threads write lie on different cache lines.
 */
final class Inbox {
  private static final VarHandle CANCELLED;
  private static final VarHandle SLOT = MethodHandles.arrayElementVarHandle(RequestHandle[].class);
  private static final VarHandle COUNTER = MethodHandles.arrayElementVarHandle(long[].class);

  static {
    try {
      CANCELLED =
          MethodHandles.lookup().findVarHandle(Inbox.class, "cancelled", RequestHandle.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  // ---- places in the counters, 128 bytes apart: two cache lines
  /** Places taken, ever. */
  private static final int PRODUCED = 16;

  /** Places that may be taken, as a submitter last saw it. */
  private static final int LIMIT = 32;

  /** Requests that have stopped waiting, ever. */
  private static final int RELEASED = 48;

  private final long[] counters = new long[64];
  private final @Nullable RequestHandle[] ring;
  private long consumed;
  private volatile int capacity;
  private volatile @Nullable RequestHandle cancelled;
  private volatile @Nullable Thread sleeper;
  private volatile boolean woken;

  /** An empty inbox for at most that many waiting requests, 1 to 2^30. */
  Inbox(int most) {
    ring = new @Nullable RequestHandle[Integer.highestOneBit(2 * most - 1)];
    limit(most);
  }

  /** At most as many as it was made for. */
  void limit(int newCapacity) {
    capacity = newCapacity;
    COUNTER.setVolatile(counters, LIMIT, get(RELEASED) + newCapacity);
  }

  int capacity() {
    return capacity;
  }

  private long get(int counter) {
    return (long) COUNTER.getVolatile(counters, counter);
  }

  // ------------------------------------------------------------------------------ any thread

  /** False: as many wait as may. */
  boolean offer(RequestHandle handle) {
    long limit = (long) COUNTER.getAcquire(counters, LIMIT);
    long at;
    do {
      at = get(PRODUCED);
      if (at >= limit) {
        limit = get(RELEASED) + capacity;
        if (at >= limit) {
          return false;
        }
        COUNTER.setRelease(counters, LIMIT, limit);
      }
    } while (!COUNTER.compareAndSet(counters, PRODUCED, at, at + 1));
    SLOT.setRelease(ring, (int) at & ring.length - 1, handle);
    wakeSleeper(); // the exchange above is ordered before this look
    return true;
  }

  /** For a handle that was never given before. */
  void cancel(RequestHandle handle) {
    @Nullable RequestHandle first;
    do {
      first = cancelled;
      handle.nextCancelled(first);
    } while (!CANCELLED.compareAndSet(this, first, handle));
    wakeSleeper();
  }

  /** Whoever sleeps in {@link #await} looks around. */
  void wake() {
    woken = true;
    wakeSleeper();
  }

  private void wakeSleeper() {
    Thread thread = sleeper;
    if (thread != null) {
      LockSupport.unpark(thread);
    }
  }

  // ------------------------------------------------------------------------------ the engine

  /** The next request; null if there is none, or its submitter isn't quite there. */
  @Nullable RequestHandle poll() {
    int at = (int) consumed & ring.length - 1;
    RequestHandle handle = (RequestHandle) SLOT.getAcquire(ring, at);
    if (handle != null) {
      ring[at] = null;
      consumed++;
    }
    return handle;
  }

  /** True if every request that has a place was taken out. */
  boolean drained() {
    return get(PRODUCED) == consumed;
  }

  /** That many requests don't wait any more. */
  void release(int n) {
    COUNTER.setRelease(counters, RELEASED, counters[RELEASED] + n);
  }

  /** All cancellations since the last call, linked; the latest first. */
  @Nullable RequestHandle takeCancelled() {
    return cancelled == null ? null : (RequestHandle) CANCELLED.getAndSet(this, null);
  }

  /**
   * Waits until something comes, or the time is over; returns at once if something came since the
   * last call.
   *
   * @param micros most µs, {@link Long#MAX_VALUE} for no limit
   */
  void await(long micros) {
    sleeper = Thread.currentThread();
    if (!woken && drained() && cancelled == null) {
      if (micros > Long.MAX_VALUE / 1000) {
        LockSupport.park(this);
      } else {
        LockSupport.parkNanos(this, micros * 1000);
      }
    }
    sleeper = null;
    woken = false;
  }
}
