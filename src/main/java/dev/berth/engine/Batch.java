// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.id.BatchPosition;
import dev.berth.internal.NativeCore;
import dev.berth.request.RequestTable;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The rows of one scheduled batch. Position {@code i} is {@code BatchPosition(i)}; the methods take
 * the number itself, so that a loop over a batch allocates nothing. Owned by the engine, reused for
 * later batches.
 */
public final class Batch {
  /** What a batch position runs. */
  public enum Kind {
    /** Prompt tokens. */
    CONTEXT,
    /** One token and its drafts. */
    GENERATION,
    /** Padding. */
    DUMMY
  }

  private static final Kind[] KINDS = Kind.values();

  private final RankEngine engine;
  private final NativeCore core;
  private final RequestTable table;
  private int slot;
  private int size;

  Batch(RankEngine engine, NativeCore core, RequestTable table) {
    this.engine = engine;
    this.core = core;
    this.table = table;
  }

  Batch set(int newSlot, int newSize) {
    slot = newSlot;
    size = newSize;
    return this;
  }

  /** Which of the engine's batches this is: equal for the Launch and the Collect of one batch. */
  public int slot() {
    return slot;
  }

  /** Batch positions in use, the padding's included. */
  public int size() {
    return size;
  }

  /** Row in the request table. */
  public int row(int position) {
    return core.entryRow(slot, check(position));
  }

  /**
   * The request that runs there, in the iteration that scheduled it; the padding's has the id -1.
   */
  public long id(int position) {
    return table.id(row(position));
  }

  /** What runs there. */
  public Kind kind(int position) {
    return KINDS[core.entryKind(slot, check(position)) - 1];
  }

  /** Tokens computed there. */
  public int tokens(int position) {
    return core.entryTokens(slot, check(position));
  }

  /** Position of the first of these tokens in its sequence. */
  public int firstToken(int position) {
    return core.entryPosition(slot, check(position));
  }

  /**
   * All positions at once, a word each: the row in the low 32 bits, 1 for a context in the next,
   * the tokens in the upper 31. Generations come first, then the padding, then contexts.
   *
   * @param into {@link #size} words or more
   */
  public void words(long[] into) {
    core.entryWords(slot, size, into);
  }

  /**
   * Does this position make an output token? Every generation does, a context with its last chunk.
   */
  public boolean makesToken(int position) {
    return switch (kind(position)) {
      case GENERATION -> true;
      case DUMMY -> false;
      case CONTEXT -> firstToken(position) + tokens(position) >= table.promptTokens(row(position));
    };
  }

  /** Says, between Collect and Collected, that the sequence at a position ends with this token. */
  public void stop(BatchPosition position) {
    stop(position.index());
  }

  void stop(int position) {
    core.stop(slot, check(position));
    engine.stopped(position);
  }

  /**
   * Says, between Collect and Collected, which token a position made. Without it nothing that the
   * sequence computes from then on can be found by others, or by itself after a pause.
   *
   * @param token 0 or more
   */
  public void sampled(BatchPosition position, int token) {
    sampled(position.index(), token);
  }

  void sampled(int position, int token) {
    if (token < 0) {
      throw new BerthException(Code.ARGUMENT, "token " + token + ": 0 or more");
    }
    core.sampled(slot, check(position), token);
  }

  void sampled(MemorySegment tokens) {
    if (tokens.byteSize() != (long) size * Integer.BYTES) {
      throw new BerthException(
          Code.ARGUMENT,
          "tokens of %d bytes for a batch of %d positions".formatted(tokens.byteSize(), size));
    }
    int least = 0;
    for (int i = 0; i < size; i++) {
      least = Math.min(least, tokens.getAtIndex(ValueLayout.JAVA_INT_UNALIGNED, i));
    }
    if (least < -1) {
      throw new BerthException(Code.ARGUMENT, "token " + least + ": -1 or more");
    }
    core.sampledMemory(slot, size).copyFrom(tokens);
  }

  /**
   * Says, between Collect and Collected, that the request at a position fails here, without a
   * token. On every stage alike.
   */
  public void fail(BatchPosition position) {
    fail(position.index());
  }

  void fail(int position) {
    core.fail(slot, check(position));
    engine.failed(position);
  }

  /** The token that a position made, as it was said; -1 if nobody said. */
  int token(int position) {
    return core.sampledToken(slot, check(position));
  }

  /** Whether a position was said to end or to fail. */
  boolean stops(int position) {
    return (core.resultBits(slot, check(position)) & NativeCore.STOP) != 0;
  }

  boolean fails(int position) {
    return (core.resultBits(slot, check(position)) & NativeCore.FAILED) != 0;
  }

  private int check(int position) {
    return java.util.Objects.checkIndex(position, size);
  }
}
