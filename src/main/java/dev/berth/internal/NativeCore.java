// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.ffi.BerthNative;
import dev.berth.ffi.berth_admit;
import dev.berth.ffi.berth_change;
import dev.berth.ffi.berth_cold_row;
import dev.berth.ffi.berth_core_config;
import dev.berth.ffi.berth_core_memory;
import dev.berth.ffi.berth_done;
import dev.berth.ffi.berth_entry;
import dev.berth.ffi.berth_iteration;
import dev.berth.ffi.berth_row;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Cleaner;
import java.util.Objects;

/**
 * The native rank core as Java sees it: three calls an iteration, everything else is memory that
 * both sides map. One thread at a time.
 */
public final class NativeCore extends Exclusive {
  /** Number of deferral reasons. */
  public static final int REASONS = BerthNative.BERTH_WAIT_REASONS();

  /** Bits of {@link #resultBits}. */
  public static final int STOP = BerthNative.BERTH_RESULT_STOP();

  public static final int FAILED = BerthNative.BERTH_RESULT_FAILED();

  private static final Cleaner CLEANER = Cleaner.create();

  private final MemorySegment handle;
  private final Cleaner.Cleanable cleanable;
  private final int rows;
  private final int ring;
  private final int entriesPerBatch;
  private final PoolSizes pools;
  private final MemorySegment iteration;
  private final MemorySegment rowMemory;
  private final MemorySegment coldMemory;
  private final MemorySegment admits;
  private final MemorySegment changes;
  private final MemorySegment receives;
  private final MemorySegment sends;
  private final MemorySegment encodes;
  private final MemorySegment done;
  private final MemorySegment entries;
  private final MemorySegment results;
  private final MemorySegment sampled;
  private final MemorySegment freeRows;
  private final MemorySegment tokens;
  private final long tokenStride;
  private final NativeKv kv;
  private final Arena scope = Arena.ofShared();
  private final MemorySegment fitReason = scope.allocate(ValueLayout.JAVA_INT);
  private final MemorySegment fitNumbers = scope.allocate(ValueLayout.JAVA_LONG, 2);
  private final MemorySegment fitAvailable = fitNumbers.asSlice(Long.BYTES);
  private long calls;

  @SuppressWarnings("MustBeClosedChecker") // the scope ends with close()
  private NativeCore(MemorySegment handle, Cache cache) {
    super("rank core");
    this.handle = handle;
    Arena memory = scope;
    this.cleanable = CLEANER.register(this, () -> destroy(memory, handle));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment map = berth_core_memory.allocate(arena);
      berth_core_memory.struct_size(map, (int) berth_core_memory.sizeof());
      Status.check(BerthNative.berth_core_map(handle, map), "map rank core");
      rows = berth_core_memory.rows(map);
      ring = berth_core_memory.ring(map);
      entriesPerBatch = berth_core_memory.entries_per_batch(map);
      pools =
          new PoolSizes(
              berth_core_memory.seats(map),
              berth_core_memory.leases(map),
              berth_core_memory.reserved_leases(map),
              berth_core_memory.batch_positions(map),
              berth_core_memory.table_rows(map));
      iteration = at(berth_core_memory.iteration_address(map), berth_iteration.sizeof());
      rowMemory = at(berth_core_memory.row_address(map), rows * berth_row.sizeof());
      coldMemory = at(berth_core_memory.cold_address(map), rows * 64L);
      admits = at(berth_core_memory.admit_address(map), (rows - 1) * berth_admit.sizeof());
      changes = at(berth_core_memory.change_address(map), (rows - 1) * berth_change.sizeof());
      receives = at(berth_core_memory.receive_address(map), rows * 4L);
      sends = at(berth_core_memory.send_address(map), rows * 4L);
      encodes = at(berth_core_memory.encode_address(map), rows * 4L);
      done = at(berth_core_memory.done_address(map), rows * berth_done.sizeof());
      entries =
          at(
              berth_core_memory.entry_address(map),
              (long) ring * entriesPerBatch * berth_entry.sizeof());
      results = at(berth_core_memory.result_address(map), (long) ring * entriesPerBatch);
      sampled =
          at(berth_core_memory.sampled_address(map), (long) ring * entriesPerBatch * Integer.BYTES);
      freeRows = at(berth_core_memory.free_address(map), (rows - 1) * (long) Integer.BYTES);
      tokenStride = berth_core_memory.token_stride(map);
      tokens =
          tokenStride == 0
              ? MemorySegment.NULL
              : at(berth_core_memory.token_address(map), (rows - 1) * tokenStride * Integer.BYTES);
      MemorySegment out = arena.allocate(ValueLayout.ADDRESS);
      Status.check(BerthNative.berth_core_kv(handle, out), "find a rank core's KV cache");
      kv = NativeKv.borrow(out.get(ValueLayout.ADDRESS, 0), cache, new Guard(), scope);
    }
  }

  /**
   * First the views end, then what they look at: a table that outlives its engine finds itself
   * closed.
   */
  private static void destroy(Arena memory, MemorySegment handle) {
    memory.close();
    BerthNative.berth_core_destroy(handle);
  }

  private MemorySegment at(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes, scope, null);
  }

  /**
   * Creates a core.
   *
   * @param cache its KV cache
   * @throws BerthException ARGUMENT if the native side refuses the configuration, MEMORY if it
   *     can't allocate
   */
  public static NativeCore create(CoreConfig c, Cache cache) {
    NativeLibrary.load();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment config = berth_core_config.allocate(arena);
      berth_core_config.struct_size(config, (int) berth_core_config.sizeof());
      berth_core_config.rows(config, c.rows());
      berth_core_config.seats(config, c.seats());
      berth_core_config.leases(config, c.leases());
      berth_core_config.reserved_leases(config, c.reservedLeases());
      berth_core_config.max_batch_size(config, c.maxBatchSize());
      berth_core_config.max_num_tokens(config, c.maxNumTokens());
      berth_core_config.draft_tokens(config, c.draftTokens());
      berth_core_config.admission_cap(config, c.admissionCap());
      berth_core_config.max_resident(config, c.maxResident());
      berth_core_config.range_end(config, c.rangeEnd());
      berth_core_config.pending_batches(config, c.pendingBatches());
      berth_core_config.exclusive_flight(config, c.exclusiveFlight() ? 1 : 0);
      berth_core_config.mark_retiring(config, c.markRetiring() ? 1 : 0);
      berth_core_config.retiring(config, c.retiring().ordinal());
      berth_core_config.padding(config, c.padding().ordinal());
      berth_core_config.transceiver(config, c.transceiver() ? 1 : 0);
      berth_core_config.chunking(
          config, c.chunked() ? BerthNative.BERTH_CHUNK_FCFS() : BerthNative.BERTH_CHUNK_NONE());
      berth_core_config.tokens_per_block(config, c.tokensPerBlock());
      berth_core_config.max_seq_len(config, c.maxSeqLen());
      berth_core_config.pages(config, c.pages());
      berth_core_config.policy_set(config, c.policySet());
      berth_core_config.capacity(config, c.capacity());
      berth_core_config.pause(config, c.pause());
      berth_core_config.prefix_sharing(config, c.prefixSharing() ? 1 : 0);
      berth_core_config.one_loop(config, c.oneLoop() ? 1 : 0);
      berth_core_config.selects(config, c.selects() ? 1 : 0);
      berth_core_config.pad_count(config, c.padCount().ordinal());
      berth_core_config.sends(config, c.sends() ? 1 : 0);
      MemorySegment out = arena.allocate(ValueLayout.ADDRESS);
      MemorySegment none = MemorySegment.NULL;
      int status =
          switch (cache) {
            case Cache.Counted ignored ->
                BerthNative.berth_core_create(config, none, none, 0, none, 0, out);
            case Cache.Paged paged ->
                BerthNative.berth_core_create(
                    config,
                    NativeKv.raw(paged.config, arena),
                    NativeKv.buffers(paged.buffers, arena),
                    paged.buffers.length,
                    arena.allocateFrom(ValueLayout.JAVA_LONG, paged.pages),
                    paged.pages.length,
                    out);
          };
      Status.check(status, "create rank core " + c);
      return new NativeCore(out.get(ValueLayout.ADDRESS, 0), cache);
    }
  }

  /** The KV cache of a core. */
  public sealed interface Cache {
    /** Pages are only counted, as many as the core's configuration says. */
    record Counted() implements Cache {}

    /** What {@link NativeKv#create} takes. */
    @SuppressWarnings("ArrayRecordComponent") // passed on, never compared
    record Paged(NativeKv.Config config, NativeKv.Buffer[] buffers, long[] pages)
        implements Cache {}
  }

  /** Where an empty rank is padded; the order is {@code berth_padding}'s. */
  public enum Padding {
    NONE,
    BEFORE,
    BOTH
  }

  /** When the rank got a dummy; the order is that of {@code berth_iteration.padded}. */
  public enum Pad {
    NONE,
    BEFORE,
    AFTER
  }

  private static final Pad[] PADS = Pad.values();

  /** What counts as work before padding; the order is {@code berth_pad_count}'s. */
  public enum PadCount {
    ACTIVE,
    KV_HERE,
    SCHEDULABLE
  }

  /** How the rank state counts retirees; the order is {@code berth_retiring}'s. */
  public enum Retiring {
    CHARGED,
    EXCLUDED,
    EXCLUDED_TOKENS_CHARGED
  }

  /** What {@link #create} needs; the fields of {@code berth_core_config}. */
  public record CoreConfig(
      int rows,
      int seats,
      int leases,
      int reservedLeases,
      int maxBatchSize,
      int maxNumTokens,
      int draftTokens,
      int admissionCap,
      int maxResident,
      int rangeEnd,
      int pendingBatches,
      boolean exclusiveFlight,
      boolean markRetiring,
      Retiring retiring,
      Padding padding,
      boolean transceiver,
      boolean chunked,
      int tokensPerBlock,
      int maxSeqLen,
      long pages,
      int policySet,
      int capacity,
      int pause,
      boolean prefixSharing,
      boolean oneLoop,
      boolean selects,
      PadCount padCount,
      boolean sends) {}

  /**
   * The pools as they were made, told by the core itself.
   *
   * @param seats that requests can hold
   * @param leases that requests can hold
   * @param reservedLeases that requests never hold
   * @param batchPositions of requests in one batch
   * @param tableRows of the block tables, that requests can have; 0: pages are only counted
   */
  public record PoolSizes(
      int seats, int leases, int reservedLeases, int batchPositions, int tableRows) {}

  /** The pools of this core. */
  public PoolSizes pools() {
    return pools;
  }

  // ------------------------------------------------------------------------------ inboxes

  /**
   * Where the tokens of the next request of the admit inbox go, {@code int32[]}; empty where nobody
   * has tokens, or where there is no room for so many.
   */
  public MemorySegment promptPlace(int prompt) {
    int free = freeRows();
    if (prompt > tokenStride || free < 1) { // the schedule will refuse
      return MemorySegment.NULL;
    }
    long row = freeRows.getAtIndex(ValueLayout.JAVA_INT, free - 1L);
    return tokens.asSlice(row * tokenStride * Integer.BYTES, prompt * (long) Integer.BYTES);
  }

  /**
   * Appends a request to the admit inbox.
   *
   * @param prompt its length
   * @param children further sequences of the request; -k: this is the k-th of them
   * @param tokens 1: they are in {@link #promptPlace}, 0: they aren't known
   * @param scope bit 0: lora is meant, bit 1: salt is
   * @param encoder its encoder input in tokens, 0 if there is none
   * @return the row that it gets; -1: there is none, and the schedule will refuse
   */
  public int admit(
      long id,
      long tag,
      int state,
      int prompt,
      int maxNew,
      int load,
      int children,
      int tokens,
      int scope,
      long lora,
      long salt,
      int encoder) {
    int n = room(berth_iteration.admits(record()));
    MemorySegment a = berth_admit.asSlice(admits, n);
    berth_admit.request_id(a, id);
    berth_admit.tag(a, tag);
    berth_admit.state(a, state);
    berth_admit.prompt_tokens(a, prompt);
    berth_admit.max_new_tokens(a, maxNew);
    berth_admit.load_tokens(a, load);
    berth_admit.cached_tokens(a, 0);
    berth_admit.children(a, children);
    berth_admit.tokens(a, tokens);
    berth_admit.scope(a, scope);
    berth_admit.lora(a, lora);
    berth_admit.salt(a, salt);
    berth_admit.encoder_tokens(a, encoder);
    int free = freeRows();
    berth_iteration.admits(record(), n + 1);
    return free < 1 ? -1 : freeRows.getAtIndex(ValueLayout.JAVA_INT, free - 1L);
  }

  /** Rows that the admit inbox may still take. */
  public int freeRows() {
    return berth_iteration.free_rows(record()) - berth_iteration.admits(record());
  }

  /**
   * Appends to the change inbox: the KV of a row is where it was to go, here or elsewhere.
   *
   * @param token the first output token of a row that receives; -1: not known
   */
  public void arrived(int row, long id, int token) {
    change(row, id, BerthNative.BERTH_CHANGE_ARRIVED(), token);
  }

  /** Appends to the change inbox: the transfer of a row failed. */
  public void failed(int row, long id) {
    change(row, id, BerthNative.BERTH_CHANGE_FAILED());
  }

  /** Appends to the change inbox: nobody wants the row's request any more. */
  public void cancel(int row, long id) {
    change(row, id, BerthNative.BERTH_CHANGE_CANCEL());
  }

  /** Appends to the change inbox: the row isn't scheduled until it is resumed. */
  public void hold(int row, long id) {
    change(row, id, BerthNative.BERTH_CHANGE_HOLD());
  }

  /** Appends to the change inbox: the row is scheduled again. */
  public void resume(int row, long id) {
    change(row, id, BerthNative.BERTH_CHANGE_RESUME());
  }

  /** Changes that the inbox still takes before the next schedule. */
  public int changeRoom() {
    return rows - 1 - berth_iteration.changes(record());
  }

  /** Appends to the change inbox: the output of a row's encoder is here. */
  public void encoded(int row, long id) {
    change(row, id, BerthNative.BERTH_CHANGE_ENCODED());
  }

  private void change(int row, long id, int kind) {
    change(row, id, kind, -1);
  }

  private void change(int row, long id, int kind, int token) {
    int n = room(berth_iteration.changes(record()));
    if (row < 0 || row >= rows - 1) {
      throw new BerthException(
          Code.ARGUMENT, "row " + row + " is outside the table of " + (rows - 1));
    }
    MemorySegment c = berth_change.asSlice(changes, n);
    berth_change.request_id(c, id);
    berth_change.row(c, row);
    berth_change.kind(c, kind);
    berth_change.token(c, token);
    berth_change.zero(c, 0);
    berth_iteration.changes(record(), n + 1);
  }

  private int room(int entries) {
    if (entries >= rows - 1) {
      throw new BerthException(
          Code.STATE,
          "the inbox holds " + entries + " entries already; the next schedule empties it");
    }
    return entries;
  }

  // ------------------------------------------------------------------------------ the three calls

  /**
   * Builds a batch; {@code expected} is the router's target, {@code filling} forbids padding.
   *
   * @param dummyRole {@code berth_dummy_role} of a dummy
   */
  public void schedule(int expected, boolean filling, int dummyRole) {
    expect(expected, filling, dummyRole);
    enter();
    int status = BerthNative.berth_core_schedule(handle);
    leave();
    Status.check(status, "schedule");
  }

  private void expect(int expected, boolean filling, int dummyRole) {
    berth_iteration.expected(record(), expected);
    berth_iteration.filling(record(), filling ? 1 : 0);
    berth_iteration.dummy_role(record(), dummyRole);
  }

  /** The first part of {@link #schedule}, where somebody else selects who is let in. */
  public void begin(int expected, boolean filling, int dummyRole) {
    expect(expected, filling, dummyRole);
    enter();
    int status = BerthNative.berth_core_begin(handle);
    leave();
    Status.check(status, "begin to schedule");
  }

  /**
   * The second: takes in who was selected in the table.
   *
   * @throws BerthException ARGUMENT, naming row and field, if somebody can't be selected; nothing
   *     happened then
   */
  public void select(NativeTable table) {
    enter();
    int status = BerthNative.berth_core_select(handle);
    leave();
    if (status != BerthNative.BERTH_OK()) {
      throw table.refusal(status, "select");
    }
  }

  /** What is scheduled from; dies with this core. */
  public NativeTable table(NativeTable.Access access) {
    return NativeTable.borrow(handle, kv.groups(), scope, access);
  }

  /**
   * Launches the batch, or takes it back if the fleet may not queue or a gate holds.
   *
   * @param contextsHeld contexts leave the batch first
   * @param encode the encoders of all that wait for theirs are started
   */
  public void launch(boolean canQueue, boolean held, boolean contextsHeld, boolean encode) {
    berth_iteration.can_queue(record(), canQueue ? 1 : 0);
    berth_iteration.held(record(), held ? 1 : 0);
    berth_iteration.contexts_held(record(), contextsHeld ? 1 : 0);
    berth_iteration.encode(record(), encode ? 1 : 0);
    enter();
    int status = BerthNative.berth_core_launch(handle);
    leave();
    Status.check(status, "launch");
  }

  /** Settles the due batch and describes the rank. */
  public void settle() {
    enter();
    int status = BerthNative.berth_core_settle(handle);
    leave();
    Status.check(status, "settle");
  }

  /**
   * Instead of an iteration: the requests of these batches end, their forwards came to nothing.
   *
   * @param launchedSlot of the batch launched in the iteration before, -1: none
   * @param collectedSlot of the batch settled in it, -1: none
   */
  public void fault(int launchedSlot, int collectedSlot) {
    enter();
    int status = BerthNative.berth_core_fault(handle, launchedSlot, collectedSlot);
    leave();
    Status.check(status, "fault");
  }

  /**
   * Why a request of this size can never run here: a wait reason, 0 if it can; numbers in {@code
   * out}.
   */
  public int fits(int state, int promptTokens, int maxNewTokens, long[] out) {
    enter();
    int status =
        BerthNative.berth_core_fits(
            handle, state, promptTokens, maxNewTokens, fitReason, fitNumbers, fitAvailable);
    leave();
    Status.check(status, "fits");
    out[0] = fitNumbers.getAtIndex(ValueLayout.JAVA_LONG, 0);
    out[1] = fitNumbers.getAtIndex(ValueLayout.JAVA_LONG, 1);
    return fitReason.get(ValueLayout.JAVA_INT, 0);
  }

  /** Downcalls into this core so far. */
  public long calls() {
    return calls;
  }

  // ------------------------------------------------------------------------------ the iteration
  // record

  public long number() {
    return berth_iteration.number(record());
  }

  public int batch() {
    return berth_iteration.batch(record());
  }

  public int contexts() {
    return berth_iteration.contexts(record());
  }

  public int generations() {
    return berth_iteration.generations(record());
  }

  public int real() {
    return berth_iteration.real(record());
  }

  public int batchTokens() {
    return berth_iteration.batch_tokens(record());
  }

  public Pad pad() {
    return PADS[berth_iteration.padded(record())];
  }

  public boolean padShort() {
    return berth_iteration.pad_short(record()) != 0;
  }

  public boolean stuck() {
    return berth_iteration.stuck(record()) != 0;
  }

  public int encoderItems() {
    return berth_iteration.encoder_items(record());
  }

  public long encoderTokens() {
    return berth_iteration.encoder_tokens(record());
  }

  public int encodes() {
    return berth_iteration.encodes(record());
  }

  public int encodeRow(int index) {
    return open(encodes).getAtIndex(ValueLayout.JAVA_INT, Objects.checkIndex(index, rows));
  }

  public int resident() {
    return berth_iteration.resident(record());
  }

  public int receives() {
    return berth_iteration.receives(record());
  }

  public int sends() {
    return berth_iteration.sends(record());
  }

  public int sendRow(int index) {
    return open(sends).getAtIndex(ValueLayout.JAVA_INT, Objects.checkIndex(index, rows));
  }

  /** {@code berth_core_blocks}; null-free: empty if the row's request has no pages. */
  public int[] blocks(int row, int lifeCycle, int most) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT, most);
      MemorySegment count = arena.allocate(ValueLayout.JAVA_INT);
      Status.check(
          BerthNative.berth_core_blocks(handle, row, lifeCycle, out, most, count),
          "pages of row " + row);
      return out.asSlice(0, count.get(ValueLayout.JAVA_INT, 0) * 4L).toArray(ValueLayout.JAVA_INT);
    } finally {
      leave();
    }
  }

  public int deferred(int reason) {
    return berth_iteration.deferred(record(), Objects.checkIndex(reason, REASONS));
  }

  public boolean launched() {
    return berth_iteration.launched(record()) != 0;
  }

  public int due() {
    return berth_iteration.due(record());
  }

  public int dueSlot() {
    return berth_iteration.due_slot(record());
  }

  public int launchedSlot() {
    return berth_iteration.launched_slot(record());
  }

  public int done() {
    return berth_iteration.done(record());
  }

  public int paused() {
    return berth_iteration.paused(record());
  }

  public int shortOfPages() {
    return berth_iteration.short_of_pages(record());
  }

  public int tokensOut() {
    return berth_iteration.tokens_out(record());
  }

  public int routable() {
    return berth_iteration.routable(record());
  }

  public int retiring() {
    return berth_iteration.retiring(record());
  }

  public long routableTokens() {
    return berth_iteration.routable_tokens(record());
  }

  /** Requests in a state, by its position among the states. */
  public int stateCount(int ordinal) {
    return berth_iteration.state_counts(record(), Objects.checkIndex(ordinal, 15));
  }

  public int seatsUsed() {
    return berth_iteration.seats_used(record());
  }

  public int leasesUsed() {
    return berth_iteration.leases_used(record());
  }

  public long pagesUsed() {
    return berth_iteration.pages_used(record());
  }

  public long decisionHash() {
    return berth_iteration.decision_hash(record());
  }

  public long batchHash() {
    return berth_iteration.batch_hash(record());
  }

  public int batchSlot() {
    return berth_iteration.batch_slot(record());
  }

  // ------------------------------------------------------------------------------ outboxes

  /** Ring slots, 2 or more. */
  public int ring() {
    return ring;
  }

  /** Row of a batch position. */
  public int entryRow(int slot, int position) {
    return berth_entry.row(entry(slot, position));
  }

  /** {@code berth_entry_kind} of a batch position. */
  public int entryKind(int slot, int position) {
    return berth_entry.kind(entry(slot, position));
  }

  /** Tokens of a batch position. */
  public int entryTokens(int slot, int position) {
    return berth_entry.tokens(entry(slot, position));
  }

  /** First token's position in the sequence. */
  public int entryPosition(int slot, int position) {
    return berth_entry.position(entry(slot, position));
  }

  /**
   * All batch positions of a slot, one word each: row in the low half, then 1 for a context, then
   * the tokens.
   *
   * @param into {@code size} words or more
   */
  public void entryWords(int slot, int size, long[] into) {
    MemorySegment batch = open(entries);
    long at = (long) Objects.checkIndex(slot, ring) * entriesPerBatch * berth_entry.sizeof();
    Objects.checkFromIndexSize(0, size, entriesPerBatch);
    for (int i = 0; i < size; i++) {
      long rowAndKind = batch.get(ValueLayout.JAVA_LONG, at + i * 16L);
      long tokens = batch.get(ValueLayout.JAVA_INT, at + i * 16L + 8);
      long context = rowAndKind >>> 32 == BerthNative.BERTH_ENTRY_CONTEXT() ? 1L << 32 : 0;
      into[i] = rowAndKind & 0xffff_ffffL | context | tokens << 33;
    }
  }

  private MemorySegment entry(int slot, int position) {
    long index =
        (long) Objects.checkIndex(slot, ring) * entriesPerBatch
            + Objects.checkIndex(position, entriesPerBatch);
    return berth_entry.asSlice(open(entries), index);
  }

  /** Most positions of a batch, the padding's included. */
  public int positions() {
    return entriesPerBatch;
  }

  /**
   * A batch in columns, one element a position.
   *
   * @param ids {@code int64[]}, the padding's is -1
   * @param rows {@code int32[]}, as all that follow
   * @param children which further sequence of its request it is, 0: the first
   * @param firsts place of the first token in the sequence
   */
  public record Columns(
      MemorySegment ids,
      MemorySegment rows,
      MemorySegment children,
      MemorySegment kinds,
      MemorySegment seats,
      MemorySegment leases,
      MemorySegment firsts,
      MemorySegment tokens,
      MemorySegment drafts) {}

  /** Fills the columns of a slot's batch. */
  public void columns(int slot, int size, Columns to) {
    Objects.checkFromIndexSize(0, size, entriesPerBatch);
    MemorySegment table = open(rowMemory);
    for (int i = 0; i < size; i++) {
      MemorySegment entry = entry(slot, i);
      int number = berth_entry.row(entry);
      MemorySegment row = berth_row.asSlice(table, number);
      int kind = berth_entry.kind(entry);
      int tokens = berth_entry.tokens(entry);
      to.ids.setAtIndex(ValueLayout.JAVA_LONG, i, berth_row.request_id(row));
      to.rows.setAtIndex(ValueLayout.JAVA_INT, i, number);
      int children = berth_cold_row.children(berth_cold_row.asSlice(coldMemory, number));
      to.children.setAtIndex(ValueLayout.JAVA_INT, i, Math.max(0, -children));
      to.kinds.setAtIndex(ValueLayout.JAVA_INT, i, kind);
      to.seats.setAtIndex(ValueLayout.JAVA_INT, i, berth_row.seat(row));
      to.leases.setAtIndex(ValueLayout.JAVA_INT, i, berth_row.lease(row));
      to.firsts.setAtIndex(ValueLayout.JAVA_INT, i, berth_entry.position(entry));
      to.tokens.setAtIndex(ValueLayout.JAVA_INT, i, tokens);
      int drafts = kind == BerthNative.BERTH_ENTRY_GENERATION() ? tokens - 1 : 0;
      to.drafts.setAtIndex(ValueLayout.JAVA_INT, i, drafts);
    }
  }

  /**
   * The tokens that a slot's batch computes, one position after another; -1: the host doesn't know
   * it (yet).
   *
   * @param to {@code int32[]}
   * @return how many
   */
  public int inputs(int slot, int size, MemorySegment to) {
    int n = 0;
    for (int i = 0; i < size; i++) {
      MemorySegment entry = entry(slot, i);
      int number = berth_entry.row(entry);
      MemorySegment row = berth_row.asSlice(open(rowMemory), number);
      int known =
          berth_entry.kind(entry) == BerthNative.BERTH_ENTRY_DUMMY()
              ? 0
              : berth_row.prompt_tokens(row) + berth_row.generated_tokens(row);
      int end = berth_entry.position(entry) + berth_entry.tokens(entry);
      for (int place = berth_entry.position(entry); place < end; place++) {
        int token =
            place < known
                ? tokens.getAtIndex(ValueLayout.JAVA_INT, number * tokenStride + place)
                : -1;
        to.setAtIndex(ValueLayout.JAVA_INT, n++, token);
      }
    }
    return n;
  }

  /** Tokens of the due batch, {@code int32[size]}, -1 where none was said yet. */
  public MemorySegment sampledMemory(int slot, int size) {
    long at = (long) Objects.checkIndex(slot, ring) * entriesPerBatch;
    return open(sampled)
        .asSlice(
            at * Integer.BYTES,
            (long) Objects.checkIndex(size, entriesPerBatch + 1) * Integer.BYTES);
  }

  /** The token that a position of the due batch made, -1 if nobody said which. */
  public int sampledToken(int slot, int position) {
    long index =
        (long) Objects.checkIndex(slot, ring) * entriesPerBatch
            + Objects.checkIndex(position, entriesPerBatch);
    return open(sampled).getAtIndex(ValueLayout.JAVA_INT, index);
  }

  /** {@code berth_result} bits that were said of a position of the due batch. */
  public int resultBits(int slot, int position) {
    long index =
        (long) Objects.checkIndex(slot, ring) * entriesPerBatch
            + Objects.checkIndex(position, entriesPerBatch);
    return open(results).get(ValueLayout.JAVA_BYTE, index);
  }

  /** Says that the sequence at a position of the due batch ends with this token. */
  public void stop(int slot, int position) {
    result(slot, position, BerthNative.BERTH_RESULT_STOP());
  }

  /** Says that the request at a position of the due batch ends as failed. */
  public void fail(int slot, int position) {
    result(slot, position, BerthNative.BERTH_RESULT_FAILED());
  }

  /** Says that nothing came of the first positions of the due batch. */
  public void voidResults(int slot, int size) {
    for (int position = 0; position < size; position++) {
      result(slot, position, BerthNative.BERTH_RESULT_VOID());
    }
  }

  private void result(int slot, int position, int bit) {
    long index =
        (long) Objects.checkIndex(slot, ring) * entriesPerBatch
            + Objects.checkIndex(position, entriesPerBatch);
    byte bits = open(results).get(ValueLayout.JAVA_BYTE, index);
    results.set(ValueLayout.JAVA_BYTE, index, (byte) (bits | bit));
  }

  /** Says which token a position of the due batch made. */
  public void sampled(int slot, int position, int token) {
    long index =
        (long) Objects.checkIndex(slot, ring) * entriesPerBatch
            + Objects.checkIndex(position, entriesPerBatch);
    open(sampled).setAtIndex(ValueLayout.JAVA_INT, index, token);
  }

  /** The core's cache. */
  public NativeKv kv() {
    return kv;
  }

  public int receiveRow(int index) {
    return open(receives).getAtIndex(ValueLayout.JAVA_INT, Objects.checkIndex(index, rows));
  }

  public int doneRow(int index) {
    return berth_done.row(berth_done.asSlice(open(done), Objects.checkIndex(index, rows)));
  }

  public long doneId(int index) {
    return berth_done.request_id(berth_done.asSlice(open(done), Objects.checkIndex(index, rows)));
  }

  public long doneTag(int index) {
    return berth_done.tag(berth_done.asSlice(open(done), Objects.checkIndex(index, rows)));
  }

  public int doneKind(int index) {
    return berth_done.kind(berth_done.asSlice(open(done), Objects.checkIndex(index, rows)));
  }

  public int doneTokens(int index) {
    return berth_done.generated_tokens(
        berth_done.asSlice(open(done), Objects.checkIndex(index, rows)));
  }

  /** {@code berth_row[rows]}, the last one the dummy's; dies with this core. */
  public MemorySegment rowMemory() {
    return rowMemory;
  }

  /** {@code berth_cold_row[rows]}; dies with this core. */
  public MemorySegment coldMemory() {
    return coldMemory;
  }

  /** {@code int32[rows - 1][tokenStride]}; dies with this core. Empty if nobody has tokens. */
  public MemorySegment tokenMemory() {
    return tokens;
  }

  private MemorySegment record() {
    return open(iteration);
  }

  /** Memory of this core, while there is one. */
  private MemorySegment open(MemorySegment memory) {
    if (!memory.scope().isAlive()) {
      throw closed();
    }
    return memory;
  }

  @Override
  void enter() {
    super.enter();
    calls++;
  }

  /** Keeps this core alive and to one thread while somebody looks at its cache. */
  private final class Guard implements NativeKv.Owner {
    @Override
    public void enter() {
      NativeCore.super.enter();
    }

    @Override
    public void leave() {
      NativeCore.this.leave();
    }

    @Override
    public int prepare(MemorySegment call) {
      NativeCore.this.enter();
      int status = BerthNative.berth_core_prepare(handle, call);
      NativeCore.this.leave();
      return status;
    }
  }

  @Override
  void free() {
    kv.close();
    cleanable.clean();
  }
}
