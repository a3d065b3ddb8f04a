// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.ffi.BerthNative;
import dev.berth.ffi.berth_kv_batch;
import dev.berth.ffi.berth_kv_buffer;
import dev.berth.ffi.berth_kv_config;
import dev.berth.ffi.berth_kv_disk;
import dev.berth.ffi.berth_kv_event;
import dev.berth.ffi.berth_kv_event_ring;
import dev.berth.ffi.berth_kv_io;
import dev.berth.ffi.berth_kv_layout;
import dev.berth.ffi.berth_kv_life_cycle;
import dev.berth.ffi.berth_kv_memory;
import dev.berth.ffi.berth_kv_op;
import dev.berth.ffi.berth_kv_pages;
import dev.berth.ffi.berth_kv_place;
import dev.berth.ffi.berth_kv_pool;
import dev.berth.ffi.berth_kv_stats;
import dev.berth.ffi.berth_kv_ticket;
import dev.berth.ffi.berth_kv_view;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.nio.charset.StandardCharsets;
import java.util.Optional;

/**
 * A native KV cache as Java sees it, for one thread at a time. The event ring alone may be read by
 * a second thread. Memory that is mapped here ends with {@link #close()}: a later access throws.
 */
public final class NativeKv extends Exclusive {
  /** Memory levels: device, host, disk. */
  public static final int LEVELS = BerthNative.BERTH_KV_LEVELS();

  /** Most items of a batch. */
  public static final int MAX = 1 << 20;

  /** Bytes of an operation. */
  public static final long OP_BYTES = berth_kv_op.sizeof();

  /** Bytes of an event. */
  public static final long EVENT_BYTES = berth_kv_event.sizeof();

  private static final Cleaner CLEANER = Cleaner.create();
  private static final VarHandle LONG = JAVA_LONG.varHandle();

  /** Whose cache it is, if it isn't its own: a call into one is a call into the other. */
  interface Owner {
    /** Nobody's. */
    Owner NONE =
        new Owner() {
          @Override
          public void enter() {}

          @Override
          public void leave() {}

          @Override
          public int prepare(MemorySegment call) {
            return BerthNative.BERTH_E_STATE();
          }
        };

    void enter();

    void leave();

    /** Tables of the batch that the owner launched last. */
    int prepare(MemorySegment call);
  }

  private final MemorySegment address;
  private final Owner owner;
  private final Arena scope;
  private final Cleaner.Cleanable memory;
  private final MemorySegment tokens;
  private final MemorySegment events;
  private final MemorySegment io;
  private final MemorySegment finished;
  private final long tickets;
  private final long ringEntries;
  private final int groups;
  private final int lifeCycles;
  private final int views;
  private final int states;
  private final int buffers;
  private final int tokensPerBlock;
  private final int maxBlocks;
  private final int sequences;
  private final int beams;

  /**
   * @param scope of what is mapped here: this cache's own, or its owner's
   */
  private NativeKv(MemorySegment address, Config c, int buffers, Owner owner, Arena scope) {
    super("KV cache");
    this.address = address;
    this.owner = owner;
    this.memory =
        CLEANER.register(this, owner == Owner.NONE ? () -> destroy(scope, address) : () -> {});
    this.scope = scope;
    this.maxBlocks = c.maxBlocks();
    this.sequences = c.sequences();
    this.beams = c.beams();
    this.buffers = buffers;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment map = berth_kv_memory.allocate(arena);
      berth_kv_memory.struct_size(map, (int) berth_kv_memory.sizeof());
      Status.check(BerthNative.berth_kv_map(address, map), "map KV cache");
      tokens = at(berth_kv_memory.token_address(map), berth_kv_memory.tokens(map) * Integer.BYTES);
      events = at(berth_kv_memory.event_address(map), berth_kv_memory.event_bytes(map));
      ringEntries = berth_kv_memory.events(map);
      tickets = berth_kv_memory.tickets(map);
      io =
          at(
              berth_kv_memory.io_address(map),
              berth_kv_io.sizeof() + tickets * berth_kv_ticket.sizeof());
      finished = at(berth_kv_memory.finished_address(map), Long.BYTES);
      groups = berth_kv_memory.groups(map);
      lifeCycles = berth_kv_memory.life_cycles(map);
      views = berth_kv_memory.views(map);
      states = berth_kv_memory.states(map);
      tokensPerBlock = berth_kv_memory.event_tokens(map);
    }
  }

  /** First nobody can reach the memory any more, then it goes. */
  private static void destroy(Arena scope, MemorySegment address) {
    scope.close();
    BerthNative.berth_kv_destroy(address);
  }

  private MemorySegment at(long base, long bytes) {
    return base == 0
        ? MemorySegment.NULL
        : MemorySegment.ofAddress(base).reinterpret(bytes, scope, null);
  }

  // ------------------------------------------------------------------------------ layout

  /** One buffer: {@code berth_kv_buffer}. */
  public record Buffer(
      long bytes, int layer, int role, int window, int sinks, int tokens, int domain) {}

  /** {@code berth_kv_place}. */
  public record Place(
      long stride, long offset, int lifeCycle, int view, int ordinal, int expansion) {}

  /** {@code berth_kv_view}. */
  public record View(int lifeCycle, int pool, int scale, int valueOffset) {}

  /** {@code berth_kv_pool}. */
  public record Pool(long slotBytes, int group, int index) {}

  /** {@code berth_kv_life_cycle}. */
  public record LifeCycle(int window, int sinks, int domain, int group) {}

  /** What {@code berth_kv_plan} makes of buffers; badBuffer is -2 if they can be. */
  public record Layout(
      int badBuffer,
      Place[] places,
      View[] views,
      Pool[] pools,
      LifeCycle[] lifeCycles,
      long[] maxSlots) {}

  /** {@code berth_kv_plan}. */
  public static Layout plan(Buffer[] buffers, int tokensPerBlock) {
    NativeLibrary.load();
    try (Arena arena = Arena.ofConfined()) {
      int n = buffers.length;
      MemorySegment out = berth_kv_layout.allocate(arena);
      MemorySegment places = berth_kv_place.allocateArray(Math.max(1, n), arena);
      MemorySegment views = berth_kv_view.allocateArray(Math.max(1, n), arena);
      MemorySegment pools = berth_kv_pool.allocateArray(Math.max(1, n), arena);
      MemorySegment lives = berth_kv_life_cycle.allocateArray(16, arena);
      MemorySegment slots = arena.allocate(JAVA_LONG, 16);
      berth_kv_layout.struct_size(out, (int) berth_kv_layout.sizeof());
      berth_kv_layout.place_address(out, places.address());
      berth_kv_layout.view_address(out, views.address());
      berth_kv_layout.pool_address(out, pools.address());
      berth_kv_layout.life_cycle_address(out, lives.address());
      berth_kv_layout.max_slots_address(out, slots.address());
      berth_kv_layout.bad_buffer(out, -1);
      int status = BerthNative.berth_kv_plan(buffers(buffers, arena), n, tokensPerBlock, out);
      if (status == BerthNative.BERTH_E_ARGUMENT()) {
        return new Layout(
            berth_kv_layout.bad_buffer(out),
            new Place[0],
            new View[0],
            new Pool[0],
            new LifeCycle[0],
            new long[0]);
      }
      Status.check(status, "plan KV layout");
      var layout =
          new Layout(
              -2,
              new Place[n],
              new View[berth_kv_layout.views(out)],
              new Pool[berth_kv_layout.pools(out)],
              new LifeCycle[berth_kv_layout.life_cycles(out)],
              new long[berth_kv_layout.groups(out)]);
      for (int i = 0; i < n; i++) {
        MemorySegment p = berth_kv_place.asSlice(places, i);
        layout.places[i] =
            new Place(
                berth_kv_place.stride(p),
                berth_kv_place.offset(p),
                berth_kv_place.life_cycle(p),
                berth_kv_place.view(p),
                berth_kv_place.ordinal(p),
                berth_kv_place.expansion(p));
      }
      for (int i = 0; i < layout.views.length; i++) {
        MemorySegment v = berth_kv_view.asSlice(views, i);
        layout.views[i] =
            new View(
                berth_kv_view.life_cycle(v),
                berth_kv_view.pool(v),
                berth_kv_view.scale(v),
                berth_kv_view.value_offset(v));
      }
      for (int i = 0; i < layout.pools.length; i++) {
        MemorySegment p = berth_kv_pool.asSlice(pools, i);
        layout.pools[i] =
            new Pool(berth_kv_pool.slot_bytes(p), berth_kv_pool.group(p), berth_kv_pool.index(p));
      }
      for (int i = 0; i < layout.lifeCycles.length; i++) {
        MemorySegment l = berth_kv_life_cycle.asSlice(lives, i);
        layout.lifeCycles[i] =
            new LifeCycle(
                berth_kv_life_cycle.window(l),
                berth_kv_life_cycle.sinks(l),
                berth_kv_life_cycle.domain(l),
                berth_kv_life_cycle.group(l));
      }
      for (int i = 0; i < layout.maxSlots.length; i++) {
        layout.maxSlots[i] = slots.getAtIndex(JAVA_LONG, i);
      }
      return layout;
    }
  }

  static MemorySegment buffers(Buffer[] buffers, Arena arena) {
    MemorySegment all = berth_kv_buffer.allocateArray(Math.max(1, buffers.length), arena);
    for (int i = 0; i < buffers.length; i++) {
      MemorySegment b = berth_kv_buffer.asSlice(all, i);
      berth_kv_buffer.bytes(b, buffers[i].bytes);
      berth_kv_buffer.layer(b, buffers[i].layer);
      berth_kv_buffer.role(b, buffers[i].role);
      berth_kv_buffer.window(b, buffers[i].window);
      berth_kv_buffer.sinks(b, buffers[i].sinks);
      berth_kv_buffer.tokens(b, buffers[i].tokens);
      berth_kv_buffer.domain(b, buffers[i].domain);
    }
    return all;
  }

  // ------------------------------------------------------------------------------ creation

  /** The fields of {@code berth_kv_config}. */
  public record Config(
      int tokensPerBlock,
      int maxBlocks,
      int sequences,
      int rows,
      int beams,
      int pins,
      int scopes,
      int tenants,
      int indexBlocks,
      boolean partialReuse,
      int defaultPriority,
      int offloadMinPriority,
      int maxUtilisation,
      int eventRingLog2,
      boolean memory,
      boolean emulation,
      int staging,
      int badValue,
      int tokenArena,
      long hashKey0,
      long hashKey1) {}

  /** The fields of {@code berth_kv_disk}. */
  public record Disk(String directory, int threads, int depth) {}

  /**
   * Creates a cache.
   *
   * @param pages {@code [LEVELS][groups]}, level after level
   * @param most what {@link #adjust} may give, in the same order
   * @param place of the disk level
   * @throws BerthException ARGUMENT, MEMORY, UNAVAILABLE; CONFIGURATION if the disk level can't be
   */
  @SuppressWarnings("MustBeClosedChecker") // the scope ends with the cache
  public static NativeKv create(
      Config c, Buffer[] buffers, long[] pages, long[] most, Optional<Disk> place) {
    NativeLibrary.load();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment disk = berth_kv_disk.allocate(arena);
      if (place.isPresent()) {
        byte[] name = place.get().directory.getBytes(StandardCharsets.UTF_8);
        MemorySegment directory = arena.allocate(Math.max(1, name.length));
        MemorySegment.copy(MemorySegment.ofArray(name), 0, directory, 0, name.length);
        berth_kv_disk.struct_size(disk, (int) berth_kv_disk.sizeof());
        berth_kv_disk.threads(disk, place.get().threads);
        berth_kv_disk.depth(disk, place.get().depth);
        berth_kv_disk.directory_address(disk, directory.address());
        berth_kv_disk.directory_bytes(disk, name.length);
      }
      MemorySegment config = raw(c, arena);
      berth_kv_config.most_address(config, arena.allocateFrom(JAVA_LONG, most).address());
      berth_kv_config.disk_address(config, place.isPresent() ? disk.address() : 0);
      MemorySegment out = arena.allocate(ADDRESS);
      int status =
          BerthNative.berth_kv_create(
              config,
              buffers(buffers, arena),
              buffers.length,
              arena.allocateFrom(JAVA_LONG, pages),
              pages.length,
              out);
      if (status == BerthNative.BERTH_E_IO()) {
        throw new BerthException(Code.CONFIGURATION, refusal(place.orElseThrow(), disk));
      }
      Status.check(status, "create KV cache " + c + place.map(d -> " with " + d).orElse(""));
      return new NativeKv(out.get(ADDRESS, 0), c, buffers.length, Owner.NONE, Arena.ofShared());
    }
  }

  private static String refusal(Disk place, MemorySegment disk) {
    int cause = berth_kv_disk.cause(disk);
    String what =
        cause == BerthNative.BERTH_KV_DISK_DIRECTORY()
            ? "no file can be made in %s".formatted(place.directory)
            : cause == BerthNative.BERTH_KV_DISK_SPACE()
                ? "no room in %s for its %s bytes"
                    .formatted(
                        place.directory,
                        berth_kv_disk.bytes(disk) < 0
                            ? "more than 2^63"
                            : Long.toString(berth_kv_disk.bytes(disk)))
                : "no %d threads".formatted(place.threads);
    return "disk level of a KV cache: %s: %s (errno %d)"
        .formatted(what, berth_kv_disk.text(disk).getString(0), berth_kv_disk.error(disk));
  }

  /** {@code berth_kv_config}. */
  static MemorySegment raw(Config c, Arena arena) {
    MemorySegment config = berth_kv_config.allocate(arena);
    berth_kv_config.struct_size(config, (int) berth_kv_config.sizeof());
    berth_kv_config.tokens_per_block(config, c.tokensPerBlock);
    berth_kv_config.max_blocks(config, c.maxBlocks);
    berth_kv_config.sequences(config, c.sequences);
    berth_kv_config.rows(config, c.rows);
    berth_kv_config.beams(config, c.beams);
    berth_kv_config.pins(config, c.pins);
    berth_kv_config.scopes(config, c.scopes);
    berth_kv_config.tenants(config, c.tenants);
    berth_kv_config.index_blocks(config, c.indexBlocks);
    berth_kv_config.partial_reuse(config, c.partialReuse ? 1 : 0);
    berth_kv_config.default_priority(config, c.defaultPriority);
    berth_kv_config.offload_min_priority(config, c.offloadMinPriority);
    berth_kv_config.max_utilisation(config, c.maxUtilisation);
    berth_kv_config.event_ring_log2(config, c.eventRingLog2);
    berth_kv_config.memory(config, c.memory ? 1 : 0);
    berth_kv_config.mode(
        config,
        c.emulation ? BerthNative.BERTH_KV_EMULATION() : BerthNative.BERTH_KV_SYNCHRONOUS());
    berth_kv_config.staging(config, c.staging);
    berth_kv_config.bad_value(config, c.badValue);
    berth_kv_config.token_arena(config, c.tokenArena);
    berth_kv_config.hash_key(config, 0, c.hashKey0);
    berth_kv_config.hash_key(config, 1, c.hashKey1);
    return config;
  }

  private static final Config COUNTED =
      new Config(1, 1, 1, 1, 1, 0, 1, 1, 0, false, 0, 0, 0, 0, false, false, 1, -1, 1, 0, 0);

  /** A core's cache: ends with {@link #close()}, which the core calls first. */
  static NativeKv borrow(MemorySegment address, NativeCore.Cache cache, Owner owner, Arena scope) {
    return switch (cache) {
      case NativeCore.Cache.Counted ignored -> new NativeKv(address, COUNTED, 0, owner, scope);
      case NativeCore.Cache.Paged paged ->
          new NativeKv(address, paged.config(), paged.buffers().length, owner, scope);
    };
  }

  /** {@code int32[token_arena]}: tokens that operations name. */
  public MemorySegment tokens() {
    return tokens;
  }

  /** Pool groups. */
  public int groups() {
    return groups;
  }

  /** Life cycles. */
  public int lifeCycles() {
    return lifeCycles;
  }

  /** Table views. */
  public int views() {
    return views;
  }

  /** Buffers of the layout; 0 where pages are only counted. */
  public int buffers() {
    return buffers;
  }

  /** Life cycles that are a recurrent state. */
  public int states() {
    return states;
  }

  // ------------------------------------------------------------------------------ operations

  /**
   * {@code berth_kv_apply} of {@code berth_kv_op[n]}. Tokens that an operation names outside the
   * arena are refused by the native side.
   */
  public int apply(MemorySegment ops, int n) {
    check(n, ops, OP_BYTES);
    enter();
    try {
      return BerthNative.berth_kv_apply(address, ops, n);
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_grow}. */
  public int grow(
      MemorySegment handles,
      MemorySegment grow,
      MemorySegment advance,
      int n,
      MemorySegment statuses) {
    check(n, handles, Long.BYTES);
    check(n, grow, Integer.BYTES);
    check(n, advance, Integer.BYTES);
    check(n, statuses, Integer.BYTES);
    enter();
    try {
      return BerthNative.berth_kv_grow(address, handles, grow, advance, n, statuses);
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_probe} of n prompts: {@code long[n + 1]} offsets, {@code int[n]} matched. */
  public int probe(
      long lora, long salt, int present, MemorySegment offsets, int n, MemorySegment matched) {
    check(n, matched, Integer.BYTES);
    check(n + 1, offsets, Long.BYTES);
    enter();
    try {
      return BerthNative.berth_kv_probe(address, lora, salt, present, offsets, n, matched);
    } finally {
      leave();
    }
  }

  /** The columns and outputs of {@code berth_kv_prepare}; empty segments: not wanted. */
  public record Batch(
      MemorySegment handles,
      MemorySegment queries,
      MemorySegment table,
      MemorySegment mapping,
      MemorySegment indptr,
      MemorySegment indices,
      MemorySegment last,
      MemorySegment states,
      MemorySegment buffers,
      int outputRows,
      int outputTokens,
      long csrCapacity,
      MemorySegment call) {

    /** A call record for {@link #call()}. */
    public static MemorySegment newCall(Arena arena) {
      return berth_kv_batch.allocate(arena);
    }
  }

  /**
   * {@code berth_kv_prepare}: the status. Every output was made for the rows, tokens and pages it
   * says, so nothing is written outside it.
   */
  public int prepare(Batch b, int n, int contexts, int beam, boolean clearPadding, int padState) {
    MemorySegment c = call(b, n, contexts, beam, clearPadding, padState);
    enter();
    try {
      return BerthNative.berth_kv_prepare(address, c);
    } finally {
      leave();
    }
  }

  /** The tables of the batch that a core launched last: the status. */
  public int prepareLaunched(Batch b, boolean clearPadding) {
    return owner.prepare(call(b, 0, 0, 1, clearPadding, -1));
  }

  /** The call record of a batch, whose outputs have the room that they claim. */
  MemorySegment call(Batch b, int n, int contexts, int beam, boolean clearPadding, int padState) {
    check(n, b.handles, Long.BYTES);
    check(n, b.queries, Integer.BYTES);
    long rowBytes = 2L * maxBlocks * Integer.BYTES;
    if (beam < 1 || beam > beams || contexts < 0 || contexts > n || n > sequences) {
      throw new BerthException(
          Code.ARGUMENT,
          "a batch of %d sequences, %d contexts, beam %d: at most %d sequences, beam 1 to %d"
              .formatted(n, contexts, beam, sequences, beams));
    }
    room(b.table, (long) views * b.outputRows * rowBytes);
    room(b.mapping, (long) lifeCycles * b.outputTokens * Long.BYTES);
    room(b.indptr, (long) views * (b.outputRows + 1L) * Integer.BYTES);
    room(b.indices, views * b.csrCapacity * Integer.BYTES);
    room(b.last, (long) b.outputRows * Integer.BYTES);
    room(b.states, (long) states * b.outputRows * Integer.BYTES);
    room(b.buffers, (long) buffers * b.outputRows * maxBlocks * Integer.BYTES);
    MemorySegment c = b.call;
    berth_kv_batch.struct_size(c, (int) berth_kv_batch.sizeof());
    berth_kv_batch.n(c, n);
    berth_kv_batch.handle_address(c, b.handles.address());
    berth_kv_batch.query_address(c, b.queries.address());
    berth_kv_batch.contexts(c, contexts);
    berth_kv_batch.beam(c, beam);
    berth_kv_batch.clear_padding(c, clearPadding ? 1 : 0);
    berth_kv_batch.output_rows(c, b.outputRows);
    berth_kv_batch.output_tokens(c, b.outputTokens);
    berth_kv_batch.csr_capacity(c, b.csrCapacity);
    berth_kv_batch.table_address(c, address(b.table));
    berth_kv_batch.mapping_address(c, address(b.mapping));
    berth_kv_batch.indptr_address(c, address(b.indptr));
    berth_kv_batch.indices_address(c, address(b.indices));
    berth_kv_batch.last_address(c, address(b.last));
    berth_kv_batch.state_address(c, address(b.states));
    berth_kv_batch.buffer_address(c, address(b.buffers));
    berth_kv_batch.pad_state(c, padState);
    return c;
  }

  /** Rows that the last prepared batch has. */
  public static int rows(Batch batch) {
    return berth_kv_batch.rows(batch.call);
  }

  /** The stream's step that fills the last prepared batch. */
  public static long step(Batch batch) {
    return berth_kv_batch.step(batch.call);
  }

  private static long address(MemorySegment segment) {
    return segment.byteSize() == 0 ? 0 : segment.address();
  }

  private static void room(MemorySegment segment, long bytes) {
    if (segment.byteSize() != 0 && segment.byteSize() < bytes) {
      throw new BerthException(
          Code.ARGUMENT,
          "an output of %d bytes where %d may be written".formatted(segment.byteSize(), bytes));
    }
  }

  /** {@code berth_kv_epoch}. */
  public void epoch(long launch, long complete) {
    enter();
    try {
      Status.check(
          BerthNative.berth_kv_epoch(address, launch, complete),
          "epochs %d and %d of a KV cache".formatted(launch, complete));
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_clock}. */
  public void clock(long now) {
    enter();
    try {
      Status.check(BerthNative.berth_kv_clock(address, now), "time " + now + " of a KV cache");
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_run}. */
  public int run(int n) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment done = arena.allocate(JAVA_INT);
      Status.check(BerthNative.berth_kv_run(address, n, done), "run a KV cache's stream");
      return done.get(JAVA_INT, 0);
    } finally {
      leave();
    }
  }

  /**
   * {@code berth_kv_adjust}: nothing if it was done; else the pool that is too small, level *
   * groups + group, and by how many pages.
   *
   * @throws BerthException ARGUMENT, STATE, MEMORY
   */
  public Optional<long[]> adjust(long[] pages) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment pool = arena.allocate(JAVA_INT);
      MemorySegment deficit = arena.allocate(JAVA_LONG);
      int status =
          BerthNative.berth_kv_adjust(
              address, arena.allocateFrom(JAVA_LONG, pages), pages.length, pool, deficit);
      if (status == BerthNative.BERTH_E_EXHAUSTED()) {
        return Optional.of(new long[] {pool.get(JAVA_INT, 0), deficit.get(JAVA_LONG, 0)});
      }
      Status.check(status, "adjust the pages of a KV cache");
      return Optional.empty();
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_poll}: how many transfers were settled. */
  public int poll(int atLeast, int atMost) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment settled = arena.allocate(JAVA_INT);
      Status.check(
          BerthNative.berth_kv_poll(address, atLeast, atMost, settled),
          "settle %d to %d transfers of a KV cache".formatted(atLeast, atMost));
      return settled.get(JAVA_INT, 0);
    } finally {
      leave();
    }
  }

  /** Transfers that a poll would settle now. */
  public long settleable() {
    if (finished.byteSize() == 0) {
      return 0;
    }
    long settled = (long) LONG.getAcquire(io, berth_kv_io.settled$offset());
    return (long) LONG.getAcquire(finished, 0L) - settled;
  }

  /** Tickets given out so far; they are numbered from 1. */
  public long ticketsIssued() {
    return (long) LONG.getOpaque(io, berth_kv_io.issued$offset());
  }

  /** Tickets that are done: those up to this number. */
  public long ticketsDone() {
    return (long) LONG.getAcquire(io, berth_kv_io.done$offset());
  }

  /** Tickets whose outcome is remembered. */
  public long ticketsRemembered() {
    return tickets;
  }

  /** Of a ticket that is done and remembered: its number, pages, of these failed, errno. */
  public long[] ticket(long number) {
    MemorySegment t =
        io.asSlice(
            berth_kv_io.sizeof() + (number & tickets - 1) * berth_kv_ticket.sizeof(),
            berth_kv_ticket.sizeof());
    return new long[] {
      berth_kv_ticket.ticket(t),
      berth_kv_ticket.pages(t),
      berth_kv_ticket.failed(t),
      berth_kv_ticket.error(t)
    };
  }

  /** {@code berth_kv_quota}. */
  public void quota(int tenant, long blocks) {
    enter();
    try {
      Status.check(
          BerthNative.berth_kv_quota(address, tenant, blocks),
          "quota of %d blocks for tenant %d".formatted(blocks, tenant));
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_reset}. */
  public void reset() {
    enter();
    try {
      Status.check(BerthNative.berth_kv_reset(address), "reset a KV cache");
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_blocks}. */
  public int[] blocks(long handle, int lifeCycle, int beam) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(JAVA_INT, maxBlocks);
      MemorySegment count = arena.allocate(JAVA_INT);
      Status.check(
          BerthNative.berth_kv_blocks(address, handle, lifeCycle, beam, out, maxBlocks, count),
          "pages of a sequence");
      return out.asSlice(0, count.get(JAVA_INT, 0) * 4L).toArray(JAVA_INT);
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_sequence}. */
  public int[] sequence(long handle) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(JAVA_INT, 8);
      Status.check(BerthNative.berth_kv_sequence(address, handle, out), "state of a sequence");
      return out.toArray(JAVA_INT);
    } finally {
      leave();
    }
  }

  /**
   * {@code berth_kv_describe}: open, active, pins, evicted, offloaded, onboarded, rebased, hit
   * tokens, asked tokens, index blocks, index runs, wait epoch, pages written, read, failed, lost,
   * under way; then total, free, held, cached, evictable, moving of each level's groups.
   */
  public long[] describe() {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment s = berth_kv_stats.allocate(arena);
      berth_kv_stats.struct_size(s, (int) berth_kv_stats.sizeof());
      int n = LEVELS * groups;
      MemorySegment p = berth_kv_pages.allocateArray(n, arena);
      Status.check(BerthNative.berth_kv_describe(address, s, p, n), "describe a KV cache");
      long[] out = new long[17 + 6 * n];
      out[0] = berth_kv_stats.open_sequences(s);
      out[1] = berth_kv_stats.active_sequences(s);
      out[2] = berth_kv_stats.pins(s);
      out[3] = berth_kv_stats.evicted(s);
      out[4] = berth_kv_stats.offloaded(s);
      out[5] = berth_kv_stats.onboarded(s);
      out[6] = berth_kv_stats.rebased(s);
      out[7] = berth_kv_stats.hit_tokens(s);
      out[8] = berth_kv_stats.asked_tokens(s);
      out[9] = berth_kv_stats.index_blocks(s);
      out[10] = berth_kv_stats.index_runs(s);
      out[11] = berth_kv_stats.wait_epoch(s);
      out[12] = berth_kv_stats.written(s);
      out[13] = berth_kv_stats.read(s);
      out[14] = berth_kv_stats.failed(s);
      out[15] = berth_kv_stats.lost(s);
      out[16] = berth_kv_stats.under_way(s);
      MemorySegment.copy(p, JAVA_LONG, 0, out, 17, 6 * n);
      return out;
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_check}: 0, or the number of the invariant that doesn't hold. */
  public int check() {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment broken = arena.allocate(JAVA_INT);
      int status = BerthNative.berth_kv_check(address, broken);
      if (status != BerthNative.BERTH_E_STATE()) {
        Status.check(status, "check a KV cache");
      }
      return broken.get(JAVA_INT, 0);
    } finally {
      leave();
    }
  }

  /**
   * {@code berth_kv_page}: the bytes of a slot, empty without memory or in a file; valid until
   * {@link #close()}.
   */
  public MemorySegment page(int level, int pool, int slot) {
    enter();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment base = arena.allocate(JAVA_LONG);
      MemorySegment bytes = arena.allocate(JAVA_LONG);
      Status.check(
          BerthNative.berth_kv_page(address, level, pool, slot, base, bytes),
          "page %d of pool %d on level %d".formatted(slot, pool, level));
      return at(base.get(JAVA_LONG, 0), bytes.get(JAVA_LONG, 0));
    } finally {
      leave();
    }
  }

  /** The bytes of so many slots of a pool, from the first one; empty without memory. */
  public MemorySegment pool(int level, int pool, long slots) {
    MemorySegment first = page(level, pool, 0);
    return first.byteSize() == 0 ? first : at(first.address(), first.byteSize() * slots);
  }

  // ------------------------------------------------------------------------------ events

  /** Entries of the event ring; 0: no events. */
  public long ringEntries() {
    return ringEntries;
  }

  /** Records written so far. */
  public long eventHead() {
    return (long) LONG.getAcquire(events, berth_kv_event_ring.head$offset());
  }

  /** Records read so far. */
  public long eventTail() {
    return (long) LONG.getOpaque(events, berth_kv_event_ring.tail$offset());
  }

  /** Gives the records before tail back to the writer. */
  public void eventTail(long tail) {
    LONG.setRelease(events, berth_kv_event_ring.tail$offset(), tail);
  }

  /** Number of the last event, written or dropped. */
  public long eventSequence() {
    return (long) LONG.getAcquire(events, berth_kv_event_ring.sequence$offset());
  }

  /** Events that found the ring full. */
  public long eventsDropped() {
    return (long) LONG.getOpaque(events, berth_kv_event_ring.dropped$offset());
  }

  /** Record i of the ring, {@code berth_kv_event}. */
  public MemorySegment event(long i) {
    return events.asSlice(
        berth_kv_event_ring.sizeof() + (i & ringEntries - 1) * EVENT_BYTES, EVENT_BYTES);
  }

  /** The first n tokens of record i. */
  public int[] eventTokens(long i, int n) {
    long base = berth_kv_event_ring.sizeof() + ringEntries * EVENT_BYTES;
    long at = base + (i & ringEntries - 1) * tokensPerBlock * Integer.BYTES;
    return events.asSlice(at, (long) n * Integer.BYTES).toArray(JAVA_INT);
  }

  /** {@code berth_kv_snapshot}: records and tokens, and the number of the last event. */
  public record Snapshot(MemorySegment events, MemorySegment tokens, int count, long sequence) {}

  /** The index as it is. */
  public Snapshot snapshot(Arena arena) {
    enter();
    try {
      MemorySegment count = arena.allocate(JAVA_INT);
      MemorySegment sequence = arena.allocate(JAVA_LONG);
      MemorySegment none = MemorySegment.NULL;
      int status = BerthNative.berth_kv_snapshot(address, none, none, 0, count, sequence);
      int n = count.get(JAVA_INT, 0);
      MemorySegment records = berth_kv_event.allocateArray(Math.max(1, n), arena);
      MemorySegment words = arena.allocate(JAVA_INT, Math.max(1, (long) n * tokensPerBlock));
      if (status == BerthNative.BERTH_E_CAPACITY()) {
        status = BerthNative.berth_kv_snapshot(address, records, words, n, count, sequence);
      }
      Status.check(status, "snapshot of a KV cache");
      return new Snapshot(records, words, n, sequence.get(JAVA_LONG, 0));
    } finally {
      leave();
    }
  }

  /** {@code berth_kv_hash_blocks}: identities one after another. */
  public static byte[] hash(
      int algorithm,
      int bytes,
      long lora,
      long salt,
      int present,
      byte[] parent,
      int[] tokens,
      int tokensPerBlock,
      byte[] last) {
    NativeLibrary.load();
    int blocks = Math.ceilDiv(tokens.length, tokensPerBlock);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(Math.max(1, (long) blocks * bytes));
      MemorySegment digest = arena.allocate(32);
      MemorySegment before = MemorySegment.NULL;
      if (parent.length == 32) {
        before = arena.allocate(32).copyFrom(MemorySegment.ofArray(parent));
      }
      Status.check(
          BerthNative.berth_kv_hash_blocks(
              algorithm,
              lora,
              salt,
              present,
              before,
              arena.allocateFrom(JAVA_INT, tokens),
              tokens.length,
              tokensPerBlock,
              out,
              (long) blocks * bytes,
              digest),
          "identities of " + blocks + " blocks");
      MemorySegment.copy(digest, 0, MemorySegment.ofArray(last), 0, 32);
      return out.asSlice(0, (long) blocks * bytes).toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
    }
  }

  // ------------------------------------------------------------------------------ the guard

  private void check(int n, MemorySegment column, long bytes) {
    if (n < 0 || n > MAX || n * bytes > column.byteSize()) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d items in a column of %d bytes of a %s".formatted(n, column.byteSize(), name()));
    }
  }

  @Override
  void enter() {
    super.enter();
    try {
      owner.enter();
    } catch (BerthException e) {
      super.leave();
      throw e;
    }
  }

  @Override
  void leave() {
    owner.leave();
    super.leave();
  }

  @Override
  void free() {
    memory.clean();
  }
}
