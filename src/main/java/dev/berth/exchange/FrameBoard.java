// SPDX-License-Identifier: Apache-2.0
package dev.berth.exchange;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * One collective's frames, one per rank in rank order: {@code long[ranks][HEADER_WORDS +
 * payloadWords]}, reused every iteration. Each rank writes its own frame; when all have, {@link
 * #verify} checks every header before anybody looks at a payload.
 *
 * <p>Header, 48 bytes little endian (spec 08 §9): magic u32, version u16, op u16; epoch u64;
 * sequence u64; payload bytes u32, flags u32; error code i32, zero; rolling decision hash u64.
 */
public final class FrameBoard {
  /** The collective a frame belongs to. */
  public enum Op {
    /** Before routing: rank states, errors, gates. */
    GATHER,
    /** After scheduling: batch sizes, decision hashes. */
    VOTE
  }

  /** "BRTH" read as a little-endian u32. */
  public static final int MAGIC = 0x48545242;

  /** Raised by every change of header or payload. */
  public static final int VERSION = 1;

  /** Words before the payload. */
  public static final int HEADER_WORDS = 6;

  /** Flag: the rank reports an error; the code is in the header. */
  public static final int FLAG_ERROR = 1;

  private final Op op;
  private final int ranks;
  private final int payloadWords;
  private final int stride;
  private final long[] words;
  private final MemorySegment segment;
  private long sequence = -1;
  private long hash;

  /**
   * A board for one collective.
   *
   * @param op which one
   * @param ranks frames, 1 or more
   * @param payloadWords words of every rank's payload, 0 or more
   */
  public FrameBoard(Op op, int ranks, int payloadWords) {
    if (ranks < 1 || payloadWords < 0) {
      throw new BerthException(Code.ARGUMENT, "ranks " + ranks + ", payload words " + payloadWords);
    }
    this.op = op;
    this.ranks = ranks;
    this.payloadWords = payloadWords;
    this.stride = HEADER_WORDS + payloadWords;
    this.words = new long[Math.multiplyExact(ranks, stride)];
    this.segment = MemorySegment.ofArray(words);
  }

  /** An empty frame of this kind: header and payload. */
  public static long[] frame(int payloadWords) {
    return new long[HEADER_WORDS + payloadWords];
  }

  /** Writes the header of a frame that a rank is about to send. */
  public static void header(
      long[] frame, Op op, long epoch, long sequence, int flags, int error, long decisionHash) {
    frame[0] = first(op);
    frame[1] = epoch;
    frame[2] = sequence;
    frame[3] = (frame.length - HEADER_WORDS) * 8L | (long) flags << 32;
    frame[4] = Integer.toUnsignedLong(error);
    frame[5] = decisionHash;
  }

  private static long first(Op op) {
    return Integer.toUnsignedLong(MAGIC) | (long) VERSION << 32 | (long) op.ordinal() << 48;
  }

  /** Takes a rank's frame. */
  public void put(int rank, long[] frame) {
    if (rank < 0 || rank >= ranks) {
      throw new BerthException(Code.ARGUMENT, "rank " + rank + " of " + ranks);
    }
    if (frame.length != stride) {
      throw new BerthException(
          Code.ARGUMENT, "frame of " + frame.length + " words, " + stride + " expected");
    }
    System.arraycopy(frame, 0, words, rank * stride, stride);
  }

  /** Which collective's frames these are. */
  public Op op() {
    return op;
  }

  /** Words of every rank's payload. */
  public int payloadWords() {
    return payloadWords;
  }

  /** Number of ranks. */
  public int ranks() {
    return ranks;
  }

  /** Words between the payloads of two neighbouring ranks. */
  public int stride() {
    return stride;
  }

  /** All frames as memory, for readers of payloads. */
  public MemorySegment segment() {
    return segment;
  }

  /** Byte offset of a rank's payload in {@link #segment()}. */
  public long payloadOffset(int rank) {
    return (rank * (long) stride + HEADER_WORDS) * Long.BYTES;
  }

  /** A word of a rank's payload. */
  public long word(int rank, int index) {
    return words[
        Objects.checkIndex(rank, ranks) * stride
            + HEADER_WORDS
            + Objects.checkIndex(index, payloadWords)];
  }

  /** Rolling decision hash that a rank's frame carries. */
  public long decisionHash(int rank) {
    return words[Objects.checkIndex(rank, ranks) * stride + 5];
  }

  /** Error code that a rank's frame carries, 0 if none. */
  public int error(int rank) {
    return (int) words[Objects.checkIndex(rank, ranks) * stride + 4];
  }

  /** True if a rank's frame carries an error. */
  public boolean faulted(int rank) {
    long flags = words[Objects.checkIndex(rank, ranks) * stride + 3] >>> 32;
    return (flags & FLAG_ERROR) != 0;
  }

  /** True if any rank's frame carries an error: the same on all that gathered this board. */
  public boolean faulted() {
    boolean any = false;
    for (int rank = 0; rank < ranks; rank++) {
      any |= faulted(rank);
    }
    return any;
  }

  /**
   * Checks every frame's header and takes the hash of the whole board.
   *
   * @throws BerthException DIVERGED naming the first rank whose frame isn't of this collective,
   *     epoch and sequence
   */
  public void verify(long epoch, long expectedSequence) {
    long first = first(op);
    for (int rank = 0; rank < ranks; rank++) {
      int at = rank * stride;
      if (words[at] != first) {
        throw foreign(rank, "magic, version or operation", words[at], first);
      } else if (words[at + 1] != epoch) {
        throw foreign(rank, "epoch", words[at + 1], epoch);
      } else if (words[at + 2] != expectedSequence) {
        throw foreign(rank, "sequence", words[at + 2], expectedSequence);
      } else if ((int) words[at + 3] != payloadWords * 8) {
        throw foreign(rank, "payload bytes", (int) words[at + 3], payloadWords * 8L);
      }
    }
    sequence = expectedSequence;
    long h = op.ordinal();
    for (long word : words) {
      h = (h ^ word) * 0x9E3779B97F4A7C15L;
      h ^= h >>> 32;
    }
    hash = h;
  }

  /** Sequence of the last collective that was verified, -1 before the first. */
  public long sequence() {
    return sequence;
  }

  /**
   * Hash over all frames of the last verified collective: equal on all ranks that gathered the
   * same.
   */
  public long hash() {
    return hash;
  }

  private BerthException foreign(int rank, String field, long found, long wanted) {
    return new BerthException(
        Code.DIVERGED,
        "rank %d sent %s 0x%x in the %s collective, 0x%x was expected"
            .formatted(rank, field, found, op, wanted));
  }
}
