// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;
import java.util.ArrayDeque;

/** What a dispatcher gave one server and the server hasn't fetched, in order of arrival. */
final class Inbox implements TimedArrivals {
  private record Letter(Request request, double at) {}

  private final ArrayDeque<Letter> letters = new ArrayDeque<>();
  private int received;
  private double lastAt;

  /** Gives the server a request that arrives at a time not before the last one's. */
  void add(Request request, double at) {
    letters.add(new Letter(request, at));
    received++;
  }

  @Override
  public int total() {
    return received;
  }

  @Override
  public int sent() {
    return received - letters.size();
  }

  @Override
  public int due(long gather, double nowMicros, long ended) {
    int due = 0;
    for (Letter letter : letters) {
      if (letter.at > nowMicros) {
        break;
      }
      due++;
    }
    return due;
  }

  @Override
  public Request next() {
    Letter letter = letters.remove();
    lastAt = letter.at;
    return letter.request;
  }

  /** Only asked about the request given out last. */
  @Override
  public double arrivedAt(int tag) {
    return lastAt;
  }

  @Override
  public double nextAtMicros(long gather) {
    Letter head = letters.peek();
    return head == null ? Double.POSITIVE_INFINITY : head.at;
  }
}
