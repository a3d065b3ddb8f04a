// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Something native that is for one thread at a time. A call that overlaps another one is refused
 * (STATE), a call after or while closing too (CLOSED), so that no misuse reaches freed memory:
 * whoever is inside when it is closed frees it on the way out.
 */
abstract class Exclusive implements AutoCloseable {
  private static final int IDLE = 0;
  private static final int BUSY = 1;
  private static final int CLOSED = 2;
  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Exclusive.class, "state", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final String name;

  @SuppressWarnings("UnusedVariable") // through STATE
  private volatile int state = IDLE;

  private volatile boolean closing;

  /**
   * @param name what messages call it, as in {@code "seat pool"}
   */
  Exclusive(String name) {
    this.name = name;
  }

  /**
   * Before a call.
   *
   * @throws BerthException STATE if another call is inside, CLOSED
   */
  void enter() {
    int seen = (int) STATE.compareAndExchange(this, IDLE, BUSY);
    if (seen == BUSY && !closing) {
      throw new BerthException(Code.STATE, "this " + name + " is in use by another thread");
    }
    if (closing) {
      if (seen == IDLE) {
        release();
      }
      throw closed();
    }
  }

  /**
   * After it. A plain release, half as dear as a second exchange. A {@link #close()} that it
   * misses, because each of the two saw the other too early, is made good by the next {@link
   * #enter()} or by the cleaner; memory goes only from IDLE, so never under a call.
   */
  void leave() {
    release();
  }

  private void release() {
    STATE.setRelease(this, IDLE);
    if (closing) {
      end();
    }
  }

  /** What a call finds after {@link #close()}. */
  final BerthException closed() {
    return new BerthException(Code.CLOSED, "this " + name + " is closed");
  }

  final String name() {
    return name;
  }

  /**
   * Frees it: at once, or when the call that is inside leaves; at the very latest when the
   * collector finds it unreachable. Idempotent, from any thread.
   */
  @Override
  public void close() {
    closing = true;
    end();
  }

  private void end() {
    if (STATE.compareAndSet(this, IDLE, CLOSED)) {
      free();
    }
  }

  /** Frees what is behind it: called once, with nobody inside. */
  abstract void free();
}
