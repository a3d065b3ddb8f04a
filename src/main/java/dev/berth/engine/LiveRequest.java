// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** What an engine keeps of a request between its first look at it and its end. */
final class LiveRequest {
  /** Where a request is. */
  enum Place {
    /** In the waiting queue. */
    WAITING,
    /** On a rank. */
    ON_RANK
  }

  final RequestHandle handle;

  /** The request's number in the engine: the tag of its rows. */
  final int number;

  /** Room of each sequence's ring. */
  final int room;

  private final @Nullable EndKind[] kinds;
  private final int[] tokens;
  Place place = Place.WAITING;
  int rank = -1;

  /** Sequences that haven't ended. */
  int left;

  /** Why its sequences were told to end, if they were. */
  Ending ending = Ending.FINISHED;

  /** Where its KV is, if that was said after it was submitted. */
  Optional<KvHandoff> kv = Optional.empty();

  /** When its time is over, µs, and its place among those who have a time. */
  long due = SubmitOptions.NO_LIMIT;

  int timer = -1;
  Ending.Limit limit = Ending.Limit.TOTAL;

  /** When its whole time is over, µs. */
  long totalDue = SubmitOptions.NO_LIMIT;

  LiveRequest(RequestHandle handle, int number) {
    this.handle = handle;
    this.number = number;
    this.room = handle.options().room(handle.request().maxNewTokens());
    this.left = 1 + handle.request().children();
    this.kinds = new @Nullable EndKind[left];
    this.tokens = new int[left];
  }

  /** A sequence is over. */
  void ended(int child, EndKind kind, int outputTokens) {
    kinds[child] = kind;
    tokens[child] = outputTokens;
    left--;
  }

  boolean hasEnded(int child) {
    return kinds[child] != null;
  }

  /** Whether somebody has told its sequences to end. */
  boolean told() {
    return !(ending instanceof Ending.Finished);
  }

  /** How a sequence of that kind of end came to it. */
  Ending endingOf(EndKind kind) {
    return switch (kind) {
      case FINISHED -> Ending.FINISHED;
      case CANCELLED, FAILED -> ending;
    };
  }

  /** The end of the whole, once nothing is left. */
  Ending verdict() {
    for (@Nullable EndKind kind : kinds) {
      if (kind != EndKind.FINISHED) {
        return ending;
      }
    }
    return Ending.FINISHED;
  }

  List<Integer> outputTokens() {
    var all = new ArrayList<Integer>(tokens.length);
    for (int n : tokens) {
      all.add(n);
    }
    return all;
  }
}
