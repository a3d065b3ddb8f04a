// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

/**
 * Something that happens to one request or one rank of a world.
 *
 * @param fault what
 * @param subject the request's number, or the rank's node
 * @param at virtual time, µs; 0 where it has none
 * @param amount µs, tokens or times, by the fault; for a death the number of the {@link Seen} that
 *     it waits for, a while
 */
record Happening(Fault fault, int subject, long at, int amount) {
  /** Is a request its subject? */
  boolean ofRequest() {
    return switch (fault) {
      case CANCEL,
          EARLY_END,
          RESULT_LOST,
          SLOW_READER,
          TRANSFER_LATE,
          TRANSFER_FAILS,
          TRANSFER_TIMES_OUT,
          SIGNAL_REPEATED,
          OFFERED_TWICE ->
          true;
      case RUNNER_ERROR, SLOW_RANK, DEAD_RANK, MESSAGES_LATE, MESSAGES_LOST, CLOCK_JUMPS -> false;
      case ID_REUSED, NEVER_FITS, EXPIRED -> throw new AssertionError(fault); // arrivals
    };
  }

  @Override
  public String toString() {
    return switch (fault) {
      case CANCEL, OFFERED_TWICE -> "%s: request %d at %d µs".formatted(fault.word(), subject, at);
      case EARLY_END, RESULT_LOST ->
          "%s: request %d with token %d".formatted(fault.word(), subject, amount);
      case TRANSFER_LATE, SIGNAL_REPEATED ->
          "%s: request %d by %d µs".formatted(fault.word(), subject, amount);
      case TRANSFER_FAILS, TRANSFER_TIMES_OUT -> "%s: request %d".formatted(fault.word(), subject);
      case SLOW_READER ->
          "%s: request %d at %d µs for %d µs".formatted(fault.word(), subject, at, amount);
      case RUNNER_ERROR ->
          "%s: node %d at %d µs, %s"
              .formatted(fault.word(), subject, at, amount == 0 ? "launch" : "results");
      case DEAD_RANK ->
          "%s: node %d from %d µs on when one is %s"
              .formatted(fault.word(), subject, at, Seen.values()[amount].word());
      case SLOW_RANK ->
          "%s: node %d at %d µs, times %d".formatted(fault.word(), subject, at, amount);
      case MESSAGES_LATE, CLOCK_JUMPS ->
          "%s: node %d at %d µs by %d µs".formatted(fault.word(), subject, at, amount);
      case MESSAGES_LOST ->
          "%s: node %d at %d µs, %d in a row".formatted(fault.word(), subject, at, amount);
      case ID_REUSED, NEVER_FITS, EXPIRED -> fault.word();
    };
  }
}
