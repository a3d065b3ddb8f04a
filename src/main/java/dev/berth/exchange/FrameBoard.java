// SPDX-License-Identifier: Apache-2.0
package dev.berth.exchange;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * One collective's frames, one per rank in rank order: {@code long[ranks][HEADER_WORDS + payloadWords]}, reused every
 * iteration. Each rank writes its own frame; when all have, {@link #verify} checks every header before anybody looks at
 * a payload.
 *
 * <p>Header, 48 bytes little endian (spec 08 §9): magic u32, version u16, op u16; epoch u64; sequence u64; payload bytes
 * u32, flags u32; error code i32, zero; rolling decision hash u64.
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

  /**
   * A board for one collective.
   *
   * @param op which one
   * @param ranks 1 or more
   * @param payloadWords words of every rank's payload, 0 or more
   */
  public FrameBoard(Op op, int ranks, int payloadWords) {
    if (ranks < 1 || payloadWords < 0) {
      throw new BerthException(
          Code.ARGUMENT, "ranks " + ranks + ", payload words " + payloadWords);
    }
    this.op = op;
    this.ranks = ranks;
    this.payloadWords = payloadWords;
    this.stride = HEADER_WORDS + payloadWords;
    this.words = new long[Math.multiplyExact(ranks, stride)];
  }

  /** Number of ranks. */
  public int ranks() {
    return ranks;
  }

  /** Words between the payloads of two neighbouring ranks. */
  public int stride() {
    return stride;
  }

  /** The frames themselves, written in place. */
  public long[] words() {
    return words;
  }

  /** Offset of a rank's payload in {@link #words()}. */
  public int payload(int rank) {
    return rank * stride + HEADER_WORDS;
  }

  /** Writes the header of a rank's frame. */
  public void header(int rank, long epoch, long sequence, int flags, int error, long decisionHash) {
    int at = rank * stride;
    words[at] =
        Integer.toUnsignedLong(MAGIC) | (long) VERSION << 32 | (long) op.ordinal() << 48;
    words[at + 1] = epoch;
    words[at + 2] = sequence;
    words[at + 3] = payloadWords * 8L | (long) flags << 32;
    words[at + 4] = Integer.toUnsignedLong(error);
    words[at + 5] = decisionHash;
  }

  /** Rolling decision hash that a rank's frame carries. */
  public long decisionHash(int rank) {
    return words[rank * stride + 5];
  }

  /** Error code that a rank's frame carries, 0 if none. */
  public int error(int rank) {
    return (int) words[rank * stride + 4];
  }

  /**
   * Checks every frame's header.
   *
   * @throws BerthException DIVERGED naming the first rank whose frame isn't of this collective, epoch and sequence
   */
  public void verify(long epoch, long sequence) {
    long first =
        Integer.toUnsignedLong(MAGIC) | (long) VERSION << 32 | (long) op.ordinal() << 48;
    for (int rank = 0; rank < ranks; rank++) {
      int at = rank * stride;
      if (words[at] != first) {
        throw foreign(rank, "magic, version or operation", words[at], first);
      } else if (words[at + 1] != epoch) {
        throw foreign(rank, "epoch", words[at + 1], epoch);
      } else if (words[at + 2] != sequence) {
        throw foreign(rank, "sequence", words[at + 2], sequence);
      } else if ((int) words[at + 3] != payloadWords * 8) {
        throw foreign(rank, "payload bytes", (int) words[at + 3], payloadWords * 8L);
      }
    }
  }

  private BerthException foreign(int rank, String field, long found, long wanted) {
    return new BerthException(
        Code.DIVERGED,
        "rank %d sent %s 0x%x in the %s collective, 0x%x was expected"
            .formatted(rank, field, found, op, wanted));
  }

  /** Hash over all frames: equal on all ranks that gathered the same. */
  public long hash() {
    long h = op.ordinal();
    for (long word : words) {
      h = (h ^ word) * 0x9E3779B97F4A7C15L;
      h ^= h >>> 32;
    }
    return h;
  }
}
