// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.request.WaitReason;

/** What an engine says to a request. Exhaustion is {@link QueueFull}, never an exception. */
public sealed interface Submission {
  /** It waits. Whether it can ever run turns out when the engine looks at it. */
  record Accepted() implements Submission {}

  /**
   * So many wait already. Later there may be room.
   *
   * @param capacity the engine's limit of waiting requests
   */
  record QueueFull(int capacity) implements Submission {}

  /** The engine finishes what it has and takes nothing new. */
  record Draining() implements Submission {}

  /** The engine was closed. */
  record Closed() implements Submission {}

  /**
   * It can never run here as it is.
   *
   * @param reason what is wrong with it
   * @param required what it asks for, in the reason's unit; 0 where there is none
   * @param available what there is
   * @param detail the same in words
   */
  record Refused(Reason reason, long required, long available, String detail)
      implements Submission {}

  /** Why a request is refused. */
  enum Reason {
    /** A request needs a prompt of one token at least (tokens). */
    PROMPT,
    /** Prompt and output are longer than a sequence may be, or the prompt than a batch (tokens). */
    LENGTH,
    /** Its pages would never fit (pages). */
    PAGES,
    /** More sequences than the ranks take (sequences). */
    SEQUENCES,
    /** A token id that the model doesn't have (ids). */
    TOKEN,
    /** An adapter that the engine doesn't have. */
    ADAPTER,
    /** A target rank that doesn't exist (ranks). */
    TARGET_RANK,
    /** A request of this id waits or runs. That one isn't touched. */
    DUPLICATE,
    /** Its deadline of the waiting queue was over before it came. */
    EXPIRED,
    /** Something else that it asks for. */
    OTHER;

    static Reason of(WaitReason reason) {
      return switch (reason) {
        case TOKENS -> LENGTH;
        case PAGES -> PAGES;
        case BATCH -> SEQUENCES;
        default -> OTHER;
      };
    }
  }

  /** The one Accepted. */
  Submission ACCEPTED = new Accepted();

  /** The one Draining. */
  Submission DRAINING = new Draining();

  /** The one Closed. */
  Submission CLOSED = new Closed();
}
