// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * How long a request may take and how its output is read. Times count from the step that first sees
 * the request, on the clock of {@link Engine#step}; one decision, the first rank's, ends it on all
 * ranks in the same iteration.
 *
 * @param queueMicros most µs in the waiting queue, 0 or more; {@link #NO_LIMIT}
 * @param totalMicros most µs until its end, 0 or more; {@link #NO_LIMIT}
 * @param buffer tokens of one sequence that its reader may be behind, {@value #LEAST_BUFFER} or
 *     more; no more than {@link #MOST_BUFFER} and the output limit are kept room for
 * @param slowReader what happens when the reader is further behind
 */
public record SubmitOptions(long queueMicros, long totalMicros, int buffer, SlowReader slowReader) {
  /** No limit in time. */
  public static final long NO_LIMIT = Long.MAX_VALUE;

  /** Tokens in the smallest buffer: some may be on their way when a reader is found to be slow. */
  public static final int LEAST_BUFFER = 8;

  /** Tokens in the largest buffer. */
  public static final int MOST_BUFFER = 1 << 16;

  /** What becomes of a request whose reader is too slow. The engine never waits for a reader. */
  public sealed interface SlowReader {
    /**
     * The request isn't scheduled until half of the buffer has been read. It keeps its seat and its
     * pages meanwhile, so this has an end: then it is cancelled.
     *
     * @param micros most µs of one pause, 0 or more
     */
    record Pause(long micros) implements SlowReader {
      public Pause {
        requireTime("pause", micros);
      }
    }

    /** It is cancelled; what is in the buffer can still be read. */
    record Cancel() implements SlowReader {}
  }

  /**
   * No limits in time; a buffer for the whole output, up to {@link #MOST_BUFFER}; a reader that is
   * further behind is waited for ten seconds.
   */
  public static final SubmitOptions DEFAULT =
      new SubmitOptions(NO_LIMIT, NO_LIMIT, MOST_BUFFER, new SlowReader.Pause(10_000_000));

  public SubmitOptions {
    requireTime("queue", queueMicros);
    requireTime("total", totalMicros);
    if (buffer < LEAST_BUFFER) {
      throw new BerthException(
          Code.ARGUMENT, "a buffer of %d tokens: %d or more".formatted(buffer, LEAST_BUFFER));
    }
  }

  private static void requireTime(String what, long micros) {
    if (micros < 0) {
      throw new BerthException(Code.ARGUMENT, "%s: %d µs: 0 or more".formatted(what, micros));
    }
  }

  /** The same with another limit of the time in the queue. */
  public SubmitOptions withQueueMicros(long micros) {
    return new SubmitOptions(micros, totalMicros, buffer, slowReader);
  }

  /** The same with another limit of the time until the end. */
  public SubmitOptions withTotalMicros(long micros) {
    return new SubmitOptions(queueMicros, micros, buffer, slowReader);
  }

  /** The same with another buffer. */
  public SubmitOptions withBuffer(int tokens, SlowReader whenFull) {
    return new SubmitOptions(queueMicros, totalMicros, tokens, whenFull);
  }

  /** Room that a sequence's buffer gets, a power of two. */
  int room(int maxNewTokens) {
    int tokens = Math.clamp(Math.min(buffer, maxNewTokens), LEAST_BUFFER, MOST_BUFFER);
    return Integer.highestOneBit(2 * tokens - 1);
  }
}
