// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.replay.Trace;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Optional;

/**
 * Reads request traces. The format is told by the first line, never by the name; lines are read one
 * at a time and no text is kept. Both formats are described in {@code docs/traces.md}.
 */
public final class TraceReader {
  private TraceReader() {}

  /** Takes the lines of one format. */
  interface Lines {
    /** The bytes of a line, its end not included. */
    void line(byte[] bytes, int length, int number);

    /** All lines were taken. */
    Optional<Trace.PrefixBlocks> end();
  }

  /**
   * Reads a file.
   *
   * @throws ConfigException naming file, line and field of the first thing that can't be used
   */
  public static Trace read(Path file) {
    return InputFile.read(file, in -> read(file.toString(), in));
  }

  /**
   * Reads a stream to its end; closing it is the caller's.
   *
   * @param source the name that messages give to it
   * @throws ConfigException naming source, line and field of the first thing that can't be used
   * @throws IOException if the stream fails
   */
  public static Trace read(String source, InputStream in) throws IOException {
    var splitter = new LineSplitter(source, in);
    do {
      if (!splitter.next()) {
        throw new ConfigException(source, 0, "", "holds no line; a trace has a request at least");
      }
    } while (splitter.isBlank());
    var builder = new Trace.Builder(source, format(splitter));
    Lines lines =
        switch (format(splitter)) {
          case MOONCAKE -> new MooncakeLines(source, builder);
          case AZURE -> new AzureLines(source, builder);
        };
    do {
      if (!splitter.isBlank()) {
        lines.line(splitter.bytes(), splitter.length(), splitter.number());
      }
    } while (splitter.next());
    Optional<Trace.PrefixBlocks> prefixes = lines.end();
    if (builder.requests() == 0) {
      throw new ConfigException(
          source, splitter.number(), "", "holds a header and no request behind it");
    }
    return builder.build(prefixes);
  }

  private static Trace.Format format(LineSplitter first) {
    if (first.bytes()[first.start()] == '{') {
      return Trace.Format.MOONCAKE;
    }
    if (AzureLines.isHeader(first.bytes(), first.length())) {
      return Trace.Format.AZURE;
    }
    throw new ConfigException(
        first.source(),
        first.number(),
        "",
        "found '"
            + excerpt(first.bytes(), first.length())
            + "'; a trace begins with a JSON object that has the fields timestamp, input_length, output_length and hash_ids, or"
            + " with the header TIMESTAMP,ContextTokens,GeneratedTokens");
  }

  /** The head of a line, fit to be printed. */
  static String excerpt(byte[] bytes, int length) {
    int most = 40;
    var text = new StringBuilder();
    String head = new String(bytes, 0, Math.min(length, most), StandardCharsets.UTF_8);
    head.codePoints()
        .map(c -> Character.isISOControl(c) || c == 0xFFFD ? '?' : c)
        .forEach(text::appendCodePoint);
    return text.append(length > most ? "…" : "").toString();
  }

  /** What every format asks of a request; the message names the field that is at fault. */
  static void add(
      Trace.Builder builder,
      String source,
      int line,
      long ticks,
      String timeField,
      int prompt,
      int output,
      String outputField) {
    if (builder.requests() > 0 && ticks < builder.lastTicks()) {
      throw new ConfigException(
          source,
          line,
          timeField,
          "lies %s µs before the request ahead of it; requests must stand in the order of their arrival"
              .formatted((builder.lastTicks() - ticks) / (double) Trace.TICKS_PER_MICRO));
    }
    if (output > Integer.MAX_VALUE - prompt) {
      throw new ConfigException(
          source,
          line,
          outputField,
          "found %d, with the prompt of %d that makes more than %d tokens"
              .formatted(output, prompt, Integer.MAX_VALUE));
    }
    builder.add(ticks, prompt, output);
  }
}
