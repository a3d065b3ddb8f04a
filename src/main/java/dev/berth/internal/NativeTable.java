// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.ffi.BerthNative;
import dev.berth.ffi.berth_demand;
import dev.berth.ffi.berth_held;
import dev.berth.ffi.berth_pick;
import dev.berth.ffi.berth_pool;
import dev.berth.ffi.berth_row;
import dev.berth.ffi.berth_schedule;
import dev.berth.ffi.berth_side_row;
import dev.berth.ffi.berth_table_config;
import dev.berth.ffi.berth_table_memory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Cleaner;
import java.util.Objects;

/**
 * The native scheduling table as Java sees it: memory that both sides map, one call an iteration.
 * Indexes are checked here; values are checked by {@link #check}. One thread at a time.
 */
public final class NativeTable extends Exclusive {
  /** One pool of pages. */
  public record PoolConfig(int window, boolean cross, long total, int pageIds) {}

  /** What may be done with the memory of a table that is a core's. */
  public enum Access {
    READ,
    WRITE
  }

  /** The lists that a call fills. */
  public enum Rows {
    FITTING,
    RECEIVING,
    PAUSED,
    RECOMPUTED,
    ENCODERS,
    GENERATIONS
  }

  private static final Cleaner CLEANER = Cleaner.create();
  private static final int CHECKED = BerthNative.BERTH_ROW_CHECKED();
  private static final int LIVE = BerthNative.BERTH_ROW_LIVE();
  private static final Rows[] LISTS = Rows.values();
  private static final String[] FIELDS = {
    "nothing",
    "was never initialised, or wasn't marked dirty after it was written",
    "state",
    "prompt tokens",
    "context cursor",
    "context chunk",
    "generated tokens",
    "max new tokens",
    "adapter",
    "beam width",
    "draft tokens",
    "cached tokens",
    "reusable tokens",
    "encoder tokens",
    "snapshot points",
    "page demand",
    "held pages",
    "cache",
    "launches in flight",
    "priority",
    "place in the active list"
  };

  private final MemorySegment handle; // NULL: the table is a core's
  private final Runnable end;
  private final Arena scope;
  private final Access access;
  private final int rows;
  private final int pools;
  private final int adapters;
  private final int heldPerRow;
  private final int snapshotsPerRow;
  private final MemorySegment row;
  private final MemorySegment side;
  private final MemorySegment demand;
  private final MemorySegment held;
  private final MemorySegment heldPages;
  private final MemorySegment snapshots;
  private final MemorySegment pool;
  private final MemorySegment adapterPages;
  private final MemorySegment active;
  private final MemorySegment schedule;
  private final MemorySegment contexts;
  private final MemorySegment[] lists = new MemorySegment[LISTS.length];
  private final MemorySegment scratch;

  private NativeTable(
      MemorySegment handle,
      Arena scope,
      Access access,
      MemorySegment map,
      int pools,
      int adapters,
      int heldPerRow,
      int snapshotsPerRow) {
    super("scheduling table");
    this.handle = handle;
    this.scope = scope;
    this.access = access;
    this.pools = pools;
    this.adapters = adapters;
    this.heldPerRow = heldPerRow;
    this.snapshotsPerRow = snapshotsPerRow;
    this.end =
        borrowed()
            ? () -> {}
            : CLEANER.register(this, () -> BerthNative.berth_table_destroy(handle))::clean;
    rows = berth_table_memory.rows(map);
    row = at(berth_table_memory.row_address(map), rows * berth_row.sizeof());
    side = at(berth_table_memory.side_address(map), rows * berth_side_row.sizeof());
    demand =
        at(berth_table_memory.demand_address(map), (long) rows * pools * berth_demand.sizeof());
    held = at(berth_table_memory.held_address(map), (long) rows * pools * berth_held.sizeof());
    heldPages =
        at(berth_table_memory.held_page_address(map), (long) rows * pools * heldPerRow * 4L);
    snapshots = at(berth_table_memory.snapshot_address(map), (long) rows * snapshotsPerRow * 4L);
    pool = at(berth_table_memory.pool_address(map), pools * berth_pool.sizeof());
    adapterPages = at(berth_table_memory.adapter_address(map), adapters * 4L);
    active = at(berth_table_memory.active_address(map), rows * 4L);
    schedule = at(berth_table_memory.schedule_address(map), berth_schedule.sizeof());
    contexts = at(berth_table_memory.context_address(map), rows * berth_pick.sizeof());
    lists[Rows.FITTING.ordinal()] = at(berth_table_memory.fitting_address(map), rows * 4L);
    lists[Rows.RECEIVING.ordinal()] = at(berth_table_memory.receiving_address(map), rows * 4L);
    lists[Rows.PAUSED.ordinal()] = at(berth_table_memory.paused_address(map), rows * 4L);
    lists[Rows.RECOMPUTED.ordinal()] = at(berth_table_memory.recomputed_address(map), rows * 4L);
    lists[Rows.ENCODERS.ordinal()] = at(berth_table_memory.encoder_address(map), rows * 4L);
    lists[Rows.GENERATIONS.ordinal()] = at(berth_table_memory.generation_address(map), rows * 4L);
    scratch = scope.allocate(rows * 4L, 4);
  }

  private MemorySegment at(long address, long bytes) {
    if (bytes == 0) {
      return MemorySegment.NULL;
    }
    MemorySegment memory = MemorySegment.ofAddress(address).reinterpret(bytes, scope, null);
    return access == Access.READ ? memory.asReadOnly() : memory;
  }

  private static MemorySegment emptyMap(Arena arena) {
    MemorySegment map = berth_table_memory.allocate(arena);
    berth_table_memory.struct_size(map, (int) berth_table_memory.sizeof());
    return map;
  }

  /** Whether the table is a core's, which makes all calls. */
  private boolean borrowed() {
    return handle.equals(MemorySegment.NULL);
  }

  /**
   * The table of a core, whose memory ends with {@code scope}.
   *
   * @param core its handle
   * @param pools pools that the core's cache has
   */
  static NativeTable borrow(MemorySegment core, int pools, Arena scope, Access access) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment map = emptyMap(arena);
      Status.check(BerthNative.berth_core_table(core, map), "map a rank core's table");
      return new NativeTable(MemorySegment.NULL, scope, access, map, pools, 0, 0, 0);
    }
  }

  /**
   * Creates a table.
   *
   * @param heldPerRow named pages that a row may hold in one pool
   * @param snapshotsPerRow snapshot points of a row
   * @throws BerthException ARGUMENT if a size or a pool is impossible, MEMORY if it can't be
   *     allocated
   */
  @SuppressWarnings("MustBeClosedChecker") // the scope ends with close()
  public static NativeTable create(
      int rows, PoolConfig[] pools, int adapters, int heldPerRow, int snapshotsPerRow) {
    NativeLibrary.load();
    long heldArena = (long) rows * pools.length * heldPerRow;
    long snapshotArena = (long) rows * snapshotsPerRow;
    if (rows < 1
        || heldPerRow < 0
        || snapshotsPerRow < 0
        || heldArena > Integer.MAX_VALUE
        || snapshotArena > Integer.MAX_VALUE) {
      throw new BerthException(
          Code.ARGUMENT,
          "a table of %d rows, %d pages a row and pool, %d snapshot points a row"
              .formatted(rows, heldPerRow, snapshotsPerRow));
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment config = berth_table_config.allocate(arena);
      berth_table_config.struct_size(config, (int) berth_table_config.sizeof());
      berth_table_config.rows(config, rows);
      berth_table_config.pools(config, pools.length);
      berth_table_config.adapters(config, adapters);
      berth_table_config.held_pages(config, (int) heldArena);
      berth_table_config.snapshots(config, (int) snapshotArena);
      MemorySegment list = berth_pool.allocateArray(Math.max(1, pools.length), arena);
      for (int p = 0; p < pools.length; p++) {
        MemorySegment one = berth_pool.asSlice(list, p);
        berth_pool.window(one, pools[p].window());
        berth_pool.cross(one, pools[p].cross() ? 1 : 0);
        berth_pool.free(one, Math.max(0, pools[p].total()));
        berth_pool.total(one, pools[p].total());
        berth_pool.page_ids(one, pools[p].pageIds());
      }
      MemorySegment out = arena.allocate(ValueLayout.ADDRESS);
      Status.check(BerthNative.berth_table_create(config, list, out), "create scheduling table");
      MemorySegment handle = out.get(ValueLayout.ADDRESS, 0);
      MemorySegment map = emptyMap(arena);
      Status.check(BerthNative.berth_table_map(handle, map), "map scheduling table");
      return new NativeTable(
          handle,
          Arena.ofShared(),
          Access.WRITE,
          map,
          pools.length,
          adapters,
          heldPerRow,
          snapshotsPerRow);
    }
  }

  // ------------------------------------------------------------------------------ rows

  public int rows() {
    return rows;
  }

  public int pools() {
    return pools;
  }

  public int adapters() {
    return adapters;
  }

  public int heldPerRow() {
    return heldPerRow;
  }

  public int snapshotsPerRow() {
    return snapshotsPerRow;
  }

  private MemorySegment rowOf(int index) {
    return berth_row.asSlice(row, Objects.checkIndex(index, rows));
  }

  private MemorySegment sideOf(int index) {
    return berth_side_row.asSlice(side, Objects.checkIndex(index, rows));
  }

  /** The row as it is to be written: it isn't schedulable until it was checked. */
  private MemorySegment dirty(int index) {
    MemorySegment r = rowOf(index);
    berth_row.flags(r, berth_row.flags(r) & ~CHECKED);
    return r;
  }

  private MemorySegment dirtySide(int index) {
    dirty(index);
    return sideOf(index);
  }

  /**
   * Initialises a row; what isn't an argument gets the value of a request that has nothing special.
   */
  public void begin(int index, long id, int state, int promptTokens, int maxNewTokens) {
    MemorySegment r = rowOf(index);
    r.asSlice(0, berth_row.sizeof()).fill((byte) 0); // asSlice of the bindings goes on to the end
    berth_row.request_id(r, id);
    berth_row.flags(r, LIVE);
    berth_row.state(r, state);
    berth_row.prompt_tokens(r, promptTokens);
    berth_row.max_new_tokens(r, maxNewTokens);
    berth_row.seat(r, -1);
    berth_row.lease(r, -1);
    berth_row.adapter(r, -1);
    berth_row.beam_width(r, (short) 1);
    MemorySegment s = sideOf(index);
    s.asSlice(0, berth_side_row.sizeof()).fill((byte) 0);
    berth_side_row.cache_tokens(s, -1);
    for (int p = 0; p < pools; p++) {
      demand(index, p, 0, 0, 0, 0);
      held(index, p, 0);
    }
  }

  /** Takes a row out of use. */
  public void end(int index) {
    berth_row.flags(rowOf(index), 0);
  }

  public boolean live(int index) {
    return (berth_row.flags(rowOf(index)) & LIVE) != 0;
  }

  public boolean checked(int index) {
    return (berth_row.flags(rowOf(index)) & CHECKED) != 0;
  }

  public long id(int index) {
    return berth_row.request_id(rowOf(index));
  }

  public int state(int index) {
    return berth_row.state(rowOf(index));
  }

  public void state(int index, int value) {
    berth_row.state(dirty(index), value);
  }

  public int promptTokens(int index) {
    return berth_row.prompt_tokens(rowOf(index));
  }

  public int maxNewTokens(int index) {
    return berth_row.max_new_tokens(rowOf(index));
  }

  public int contextCursor(int index) {
    return berth_row.context_cursor(rowOf(index));
  }

  public int cachedTokens(int index) {
    return berth_row.cached_tokens(rowOf(index));
  }

  public void context(int index, int cursor, int cached) {
    MemorySegment r = dirty(index);
    berth_row.context_cursor(r, cursor);
    berth_row.cached_tokens(r, cached);
  }

  public void contextChunk(int index, int value) {
    berth_row.context_chunk(dirty(index), value);
  }

  public int contextChunk(int index) {
    return berth_row.context_chunk(rowOf(index));
  }

  public int generatedTokens(int index) {
    return berth_row.generated_tokens(rowOf(index));
  }

  public void generatedTokens(int index, int value) {
    berth_row.generated_tokens(dirty(index), value);
  }

  public void adapter(int index, int value) {
    berth_row.adapter(dirty(index), value);
  }

  public int adapter(int index) {
    return berth_row.adapter(rowOf(index));
  }

  public void inFlight(int index, int value) {
    berth_row.in_flight(dirty(index), narrow(value));
  }

  public int inFlight(int index) {
    return berth_row.in_flight(rowOf(index));
  }

  public void beamWidth(int index, int value) {
    berth_row.beam_width(dirty(index), narrow(value));
  }

  public int beamWidth(int index) {
    return berth_row.beam_width(rowOf(index));
  }

  public void draftTokens(int index, int value) {
    berth_row.draft_tokens(dirty(index), narrow(value));
  }

  public int draftTokens(int index) {
    return berth_row.draft_tokens(rowOf(index));
  }

  /** A value that doesn't fit becomes one that the check refuses. */
  private static short narrow(int value) {
    return (short) value == value ? (short) value : -1;
  }

  public void encoderPending(int index, boolean value) {
    flag(index, BerthNative.BERTH_ROW_ENCODER_PENDING(), value);
  }

  public boolean encoderPending(int index) {
    return (berth_row.flags(rowOf(index)) & BerthNative.BERTH_ROW_ENCODER_PENDING()) != 0;
  }

  public void multimodal(int index, boolean value) {
    flag(index, BerthNative.BERTH_ROW_MULTIMODAL(), value);
  }

  private void flag(int index, int flag, boolean value) {
    MemorySegment r = dirty(index);
    int flags = berth_row.flags(r) & ~flag;
    berth_row.flags(r, value ? flags | flag : flags);
  }

  /** Says why a row waits, for a policy that isn't native. */
  public void waitFor(int index, int reason) {
    berth_row.wait_reason(rowOf(index), narrow(reason));
  }

  /** {@code berth_wait_reason}, with the pool in the second byte. */
  public int wait(int index) {
    return berth_row.wait_reason(rowOf(index));
  }

  // ------------------------------------------------------------------------------ side rows

  public void firstBlock(int index, long key) {
    berth_side_row.first_block(dirtySide(index), key);
  }

  public long firstBlock(int index) {
    return berth_side_row.first_block(sideOf(index));
  }

  public void crossFirstBlock(int index, long key) {
    berth_side_row.cross_first_block(dirtySide(index), key);
  }

  public void priority(int index, double value) {
    berth_side_row.priority(dirtySide(index), value);
  }

  public double priority(int index) {
    return berth_side_row.priority(sideOf(index));
  }

  public void reusableTokens(int index, int value) {
    berth_side_row.reusable_tokens(dirtySide(index), value);
  }

  public int reusableTokens(int index) {
    return berth_side_row.reusable_tokens(sideOf(index));
  }

  public void encoderTokens(int index, int value) {
    berth_side_row.encoder_tokens(dirtySide(index), value);
  }

  public int encoderTokens(int index) {
    return berth_side_row.encoder_tokens(sideOf(index));
  }

  /** Snapshot points of a row, ascending. */
  public void snapshots(int index, int[] points) {
    if (points.length > snapshotsPerRow) {
      throw new BerthException(
          Code.ARGUMENT,
          "row %d: %d snapshot points in a table for %d a row"
              .formatted(index, points.length, snapshotsPerRow));
    }
    MemorySegment s = dirtySide(index);
    int first = index * snapshotsPerRow;
    berth_side_row.snapshot_first(s, first);
    berth_side_row.snapshot_count(s, points.length);
    if (points.length > 0) {
      MemorySegment.copy(points, 0, snapshots, ValueLayout.JAVA_INT, first * 4L, points.length);
    }
  }

  /** One loop: tokens that the row's cache holds, -1 for none; whether it is resident. */
  public void cache(int index, int tokens, boolean resident) {
    MemorySegment s = dirtySide(index);
    berth_side_row.cache_tokens(s, tokens);
    berth_side_row.cache_active(s, resident ? 1 : 0);
  }

  public int cacheTokens(int index) {
    return berth_side_row.cache_tokens(sideOf(index));
  }

  public boolean cacheResident(int index) {
    return berth_side_row.cache_active(sideOf(index)) != 0;
  }

  public void prepareTokens(int index, int value) {
    berth_side_row.prepare_tokens(dirtySide(index), value);
  }

  // ------------------------------------------------------------------------------ pages

  private long entry(int index, int poolIndex) {
    return (long) Objects.checkIndex(index, rows) * pools + Objects.checkIndex(poolIndex, pools);
  }

  public void demand(
      int index, int poolIndex, int remaining, int oneStep, int twoStep, int credit) {
    MemorySegment d = berth_demand.asSlice(demand, entry(index, poolIndex));
    dirty(index);
    berth_demand.remaining(d, remaining);
    berth_demand.one_step(d, oneStep);
    berth_demand.two_step(d, twoStep);
    berth_demand.credit(d, credit);
  }

  public int remainingPages(int index, int poolIndex) {
    return berth_demand.remaining(berth_demand.asSlice(demand, entry(index, poolIndex)));
  }

  public int oneStepPages(int index, int poolIndex) {
    return berth_demand.one_step(berth_demand.asSlice(demand, entry(index, poolIndex)));
  }

  public int creditPages(int index, int poolIndex) {
    return berth_demand.credit(berth_demand.asSlice(demand, entry(index, poolIndex)));
  }

  /** Pages of its own, by number only. */
  public void held(int index, int poolIndex, int count) {
    MemorySegment h = berth_held.asSlice(held, entry(index, poolIndex));
    dirty(index);
    berth_held.first(h, -1);
    berth_held.count(h, count);
  }

  /**
   * Whether the row could give up pages, going by its state alone in a table of the caller's. In a
   * core's it must hold some, no launched batch may write them, and it mustn't have them for good.
   */
  public boolean mayPause(int index) {
    MemorySegment r = rowOf(index);
    return !borrowed()
        || (berth_row.lease(r) >= 0
            && berth_row.in_flight(r) == 0
            && (berth_row.flags(r) & BerthNative.BERTH_ROW_STAYS()) == 0);
  }

  /** Pages by id, which others may hold too. */
  public void held(int index, int poolIndex, int[] pages, int count) {
    if (count < 0 || count > pages.length || count > heldPerRow) {
      throw new BerthException(
          Code.ARGUMENT,
          "row %d, pool %d: %d named pages in a table for %d"
              .formatted(index, poolIndex, count, heldPerRow));
    }
    long entry = entry(index, poolIndex);
    MemorySegment h = berth_held.asSlice(held, entry);
    dirty(index);
    int first = (int) (entry * heldPerRow);
    berth_held.first(h, first);
    berth_held.count(h, count);
    if (count > 0) {
      MemorySegment.copy(pages, 0, heldPages, ValueLayout.JAVA_INT, first * 4L, count);
    }
  }

  public int heldCount(int index, int poolIndex) {
    return berth_held.count(berth_held.asSlice(held, entry(index, poolIndex)));
  }

  public void freePages(int poolIndex, long pages) {
    berth_pool.free(berth_pool.asSlice(pool, Objects.checkIndex(poolIndex, pools)), pages);
  }

  /** Pages of a pool, -1 if nobody knows. */
  public long totalPages(int poolIndex) {
    return berth_pool.total(berth_pool.asSlice(pool, Objects.checkIndex(poolIndex, pools)));
  }

  public long freePages(int poolIndex) {
    return berth_pool.free(berth_pool.asSlice(pool, Objects.checkIndex(poolIndex, pools)));
  }

  public void adapterPages(int adapter, int pages) {
    adapterPages.setAtIndex(ValueLayout.JAVA_INT, Objects.checkIndex(adapter, adapters), pages);
  }

  public int adapterPages(int adapter) {
    return adapterPages.getAtIndex(ValueLayout.JAVA_INT, Objects.checkIndex(adapter, adapters));
  }

  // ------------------------------------------------------------------------------ the active list

  public int activeSize() {
    return berth_schedule.active(schedule);
  }

  public int active(int place) {
    return active.getAtIndex(ValueLayout.JAVA_INT, Objects.checkIndex(place, activeSize()));
  }

  /** Inserts a row before a place. */
  public void insertActive(int place, int index) {
    int size = activeSize();
    if (size == rows) {
      throw new BerthException(
          Code.STATE, "the active list already holds all %d rows".formatted(rows));
    }
    Objects.checkIndex(place, size + 1);
    Objects.checkIndex(index, rows);
    MemorySegment.copy(active, place * 4L, active, (place + 1) * 4L, (size - place) * 4L);
    active.setAtIndex(ValueLayout.JAVA_INT, place, index);
    berth_schedule.active(schedule, size + 1);
  }

  /** Drops the rows that are marked, keeps the order. Reads no row. */
  public void compactActive(boolean[] gone) {
    int size = activeSize();
    int kept = 0;
    for (int i = 0; i < size; i++) {
      int index = active.getAtIndex(ValueLayout.JAVA_INT, i);
      if (!gone[index]) {
        active.setAtIndex(ValueLayout.JAVA_INT, kept++, index);
      }
    }
    berth_schedule.active(schedule, kept);
  }

  /** {@code berth_row[rows]}; dies with this table. */
  public MemorySegment rowMemory() {
    return row;
  }

  /** {@code berth_demand[rows][pools]}; dies with this table. */
  public MemorySegment demandMemory() {
    return demand;
  }

  /** {@code int32_t[rows]}, the active list; dies with this table. */
  public MemorySegment activeMemory() {
    return active;
  }

  // ------------------------------------------------------------------------------ calls

  /**
   * Checks one row.
   *
   * @throws BerthException ARGUMENT, naming row and field
   */
  public void check(int index) {
    scratch.setAtIndex(ValueLayout.JAVA_INT, 0, Objects.checkIndex(index, rows));
    checkScratch(1);
  }

  /** Checks rows in order; the first bad one is thrown, those behind it aren't looked at. */
  public void check(int[] indexes, int count) {
    Objects.checkFromIndexSize(0, count, indexes.length);
    int done = 0;
    while (done < count) {
      int n = Math.min(rows, count - done);
      for (int i = 0; i < n; i++) {
        scratch.setAtIndex(ValueLayout.JAVA_INT, i, Objects.checkIndex(indexes[done + i], rows));
      }
      checkScratch(n);
      done += n;
    }
  }

  private void checkScratch(int count) {
    enter();
    int status = BerthNative.berth_table_check(handle, scratch, count);
    leave();
    if (status != BerthNative.BERTH_OK()) {
      throw refusal(status, "check rows");
    }
  }

  /** Throws CONFIGURATION if rules can't work on this table. */
  public void check(NativeRules rules) {
    enter();
    int status = BerthNative.berth_rules_check(handle, rules.memory, scratch);
    leave();
    if (status != BerthNative.BERTH_OK()) {
      throw new BerthException(
          Code.CONFIGURATION,
          "scheduling rules: " + NativeRules.field(scratch.getAtIndex(ValueLayout.JAVA_INT, 0)));
    }
  }

  /** One iteration. */
  public void schedule(NativeRules rules) {
    enter();
    int status = BerthNative.berth_table_schedule(handle, rules.memory);
    leave();
    if (status != BerthNative.BERTH_OK()) {
      throw refusal(status, "schedule");
    }
  }

  /** Puts a paused row back to its start. */
  public void pause(int index, int maxInputTokens) {
    Objects.checkIndex(index, rows);
    enter();
    int status = BerthNative.berth_table_pause(handle, index, maxInputTokens);
    leave();
    if (status != BerthNative.BERTH_OK()) {
      throw refusal(status, "pause row " + index);
    }
  }

  /** The exception of a call on this table that didn't end well. */
  BerthException refusal(int status, String what) {
    if (status != BerthNative.BERTH_E_ROW()) {
      return Status.exception(status, what);
    }
    int index = berth_schedule.row(schedule);
    int field = berth_schedule.field(schedule);
    String about = field == BerthNative.BERTH_FIELD_LIVE() ? " " : " has a bad ";
    String request = index >= 0 && index < rows ? " (request " + id(index) + ")" : "";
    return new BerthException(
        Code.ARGUMENT, what + ": row " + index + request + about + FIELDS[field]);
  }

  // ------------------------------------------------------------------------------ the plan

  public int count(Rows list) {
    return switch (list) {
      case FITTING -> berth_schedule.fitting(schedule);
      case RECEIVING -> berth_schedule.receiving(schedule);
      case PAUSED -> berth_schedule.paused(schedule);
      case RECOMPUTED -> berth_schedule.recomputed(schedule);
      case ENCODERS -> berth_schedule.encoders(schedule);
      case GENERATIONS -> berth_schedule.generations(schedule);
    };
  }

  public int at(Rows list, int place) {
    return lists[list.ordinal()].getAtIndex(
        ValueLayout.JAVA_INT, Objects.checkIndex(place, count(list)));
  }

  public int copy(Rows list, int[] to) {
    int n = count(list);
    MemorySegment.copy(lists[list.ordinal()], ValueLayout.JAVA_INT, 0, to, 0, n);
    return n;
  }

  /** Empties the lists of the capacity stage, for a policy that fills them itself. */
  public void clearSelection() {
    berth_schedule.fitting(schedule, 0);
    berth_schedule.receiving(schedule, 0);
    berth_schedule.paused(schedule, 0);
  }

  /** Appends to a list of the capacity stage. */
  public void append(Rows list, int index) {
    int n = count(list);
    Objects.checkIndex(n, rows);
    lists[list.ordinal()].setAtIndex(ValueLayout.JAVA_INT, n, Objects.checkIndex(index, rows));
    switch (list) {
      case FITTING -> berth_schedule.fitting(schedule, n + 1);
      case RECEIVING -> berth_schedule.receiving(schedule, n + 1);
      case PAUSED -> berth_schedule.paused(schedule, n + 1);
      default -> throw new IllegalArgumentException(list + " belongs to the native side");
    }
  }

  public int contexts() {
    return berth_schedule.contexts(schedule);
  }

  private MemorySegment pick(int place) {
    return berth_pick.asSlice(contexts, Objects.checkIndex(place, contexts()));
  }

  public int contextRow(int place) {
    return berth_pick.row(pick(place));
  }

  public int contextTokens(int place) {
    return berth_pick.tokens(pick(place));
  }

  public int contextDrafts(int place) {
    return berth_pick.drafts(pick(place));
  }

  public int contextPosition(int place) {
    return berth_pick.position(pick(place));
  }

  public long batchTokens() {
    return berth_schedule.batch_tokens(schedule);
  }

  public boolean stalled() {
    return berth_schedule.stalled(schedule) != 0;
  }

  public int deferred(int reason) {
    return berth_schedule.deferred(
        schedule, Objects.checkIndex(reason, BerthNative.BERTH_WAIT_REASONS()));
  }

  public int shortOf(int poolIndex) {
    return berth_schedule.short_of(schedule, Objects.checkIndex(poolIndex, pools));
  }

  @Override
  void enter() {
    own();
    super.enter();
  }

  private void own() {
    if (borrowed()) {
      throw new BerthException(
          Code.STATE, "the table is an engine's: its rows are the engine's to check and schedule");
    }
  }

  @Override
  public void close() {
    own();
    super.close();
  }

  @Override
  void free() {
    scope.close();
    end.run();
  }
}
