// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;

/**
 * The rules of a slot pool without a data structure: every question is answered by looking at every
 * slot.
 */
final class NaivePool {
  private static final class Slot {
    boolean live;
    long id;
    long lastUse;
    long changes;
    boolean held;
    long fence;

    Slot copy() {
      Slot copy = new Slot();
      copy.live = live;
      copy.id = id;
      copy.lastUse = lastUse;
      copy.changes = changes;
      copy.held = held;
      copy.fence = fence;
      return copy;
    }
  }

  private final int reserved;
  private final boolean quarantine;
  private Slot[] slots;
  private int highWater;
  private boolean completedAny;
  private long completed;

  NaivePool(int capacity, int reserved, Quarantine quarantine) {
    this.reserved = reserved;
    this.quarantine = quarantine == Quarantine.UNTIL_FENCE;
    this.slots = IntStream.range(0, capacity).mapToObj(i -> new Slot()).toArray(Slot[]::new);
  }

  SlotStatus acquire(long id, long now) {
    if (holder(id) >= 0) {
      return SlotStatus.ALREADY;
    }
    int lowest = first(s -> !slots[s].live && !slots[s].held);
    if (lowest < 0) {
      return SlotStatus.EXHAUSTED;
    }
    Slot slot = slots[lowest];
    slot.live = true;
    slot.id = id;
    slot.lastUse = now;
    slot.changes++;
    return SlotStatus.OK;
  }

  /** The handle of an id, 0 for none. */
  long find(long id) {
    int slot = holder(id);
    return slot < 0 ? 0 : slots[slot].changes << 32 | slot;
  }

  SlotStatus check(long handle) {
    long slot = handle & 0xffff_ffffL;
    long generation = handle >>> 32;
    if (slot >= slots.length || generation % 2 == 0) {
      return SlotStatus.NOT_FOUND;
    }
    long changes = slots[(int) slot].changes;
    if (generation == changes) {
      return SlotStatus.OK;
    }
    return generation < changes ? SlotStatus.STALE : SlotStatus.NOT_FOUND;
  }

  SlotStatus touch(long handle, long now) {
    SlotStatus status = check(handle);
    if (status == SlotStatus.OK) {
      slots[(int) handle].lastUse = now;
    }
    return status;
  }

  SlotStatus release(long handle, long fence) {
    SlotStatus status = check(handle);
    if (status == SlotStatus.OK) {
      leave((int) handle, fence);
    }
    return status;
  }

  SlotStatus releaseId(long id, long fence) {
    int slot = holder(id);
    if (slot < 0) {
      return SlotStatus.NOT_FOUND;
    }
    leave(slot, fence);
    return SlotStatus.OK;
  }

  int complete(long epoch) {
    completed = completedAny ? Math.max(completed, epoch) : epoch;
    completedAny = true;
    int count = 0;
    for (Slot slot : slots) {
      if (slot.held && slot.fence <= epoch) {
        slot.held = false;
        count++;
      }
    }
    return count;
  }

  List<Long> idle(long now, long idle) {
    var ids = new ArrayList<Long>();
    for (Slot slot : slots) {
      if (slot.live && slot.lastUse < now && now - slot.lastUse > idle) {
        ids.add(slot.id);
      }
    }
    return ids;
  }

  /** The outcomes of a batch; all of it is undone by its first failure if the mode says so. */
  SlotStatus[] batch(int n, BatchMode mode, IntFunction<SlotStatus> item) {
    Slot[] before = slots.clone();
    for (int i = 0; i < before.length; i++) {
      before[i] = slots[i].copy();
    }
    SlotStatus[] outcomes = new SlotStatus[n];
    for (int i = 0; i < n; i++) {
      outcomes[i] = item.apply(i);
      if (outcomes[i] != SlotStatus.OK && mode == BatchMode.ALL_OR_NOTHING) {
        slots = before;
        for (int j = 0; j < n; j++) {
          outcomes[j] = j == i ? outcomes[i] : SlotStatus.SKIPPED;
        }
        return outcomes;
      }
    }
    highWater = Math.max(highWater, count(s -> slots[s].live));
    return outcomes;
  }

  SlotUsage usage() {
    return new SlotUsage(
        slots.length, reserved, count(s -> slots[s].live), count(s -> slots[s].held), highWater);
  }

  private void leave(int index, long fence) {
    Slot slot = slots[index];
    slot.live = false;
    slot.changes++;
    slot.held = quarantine && !(completedAny && fence <= completed);
    slot.fence = fence;
  }

  private int holder(long id) {
    return first(s -> slots[s].live && slots[s].id == id);
  }

  private int first(IntPredicate wanted) {
    for (int i = 0; i < slots.length; i++) {
      if (wanted.test(i)) {
        return i;
      }
    }
    return -1;
  }

  private int count(IntPredicate wanted) {
    int count = 0;
    for (int i = 0; i < slots.length; i++) {
      if (wanted.test(i)) {
        count++;
      }
    }
    return count;
  }
}
