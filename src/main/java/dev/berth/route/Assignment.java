// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.Arrays;

/**
 * What a router decided: for each rank the ordered list of indexes into the batch, held as
 * compressed rows. Reusable: it grows to the largest call and allocates nothing after that. Not
 * thread-safe.
 *
 * <p>Every index of the batch stands in exactly one place: on one rank, or among the unassigned.
 */
public final class Assignment {
  /** Whether every request of the batch found a rank. */
  public enum Outcome {
    /** Every request has a rank. */
    PLACED,
    /**
     * The caller handed over more requests than the ranks have room for (budget of spec 01 §3.3);
     * {@link #unassignedSize()} of them have no rank and belong back in the waiting queue.
     */
    EXHAUSTED
  }

  private int[] starts = new int[1];
  private int[] rows = new int[0];
  private int[] placedItems = new int[0];
  private int[] placedRanks = new int[0];
  private int[] unassigned = new int[0];
  private int ranks;
  private int requests;
  private int placed;
  private int unassignedSize;
  private int expectedActive;

  /** Nothing assigned, no ranks. */
  public Assignment() {}

  /** Number of ranks of the call. */
  public int ranks() {
    return ranks;
  }

  /** Whether every request found a rank. */
  public Outcome outcome() {
    return unassignedSize == 0 ? Outcome.PLACED : Outcome.EXHAUSTED;
  }

  /** E: the count of active requests that the router aimed at on each rank (spec 01 §4.1). */
  public int expectedActive() {
    return expectedActive;
  }

  /** How many requests a rank was given. */
  public int size(int rank) {
    requireRank(rank);
    return starts[rank + 1] - starts[rank];
  }

  /**
   * Batch index of a rank's request: explicitly placed ones first, then balanced ones in the order
   * of their placement.
   *
   * @param rank 0 .. {@code ranks() - 1}
   * @param position 0 .. {@code size(rank) - 1}
   */
  public int get(int rank, int position) {
    int size = size(rank);
    if (position < 0 || position >= size) {
      throw new BerthException(
          Code.ARGUMENT, "position " + position + " is outside rank " + rank + "'s " + size);
    }
    return rows[starts[rank] + position];
  }

  /** How many requests found no rank; 0 unless the caller was over budget. */
  public int unassignedSize() {
    return unassignedSize;
  }

  /**
   * Batch index of a request that found no rank, in arrival order.
   *
   * @param position 0 .. {@code unassignedSize() - 1}
   */
  public int unassigned(int position) {
    if (position < 0 || position >= unassignedSize) {
      throw new BerthException(
          Code.ARGUMENT, "position " + position + " is outside the unassigned " + unassignedSize);
    }
    return unassigned[position];
  }

  /** Starts a result for a batch of {@code newRequests}. */
  void begin(int newRanks, int newRequests) {
    if (starts.length <= newRanks) {
      starts = new int[newRanks + 1];
    }
    if (rows.length < newRequests) {
      rows = new int[newRequests];
      placedItems = new int[newRequests];
      placedRanks = new int[newRequests];
      unassigned = new int[newRequests];
    }
    ranks = newRanks;
    requests = newRequests;
    Arrays.fill(starts, 0, newRanks + 1, 0);
    placed = 0;
  }

  /** Appends a batch index to a rank's list. */
  void place(int item, int rank) {
    placedItems[placed] = item;
    placedRanks[placed] = rank;
    placed++;
    starts[rank]++;
  }

  /**
   * Turns the record of placements into rows, a stable counting sort by rank, and collects what was
   * never placed.
   *
   * @param expected E
   */
  void finish(int expected) {
    expectedActive = expected;
    int end = 0;
    for (int rank = 0; rank < ranks; rank++) {
      end += starts[rank];
      starts[rank] = end;
    }
    starts[ranks] = end;
    for (int i = placed - 1; i >= 0; i--) {
      rows[--starts[placedRanks[i]]] = placedItems[i];
    }
    unassignedSize = 0;
    if (placed < requests) {
      collectUnassigned();
    }
  }

  /** Flags what was placed, then packs the indexes of the rest over the flags already read. */
  private void collectUnassigned() {
    Arrays.fill(unassigned, 0, requests, 0);
    for (int i = 0; i < placed; i++) {
      unassigned[placedItems[i]] = 1;
    }
    for (int item = 0; item < requests; item++) {
      if (unassigned[item] == 0) {
        unassigned[unassignedSize++] = item;
      }
    }
  }

  private void requireRank(int rank) {
    if (rank < 0 || rank >= ranks) {
      throw new BerthException(
          Code.ARGUMENT, "rank " + rank + " is outside the assignment's " + ranks);
    }
  }
}
