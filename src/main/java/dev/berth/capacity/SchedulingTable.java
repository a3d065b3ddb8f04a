// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeTable;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;

/**
 * The requests of one rank as scheduling sees them: rows in native memory, what each needs and
 * holds of every pool, and their order. For those who keep their own loop or their own cache
 * manager; an engine has its own.
 *
 * <p>A row is begun, described, and marked dirty. Marking checks it: a bad row is refused with its
 * number and field, and scheduling never sees a row that was written and not marked. The order is
 * by priority, then by entry.
 *
 * <p>Not thread-safe. Nothing is allocated after construction.
 */
public final class SchedulingTable implements AutoCloseable {
  /** Who has the pages of a one-loop cache. */
  public enum Residency {
    RESIDENT,
    SUSPENDED
  }

  private static final double DEFAULT_PRIORITY = 0.5;

  private final NativeTable table;
  private final TableShape shape;
  private final boolean[] gone;
  private final int[] left;
  private int leftCount;

  /**
   * An empty table.
   *
   * @throws BerthException ARGUMENT if a size is impossible
   */
  public SchedulingTable(TableShape shape) {
    this.shape = shape;
    this.gone = new boolean[Math.max(0, shape.rows())];
    this.left = new int[Math.max(0, shape.rows())];
    NativeTable.PoolConfig[] pools =
        shape.pools().stream()
            .map(pool ->
                new NativeTable.PoolConfig(
                    pool.window(),
                    pool.cache() == Pool.Cache.CROSS,
                    pool.totalPages(),
                    pool.pageIds()))
            .toArray(NativeTable.PoolConfig[]::new);
    this.table =
        NativeTable.create(
            shape.rows(),
            pools,
            shape.adapters(),
            shape.heldPagesPerRow(),
            shape.snapshotPointsPerRow());
  }

  /** A table that is somebody else's, an engine's: to be read. */
  private SchedulingTable(NativeTable table, TableShape shape) {
    this.shape = shape;
    this.gone = new boolean[0];
    this.left = new int[0];
    this.table = table;
  }

  static SchedulingTable of(NativeTable table) {
    Pool[] pools = new Pool[table.pools()];
    for (int pool = 0; pool < pools.length; pool++) {
      pools[pool] = Pool.self(Integer.MAX_VALUE, table.totalPages(pool));
    }
    return new SchedulingTable(table, TableShape.of(table.rows(), pools));
  }

  NativeTable memory() {
    return table;
  }

  /** The sizes. */
  public TableShape shape() {
    return shape;
  }

  // ------------------------------------------------------------------------------ a row's life

  /**
   * Starts a row: default priority, beam 1, nothing held, nothing needed.
   *
   * @param row 0 .. rows - 1; it must not be in the order
   * @param id the caller's, returned with results
   * @param promptTokens 1 or more
   * @param maxNewTokens 0 or more
   * @throws BerthException STATE if the row is in use
   */
  public void begin(int row, long id, RequestState state, int promptTokens, int maxNewTokens) {
    if (table.live(row)) {
      throw new BerthException(Code.STATE, "row " + row + " is in use by request " + table.id(row));
    }
    if (gone[row]) {
      settleOrder();
    }
    table.begin(row, id, state.value(), promptTokens, maxNewTokens);
    table.priority(row, DEFAULT_PRIORITY);
  }

  /**
   * Says that a row was written and is whole.
   *
   * @throws BerthException ARGUMENT, naming row and field, if it isn't fit to be scheduled
   */
  public void markDirty(int row) {
    table.check(row);
  }

  /**
   * The same for {@code rows[0 .. count)} in one call. Rows behind the first bad one stay unmarked.
   */
  public void markDirty(int[] rows, int count) {
    table.check(rows, count);
  }

  /** Puts a row into the order: behind all of its priority and higher (spec 02 §1.4). */
  public void enter(int row) {
    if (!table.live(row)) {
      throw new BerthException(Code.STATE, "row " + row + " was never begun");
    }
    settleOrder();
    double priority = table.priority(row);
    int low = 0;
    int high = table.activeSize();
    if (high == 0 || table.priority(table.active(high - 1)) >= priority) {
      low = high;
    }
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (table.priority(table.active(middle)) >= priority) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    table.insertActive(low, row);
  }

  /** Ends a row; it leaves the order. */
  public void leave(int row) {
    if (!table.live(row)) {
      throw new BerthException(Code.STATE, "row " + row + " isn't in use");
    }
    table.end(row);
    gone[row] = true;
    left[leftCount++] = row;
  }

  /** Rows that ended leave the order in one pass over it. */
  void settleOrder() {
    if (leftCount > 0) {
      table.compactActive(gone);
      while (leftCount > 0) {
        gone[left[--leftCount]] = false;
      }
    }
  }

  /** Requests in the order. */
  public int size() {
    settleOrder();
    return table.activeSize();
  }

  /** The row at a place of the order. */
  public int row(int place) {
    settleOrder();
    return table.active(place);
  }

  /**
   * Puts a paused row back to its start (spec 02 §1.3): beam 1 keeps its tokens as the new prompt,
   * at most {@code maxInputTokens} of them; a wider beam loses what it generated. Pages and seat
   * are the caller's to release. Mark the row when its demand is written.
   */
  public void pause(int row, int maxInputTokens) {
    table.pause(row, maxInputTokens);
  }

  // ------------------------------------------------------------------------------ describing a row

  public long id(int row) {
    return table.id(row);
  }

  public RequestState state(int row) {
    return RequestState.of(table.state(row));
  }

  public void state(int row, RequestState value) {
    table.state(row, value.value());
  }

  public int promptTokens(int row) {
    return table.promptTokens(row);
  }

  public int maxNewTokens(int row) {
    return table.maxNewTokens(row);
  }

  /**
   * Where the context stands.
   *
   * @param cursor prompt tokens computed or found, less than the prompt while it is a context
   * @param cached those that were found in the cache; {@code cursor == cached} is the first chunk
   */
  public void context(int row, int cursor, int cached) {
    table.context(row, cursor, cached);
  }

  /** Prompt tokens computed or found in the cache. */
  public int cursor(int row) {
    return table.contextCursor(row);
  }

  /** Prompt tokens found in the cache. */
  public int cachedTokens(int row) {
    return table.cachedTokens(row);
  }

  /** Tokens of the chunk in work, at most what remains. */
  public void contextChunk(int row, int tokens) {
    table.contextChunk(row, tokens);
  }

  /** Output tokens so far, of one beam. */
  public void generatedTokens(int row, int tokens) {
    table.generatedTokens(row, tokens);
  }

  public int generatedTokens(int row) {
    return table.generatedTokens(row);
  }

  public void draftTokens(int row, int tokens) {
    table.draftTokens(row, tokens);
  }

  public int draftTokens(int row) {
    return table.draftTokens(row);
  }

  /** Beam width of the next iteration, 1 or more. */
  public void beamWidth(int row, int width) {
    table.beamWidth(row, width);
  }

  public int beamWidth(int row) {
    return table.beamWidth(row);
  }

  /** Number of its LoRA adapter, -1 for none. */
  public void adapter(int row, int adapter) {
    table.adapter(row, adapter);
  }

  public int adapter(int row) {
    return table.adapter(row);
  }

  /** Launched batches that hold it and haven't come back: 0 or more. */
  public void inFlight(int row, int launches) {
    table.inFlight(row, launches);
  }

  public int inFlight(int row) {
    return table.inFlight(row);
  }

  /** Higher goes first. Only read when the row enters the order. */
  public void priority(int row, double priority) {
    table.priority(row, priority);
  }

  /**
   * Length of the encoder's output in tokens; 1 or more in state {@link RequestState#ENCODER_INIT}.
   */
  public void encoderTokens(int row, int tokens) {
    table.encoderTokens(row, tokens);
  }

  public int encoderTokens(int row) {
    return table.encoderTokens(row);
  }

  /** A context that needs encoder output which isn't there: it isn't looked at. */
  public void awaitEncoder(int row) {
    table.encoderPending(row, true);
  }

  /** Its encoder output is there. */
  public void encoderReady(int row) {
    table.encoderPending(row, false);
  }

  /** Whether it waits for encoder output. */
  public boolean awaitsEncoder(int row) {
    return table.encoderPending(row);
  }

  /** A generation that can't be computed again from its tokens. */
  public void multimodal(int row) {
    table.multimodal(row, true);
  }

  /** Key of the first block that it would newly contribute (spec 02 §5); 0 for none. */
  public void firstBlock(int row, long key) {
    table.firstBlock(row, key);
  }

  public long firstBlock(int row) {
    return table.firstBlock(row);
  }

  /** The same in the cross cache. */
  public void crossFirstBlock(int row, long key) {
    table.crossFirstBlock(row, key);
  }

  /** Prompt tokens that the cache is expected to save (spec 02 §4.4). */
  public void reusableTokens(int row, int tokens) {
    table.reusableTokens(row, tokens);
  }

  public int reusableTokens(int row) {
    return table.reusableTokens(row);
  }

  /**
   * Where {@link Chunking#FORCE_CHUNK} must stop: positions in the prompt, ascending, 1 or more.
   */
  public void snapshotPoints(int row, int... points) {
    table.snapshots(row, points);
  }

  /**
   * Pages that a row needs of a pool, before the credit is taken off.
   *
   * @param remaining up to its last token
   * @param oneStep for the next step
   * @param twoSteps for the next two
   * @param credit reusable pages that somebody refers to
   */
  public void demand(int row, int pool, int remaining, int oneStep, int twoSteps, int credit) {
    table.demand(row, pool, remaining, oneStep, twoSteps, credit);
  }

  public int remainingPages(int row, int pool) {
    return table.remainingPages(row, pool);
  }

  public int oneStepPages(int row, int pool) {
    return table.oneStepPages(row, pool);
  }

  public int creditPages(int row, int pool) {
    return table.creditPages(row, pool);
  }

  /** It holds so many pages of a pool that nobody shares. */
  public void held(int row, int pool, int pages) {
    table.held(row, pool, pages);
  }

  /** It holds these pages of a pool, which others may hold too: {@code pages[0 .. count)}. */
  public void held(int row, int pool, int[] pages, int count) {
    table.held(row, pool, pages, count);
  }

  public int heldPages(int row, int pool) {
    return table.heldCount(row, pool);
  }

  /** One loop: it has a cache for so many tokens. */
  public void cache(int row, int tokens, Residency residency) {
    table.cache(row, tokens, residency == Residency.RESIDENT);
  }

  /** One loop: it has no cache. */
  public void noCache(int row) {
    table.cache(row, -1, false);
  }

  /** One loop: tokens that its cache holds, -1 if it has none. */
  public int cacheTokens(int row) {
    return table.cacheTokens(row);
  }

  public Residency residency(int row) {
    return table.cacheResident(row) ? Residency.RESIDENT : Residency.SUSPENDED;
  }

  /** One loop: prompt tokens that its first look into the cache will find. */
  public void prepareTokens(int row, int tokens) {
    table.prepareTokens(row, tokens);
  }

  /**
   * Whether a policy may pause the row. In an engine's table only who holds pages that no launched
   * batch writes, and not who couldn't come back (docs/policies.md).
   */
  public boolean mayPause(int row) {
    int state = table.state(row);
    return state >= RequestState.CONTEXT_INIT.value()
        && state <= RequestState.RETIRING.value()
        && table.mayPause(row);
  }

  // ------------------------------------------------------------------------------ pools and
  // adapters

  /** Pages of a pool that nobody refers to, cached ones included. */
  public void freePages(int pool, long pages) {
    table.freePages(pool, pages);
  }

  public long freePages(int pool) {
    return table.freePages(pool);
  }

  /** Device pages that an adapter takes, 0 or more. */
  public void adapterPages(int adapter, int pages) {
    if (pages < 0) {
      throw new BerthException(
          Code.ARGUMENT, "adapter %d takes %d pages".formatted(adapter, pages));
    }
    table.adapterPages(adapter, pages);
  }

  // ------------------------------------------------------------------------------ what came out

  /** Why the row didn't run in the last iteration. */
  public WaitReason waitReason(int row) {
    return WaitReason.of(table.wait(row) & 0xff);
  }

  /** The pool whose pages it lacks, where {@link #waitReason} is {@link WaitReason#PAGES}. */
  public int waitPool(int row) {
    return table.wait(row) >> 8;
  }

  @Override
  public void close() {
    table.close();
  }
}
