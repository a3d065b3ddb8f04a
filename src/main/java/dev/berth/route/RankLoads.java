// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static dev.berth.route.RankState.ACTIVE_REQUESTS;
import static dev.berth.route.RankState.ACTIVE_TOKENS;
import static dev.berth.route.RankState.PENDING_NEW_REQUESTS;
import static dev.berth.route.RankState.RANK;
import static dev.berth.route.RankState.RETIRING_REQUESTS;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.RankOccupancy;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.List;

/**
 * The gathered states of all ranks, in rank order, as routers read them. Reusable: it grows to the
 * largest group seen and allocates nothing after that. A refused read leaves no ranks at all. Not
 * thread-safe.
 */
public final class RankLoads implements RankOccupancy {
  private static final ValueLayout.OfLong WORD =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

  private int[] activeRequests = new int[0];
  private long[] activeTokens = new long[0];
  private int[] retiringRequests = new int[0];
  private boolean[] closed = new boolean[0];
  private int closedRanks;
  private int ranks;
  private long pendingNewRequests;
  private long routable;
  private long retiring;

  /** No ranks yet. */
  public RankLoads() {}

  /** Loads of a list of states, which must be in rank order. */
  public static RankLoads of(List<RankState> states) {
    var loads = new RankLoads();
    loads.begin(states.size());
    for (int rank = 0; rank < states.size(); rank++) {
      RankState state = states.get(rank);
      loads.set(
          rank,
          state.rank(),
          state.activeRequests(),
          state.activeTokens(),
          state.retiringRequests(),
          state.pendingNewRequests());
    }
    loads.ranks = states.size();
    return loads;
  }

  /**
   * Reads gathered payloads from an array.
   *
   * @param words rank r's payload is {@code words[r * stride .. r * stride + length - 1]}
   * @param stride distance between two payloads in words, at least {@code length}
   * @param length words of each payload, 1 .. {@value RankState#WORDS}; the missing tail has the
   *     defaults
   * @param newRanks number of payloads, 1 or more
   * @throws BerthException {@code ARGUMENT} if a payload is outside the array, isn't at the
   *     position of its rank, or holds a word outside its range
   */
  public void read(long[] words, int stride, int length, int newRanks) {
    requireShape(stride, length, newRanks, words.length);
    begin(newRanks);
    for (int rank = 0; rank < newRanks; rank++) {
      int at = rank * stride;
      set(
          rank,
          words[at + RANK],
          length > ACTIVE_REQUESTS ? words[at + ACTIVE_REQUESTS] : 0,
          length > ACTIVE_TOKENS ? words[at + ACTIVE_TOKENS] : 0,
          length > RETIRING_REQUESTS ? words[at + RETIRING_REQUESTS] : 0,
          length > PENDING_NEW_REQUESTS ? words[at + PENDING_NEW_REQUESTS] : 0);
    }
    ranks = newRanks;
  }

  /**
   * Reads gathered payloads from memory, little endian, any alignment.
   *
   * @param frames borrowed for the call; rank r's payload begins at byte {@code offset + r *
   *     stride}
   * @param offset byte offset of rank 0's payload
   * @param stride distance between two payloads in bytes, at least {@code 8 * length}
   * @param length words of each payload, 1 .. {@value RankState#WORDS}; the missing tail has the
   *     defaults
   * @param newRanks number of payloads, 1 or more
   * @throws BerthException {@code ARGUMENT} if a payload is outside the segment, isn't at the
   *     position of its rank, or holds a word outside its range
   */
  public void read(MemorySegment frames, long offset, long stride, int length, int newRanks) {
    if (offset < 0 || offset > frames.byteSize()) {
      throw new BerthException(
          Code.ARGUMENT, "offset " + offset + " is outside of " + frames.byteSize() + " bytes");
    }
    requireShape(stride / Long.BYTES, length, newRanks, (frames.byteSize() - offset) / Long.BYTES);
    long last = offset + (newRanks - 1) * stride + (long) length * Long.BYTES;
    if (last > frames.byteSize()) {
      throw new BerthException(
          Code.ARGUMENT, newRanks + " payloads don't fit in " + frames.byteSize() + " bytes");
    }
    begin(newRanks);
    for (int rank = 0; rank < newRanks; rank++) {
      long at = offset + rank * stride;
      set(
          rank,
          word(frames, at, RANK),
          length > ACTIVE_REQUESTS ? word(frames, at, ACTIVE_REQUESTS) : 0,
          length > ACTIVE_TOKENS ? word(frames, at, ACTIVE_TOKENS) : 0,
          length > RETIRING_REQUESTS ? word(frames, at, RETIRING_REQUESTS) : 0,
          length > PENDING_NEW_REQUESTS ? word(frames, at, PENDING_NEW_REQUESTS) : 0);
    }
    ranks = newRanks;
  }

  @Override
  public int ranks() {
    return ranks;
  }

  @Override
  public int activeRequests(int rank) {
    return activeRequests[rank];
  }

  /** Token load of a rank's routable requests, 0 .. {@link RankState#MAX_TOKENS}. */
  public long activeTokens(int rank) {
    return activeTokens[rank];
  }

  /** Resident requests of a rank that are excluded from the routable ones. */
  public int retiringRequests(int rank) {
    return retiringRequests[rank];
  }

  /**
   * Takes a rank out of placement until the next read: it drains, or nothing is known of it. No
   * router gives it a request, and its share falls to the others; what it holds still counts in
   * {@link #routable} and {@link #live}.
   *
   * @param rank 0 .. {@code ranks() - 1}
   * @throws BerthException {@code ARGUMENT} if there is no such rank
   */
  public void close(int rank) {
    if (rank < 0 || rank >= ranks) {
      throw new BerthException(Code.ARGUMENT, "rank " + rank + " is outside of " + ranks);
    }
    closedRanks += closed[rank] ? 0 : 1;
    closed[rank] = true;
  }

  /** True if a rank was taken out of placement. */
  public boolean isClosed(int rank) {
    return closed[rank];
  }

  /** Ranks that requests may be placed on. */
  public int openRanks() {
    return ranks - closedRanks;
  }

  /** Requests that rank 0 hasn't fetched yet, as rank 0 reported. */
  public long pendingNewRequests() {
    return pendingNewRequests;
  }

  /** Routable requests of all ranks: what the admission budget subtracts (spec 01 §3.2). */
  public long routable() {
    return routable;
  }

  /**
   * Live requests of all ranks, retiring ones included: what tells whether waiting may block (spec
   * 01 §3.2).
   */
  public long live() {
    return routable + retiring;
  }

  /** Working copies for a router: {@code requests[0 .. ranks)} and {@code tokens[0 .. ranks)}. */
  void copyTo(int[] requests, long[] tokens) {
    System.arraycopy(activeRequests, 0, requests, 0, ranks);
    System.arraycopy(activeTokens, 0, tokens, 0, ranks);
  }

  private static long word(MemorySegment frames, long at, int index) {
    return frames.get(WORD, at + (long) index * Long.BYTES);
  }

  private static void requireShape(long stride, int length, int ranks, long available) {
    RankState.requireLength(length);
    if (stride < length) {
      throw new BerthException(
          Code.ARGUMENT, "payloads of " + length + " words overlap at a stride of " + stride);
    }
    if (ranks < 1 || length > available || ranks - 1L > (available - length) / stride) {
      throw new BerthException(
          Code.ARGUMENT,
          ranks + " payloads at a stride of " + stride + " don't fit in " + available + " words");
    }
  }

  private void begin(int newRanks) {
    if (newRanks < 1) {
      throw new BerthException(Code.ARGUMENT, "there must be at least one rank");
    }
    if (newRanks > activeRequests.length) {
      activeRequests = new int[newRanks];
      activeTokens = new long[newRanks];
      retiringRequests = new int[newRanks];
      closed = new boolean[newRanks];
    }
    java.util.Arrays.fill(closed, false);
    closedRanks = 0;
    ranks = 0;
    pendingNewRequests = 0;
    routable = 0;
    retiring = 0;
  }

  private void set(
      int position, long rank, long requests, long tokens, long retiringNow, long pendingNew) {
    if (rank != position) {
      throw new BerthException(
          Code.ARGUMENT, "the state at position " + position + " is rank " + rank + "'s");
    }
    RankState.requireTokens(tokens, rank);
    RankState.requireCount("pendingNewRequests", pendingNew, rank);
    activeRequests[position] = RankState.toCount("activeRequests", requests, rank);
    activeTokens[position] = tokens;
    retiringRequests[position] = RankState.toCount("retiringRequests", retiringNow, rank);
    routable += requests;
    retiring += retiringNow;
    if (position == 0) {
      pendingNewRequests = pendingNew;
    }
  }
}
