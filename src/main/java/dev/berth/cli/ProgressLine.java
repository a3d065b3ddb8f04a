// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.replay.Progress;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/**
 * One line that is written over and over while a replay runs, at most ten times a second. Nothing
 * where nobody looks.
 */
final class ProgressLine implements Progress, AutoCloseable {
  /** Who looks. */
  enum Audience {
    TERMINAL,
    NOBODY
  }

  private static final long INTERVAL = TimeUnit.MILLISECONDS.toNanos(100);
  private static final String CLEAR = "\r\u001b[K";

  private final PrintWriter err;
  private final Audience audience;
  private final LongSupplier nanos;
  private final BooleanSupplier interrupted;
  private String name = "";
  private long requests;
  private long startedAt;
  private long writtenAt;
  private boolean written;

  /**
   * Nothing written yet.
   *
   * @param nanos a clock
   * @param interrupted asked by the run after every iteration
   */
  ProgressLine(
      PrintWriter err, Audience audience, LongSupplier nanos, BooleanSupplier interrupted) {
    this.err = err;
    this.audience = audience;
    this.nanos = nanos;
    this.interrupted = interrupted;
  }

  @Override
  public void begin(String runName, long runRequests) {
    name = runName;
    requests = runRequests;
    startedAt = nanos.getAsLong();
    writtenAt = startedAt;
  }

  @Override
  public void ended(long ended) {
    if (audience == Audience.NOBODY) {
      return;
    }
    long now = nanos.getAsLong();
    if (now - writtenAt < INTERVAL) {
      return;
    }
    writtenAt = now;
    written = true;
    double rate = ended / ((now - startedAt) / 1e9);
    err.print(CLEAR);
    err.printf(Locale.ROOT, "%s: %,d of %,d requests, %,.0f/s", name, ended, requests, rate);
    if (rate > 0) {
      err.printf(Locale.ROOT, ", %s left", time(Math.round((requests - ended) / rate)));
    }
    err.flush();
  }

  private static String time(long seconds) {
    return seconds < 3600
        ? "%d:%02d".formatted(seconds / 60, seconds % 60)
        : "%d:%02d:%02d".formatted(seconds / 3600, seconds / 60 % 60, seconds % 60);
  }

  @Override
  public boolean interrupted() {
    return interrupted.getAsBoolean();
  }

  /** Wipes the line away. */
  @Override
  public void close() {
    if (written) {
      err.print(CLEAR);
      err.flush();
    }
  }
}
