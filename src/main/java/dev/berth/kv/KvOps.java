// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeKv;
import dev.berth.internal.NativeKvOps;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * Operations of one call on a {@link KvCache}, in order, off the heap: filled, applied, read,
 * cleared and filled again, without allocation. Every operation stands for itself; one that didn't
 * end OK changed nothing. Tokens lie in the cache's arena from the batch's first to its last.
 */
public final class KvOps {
  private final NativeKv kv;
  private final MemorySegment records;
  private final int capacity;
  private int size;
  private long used;

  KvOps(NativeKv kv, int capacity) {
    this.kv = kv;
    this.capacity = capacity;
    this.records = Arena.ofAuto().allocate(NativeKv.OP_BYTES * capacity, 8);
  }

  /** What an opened sequence may do. */
  public enum Reuse {
    /** Take what is there and store what is new. */
    FULL,
    /** Store, but look for nothing. */
    STORE_ONLY,
    /** Take, but store nothing. */
    FIND_ONLY,
    /** Keep its own pages where the index has a block already, and store nothing after it. */
    KEEP_OWN_PAGES,
    /**
     * Take and store, but of windows and states only what the next turn of a conversation needs: a
     * block that leaves a window goes at once, unless others use it. Every commit begins or ends at
     * the history, ARGUMENT otherwise.
     */
    MIN_SNAPSHOT
  }

  /** Forgets every operation and its tokens. */
  public void clear() {
    size = 0;
    used = 0;
  }

  /** Opens a sequence for a prompt of at least one token; the last is never found. */
  public int open(KvScope scope, int tenant, Reuse reuse, int[] prompt) {
    return open(scope, tenant, reuse, MemorySegment.ofArray(prompt), 0, prompt.length);
  }

  /** The same for tokens {@code int32[from, from + n)} of a segment. */
  public int open(KvScope scope, int tenant, Reuse reuse, MemorySegment prompt, long from, int n) {
    return tokens(NativeKvOps.OPEN, 0, scope, tenant, flags(reuse), prompt, from, n);
  }

  /** Looks a prompt up and pins the blocks found: they stay until the pin is let go. */
  public int pin(KvScope scope, int[] prompt) {
    return tokens(
        NativeKvOps.LOOKUP,
        0,
        scope,
        0,
        NativeKvOps.PIN,
        MemorySegment.ofArray(prompt),
        0,
        prompt.length);
  }

  /**
   * {@link #open(KvScope, int, Reuse, int[])} of n tokens at a place in {@link KvCache#tokens()}.
   */
  public int openAt(KvScope scope, int tenant, Reuse reuse, long place, int n) {
    return at(NativeKvOps.OPEN, 0, scope, tenant, flags(reuse), place, n);
  }

  /** {@link #pin(KvScope, int[])} of n tokens at a place in {@link KvCache#tokens()}. */
  public int pinAt(KvScope scope, long place, int n) {
    return at(NativeKvOps.LOOKUP, 0, scope, 0, NativeKvOps.PIN, place, n);
  }

  /** {@link #commit(long, int[])} of n tokens at a place in {@link KvCache#tokens()}. */
  public int commitAt(long sequence, long place, int n) {
    return at(NativeKvOps.COMMIT, sequence, KvScope.NONE, 0, 0, place, n);
  }

  /** Lets a pin go. */
  public int unpin(long pin) {
    return add(NativeKvOps.UNPIN, pin, -1, -1, 0, 0, 0);
  }

  /**
   * Brings a sequence's pages to the device and its tables to a row. PENDING: some come from the
   * disk level, resume again when the {@link #ticket} is done. MISSING: some were lost; {@link
   * #matched} tokens are left, the rest is computed again.
   */
  public int resume(long sequence, int row) {
    return add(NativeKvOps.RESUME, sequence, row, -1, 0, 0, 0);
  }

  /**
   * Brings the pages of a suspended sequence up to a level, DEVICE or HOST, ahead of its resume.
   * {@link #ticket} says when they are there; 0: they are. MISSING as of {@link #resume}.
   */
  public int prefetch(long sequence, KvLevel level) {
    if (level == KvLevel.DISK) {
      throw new BerthException(Code.ARGUMENT, "prefetch to the lowest level");
    }
    return add(NativeKvOps.PREFETCH, sequence, level.ordinal(), -1, 0, 0, 0);
  }

  /** Frees a sequence's row; it keeps its pages. */
  public int suspend(long sequence) {
    return add(NativeKvOps.SUSPEND, sequence, -1, -1, 0, 0, 0);
  }

  /** Room for so many tokens; history as it is. */
  public int resize(long sequence, int capacity) {
    return add(NativeKvOps.RESIZE, sequence, notNegative(capacity), -1, 0, 0, 0);
  }

  /** Room for so many tokens, of which the first history are computed. */
  public int resize(long sequence, int capacity, int history) {
    return add(NativeKvOps.RESIZE, sequence, notNegative(capacity), notNegative(history), 0, 0, 0);
  }

  /**
   * The same for a chunk of a prompt: blocks that windows have left behind when its last token is
   * computed share slots, one layer's after another's (spec 03 §10). Only {@link
   * KvTables#bufferTable()} names them. Until the history has passed them neither it nor the
   * capacity can end among them: STATE. Where layers have no room to share this is {@link
   * #resize(long, int, int)}.
   */
  public int resizeChunk(long sequence, int capacity, int history) {
    return add(
        NativeKvOps.RESIZE,
        sequence,
        notNegative(capacity),
        notNegative(history),
        0,
        0,
        NativeKvOps.SCRATCH);
  }

  /** Tokens after the committed ones, all computed: full blocks can be found from now on. */
  public int commit(long sequence, int[] tokens) {
    return commit(sequence, MemorySegment.ofArray(tokens), 0, tokens.length);
  }

  /** The same for tokens {@code int32[from, from + n)} of a segment. */
  public int commit(long sequence, MemorySegment tokens, long from, int n) {
    return tokens(NativeKvOps.COMMIT, sequence, KvScope.NONE, 0, 0, tokens, from, n);
  }

  /**
   * The last commit: what is left of a block is stored too, with partial reuse on, and a state
   * moves into the index if it is exactly that of the last token.
   */
  public int commitLast(long sequence, int[] tokens) {
    return tokens(
        NativeKvOps.COMMIT,
        sequence,
        KvScope.NONE,
        0,
        NativeKvOps.END,
        MemorySegment.ofArray(tokens),
        0,
        tokens.length);
  }

  /** No more commits; what is left of a block is stored. */
  public int stop(long sequence) {
    return add(NativeKvOps.STOP, sequence, -1, -1, 0, 0, 0);
  }

  /** Ends a sequence: what it stored stays for others, the rest is free. */
  public int close(long sequence) {
    return add(NativeKvOps.CLOSE, sequence, -1, -1, 0, 0, 0);
  }

  /**
   * Beams share the history and go on in pages of their own, in the rows after the first. What is
   * computed must be history before: it isn't copied otherwise.
   */
  public int widen(long sequence, int beams) {
    return add(NativeKvOps.WIDEN, sequence, beams, -1, 0, 0, 0);
  }

  /**
   * How dearly blocks are kept whose first token is of [from, to); ranges come in order. Blocks
   * that the sequence has found or stored already are kept so from now on, whoever else uses them;
   * a block that is found and not named stays as it was.
   *
   * @param to -1: to the end
   * @param priority 0 to 100, the lowest goes first
   * @param micros until it falls to the default; -1: never
   */
  public int retain(long sequence, int from, int to, int priority, long micros) {
    return add(NativeKvOps.RETAIN, sequence, from, to, priority, micros, 0);
  }

  /** Plans to drop the window pages that only a next turn of a stopped sequence would use. */
  public int planDrop(long sequence) {
    return add(NativeKvOps.PLAN_DROP, sequence, -1, -1, 0, 0, 0);
  }

  /** Drops what a plan names, unless another plan or a sequence keeps it. */
  public int drop(long plan) {
    return add(NativeKvOps.DROP, plan, -1, -1, 0, 0, 0);
  }

  /** Operations. */
  public int size() {
    return size;
  }

  /** Most operations. */
  public int capacity() {
    return capacity;
  }

  /** What came of operation i. */
  public KvStatus status(int i) {
    return KvStatus.of(NativeKvOps.status(record(i)));
  }

  /** The sequence of an open, the pin of a lookup, the plan of a planned drop; 0: none was made. */
  public long handle(int i) {
    return NativeKvOps.handle(record(i));
  }

  /** Tokens that an open or a lookup found, or that are left where pages are MISSING. */
  public int matched(int i) {
    return NativeKvOps.matched(record(i));
  }

  /** Of these, tokens of a block of which only a part is reused. */
  public int partial(int i) {
    return NativeKvOps.partial(record(i));
  }

  /** The pool group that was short; -1: none. */
  public int shortGroup(int i) {
    return NativeKvOps.group(record(i));
  }

  /** Pages short there. EXHAUSTED with a group and 0 pages: the utilisation limit. */
  public int shortPages(int i) {
    return NativeKvOps.deficit(record(i));
  }

  /** Of the transfers that a resume or prefetch waits for; 0: none. */
  public long ticket(int i) {
    return NativeKvOps.ticket(record(i));
  }

  boolean of(NativeKv cache) {
    return kv == cache;
  }

  MemorySegment records() {
    return records;
  }

  private MemorySegment record(int i) {
    return records.asSlice(Objects.checkIndex(i, size) * NativeKv.OP_BYTES, NativeKv.OP_BYTES);
  }

  private static int flags(Reuse reuse) {
    return switch (reuse) {
      case FULL -> 0;
      case STORE_ONLY -> NativeKvOps.NO_REUSE;
      case FIND_ONLY -> NativeKvOps.NO_COMMIT;
      case KEEP_OWN_PAGES -> NativeKvOps.NO_REBASE;
      case MIN_SNAPSHOT -> NativeKvOps.MIN_SNAPSHOT;
    };
  }

  private int at(int kind, long handle, KvScope scope, int tenant, int flags, long place, int n) {
    Objects.checkFromIndexSize(place, n, kv.tokens().byteSize() / Integer.BYTES);
    int i = add(kind, handle, -1, -1, 0, 0, flags | scope.present() * NativeKvOps.LORA);
    NativeKvOps.tokens(record(i), place, n, scope.lora().orElse(0), scope.salt().orElse(0), tenant);
    return i;
  }

  private static int notNegative(int tokens) {
    if (tokens < 0) {
      throw new BerthException(Code.ARGUMENT, tokens + " tokens");
    }
    return tokens;
  }

  private int tokens(
      int kind,
      long handle,
      KvScope scope,
      int tenant,
      int flags,
      MemorySegment from,
      long at,
      int n) {
    MemorySegment arena = kv.tokens();
    if (n < 0 || n > arena.byteSize() / Integer.BYTES - used) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d tokens after %d, the arena holds %d"
              .formatted(n, used, arena.byteSize() / Integer.BYTES));
    }
    int i = add(kind, handle, -1, -1, 0, 0, flags | scope.present() * NativeKvOps.LORA);
    try {
      MemorySegment.copy(
          from, JAVA_INT, at * Integer.BYTES, arena, JAVA_INT, used * Integer.BYTES, n);
    } catch (IllegalStateException e) {
      size = i;
      throw new BerthException(Code.CLOSED, "this KV cache is closed", e);
    } catch (RuntimeException e) {
      size = i;
      throw e;
    }
    NativeKvOps.tokens(record(i), used, n, scope.lora().orElse(0), scope.salt().orElse(0), tenant);
    used += n;
    return i;
  }

  private int add(int kind, long handle, int a, int b, int c, long time, int flags) {
    if (size == capacity) {
      throw new BerthException(Code.ARGUMENT, "the batch is full: " + capacity + " operations");
    }
    int i = size++;
    NativeKvOps.fill(record(i), kind, handle, a, b, c, time, flags);
    return i;
  }
}
