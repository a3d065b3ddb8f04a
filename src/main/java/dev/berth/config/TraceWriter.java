// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.replay.Trace;
import java.io.IOException;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Optional;

/**
 * Writes requests in the formats that {@link TraceReader} reads. Arrivals are exact to 100 ns and
 * count from the first request that is written; CSV, which has clock times, begins at 1970-01-01
 * 00:00 UTC. For one thread.
 */
public final class TraceWriter {
  private static final long TICKS_A_SECOND = 10_000_000;

  private final Trace trace;
  private final Trace.Format format;
  private final Appendable out;
  private final StringBuilder line = new StringBuilder();
  private long firstTicks = -1;
  private long lastTicks;
  private long nextBlock;

  /**
   * Begins, with the format's header if it has one.
   *
   * @throws IOException if that can't be written
   */
  public TraceWriter(Trace trace, Trace.Format format, Appendable out) throws IOException {
    this.trace = trace;
    this.format = format;
    this.out = out;
    if (format == Trace.Format.AZURE) {
      out.append(String.join(",", AzureLines.COLUMNS)).append('\n');
    }
  }

  /** What a format can't say of a trace, or must make up; empty if it says all. */
  public static Optional<String> loss(Trace trace, Trace.Format to) {
    return switch (to) {
      case AZURE ->
          trace.prefixes().map(ignored -> "prefix blocks are left out: the format has none");
      case MOONCAKE ->
          trace.prefixes().isPresent()
              ? Optional.empty()
              : Optional.of("prefix blocks are made up, none is shared: the trace tells of none");
    };
  }

  /**
   * Writes a request of the trace.
   *
   * @param index not before that of the last one
   * @throws IllegalArgumentException if it arrived before the last one
   * @throws IOException if it can't be written
   */
  public void request(int index) throws IOException {
    long ticks = trace.arrivalTicks(index);
    if (firstTicks < 0) {
      firstTicks = ticks;
    } else if (ticks < lastTicks) {
      throw new IllegalArgumentException("request " + index + " arrived before the last one");
    }
    lastTicks = ticks;
    line.setLength(0);
    switch (format) {
      case AZURE -> azure(ticks - firstTicks, index);
      case MOONCAKE -> mooncake(ticks - firstTicks, index);
    }
    out.append(line).append('\n');
  }

  private void azure(long ticks, int index) {
    LocalDateTime at = LocalDateTime.ofEpochSecond(ticks / TICKS_A_SECOND, 0, ZoneOffset.UTC);
    line.append(at.toLocalDate())
        .append(
            " %02d:%02d:%02d.%07d"
                .formatted(at.getHour(), at.getMinute(), at.getSecond(), ticks % TICKS_A_SECOND))
        .append(',')
        .append(trace.promptTokens(index))
        .append(',')
        .append(trace.outputTokens(index));
  }

  private void mooncake(long ticks, int index) {
    long millis = ticks / MooncakeLines.TICKS_A_MILLI;
    long rest = ticks % MooncakeLines.TICKS_A_MILLI;
    line.append("{\"timestamp\": ").append(millis);
    if (rest > 0) {
      line.append(".%04d".formatted(rest));
    }
    line.append(", \"input_length\": ")
        .append(trace.promptTokens(index))
        .append(", \"output_length\": ")
        .append(trace.outputTokens(index))
        .append(", \"hash_ids\": [");
    int[] known = trace.blocks(index);
    int blocks = Math.ceilDiv(trace.promptTokens(index), MooncakeLines.BLOCK);
    for (int i = 0; i < blocks; i++) {
      line.append(i == 0 ? "" : ", ").append(known.length > 0 ? known[i] : nextBlock++);
    }
    line.append("]}");
  }
}
