// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * What one rank tells the others before routing: {@value #WORDS} signed 64-bit words in wire order.
 *
 * <p>Short payloads are legal, the missing tail has the defaults. The payload carries no version:
 * magic, version and length belong to the frame around it. Source: spec 01 §2.
 *
 * @param rank attention-DP rank, 0 or more
 * @param activeRequests routable active requests, 0 or more
 * @param activeTokens their token load, 0 .. {@link #MAX_TOKENS}
 * @param retiringRequests resident requests whose last forward was launched, 0 or more; 0 where
 *     they are charged as active
 * @param pendingNewRequests requests that rank 0 hasn't fetched yet, 0 or more; 0 on all other
 *     ranks
 * @param statistics iteration statistics that travel along; no decision reads them
 */
public record RankState(
    int rank,
    int activeRequests,
    long activeTokens,
    int retiringRequests,
    long pendingNewRequests,
    IterationStatistics statistics) {

  /** Length of a full payload in words. */
  public static final int WORDS = 14;

  /** Index of the rank; the only word without a default. */
  public static final int RANK = 0;

  /** Index of the routable active requests, default 0. */
  public static final int ACTIVE_REQUESTS = 1;

  /** Index of the token load of the routable requests, default 0. */
  public static final int ACTIVE_TOKENS = 2;

  /** Index of the retiring requests, default 0. */
  public static final int RETIRING_REQUESTS = 3;

  /** Index of the requests not fetched yet, default 0. */
  public static final int PENDING_NEW_REQUESTS = 4;

  /** Index of the first of the nine words of {@link IterationStatistics}. */
  public static final int STATISTICS = 5;

  /** Most tokens a state may report: leaves room for the prompts of a whole batch in 64 bits. */
  public static final long MAX_TOKENS = (1L << 62) - 1;

  public RankState {
    requireCount("rank", rank, rank);
    requireCount("activeRequests", activeRequests, rank);
    requireTokens(activeTokens, rank);
    requireCount("retiringRequests", retiringRequests, rank);
    requireCount("pendingNewRequests", pendingNewRequests, rank);
  }

  /**
   * Iteration statistics of one rank, carried verbatim.
   *
   * @param present 1 if the other fields are filled, else 0
   * @param iteration the iteration that they describe, -1 if none
   * @param contextRequests context requests in that iteration's batch
   * @param contextTokens their tokens in that batch
   * @param contextKvTokens their KV tokens
   * @param generationRequests generation requests in that batch
   * @param generationKvTokens their KV tokens
   * @param pausedRequests requests paused for lack of KV pages
   * @param pausedKvTokens their KV tokens
   */
  public record IterationStatistics(
      long present,
      long iteration,
      long contextRequests,
      long contextTokens,
      long contextKvTokens,
      long generationRequests,
      long generationKvTokens,
      long pausedRequests,
      long pausedKvTokens) {
    /** The defaults: nothing to report, iteration -1. */
    public static final IterationStatistics NONE =
        new IterationStatistics(0, -1, 0, 0, 0, 0, 0, 0, 0);
  }

  /** The state of a rank that reports load and nothing else. */
  public static RankState of(
      int rank, int activeRequests, long activeTokens, int retiringRequests) {
    return new RankState(
        rank, activeRequests, activeTokens, retiringRequests, 0, IterationStatistics.NONE);
  }

  /**
   * Writes the {@value #WORDS} words.
   *
   * @param out receives {@code out[offset .. offset + 13]}
   * @throws BerthException {@code ARGUMENT} if they don't fit
   */
  public void encode(long[] out, int offset) {
    if (offset < 0 || offset > out.length - WORDS) {
      throw new BerthException(
          Code.ARGUMENT, WORDS + " words don't fit at offset " + offset + " of " + out.length);
    }
    out[offset + RANK] = rank;
    out[offset + ACTIVE_REQUESTS] = activeRequests;
    out[offset + ACTIVE_TOKENS] = activeTokens;
    out[offset + RETIRING_REQUESTS] = retiringRequests;
    out[offset + PENDING_NEW_REQUESTS] = pendingNewRequests;
    int at = offset + STATISTICS;
    out[at++] = statistics.present;
    out[at++] = statistics.iteration;
    out[at++] = statistics.contextRequests;
    out[at++] = statistics.contextTokens;
    out[at++] = statistics.contextKvTokens;
    out[at++] = statistics.generationRequests;
    out[at++] = statistics.generationKvTokens;
    out[at++] = statistics.pausedRequests;
    out[at] = statistics.pausedKvTokens;
  }

  /**
   * Reads a payload of 1 .. {@value #WORDS} words.
   *
   * @param in the payload is {@code in[offset .. offset + length - 1]}
   * @throws BerthException {@code ARGUMENT} if the payload is empty, too long, outside the array,
   *     or a word is outside its range
   */
  public static RankState decode(long[] in, int offset, int length) {
    requireLength(length);
    if (offset < 0 || offset > in.length - length) {
      throw new BerthException(
          Code.ARGUMENT, length + " words at offset " + offset + " are outside of " + in.length);
    }
    int rank = toCount("rank", in[offset], in[offset]);
    return new RankState(
        rank,
        toCount("activeRequests", word(in, offset, length, ACTIVE_REQUESTS), rank),
        word(in, offset, length, ACTIVE_TOKENS),
        toCount("retiringRequests", word(in, offset, length, RETIRING_REQUESTS), rank),
        word(in, offset, length, PENDING_NEW_REQUESTS),
        new IterationStatistics(
            word(in, offset, length, STATISTICS),
            word(in, offset, length, STATISTICS + 1),
            word(in, offset, length, STATISTICS + 2),
            word(in, offset, length, STATISTICS + 3),
            word(in, offset, length, STATISTICS + 4),
            word(in, offset, length, STATISTICS + 5),
            word(in, offset, length, STATISTICS + 6),
            word(in, offset, length, STATISTICS + 7),
            word(in, offset, length, STATISTICS + 8)));
  }

  /**
   * The value of a word that a payload of {@code length} words doesn't hold: 0, the iteration -1.
   */
  static long defaultWord(int index) {
    return index == STATISTICS + 1 ? -1 : 0;
  }

  private static long word(long[] in, int offset, int length, int index) {
    return index < length ? in[offset + index] : defaultWord(index);
  }

  static void requireLength(int length) {
    if (length < 1 || length > WORDS) {
      throw new BerthException(
          Code.ARGUMENT, "a rank state has 1 to " + WORDS + " words, got " + length);
    }
  }

  static void requireCount(String field, long value, long rank) {
    if (value < 0) {
      throw new BerthException(
          Code.ARGUMENT, field + " must be >= 0, got " + value + " from rank " + rank);
    }
  }

  static void requireTokens(long value, long rank) {
    if (value < 0 || value > MAX_TOKENS) {
      throw new BerthException(
          Code.ARGUMENT,
          "activeTokens must be 0 to " + MAX_TOKENS + ", got " + value + " from rank " + rank);
    }
  }

  /** A word as a count that fits an {@code int}. */
  static int toCount(String field, long value, long rank) {
    if (value < 0 || value > Integer.MAX_VALUE) {
      throw new BerthException(
          Code.ARGUMENT,
          field + " must be 0 to " + Integer.MAX_VALUE + ", got " + value + " from rank " + rank);
    }
    return (int) value;
  }
}
