// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.engine.Event;
import dev.berth.exchange.FrameBoard;
import java.util.Arrays;

/**
 * The frames of one collective on their way. Whoever has sent all can't send for the next but one
 * before everybody has received these, so two of them take turns.
 */
final class Collective {
  private static final long NEVER = Long.MAX_VALUE;

  private final FrameBoard board;
  final Event complete;

  /** When a node has all frames; {@link Long#MAX_VALUE}: not known, or never. */
  final long[] readyAt;

  private final long[] sentAt;
  private final boolean[] sent;
  private int missing;
  long sequence = -1;

  Collective(FrameBoard.Op op, int nodes, int words) {
    board = new FrameBoard(op, nodes, words);
    complete = op == FrameBoard.Op.GATHER ? new Event.Gathered(board) : new Event.Voted(board);
    readyAt = new long[nodes];
    sentAt = new long[nodes];
    sent = new boolean[nodes];
    missing = nodes;
  }

  /** Makes room for the frames of an iteration. */
  private void begin(long next) {
    sequence = next;
    missing = sent.length;
    Arrays.fill(sent, false);
    Arrays.fill(readyAt, NEVER);
  }

  /**
   * A node sends its frame.
   *
   * @return true if it was the last
   */
  boolean send(int node, long[] frame, long iteration, long now) {
    if (sequence != iteration) {
      begin(iteration);
    }
    board.put(node, frame);
    sent[node] = true;
    sentAt[node] = now;
    if (--missing > 0) {
      return false;
    }
    board.verify(0, iteration);
    return true;
  }

  /** Has every node sent? */
  boolean full() {
    return missing == 0;
  }

  boolean has(int node) {
    return sent[node];
  }

  long sentAt(int node) {
    return sentAt[node];
  }
}
