// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.Optional;

/** How a submitted request, or one sequence of it, came to its end. */
public sealed interface Ending {
  /** It ran to its output limit, or the model ended it. */
  record Finished() implements Ending {}

  /** Somebody ended it before that. */
  record Cancelled(By by) implements Ending {}

  /** It was too late. */
  record TimedOut(Limit limit) implements Ending {}

  /**
   * The model or the engine lost it. Nothing else says that it can't be tried again.
   *
   * @param cause what broke, if it is known
   */
  record Failed(String message, Optional<Throwable> cause) implements Ending {}

  /** It never began: {@link Submission} says why. */
  record Refused(Submission why) implements Ending {}

  /** Who ended a request. */
  enum By {
    /** Whoever submitted it. */
    CALLER,
    /** Its reader was too slow. */
    SLOW_READER,
    /** The engine was closed at once. */
    CLOSE
  }

  /** Which time was over. */
  enum Limit {
    /** {@link SubmitOptions#queueMicros}. */
    QUEUE,
    /** {@link SubmitOptions#totalMicros}. */
    TOTAL
  }

  /** The one Finished. */
  Ending FINISHED = new Finished();
}
