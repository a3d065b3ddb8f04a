// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.plan.KeyedBy;
import dev.berth.plan.RegisteredPool;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SpeculativePool;
import dev.berth.request.RequestTable;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * A model runner's own state of the sequences on its rank: rows of memory that batches index. How
 * many there are follows from the seat plan alone, so a retiring sequence and the one that takes
 * its place never meet in a row. A row that passes to another sequence, or to one that gave way and
 * begins again, is zeroed.
 *
 * <p>For the engine's thread; made by {@link RankSetup#store}.
 */
public final class SlotStore {
  /** Most bytes of one store. */
  public static final long MOST_BYTES = 1L << 40;

  /** What a store is for, hence what its rows follow. */
  public enum Use {
    /** Sampler state, a row a seat. */
    SAMPLER("sampler rows", KeyedBy.SEAT),
    /** Grammar state, a row a seat. */
    GUIDED_DECODER("guided-decoder rows", KeyedBy.SEAT),
    /** Probabilities of draft tokens, a row a seat. */
    DRAFT_PROBABILITIES("draft probabilities", KeyedBy.SEAT),
    /** Seats of a drafter of its own, handed out by itself. */
    DRAFTER("drafter seats", KeyedBy.SEAT, true, Optional.empty()),
    /** Hidden states of multi-token prediction. */
    MTP("MTP slots", SpeculativePool.MTP),
    /** Automata of suffixes; padding has none. */
    SUFFIX_AUTOMATON("suffix automata", SpeculativePool.SUFFIX_AUTOMATON),
    /** Resources of Eagle3: as many as the longest sequence has tokens, if they are more. */
    EAGLE3("Eagle3 slots", SpeculativePool.EAGLE3),
    /** Draft trees. */
    TREE("tree slots", SpeculativePool.TREE),
    /** Lease of a cross-attention cache. */
    CROSS_LEASES("cross leases", KeyedBy.LEASE),
    /** Lease of a draft model's cache. */
    DRAFT_LEASES("draft leases", KeyedBy.LEASE),
    /** Work buffers and index tensors of one forward, a row a batch position. */
    WORK("work rows", KeyedBy.BATCH_POSITION);

    private final String title;
    private final KeyedBy keyedBy;
    private final boolean identity;
    private final Optional<SpeculativePool> speculative;

    Use(String title, KeyedBy keyedBy) {
      this(title, keyedBy, false, Optional.empty());
    }

    Use(String title, SpeculativePool pool) {
      this(title, KeyedBy.SEAT, true, Optional.of(pool));
    }

    /**
     * @param identity its slots are handed out here, as many as there are seats
     */
    Use(String title, KeyedBy keyedBy, boolean identity, Optional<SpeculativePool> speculative) {
      this.title = title;
      this.keyedBy = keyedBy;
      this.identity = identity;
      this.speculative = speculative;
    }

    /** What messages call it. */
    public String title() {
      return title;
    }

    /** What bounds its rows. */
    public KeyedBy keyedBy() {
      return keyedBy;
    }

    /** Rows, the padding's included. */
    int rows(SeatPlan plan) {
      return switch (keyedBy) {
        case SEAT ->
            speculative
                .map(pool -> pool.rows(plan.seats(), OptionalInt.of(plan.shape().maxSeqLen())))
                .orElse(plan.seats().count() + 1);
        case LEASE, RESERVED_LEASE -> plan.spendableLeases() + Math.max(1, plan.withheldLeases());
        case BATCH_POSITION -> plan.batchPositions().count() + 1;
      };
    }

    /** Rows that sequences can have. */
    int bound(SeatPlan plan) {
      return switch (keyedBy) {
        case SEAT -> plan.seats().count();
        case LEASE, RESERVED_LEASE -> plan.spendableLeases();
        case BATCH_POSITION -> plan.batchPositions().count();
      };
    }

    /** The padding's row; -1: it has none. */
    int padding(SeatPlan plan) {
      return this == SUFFIX_AUTOMATON ? -1 : keyedBy == KeyedBy.SEAT ? rows(plan) - 1 : bound(plan);
    }
  }

  private static final int NOBODY = -1;

  private final RankSetup setup;
  private final Use use;
  private final int bound;
  private final int padding;
  private final long rowBytes;
  private final MemorySegment memory;
  private final MemorySegment[] indices; // by batch slot
  private final BitSet[] begun; // by batch slot

  // ---- whose a row is: by row of the store
  private final long[] admission;
  private final int[] pauses;
  private final int[] holder; // row of the request table

  // ---- where slots are handed out here: by row of the request table
  private final int[] slotOf;
  private final int[] free;
  private int freeCount;

  SlotStore(RankSetup setup, Use use, long rowBytes) {
    SeatPlan plan = setup.config().plan();
    int rows = use.rows(plan);
    if (rowBytes < 1 || rowBytes > MOST_BYTES / rows) {
      throw new BerthException(
          Code.CONFIGURATION,
          "%s: %d rows of %d bytes: 1 or more, at most %d in all"
              .formatted(use.title, rows, rowBytes, MOST_BYTES));
    }
    this.setup = setup;
    this.use = use;
    this.bound = use.bound(plan);
    this.padding = use.padding(plan);
    this.rowBytes = rowBytes;
    Arena arena = Arena.ofAuto();
    this.memory = arena.allocate(rows * rowBytes, 64);
    this.indices = new MemorySegment[setup.slots()];
    this.begun = new BitSet[setup.slots()];
    for (int slot = 0; slot < indices.length; slot++) {
      indices[slot] = arena.allocate(JAVA_INT, setup.positions());
      begun[slot] = new BitSet();
    }
    this.admission = new long[rows];
    this.pauses = new int[rows];
    this.holder = new int[rows];
    Arrays.fill(holder, NOBODY);
    this.slotOf = new int[use.identity ? setup.table().rows() : 0];
    Arrays.fill(slotOf, NOBODY);
    this.free = new int[use.identity ? bound : 0];
    for (int i = 0; i < free.length; i++) {
      free[freeCount++] = bound - 1 - i; // the lowest on top
    }
  }

  /** What it is for. */
  public Use use() {
    return use;
  }

  /** Rows, the padding's included. */
  public int rows() {
    return holder.length;
  }

  /** As it presents itself to a start-up validator. */
  public RegisteredPool registered() {
    return RegisteredPool.of(use.title, use.keyedBy, bound);
  }

  /**
   * The memory of a row, {@code byte[rowBytes]}.
   *
   * @throws BerthException ARGUMENT if there is no such row
   */
  public MemorySegment row(int index) {
    if (index < 0 || index >= holder.length) {
      throw new BerthException(
          Code.ARGUMENT, "row %d of %d %s".formatted(index, holder.length, use.title));
    }
    return memory.asSlice(index * rowBytes, rowBytes);
  }

  /**
   * The row of each position of a batch; to be called once a batch, in the order of the launches.
   *
   * @return {@code int32[size]}, -1: padding that has no row; stays until the batch is collected
   * @throws BerthException ARGUMENT for a batch of another rank, stage or engine
   */
  public MemorySegment indices(BatchView batch) {
    if (batch.table() != setup.table()) {
      throw new BerthException(
          Code.ARGUMENT,
          "a batch of rank %d, stage %d: these %s are of rank %d, stage %d"
              .formatted(batch.rank(), batch.stage(), use.title, setup.rank(), setup.stage()));
    }
    MemorySegment out = indices[batch.slot()];
    BitSet begins = begun[batch.slot()];
    begins.clear();
    for (int i = 0; i < batch.size(); i++) {
      int index = padding;
      if (batch.kind(i) != Batch.Kind.DUMMY) {
        index = indexOf(batch, i);
        if (enters(index, batch.row(i))) {
          begins.set(i);
        }
      }
      out.setAtIndex(JAVA_INT, i, index);
    }
    return out.asSlice(0, (long) batch.size() * Integer.BYTES).asReadOnly();
  }

  /** Did a position's sequence get its row with this batch? Then the row is all zeros. */
  public boolean begins(BatchView batch, int position) {
    return begun[batch.slot()].get(position);
  }

  private int indexOf(BatchView batch, int position) {
    int row = batch.row(position);
    RequestTable table = setup.table();
    return switch (use.keyedBy) {
      case SEAT -> use.identity ? slot(row) : table.seat(row);
      case LEASE, RESERVED_LEASE -> table.lease(row);
      case BATCH_POSITION -> position;
    };
  }

  private int slot(int row) {
    if (slotOf[row] != NOBODY && !isHolder(slotOf[row], row)) {
      giveBack(slotOf[row]);
    }
    if (slotOf[row] == NOBODY) {
      if (freeCount == 0) {
        reclaim();
      }
      if (freeCount == 0) {
        throw new BerthException(
            Code.INTERNAL, "%d %s, and more sequences with seats".formatted(bound, use.title));
      }
      slotOf[row] = free[--freeCount];
    }
    return slotOf[row];
  }

  /** Takes back what sequences had that have no seat any more: no launched batch holds them. */
  private void reclaim() {
    for (int index = bound - 1; index >= 0; index--) {
      if (holder[index] != NOBODY && !isHolder(index, holder[index])) {
        giveBack(index);
      }
    }
  }

  private void giveBack(int index) {
    slotOf[holder[index]] = NOBODY;
    holder[index] = NOBODY;
    free[freeCount++] = index;
  }

  /** Is it still the same sequence, in the same life? */
  private boolean isHolder(int index, int row) {
    RequestTable table = setup.table();
    return holder[index] == row
        && admission[index] == table.admission(row)
        && pauses[index] == table.pauses(row)
        && table.seat(row) >= 0;
  }

  private boolean enters(int index, int row) {
    if (use.keyedBy == KeyedBy.BATCH_POSITION || isHolder(index, row)) {
      return false;
    }
    holder[index] = row;
    admission[index] = setup.table().admission(row);
    pauses[index] = setup.table().pauses(row);
    row(index).fill((byte) 0);
    return true;
  }
}
