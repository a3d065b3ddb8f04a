// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.internal.NativeSlots;
import dev.berth.internal.Status;
import dev.berth.plan.RegisteredPool;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;

/**
 * A fixed number of slots, handed out to ids lowest free first (spec 03 §1.2, §2.4). Ids are any 64
 * bits. A handle is {@code generation << 32 | slot}; once released it is stale for ever (a
 * generation comes round after 2^31 acquires of its slot). Slots [capacity, capacity + reserved)
 * are never handed out.
 *
 * <p>Calls on a {@link SlotBatch} allocate nothing; those on single ids are for convenience. Times
 * are the caller's clock in any unit, never read here, and like fences they compare unsigned.
 *
 * <p>For one thread. Misuse is a {@link BerthException}: CLOSED after {@link #close()}, by
 * whichever thread; STATE if two threads are inside at once. Nothing that can be passed reaches
 * freed memory.
 *
 * @param <S> what a slot is called here
 */
public abstract sealed class SlotPool<S> implements AutoCloseable permits SeatPool, LeaseMap {
  private final NativeSlots slots;
  private final int capacity;
  private final int reserved;
  private final SlotBatch one = SlotBatch.ofCapacity(1); // of calls on single ids; its own lock

  SlotPool(String name, int capacity, int reserved, Quarantine quarantine) {
    this.slots = NativeSlots.create(name, capacity, reserved, quarantine == Quarantine.UNTIL_FENCE);
    this.capacity = capacity;
    this.reserved = reserved;
    one.resize(1);
  }

  // ------------------------------------------------------------------------------ batches

  /**
   * Gives each id of the batch the lowest free slot, in order; handles and statuses are written.
   * Items end as OK, ALREADY, EXHAUSTED or SKIPPED.
   *
   * @param now last use of the slots, for {@link #sweep}
   * @return the first outcome that isn't OK, else OK; in mode EACH always OK
   */
  public final SlotStatus acquire(SlotBatch batch, BatchMode mode, long now) {
    return SlotStatus.of(
        slots.acquire(
            batch.ids(), batch.size(), mode.ordinal(), now, batch.handles(), batch.statuses()));
  }

  /** Writes the handle of each id of the batch. Items end as OK or NOT_FOUND, with handle 0. */
  public final void find(SlotBatch batch) {
    checked(slots.find(batch.ids(), batch.size(), batch.handles(), batch.statuses()));
  }

  /** Sets the last use of each handle of the batch. Items end as OK, STALE or NOT_FOUND. */
  public final void touch(SlotBatch batch, long now) {
    checked(slots.touch(batch.handles(), batch.size(), now, batch.statuses()));
  }

  /**
   * Releases each handle of the batch. Items end as OK, STALE, NOT_FOUND or SKIPPED.
   *
   * @param fence the epoch after which nobody outside uses the slots; ignored without quarantine
   * @return the first outcome that isn't OK, else OK; in mode EACH always OK
   */
  public final SlotStatus release(SlotBatch batch, BatchMode mode, long fence) {
    return SlotStatus.of(
        slots.release(batch.handles(), batch.size(), mode.ordinal(), fence, batch.statuses()));
  }

  /**
   * As {@link #release(SlotBatch, BatchMode, long)}, by id. Items end as OK, NOT_FOUND or SKIPPED.
   */
  public final SlotStatus releaseIds(SlotBatch batch, BatchMode mode, long fence) {
    return SlotStatus.of(
        slots.releaseIds(batch.ids(), batch.size(), mode.ordinal(), fence, batch.statuses()));
  }

  // ------------------------------------------------------------------------------ single ids

  /** Gives the id the lowest free slot. */
  public final Acquisition<S> acquire(long id, long now) {
    synchronized (one) {
      one.id(0, id);
      return switch (acquire(one, BatchMode.ALL_OR_NOTHING, now)) {
        case OK -> new Acquisition.Acquired<>(slot(one.handle(0)), one.handle(0));
        case ALREADY -> {
          find(one);
          yield new Acquisition.Already<>(slot(one.handle(0)), one.handle(0));
        }
        default -> exhaustion();
      };
    }
  }

  /** The handle of an id that holds a slot. */
  public final OptionalLong find(long id) {
    synchronized (one) {
      one.id(0, id);
      find(one);
      return one.status(0) == SlotStatus.OK ? OptionalLong.of(one.handle(0)) : OptionalLong.empty();
    }
  }

  /**
   * Sets the last use of a handle.
   *
   * @throws BerthException STALE, NOT_FOUND
   */
  public final void touch(long handle, long now) {
    synchronized (one) {
      one.handle(0, handle);
      touch(one, now);
      require(one.status(0), handle);
    }
  }

  /**
   * Releases a handle.
   *
   * @throws BerthException STALE, NOT_FOUND; nothing changed then
   */
  public final void release(long handle, long fence) {
    synchronized (one) {
      one.handle(0, handle);
      require(release(one, BatchMode.ALL_OR_NOTHING, fence), handle);
    }
  }

  // ------------------------------------------------------------------------------ the pool

  /**
   * Everything whose fence is at most epoch leaves quarantine, in whatever order the fences came.
   * An epoch below an earlier one changes nothing.
   *
   * @return how many slots became reusable
   */
  public final int complete(long epoch) {
    return slots.complete(epoch);
  }

  /**
   * Releases what was last used strictly more than idle before now.
   *
   * @param reclaimed receives the ids, in slot order; a batch of the pool's capacity always
   *     suffices
   * @return how many
   * @throws BerthException ARGUMENT if they don't fit; nothing was released then
   */
  public final int sweep(long now, long idle, long fence, SlotBatch reclaimed) {
    reclaimed.clear();
    int count = slots.sweep(now, idle, fence, reclaimed.ids(), reclaimed.capacity());
    reclaimed.size(count);
    return count;
  }

  /** How full the pool is. */
  public final SlotUsage usage() {
    var now = slots.describe();
    return new SlotUsage(
        now.capacity(), now.reserved(), now.used(), now.quarantined(), now.highWater());
  }

  /** What {@link #acquire(long, long)} returns when nothing is free, with the pool as it is now. */
  public final Acquisition.Exhausted<S> exhaustion() {
    SlotUsage usage = usage();
    return new Acquisition.Exhausted<>(usage, message(usage));
  }

  /** This pool for the start-up validator, with the sizes that native code has. */
  public abstract List<RegisteredPool> registered();

  /** Slots that are handed out at most. */
  public final int capacity() {
    return capacity;
  }

  /** Slots behind them that never are. */
  public final int reserved() {
    return reserved;
  }

  /**
   * Index of the i-th reserved slot, of 0 to {@link #reserved()} - 1: the same for the pool's whole
   * life.
   */
  public final S reserved(int i) {
    return slot(capacity + Objects.checkIndex(i, reserved));
  }

  /** The slot of a handle, live or not. */
  public final S slot(long handle) {
    return slot((int) handle & Integer.MAX_VALUE);
  }

  /** Frees the pool's memory. Idempotent, from any thread; a call that is inside finishes first. */
  @Override
  public final void close() {
    slots.close();
  }

  abstract S slot(int index);

  abstract String message(SlotUsage usage);

  final NativeSlots slots() {
    return slots;
  }

  private static void checked(int status) {
    Status.check(status, "slots");
  }

  private static void require(SlotStatus status, long handle) {
    if (status != SlotStatus.OK) {
      throw new BerthException(
          status == SlotStatus.STALE ? BerthException.Code.STALE : BerthException.Code.NOT_FOUND,
          "handle %d of slot %d, generation %d: %s"
              .formatted(
                  handle,
                  (int) handle,
                  handle >>> 32,
                  status == SlotStatus.STALE ? "released before" : "never handed out"));
    }
  }
}
