// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.RequestBatch;
import java.util.Arrays;

/**
 * How many tokens of each new prompt each rank's cache holds, as gathered: {@code
 * int32[requests][ranks]}. Every rank probes every new request with the prompt minus its last token
 * and sends {@code [id, match, id, match, …]} (spec 01 §4.3). Reusable: it grows to the largest
 * batch and allocates nothing after that. Not thread-safe.
 */
public final class PrefixMatches {
  /** Nothing was gathered: no rank holds anything of any prompt. */
  public static final PrefixMatches NONE = new PrefixMatches();

  private int[] matches = new int[0];
  private int[] best = new int[0];
  private int requests;
  private int ranks;

  /** No requests yet. */
  public PrefixMatches() {}

  /**
   * Starts the matches of a batch: all 0.
   *
   * @throws BerthException {@code ARGUMENT} if there is no rank or the table has more than 2^31 - 1
   *     entries, {@code STATE} if this is {@link #NONE}
   */
  public void begin(int newRequests, int newRanks) {
    requireChangeable();
    if (newRanks < 1 || newRequests < 0 || (long) newRequests * newRanks > Integer.MAX_VALUE) {
      throw new BerthException(
          Code.ARGUMENT, newRequests + " requests on " + newRanks + " ranks can't be tabled");
    }
    int size = newRequests * newRanks;
    if (matches.length < size) {
      matches = new int[size];
    }
    if (best.length < newRequests) {
      best = new int[newRequests];
    }
    requests = newRequests;
    ranks = newRanks;
    Arrays.fill(matches, 0, size, 0);
    Arrays.fill(best, 0, newRequests, 0);
  }

  /**
   * Sets one match.
   *
   * @param item index in the batch, 0 .. {@code requests() - 1}
   * @param rank 0 .. {@code ranks() - 1}
   * @param tokens 0 or more
   * @throws BerthException {@code ARGUMENT} if one of them is outside
   */
  public void set(int item, int rank, int tokens) {
    requireChangeable();
    requireIndex(item, rank);
    if (tokens < 0) {
      throw new BerthException(
          Code.ARGUMENT, "rank " + rank + " reports a match of " + tokens + " tokens");
    }
    matches[item * ranks + rank] = tokens;
    best[item] = Math.max(best[item], tokens);
  }

  /**
   * Reads what a rank sent. Requests that it doesn't name keep what they have; the usual order is
   * the batch's, any other is found by looking for it.
   *
   * @param batch the batch that {@link #begin} was called for
   * @param words {@code [id, match] * pairs} from {@code offset} on
   * @throws BerthException {@code ARGUMENT} if the words are outside the array, a match is negative
   *     or too large, or an id isn't in the batch
   */
  public void read(RequestBatch batch, int rank, long[] words, int offset, int pairs) {
    requireChangeable();
    if (batch.size() != requests || pairs < 0 || offset < 0 || offset > words.length - 2L * pairs) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d pairs at %d of %d words for a batch of %d requests"
              .formatted(pairs, offset, words.length, batch.size()));
    }
    for (int pair = 0; pair < pairs; pair++) {
      long id = words[offset + 2 * pair];
      long tokens = words[offset + 2 * pair + 1];
      if (tokens < 0 || tokens > Integer.MAX_VALUE) {
        throw new BerthException(
            Code.ARGUMENT, "rank " + rank + " reports a match of " + tokens + " tokens");
      }
      set(indexOf(batch, id, pair), rank, (int) tokens);
    }
  }

  private static int indexOf(RequestBatch batch, long id, int likely) {
    int size = batch.size();
    int item = size == 0 ? 0 : likely % size;
    for (int i = 0; i < size; i++) {
      if (batch.get(item).id() == id) {
        return item;
      }
      item = item + 1 == size ? 0 : item + 1;
    }
    throw new BerthException(Code.ARGUMENT, "request " + id + " isn't in the batch");
  }

  /** Number of requests; 0 where nothing was gathered. */
  public int requests() {
    return requests;
  }

  /** Number of ranks; 0 where nothing was gathered. */
  public int ranks() {
    return ranks;
  }

  /** Tokens of a request's prompt that a rank's cache holds. */
  public int get(int item, int rank) {
    requireIndex(item, rank);
    return matches[item * ranks + rank];
  }

  /** The table, row by row. */
  int[] table() {
    return matches;
  }

  /** The most that any rank holds of a request's prompt, or held before it was set again. */
  int best(int item) {
    return best[item];
  }

  /**
   * @throws BerthException ARGUMENT unless these are matches of that many requests on that many
   *     ranks, or none at all
   */
  void requireFor(int batchSize, int groupRanks) {
    if (requests != 0 && (requests != batchSize || ranks != groupRanks)) {
      throw new BerthException(
          Code.ARGUMENT,
          "matches of %d requests on %d ranks for %d requests on %d ranks"
              .formatted(requests, ranks, batchSize, groupRanks));
    }
  }

  private void requireIndex(int item, int rank) {
    if (item < 0 || item >= requests || rank < 0 || rank >= ranks) {
      throw new BerthException(
          Code.ARGUMENT,
          "request %d on rank %d is outside of %d requests on %d ranks"
              .formatted(item, rank, requests, ranks));
    }
  }

  @SuppressWarnings("ReferenceEquality")
  private void requireChangeable() {
    if (this == NONE) {
      throw new BerthException(Code.STATE, "PrefixMatches.NONE is shared and can't be changed");
    }
  }
}
