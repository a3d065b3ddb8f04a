// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeCore;
import dev.berth.kv.KvStatus;
import dev.berth.kv.KvTables;
import dev.berth.kv.KvView;
import dev.berth.request.RequestTable;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One batch as its {@link ModelRunner} sees it: columns off the heap, an element a batch position,
 * generations first, then the padding, then contexts. What is in them is read-only and stays as it
 * is from the launch of the batch until it is collected; then the memory is used for a later batch.
 * Columns are filled when they are first asked for.
 *
 * <p>A position computes {@link #lengths} tokens of its sequence, the first at place {@link
 * #firsts}: for a context a chunk of its prompt, for a generation one token and its drafts.
 */
public final class BatchView {
  private final RankEngine engine;
  private final NativeCore core;
  private final RequestTable table;
  private final int slot;
  private final NativeCore.Columns columns;
  private final NativeCore.Columns readOnly;
  private final Batch batch;
  private final BatchResults results = new BatchResults(this);
  private int size;
  private boolean filled;
  private boolean prepared;
  private @Nullable MemorySegment inputs;
  private int inputCount = -1;
  private @Nullable KvTables tables;

  BatchView(RankEngine engine, NativeCore core, RequestTable table, int slot) {
    this.engine = engine;
    this.core = core;
    this.table = table;
    this.slot = slot;
    this.batch = new Batch(engine, core, table);
    Arena arena = Arena.ofAuto();
    int n = core.positions();
    columns =
        new NativeCore.Columns(
            arena.allocate(JAVA_LONG, n),
            arena.allocate(JAVA_INT, n),
            arena.allocate(JAVA_INT, n),
            arena.allocate(JAVA_INT, n),
            arena.allocate(JAVA_INT, n),
            arena.allocate(JAVA_INT, n),
            arena.allocate(JAVA_INT, n),
            arena.allocate(JAVA_INT, n),
            arena.allocate(JAVA_INT, n));
    readOnly =
        new NativeCore.Columns(
            columns.ids().asReadOnly(),
            columns.rows().asReadOnly(),
            columns.children().asReadOnly(),
            columns.kinds().asReadOnly(),
            columns.seats().asReadOnly(),
            columns.leases().asReadOnly(),
            columns.firsts().asReadOnly(),
            columns.tokens().asReadOnly(),
            columns.drafts().asReadOnly());
  }

  /** The batch that was just put into the slot. */
  BatchView launched(int newSize) {
    size = newSize;
    filled = false;
    prepared = false;
    inputCount = -1;
    batch.set(slot, newSize);
    return this;
  }

  Batch batch() {
    return batch;
  }

  BatchResults results() {
    return results;
  }

  /** The rank that runs it. */
  public int rank() {
    return engine.rank();
  }

  /** The pipeline stage that runs it. */
  public int stage() {
    return engine.stage();
  }

  /**
   * Which of the rank's batches under way this is, 0 .. {@link RankSetup#slots} - 1: the same when
   * it is launched and when it is collected.
   */
  public int slot() {
    return slot;
  }

  /** Batch positions, the padding's included. */
  public int size() {
    return size;
  }

  /** {@code int64[size]}: request ids; the padding's is -1. */
  public MemorySegment ids() {
    return filled().ids();
  }

  /** {@code int32[size]}: rows of the {@link RequestTable}. */
  public MemorySegment rows() {
    return filled().rows();
  }

  /** {@code int32[size]}: which further sequence of its request runs there; 0: the first. */
  public MemorySegment children() {
    return filled().children();
  }

  /** {@code int32[size]}: 1: context, 2: generation, 3: padding. */
  public MemorySegment kinds() {
    return filled().kinds();
  }

  /** {@code int32[size]}: seats, 0 .. seats - 1; the padding's is the one behind them. */
  public MemorySegment seats() {
    return filled().seats();
  }

  /** {@code int32[size]}: leases; -1: the padding's, if none is reserved for it. */
  public MemorySegment leases() {
    return filled().leases();
  }

  /** {@code int32[size]}: place of the first token in its sequence. */
  public MemorySegment firsts() {
    return filled().firsts();
  }

  /** {@code int32[size]}: tokens computed. */
  public MemorySegment lengths() {
    return filled().tokens();
  }

  /** {@code int32[size]}: draft tokens among them. */
  public MemorySegment drafts() {
    return filled().drafts();
  }

  private NativeCore.Columns filled() {
    if (!filled) {
      core.columns(slot, size, columns);
      filled = true;
    }
    return readOnly;
  }

  /**
   * {@code int32[]}: the tokens to compute, one position after another; -1 where the host doesn't
   * know it yet, because the batch that makes it is still under way, or drafts it. To be asked for
   * before the batch is collected.
   *
   * @throws BerthException STATE if this engine only counts tokens
   */
  public MemorySegment inputs() {
    if (core.tokenMemory().byteSize() == 0) {
      throw new BerthException(Code.STATE, "this engine counts tokens, it doesn't keep them");
    }
    MemorySegment to = inputs;
    if (inputCount < 0) {
      int n = 0;
      for (int i = 0; i < size; i++) {
        n += core.entryTokens(slot, i);
      }
      if (to == null || to.byteSize() < (long) n * Integer.BYTES) {
        to = Arena.ofAuto().allocate(JAVA_INT, 2L * n);
        inputs = to;
      }
      inputCount = core.inputs(slot, size, to);
    }
    return java.util.Objects.requireNonNull(to)
        .asSlice(0, (long) inputCount * Integer.BYTES)
        .asReadOnly();
  }

  /** {@code int32[ranks]}: tokens of each rank's batch in this forward. */
  public MemorySegment rankTokens() {
    return engine.rankTokens().asReadOnly();
  }

  /** The rank's requests, by row. */
  public RequestTable table() {
    return table;
  }

  /** What runs at a position. */
  public Batch.Kind kind(int position) {
    return batch.kind(position);
  }

  /** Row of the request table at a position. */
  public int row(int position) {
    return batch.row(position);
  }

  /** Tokens computed at a position. */
  public int length(int position) {
    return batch.tokens(position);
  }

  /** Place in its sequence of the first token computed at a position. */
  public int first(int position) {
    return batch.firstToken(position);
  }

  /**
   * Does a position make an output token? Every generation does, a context with its last chunk,
   * padding never.
   */
  public boolean makesToken(int position) {
    return batch.makesToken(position);
  }

  /**
   * Does a sequence that another worker began take its first step here at a position? Its state
   * outside of the KV cache, a sampler's, begins with the token at {@link #first}.
   */
  public boolean received(int position) {
    int row = row(position);
    return engine.receives(row)
        && kind(position) == Batch.Kind.GENERATION
        && first(position) == table.promptTokens(row);
  }

  /**
   * The block tables of the batch, a row a position; the memory belongs to this batch until it is
   * collected. To be asked for while the batch is being launched, once at least.
   *
   * @throws BerthException STATE if pages are only counted, or if it is too late
   */
  public KvTables tables() {
    KvTables mine = tables;
    if (mine == null) {
      mine = kv().newTables(KvTables.Shape.rows(core.positions()));
      tables = mine;
    }
    if (!prepared) {
      require(fill(mine));
      prepared = true;
    }
    return mine;
  }

  /**
   * Fills tables of the runner's own shape, while the batch is being launched.
   *
   * @return as {@link KvView#prepare}
   */
  public KvStatus fill(KvTables own) {
    return kv().prepare(own, KvTables.Padding.CLEARED);
  }

  private KvView kv() {
    Optional<KvView> kv = engine.kv();
    return kv.orElseThrow(
        () -> new BerthException(Code.STATE, "this engine counts pages, it has no block tables"));
  }

  private static void require(KvStatus status) {
    if (status != KvStatus.OK) {
      throw new BerthException(Code.STATE, "block tables can't be filled now: " + status);
    }
  }
}
