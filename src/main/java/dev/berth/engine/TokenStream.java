// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The output tokens of one sequence, in a ring between the engine and one reader. The engine never
 * waits for the reader: {@link SubmitOptions#slowReader} says what happens when the ring is full.
 * For one reading thread at a time; all methods but those of the reader belong to the engine.
 */
public final class TokenStream {
  /** {@link #poll}: nothing there yet. */
  public static final int NONE = -1;

  /** {@link #poll}: the sequence has ended, and all of its tokens were read. */
  public static final int END = -2;

  private static final VarHandle TAIL;
  private static final VarHandle HEAD;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      TAIL = lookup.findVarHandle(TokenStream.class, "tail", long.class);
      HEAD = lookup.findVarHandle(TokenStream.class, "head", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final RequestHandle handle;
  private final int child;

  // ---- the ring: written by the engine, read by the reader
  private int[] ring = new int[0];
  private volatile long tail;
  private volatile long head;
  private volatile @Nullable Ending ending;
  private volatile @Nullable Thread waiter;

  /** The engine waits for room here: whoever reads tells it. */
  private volatile boolean awaited;

  // ---- the engine's own
  /** Row on its rank, -1: none. */
  int row = -1;

  /** Tokens that it made, those that nobody knows included. */
  int made;

  /** The last token that it made, -1 if nobody knows it. */
  int last = -1;

  /** Nothing that it makes from now on is anybody's. */
  boolean closed;

  /** It isn't scheduled since: µs; -1: it is. */
  long heldSince = -1;

  /** It is in the engine's list of slow ones. */
  boolean minded;

  /** It made a token that there was no room for. */
  boolean overrun;

  TokenStream(RequestHandle handle, int child) {
    this.handle = handle;
    this.child = child;
  }

  // ------------------------------------------------------------------------------ the reader

  /** Whose sequence it is. */
  public RequestHandle handle() {
    return handle;
  }

  /** Which sequence of its request, 0: the first. */
  public int child() {
    return child;
  }

  /** The next token, {@link #NONE} if there is none yet, {@link #END} after the last one. */
  public int poll() {
    boolean over = ending != null; // asked first: nothing is written after it
    long at = (long) HEAD.get(this);
    if (at == (long) TAIL.getAcquire(this)) {
      return over ? END : NONE;
    }
    int token = ring[(int) at & ring.length - 1];
    HEAD.setVolatile(this, at + 1);
    if (awaited) {
      handle.engine().wake();
    }
    return token;
  }

  /**
   * The next token, waiting for it; {@link #END} after the last one.
   *
   * @throws InterruptedException if the thread is interrupted while it waits
   */
  public int take() throws InterruptedException {
    while (true) {
      int token = poll();
      if (token != NONE) {
        return token;
      }
      await();
      if (Thread.interrupted()) {
        throw new InterruptedException();
      }
    }
  }

  /** How it ended, once it has; there may still be tokens to read. */
  public Optional<Ending> ending() {
    return Optional.ofNullable(ending);
  }

  /**
   * The tokens for one subscriber. Its methods are called in a task of the executor, which lasts
   * until the stream ends and waits in between: a virtual thread is made for that. To cancel the
   * subscription cancels the request, and so does a subscriber that throws. A sequence that doesn't
   * run to its end is an error with a {@link RequestEndedException}.
   *
   * @param executor where the subscriber lives; the engine never runs anything of it
   */
  public Flow.Publisher<Integer> publisher(Executor executor) {
    return new TokenPublisher(this, executor);
  }

  /** True once nothing is left to read. */
  boolean exhausted() {
    return ending != null && head == tail;
  }

  /** Waits until something changes, maybe for nothing. */
  void await() {
    waiter = Thread.currentThread();
    if (tail == head && ending == null) {
      LockSupport.park(this);
    }
    waiter = null;
  }

  // ------------------------------------------------------------------------------ the engine

  /**
   * Appends a token. The reader isn't told before {@link #tell}.
   *
   * @param room of the ring, a power of two
   * @return false if the ring is full
   */
  boolean push(int token, int room) {
    long at = (long) TAIL.get(this);
    if (ring.length == 0) {
      ring = new int[room];
    }
    if (at - (long) HEAD.getAcquire(this) == ring.length) {
      return false;
    }
    ring[(int) at & ring.length - 1] = token;
    TAIL.setRelease(this, at + 1);
    return true;
  }

  /** Places that are free. */
  int free(int room) {
    return room - (int) ((long) TAIL.get(this) - head);
  }

  /** From now on whoever reads wakes the engine, or no longer. */
  void await(boolean room) {
    awaited = room;
  }

  /** Ends the stream. */
  void end(Ending how) {
    ending = how;
    tell();
  }

  /** Tells the reader to look; a full fence must stand between this and what is there to see. */
  void tell() {
    Thread reader = waiter;
    if (reader != null) {
      LockSupport.unpark(reader);
    }
  }
}
