// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeKv;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * One launched batch: which sequences, how many tokens of each, and the tables that come of it.
 * Made once by the caller, for one batch under way at a time: two batches under way need two, so
 * that nobody overwrites what a device still reads. The garbage collector frees it.
 *
 * <p>Rows are in batch order, beams innermost. What a row doesn't use, and the rows behind the
 * batch, are left as they were, unless they are to be cleared.
 */
public final class KvTables {
  private final Shape shape;
  private final int maxBlocks;
  private final NativeKv.Batch batch;
  private int size;
  private int rows;
  private long step;

  static KvTables create(NativeKv kv, int maxBlocks, Shape shape) {
    if (shape.rows() < 1
        || shape.rows() > NativeKv.MAX
        || shape.tokens() < 0
        || shape.csrPages() < 0
        || (shape.buffers() != 0 && shape.buffers() != kv.buffers())) {
      throw new BerthException(Code.ARGUMENT, "tables of " + shape);
    }
    return new KvTables(kv, maxBlocks, shape);
  }

  private KvTables(NativeKv kv, int maxBlocks, Shape shape) {
    this.shape = shape;
    this.maxBlocks = maxBlocks;
    Arena arena = Arena.ofAuto();
    long out = shape.rows;
    boolean csr = shape.csrPages > 0;
    this.batch =
        new NativeKv.Batch(
            arena.allocate(JAVA_LONG, out),
            arena.allocate(JAVA_INT, out),
            some(arena, kv.views() * out * 2 * maxBlocks, Integer.BYTES),
            some(arena, (long) kv.lifeCycles() * shape.tokens, Long.BYTES),
            some(arena, csr ? kv.views() * (out + 1) : 0, Integer.BYTES),
            some(arena, csr ? kv.views() * shape.csrPages : 0, Integer.BYTES),
            some(arena, csr ? out : 0, Integer.BYTES),
            some(arena, kv.states() * out, Integer.BYTES),
            some(arena, shape.buffers * out * maxBlocks, Integer.BYTES),
            shape.rows,
            shape.tokens,
            shape.csrPages,
            NativeKv.Batch.newCall(arena));
  }

  /** What happens to rows and tokens behind the batch. */
  public enum Padding {
    /** They stay as they are. */
    UNTOUCHED,
    /** They say that there is nothing. */
    CLEARED
  }

  /**
   * What a batch has room for.
   *
   * @param rows of the tables, 1 to 2^20
   * @param tokens of the slot mapping; 0: none is wanted
   * @param csrPages of the compressed form, for each view; 0: it isn't wanted
   * @param buffers as many as the layout has, for a table of each; 0: they aren't wanted
   */
  public record Shape(int rows, int tokens, long csrPages, int buffers) {
    /** The same without tables by buffer. */
    public Shape(int rows, int tokens, long csrPages) {
      this(rows, tokens, csrPages, 0);
    }

    /** Tables of that many rows, nothing else. */
    public static Shape rows(int rows) {
      return new Shape(rows, 0, 0);
    }
  }

  private static MemorySegment some(Arena arena, long elements, int bytes) {
    return elements == 0 ? MemorySegment.NULL : arena.allocate(elements * bytes, 64);
  }

  /** Forgets the sequences. */
  public void clear() {
    size = 0;
  }

  /**
   * Appends a sequence of which the batch computes so many tokens behind its history.
   *
   * @throws BerthException ARGUMENT if there is no room
   */
  public void add(long sequence, int tokens) {
    if (size == shape.rows) {
      throw new BerthException(Code.ARGUMENT, "the batch is full: " + shape.rows + " rows");
    }
    batch.handles().setAtIndex(JAVA_LONG, size, sequence);
    batch.queries().setAtIndex(JAVA_INT, size, tokens);
    size++;
  }

  /** Sequences. */
  public int size() {
    return size;
  }

  /** Rows that the last preparation filled. */
  public int rows() {
    return rows;
  }

  /**
   * How many steps of the cache's stream must have happened for the last preparation to be written:
   * in {@link KvConfig.Timing#EMULATION} what {@link KvCache#run} has done so far is held against
   * it.
   */
  public long step() {
    return step;
  }

  /** {@code int32[views][rows][2][maxBlocks]}: key pages, value pages. */
  public MemorySegment table() {
    return batch.table();
  }

  /**
   * {@code int64[lifeCycles][tokens]}: slot * tokens a block + offset of each token; -1: nowhere.
   */
  public MemorySegment slotMapping() {
    return batch.mapping();
  }

  /**
   * {@code int32[views][rows of the batch + 1]}: where each row's pages begin in {@link #indices}.
   */
  public MemorySegment indptr() {
    return batch.indptr();
  }

  /** {@code int32[views][csrPages]}: pages of one row after another. */
  public MemorySegment indices() {
    return batch.indices();
  }

  /** {@code int32[rows]}: tokens on each row's last page; 0: none. */
  public MemorySegment lastPageLength() {
    return batch.last();
  }

  /**
   * {@code int32[buffers][rows][maxBlocks]}: pages of each buffer, counted in its strides from its
   * pool's base; those of {@link KvOps#resizeChunk} too, which no other table names and the slot
   * mapping says are nowhere.
   */
  public MemorySegment bufferTable() {
    return batch.buffers();
  }

  /** {@code int32[states][rows]}: slots of recurrent states. */
  public MemorySegment stateSlots() {
    return batch.states();
  }

  /** Page of a block in a buffer's own table. */
  public int bufferPage(int buffer, int row, int block) {
    Objects.checkIndex(block, maxBlocks);
    long at =
        (long) Objects.checkIndex(buffer, shape.buffers) * shape.rows
            + Objects.checkIndex(row, shape.rows);
    return batch.buffers().getAtIndex(JAVA_INT, at * maxBlocks + block);
  }

  /** Key page of a block. */
  public int keyPage(int view, int row, int block) {
    return page(view, row, 0, block);
  }

  /** Value page of a block. */
  public int valuePage(int view, int row, int block) {
    return page(view, row, 1, block);
  }

  private int page(int view, int row, int plane, int block) {
    Objects.checkIndex(block, maxBlocks);
    long at = ((long) view * shape.rows + Objects.checkIndex(row, shape.rows)) * 2 + plane;
    return batch.table().getAtIndex(JAVA_INT, at * maxBlocks + block);
  }

  NativeKv.Batch batch() {
    return batch;
  }

  void prepared() {
    rows = NativeKv.rows(batch);
    step = NativeKv.step(batch);
  }
}
