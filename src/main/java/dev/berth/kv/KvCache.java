// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeKv;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Optional;

/**
 * The KV memory of one rank: open a sequence with its prompt and get what is cached already, grow,
 * commit, suspend, resume, close; block tables for attention; events for routers (spec 03 §3 to
 * §12).
 *
 * <p>A sequence is suspended when it is opened; {@link KvOps#resume} brings its pages to the device
 * and its tables to a row. Committed &lt;= history &lt;= capacity always. What a sequence commits
 * belongs to the prefix index, where others find it: tokens are compared on every hit. Pages that
 * nobody uses stay until they are needed: lowest priority first, then the oldest, and nothing
 * before what builds on it.
 *
 * <p>Calls on {@link KvOps}, {@link KvSteps} and {@link KvTables} allocate nothing; those on single
 * sequences are for convenience. The clock is the caller's.
 *
 * <p>For one thread. Misuse is a {@link BerthException}: CLOSED after {@link #close()}, by
 * whichever thread; STATE if two threads are inside at once. Nothing that can be passed reaches
 * freed memory.
 */
public final class KvCache implements AutoCloseable {
  private final NativeKv kv;
  private final KvView view;
  private final KvOps one;
  private final Deque<KvTables> underWay = new ArrayDeque<>();

  private KvCache(NativeKv kv, KvLayout layout, KvConfig config) {
    this.kv = kv;
    this.view = KvView.of(kv, layout, config);
    this.one = new KvOps(kv, 1);
  }

  /**
   * A cache.
   *
   * @throws BerthException ARGUMENT for a number outside its range or a group with more slots than
   *     {@link KvLayout#maxSlots}; CONFIGURATION for pages on the disk level, which need a {@link
   *     KvDisk} if they have memory; MEMORY, UNAVAILABLE
   */
  public static KvCache create(KvLayout layout, KvConfig config, KvSizes sizes) {
    return create(layout, config, sizes, Optional.empty());
  }

  /**
   * A cache with a disk level.
   *
   * @throws BerthException as above; CONFIGURATION if the disk level can't be made, with the reason
   */
  public static KvCache create(KvLayout layout, KvConfig config, KvSizes sizes, KvDisk disk) {
    return create(layout, config, sizes, Optional.of(disk));
  }

  private static KvCache create(
      KvLayout layout, KvConfig config, KvSizes sizes, Optional<KvDisk> disk) {
    shape(layout, sizes.pages());
    shape(layout, sizes.most());
    long onDisk = Arrays.stream(sizes.pages()[KvLevel.DISK.ordinal()]).sum();
    if (disk.isEmpty() && config.memory() != KvConfig.Memory.NONE && onDisk > 0) {
      throw new BerthException(
          Code.CONFIGURATION, onDisk + " pages on the disk level: a directory for them is needed");
    }
    NativeKv kv =
        NativeKv.create(
            config.raw(layout.tokensPerBlock()),
            layout.raw(),
            sizes.flat(),
            sizes.flatMost(),
            disk.map(d -> new NativeKv.Disk(d.directory().toString(), d.threads(), d.depth())));
    return new KvCache(kv, layout, config);
  }

  private static void shape(KvLayout layout, long[][] pages) {
    boolean fits = pages.length == NativeKv.LEVELS;
    for (long[] level : pages) {
      fits = fits && level.length == layout.groups();
    }
    if (!fits) {
      throw new BerthException(
          Code.ARGUMENT,
          "pages %s: %d levels of %d groups are needed"
              .formatted(Arrays.deepToString(pages), NativeKv.LEVELS, layout.groups()));
    }
  }

  /** An empty batch of operations. */
  public KvOps newOps(int capacity) {
    if (capacity < 1 || capacity > NativeKv.MAX) {
      throw new BerthException(
          Code.ARGUMENT, capacity + " operations: 1 to " + NativeKv.MAX + " are possible");
    }
    return new KvOps(kv, capacity);
  }

  /**
   * The token arena, {@code int32[tokenArena]}. Operations that are given tokens put them at its
   * beginning; a caller who writes prompts there itself, with no copy in between, names their
   * place.
   */
  public MemorySegment tokens() {
    return kv.tokens();
  }

  /** Tables for batches of that shape. */
  public KvTables newTables(KvTables.Shape shape) {
    return view.newTables(shape);
  }

  // ------------------------------------------------------------------------------ batches

  /**
   * Applies the operations in order, each on its own.
   *
   * @return the first status that isn't OK, else OK
   */
  public KvStatus apply(KvOps ops) {
    if (!ops.of(kv)) {
      throw new BerthException(Code.ARGUMENT, "operations of another KV cache");
    }
    return KvStatus.of(kv.apply(ops.records(), ops.size()));
  }

  /**
   * Moves histories on and makes room, for each sequence on its own; most steps need no page.
   *
   * @return the first status that isn't OK, else OK
   */
  public KvStatus step(KvSteps steps) {
    return KvStatus.of(
        kv.grow(steps.handles(), steps.grow(), steps.advance(), steps.size(), steps.statuses()));
  }

  /**
   * Fills the tables of a batch of active sequences, each with one row.
   *
   * @return OK; EXHAUSTED if as many batches are under way as may be; CAPACITY if something doesn't
   *     fit; STALE, NOT_FOUND, STATE or ARGUMENT for a sequence that can't be in it. Nothing was
   *     written then
   */
  public KvStatus prepare(KvTables tables, KvTables.Padding padding) {
    return prepare(tables, padding, tables.size(), 1);
  }

  /**
   * The same with beams.
   *
   * @param contexts the first so many sequences have one row
   * @param beam rows of each of the others
   */
  public KvStatus prepare(KvTables tables, KvTables.Padding padding, int contexts, int beam) {
    boolean clear = padding == KvTables.Padding.CLEARED;
    KvStatus status =
        KvStatus.of(kv.prepare(tables.batch(), tables.size(), contexts, beam, clear, -1));
    if (status == KvStatus.OK) {
      tables.prepared();
      if (view.config().timing() == KvConfig.Timing.EMULATION) {
        // Written later: until then it must not be collected.
        underWay.addLast(tables);
        if (underWay.size() > view.config().staging()) {
          underWay.removeFirst();
        }
      }
    }
    return status;
  }

  /**
   * How many tokens of each prompt a sequence opened now would find. Changes nothing.
   *
   * @return {@code int[prompts]}
   * @throws BerthException ARGUMENT for an empty prompt or more tokens than the arena holds
   */
  public int[] probe(KvScope scope, int[]... prompts) {
    return view.probe(scope, prompts);
  }

  // ------------------------------------------------------------------------------ one at a time

  /** Opens a sequence, suspended; finds what there is and stores what is new. */
  public KvOutcome open(KvScope scope, int[] prompt) {
    one.clear();
    one.open(scope, 0, KvOps.Reuse.FULL, prompt);
    return outcome("open a sequence");
  }

  /** Brings a sequence to a table row. ALREADY is misuse: two sequences in one row. */
  public KvOutcome resume(long sequence, int row) {
    one.clear();
    one.resume(sequence, row);
    return outcome("resume into row " + row);
  }

  /** Brings a suspended sequence's pages up, ahead of its resume: Done, or Pending. */
  public KvOutcome prefetch(long sequence, KvLevel level) {
    one.clear();
    one.prefetch(sequence, level);
    KvOutcome outcome = outcome("prefetch to level " + level);
    return outcome instanceof KvOutcome.Done && one.ticket(0) != 0
        ? new KvOutcome.Pending(one.ticket(0))
        : outcome;
  }

  /** Takes a sequence's row away. */
  public void suspend(long sequence) {
    one.clear();
    one.suspend(sequence);
    outcome("suspend");
  }

  /** Room for so many tokens. */
  public KvOutcome resize(long sequence, int capacity) {
    one.clear();
    one.resize(sequence, capacity);
    return outcome("resize to " + capacity + " tokens");
  }

  /** Tokens that are computed and may be found. */
  public void commit(long sequence, int... tokens) {
    one.clear();
    one.commit(sequence, tokens);
    outcome("commit " + tokens.length + " tokens");
  }

  /** No more commits. */
  public void stop(long sequence) {
    one.clear();
    one.stop(sequence);
    outcome("stop");
  }

  /** Ends a sequence. */
  public void close(long sequence) {
    one.clear();
    one.close(sequence);
    outcome("close a sequence");
  }

  /** Looks a prompt up and keeps what is found until {@link #unpin}. */
  public KvOutcome pin(KvScope scope, int[] prompt) {
    one.clear();
    one.pin(scope, prompt);
    return outcome("pin a prompt");
  }

  /** Lets a pin go. A pin goes once: STALE is misuse. */
  public void unpin(long pin) {
    one.clear();
    one.unpin(pin);
    outcome("unpin");
  }

  private KvOutcome outcome(String what) {
    KvStatus status = apply(one);
    if (status == KvStatus.OK) {
      return new KvOutcome.Done(one.handle(0), one.matched(0), one.partial(0));
    }
    if (status == KvStatus.PENDING) {
      return new KvOutcome.Pending(one.ticket(0));
    }
    if (status == KvStatus.MISSING) {
      return new KvOutcome.Missing(one.matched(0));
    }
    if (status != KvStatus.EXHAUSTED) {
      throw misuse(status, what);
    }
    if (one.shortGroup(0) < 0) {
      return new KvOutcome.Full();
    }
    return one.shortPages(0) == 0
        ? new KvOutcome.Pressure(one.shortGroup(0))
        : new KvOutcome.PagesShort(one.shortGroup(0), one.shortPages(0));
  }

  static BerthException misuse(KvStatus status, String what) {
    Code code =
        switch (status) {
          case ALREADY -> Code.ALREADY;
          case NOT_FOUND -> Code.NOT_FOUND;
          case STALE -> Code.STALE;
          case STATE -> Code.STATE;
          default -> Code.ARGUMENT;
        };
    return new BerthException(code, what + ": " + status);
  }

  // ------------------------------------------------------------------------------ the disk level

  /** How many transfers {@link #poll()} would settle now. No native call; from any thread. */
  public long settleable() {
    try {
      return kv.settleable();
    } catch (IllegalStateException e) {
      throw new BerthException(Code.CLOSED, "this KV cache is closed", e);
    }
  }

  /**
   * Settles what has finished: only now are pages where they were to go, or lost. Never waits.
   *
   * @return transfers settled; a run that is to go the same way again asks for as many with {@link
   *     #settle}
   */
  public int poll() {
    return kv.poll(0, Integer.MAX_VALUE);
  }

  /** Waits for so many transfers, or as many as are under way, and settles these and no more. */
  public int settle(int transfers) {
    if (transfers < 0) {
      throw new BerthException(Code.ARGUMENT, transfers + " transfers");
    }
    return kv.poll(transfers, transfers);
  }

  /**
   * How a ticket stands. No native call; from any thread.
   *
   * @throws BerthException NOT_FOUND for a number that was never a ticket, STALE for one that was
   *     done more than 1024 tickets ago, CLOSED
   */
  public KvTicket ticket(long ticket) {
    try {
      if (ticket < 1 || ticket > kv.ticketsIssued()) {
        throw new BerthException(Code.NOT_FOUND, "ticket " + ticket);
      }
      if (ticket > kv.ticketsDone()) {
        return new KvTicket.UnderWay();
      }
      long[] record = kv.ticket(ticket);
      if (record[0] != ticket || ticket + kv.ticketsRemembered() <= kv.ticketsDone()) {
        throw new BerthException(Code.STALE, "ticket " + ticket + " was done long ago");
      }
      return record[2] == 0
          ? new KvTicket.Done((int) record[1])
          : new KvTicket.Failed((int) record[1], (int) record[2], (int) record[3]);
    } catch (IllegalStateException e) {
      throw new BerthException(Code.CLOSED, "this KV cache is closed", e);
    }
  }

  /**
   * Waits until a ticket is done, settling what comes before it.
   *
   * @throws BerthException as {@link #ticket}; STATE if nothing makes it so: in emulation {@link
   *     #run} does, and where its pages wait for an epoch {@link #epochs}
   */
  public KvTicket await(long ticket) {
    while (true) {
      KvTicket now = ticket(ticket);
      if (!(now instanceof KvTicket.UnderWay)) {
        return now;
      }
      if (kv.poll(1, 1) == 0) {
        throw new BerthException(
            Code.STATE, "ticket " + ticket + " waits for the stream or for an epoch");
      }
    }
  }

  // ------------------------------------------------------------------------------ time and policy

  /**
   * What is released from now on is reusable once epoch launch has completed; all epochs up to
   * complete have. Neither goes back.
   */
  public void epochs(long launch, long complete) {
    kv.epoch(launch, complete);
  }

  /** The time, in microseconds, for retention; never goes back. */
  public void clock(long micros) {
    kv.clock(micros);
  }

  /** Blocks that a tenant keeps undisturbed while others have more than theirs; 0: no quota. */
  public void quota(int tenant, long blocks) {
    kv.quota(tenant, blocks);
  }

  /**
   * Other numbers of pages, while every sequence is suspended: what doesn't fit is evicted, what
   * lies behind moves forward, memory behind goes back to the system. {@link KvBalance} says which
   * numbers are worth it.
   *
   * @param pages no more than the {@link KvSizes#most} that the cache was made with; on the disk
   *     level as they are
   * @return Done, or PoolShort: nothing changed
   * @throws BerthException ARGUMENT for other numbers; STATE while a sequence is active, pages are
   *     on their way up, or something launched hasn't completed
   */
  public KvOutcome adjust(KvSizes pages) {
    KvLayout layout = layout();
    shape(layout, pages.pages());
    Optional<long[]> missing = kv.adjust(pages.flat());
    if (missing.isEmpty()) {
      return new KvOutcome.Done(0, 0, 0);
    }
    int pool = (int) missing.get()[0];
    return new KvOutcome.PoolShort(
        KvLevel.values()[pool / layout.groups()], pool % layout.groups(), missing.get()[1]);
  }

  /** In emulation: lets up to n steps of the stream happen; how many did. */
  public int run(int n) {
    int done = kv.run(n);
    if (done < n) {
      underWay.clear();
    }
    return done;
  }

  /** Forgets the index. Pages in use stay until they are let go, but nobody finds them. */
  public void reset() {
    kv.reset();
  }

  // ------------------------------------------------------------------------------ reading

  /** A sequence as it stands. */
  public KvSequence sequence(long sequence) {
    return KvSequence.of(kv.sequence(sequence));
  }

  /**
   * Slot of each block of a beam; -1: none; below: it shares a slot, {@link KvOps#resizeChunk}; of
   * a state: the one slot.
   */
  public int[] pages(long sequence, int lifeCycle, int beam) {
    return kv.blocks(sequence, lifeCycle, beam);
  }

  /** The bytes of a slot; empty if the cache has no memory, and for those in a file. */
  public MemorySegment page(KvLevel level, int pool, int slot) {
    return view.page(level, pool, slot);
  }

  /** The cache in numbers. */
  public KvUsage usage() {
    return view.usage();
  }

  /**
   * The consumer's end of the events.
   *
   * @throws BerthException STATE if the cache was made without
   */
  public KvEvents events() {
    return view.events();
  }

  /** The index as it is now. For the cache's thread. */
  public KvEvents.Snapshot snapshot() {
    return view.snapshot();
  }

  /**
   * Examines every invariant; takes time in all pages. Once one is broken the cache can only be
   * read: operations end STATE.
   *
   * @throws BerthException INTERNAL with the number of the one that doesn't hold
   */
  public void check() {
    view.check();
  }

  /** Where buffers lie. */
  public KvLayout layout() {
    return view.layout();
  }

  /** What it was made with. */
  public KvConfig config() {
    return view.config();
  }

  /**
   * Frees it, at once or when the call that is inside leaves. Idempotent, from any thread.
   * Transfers that are being carried out end first (as many as there are threads), those that wait
   * never begin; the file is gone.
   */
  @Override
  public void close() {
    kv.close();
  }
}
