// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.berth.replay.Trace;
import dev.berth.route.AllocatedBytes;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class TraceReaderTest {
  private static final String HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";
  private static final String ROW = "2023-11-16 18:15:46.6805900,374,44\r\n";
  private static final String MOONCAKE =
      "{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 7, \"hash_ids\": [0, 1]}\n";

  private static Trace read(String text) {
    return read(text.getBytes(StandardCharsets.UTF_8));
  }

  private static Trace read(byte[] bytes) {
    try {
      return TraceReader.read("t", new ByteArrayInputStream(bytes));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  // ------------------------------------------------------------------------------ what is read

  @Test
  void theAzureConversationTraceHasItsPublishedFigures() {
    Trace trace = ShippedTraces.load("azure-conv");
    assertThat(trace.format()).isEqualTo(Trace.Format.AZURE);
    assertThat(trace.requests()).isEqualTo(19_366);
    assertThat(trace.spanMicros() / 60e6).isCloseTo(58.4, within(0.05));
    assertThat(trace.meanPromptTokens()).isCloseTo(1154.7, within(0.05));
    assertThat(trace.longestPrompt()).isEqualTo(14_050);
    assertThat(trace.meanOutputTokens()).isCloseTo(211.1, within(0.05));
    assertThat(trace.longestOutput()).isEqualTo(1_000);
    assertThat(trace.shortestOutput()).isEqualTo(7);
    assertThat(trace.prefixes()).isEmpty();
    assertThat(trace.promptTokens(0)).isEqualTo(374);
    assertThat(trace.outputTokens(0)).isEqualTo(44);
    assertThat(trace.arrivalMicros(0)).isZero();
    assertThat(trace.arrivalMicros(1)).isEqualTo(4_314_579.0);
  }

  @Test
  void theMooncakeFixtureHasItsPublishedFigures() {
    Trace trace = ShippedTraces.load("mooncake-1000");
    assertThat(trace.format()).isEqualTo(Trace.Format.MOONCAKE);
    assertThat(trace.requests()).isEqualTo(1_000);
    assertThat(trace.spanMicros() / 1e6).isCloseTo(177.1, within(0.05));
    assertThat(trace.meanPromptTokens()).isCloseTo(9792.0, within(0.05));
    assertThat(trace.longestPrompt()).isEqualTo(121_290);
    assertThat(trace.meanOutputTokens()).isCloseTo(199.1, within(0.05));
    assertThat(trace.longestOutput()).isEqualTo(2_000);
    Trace.PrefixBlocks prefixes = trace.prefixes().orElseThrow();
    assertThat(prefixes.idealHitRate()).isCloseTo(0.3799, within(0.00005));
    assertThat(prefixes.distinct()).isEqualTo(12_207);
  }

  @Test
  void timesAreReadToTheLastOfTheirHundredNanoseconds() {
    Trace trace =
        read(
            HEADER
                + "2024-02-28 23:59:59.9999999,1,1\r\n"
                + "2024-02-29 00:00:00.0000001,1,1\r\n"
                + "2024-02-29 00:00:00.5,1,1\r\n"
                + "2024-03-01 00:00:00,1,1\r\n"
                + "2024-03-01 00:00:01.000000+00:00,1,1\r\n");
    assertThat(trace.arrivalMicros(1)).isEqualTo(0.2);
    assertThat(trace.arrivalMicros(2)).isEqualTo(500_000.1);
    assertThat(trace.arrivalMicros(3)).isEqualTo(86_400e6 + 0.1);
    assertThat(trace.arrivalMicros(4)).isEqualTo(86_401e6 + 0.1);
  }

  @Test
  void theFormatIsToldByContentAndLineEndsDoNotMatter() {
    String lines = HEADER + ROW + ROW;
    Trace crlf = read(lines);
    Trace lf = read(lines.replace("\r\n", "\n"));
    Trace noEnd = read(lines.stripTrailing());
    Trace marked = read("\uFEFF" + lines);
    Trace spaced = read("\n\r\n" + lines + "\n\n");
    for (Trace trace : List.of(crlf, lf, noEnd, marked, spaced)) {
      assertThat(trace.requests()).isEqualTo(2);
      assertThat(trace.promptTokens(1)).isEqualTo(374);
      assertThat(trace.outputTokens(1)).isEqualTo(44);
    }
  }

  @Test
  void mooncakeFieldsComeInAnyOrderAndOthersArePassedOver() {
    Trace trace =
        read(
            "{\"timestamp\": 1000, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [5]}\n"
                + "{\"hash_ids\":[5,6],\"chat\":{\"id\":[1]},\"output_length\":9,\"input_length\":1024,"
                + "\"timestamp\":1000.5}");
    assertThat(trace.requests()).isEqualTo(2);
    assertThat(trace.arrivalMicros(0)).isZero();
    assertThat(trace.arrivalMicros(1)).isEqualTo(500);
    assertThat(trace.prefixes().orElseThrow()).isEqualTo(new Trace.PrefixBlocks(512, 3, 1, 2));
  }

  @Test
  void aHitBehindAMissIsNoPrefixHit() {
    Trace trace =
        read(
            "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [1, 2]}\n"
                + "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [3, 2]}\n");
    assertThat(trace.prefixes().orElseThrow().leadingHits()).isZero();
  }

  /** Hashes instead of small ids: the requests are good, the hit rate isn't counted. */
  @Test
  void idsThatAreTooLargeToCountLeaveTheHitRateUnknown() {
    Trace trace =
        read(
            "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [18446744073709551615]}");
    assertThat(trace.requests()).isEqualTo(1);
    assertThat(trace.prefixes()).isEmpty();
  }

  // ------------------------------------------------------------------------------ bad input

  static List<Arguments> bad() {
    return List.of(
        Arguments.of("", "t: holds no line"),
        Arguments.of("\r\n\n \n", "t: holds no line"),
        Arguments.of(HEADER, "t:1: holds a header and no request"),
        Arguments.of("id,tokens\n1,2\n", "t:1: found 'id,tokens'; a trace begins with"),
        Arguments.of("\u0000\u0001\u0002", "t:1: found '???'; a trace begins with"),
        Arguments.of(ROW, "t:1: found '2023-11-16 18:15:46.6805900,374,44'; a trace begins"),
        Arguments.of(HEADER + ROW + "2023-11-16 18:15", "t:3: ContextTokens: the line has 1 of 3"),
        Arguments.of(
            HEADER + ROW + "2023-11-16 18:15:47.0,3", "t:3: GeneratedTokens: the line has 2"),
        Arguments.of(HEADER + "2023-11-16 18:15:46.68,3,4,5", "t:2: the line has 4 of 3 fields"),
        Arguments.of(HEADER + "2023-11-16 18:15:46.68,374,", "t:2: GeneratedTokens: found ''"),
        Arguments.of(HEADER + "2023-11-16 18:15:46.68,0,4", "t:2: ContextTokens: found '0'"),
        Arguments.of(HEADER + "2023-11-16 18:15:46.68,-3,4", "t:2: ContextTokens: found '-3'"),
        Arguments.of(HEADER + "2023-11-16 18:15:46.68,3.5,4", "t:2: ContextTokens: found '3.5'"),
        Arguments.of(
            HEADER + "2023-11-16 18:15:46.68,3,2147483648",
            "t:2: GeneratedTokens: found '2147483648'; allowed: an integer from 1 to 2147483647"),
        Arguments.of(
            HEADER + "2023-11-16 18:15:46.68,3,99999999999999999999999",
            "t:2: GeneratedTokens: found '99999999999999999999999'"),
        Arguments.of(
            HEADER + "2023-11-16 18:15:46.68,9,2147483647",
            "t:2: GeneratedTokens: found 2147483647, with the prompt of 9"),
        Arguments.of(
            HEADER + "yesterday,3,4", "t:2: TIMESTAMP: found 'yesterday'; allowed: a time"),
        Arguments.of(HEADER + ",3,4", "t:2: TIMESTAMP: found ''"),
        Arguments.of(HEADER + "2023-11-31 18:15:46,3,4", "t:2: TIMESTAMP: found '2023-11-31"),
        Arguments.of(HEADER + "2023-11-16 24:15:46,3,4", "t:2: TIMESTAMP: found"),
        Arguments.of(HEADER + "2023-11-16 18:15:46.,3,4", "t:2: TIMESTAMP: found"),
        Arguments.of(HEADER + "2023-11-16 18:15:46.12345678,3,4", "t:2: TIMESTAMP: found"),
        Arguments.of(HEADER + "2023-11-16T18:15:46,3,4", "t:2: TIMESTAMP: found"),
        Arguments.of(HEADER + "2023-11-16 1x:15:46,3,4", "t:2: TIMESTAMP: found"),
        Arguments.of(
            HEADER + ROW + "2023-11-16 18:15:46.6805899,3,4",
            "t:3: TIMESTAMP: lies 0.1 µs before the request ahead of it"),
        Arguments.of(MOONCAKE + "{\"timestamp\": 5, \"inp", "t:2: is no complete JSON object"),
        Arguments.of(
            MOONCAKE + "{\"timestamp\": 5",
            "t:2: is no complete JSON object: Unexpected end-of-input: expected close marker for"
                + " Object, in '{\"timestamp\": 5'"),
        Arguments.of(MOONCAKE + "{\"timestamp\": }", "t:2: is no complete JSON object"),
        Arguments.of(MOONCAKE + "[]", "t:2: is no JSON object"),
        Arguments.of(MOONCAKE + "12", "t:2: is no JSON object"),
        Arguments.of(MOONCAKE.strip() + " {}", "t:1: has more behind its JSON object"),
        Arguments.of("{}", "t:1: timestamp: is missing"),
        Arguments.of(
            "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 7}",
            "t:1: hash_ids: is missing"),
        Arguments.of("{\"timestamp\": 0, \"timestamp\": 0}", "t:1: timestamp: stands twice"),
        Arguments.of(mooncake("\"soon\"", "513", "7", "[0, 1]"), "t:1: timestamp: found 'soon'"),
        Arguments.of(mooncake("-1", "513", "7", "[0, 1]"), "t:1: timestamp: found '-1'"),
        Arguments.of(mooncake("1e99", "513", "7", "[0, 1]"), "t:1: timestamp: found '1e99'"),
        Arguments.of(mooncake("null", "513", "7", "[0, 1]"), "t:1: timestamp: found 'null'"),
        Arguments.of(mooncake("0", "0", "7", "[]"), "t:1: input_length: found '0'"),
        Arguments.of(mooncake("0", "5.0", "7", "[0]"), "t:1: input_length: found '5.0'"),
        Arguments.of(mooncake("0", "[5]", "7", "[0]"), "t:1: input_length: found a list"),
        Arguments.of(
            mooncake("0", "4294967296", "7", "[0]"), "t:1: input_length: found '4294967296'"),
        Arguments.of(mooncake("0", "513", "-7", "[0, 1]"), "t:1: output_length: found '-7'"),
        Arguments.of(
            mooncake("0", "513", "2147483647", "[0, 1]"),
            "t:1: output_length: found 2147483647, with"),
        Arguments.of(
            mooncake("0", "513", "7", "[0]"),
            "t:1: hash_ids: found 1 ids; a prompt of 513 tokens has 2 blocks of 512"),
        Arguments.of(mooncake("0", "513", "7", "[0, 1, 2]"), "t:1: hash_ids: found 3 ids"),
        Arguments.of(mooncake("0", "513", "7", "[0, \"x\"]"), "t:1: hash_ids: found 'x'"),
        Arguments.of(mooncake("0", "513", "7", "{}"), "t:1: hash_ids: found an object"),
        Arguments.of(
            mooncake("5", "1", "7", "[0]") + mooncake("4", "1", "7", "[0]"),
            "t:2: timestamp: lies 1000.0 µs before"));
  }

  private static String mooncake(String time, String prompt, String output, String ids) {
    return "{\"timestamp\": %s, \"input_length\": %s, \"output_length\": %s, \"hash_ids\": %s}\n"
        .formatted(time, prompt, output, ids);
  }

  @ParameterizedTest
  @MethodSource("bad")
  void whatCannotBeUsedIsRefusedWithFileLineAndField(String text, String message) {
    assertThatThrownBy(() -> read(text))
        .isInstanceOf(ConfigException.class)
        .hasMessageStartingWith(message);
  }

  @Test
  void everyTruncationOfAGoodTraceIsReadUpToAWholeLineOrRefused() {
    for (String whole : List.of(HEADER + ROW + ROW, MOONCAKE + MOONCAKE)) {
      byte[] bytes = whole.getBytes(StandardCharsets.UTF_8);
      for (int length = 0; length < bytes.length; length++) {
        byte[] cut = java.util.Arrays.copyOf(bytes, length);
        try {
          Trace trace = read(cut);
          assertThat(trace.requests()).isBetween(1, 2);
        } catch (ConfigException e) {
          assertThat(e).hasMessageStartingWith("t");
        }
      }
    }
  }

  @Test
  void aLineWithoutEndIsRefusedBeforeItFillsTheMemory() {
    InputStream endless =
        new InputStream() {
          @Override
          public int read() {
            return '{';
          }
        };
    assertThatThrownBy(() -> TraceReader.read("t", endless))
        .hasMessage("t:1: the line is longer than 16777216 bytes");
  }

  @Test
  void aMissingFileIsToldByName(@TempDir Path folder) {
    Path file = folder.resolve("none.csv");
    assertThatThrownBy(() -> TraceReader.read(file)).hasMessage(file + ": there is no such file");
    assertThatThrownBy(() -> ShippedTraces.load("nosuch"))
        .hasMessage(
            "nosuch: there is no such file, and no shipped trace of that name (shipped traces: azure-conv, mooncake-1000)");
  }

  // ------------------------------------------------------------------------------ memory

  /** A million lines, made as they are read. */
  private static final class Million extends InputStream {
    private final byte[] header = HEADER.getBytes(StandardCharsets.US_ASCII);
    private final byte[] row = ROW.getBytes(StandardCharsets.US_ASCII);
    private byte[] line = header;
    private int at;
    private int lines;

    @Override
    public int read() {
      throw new AssertionError("read in blocks");
    }

    @Override
    public int read(byte[] into, int offset, int length) {
      if (at == line.length) {
        if (lines == 1_000_000) {
          return -1;
        }
        lines++;
        line = row;
        at = 0;
      }
      int n = Math.min(length, line.length - at);
      System.arraycopy(line, at, into, offset, n);
      at += n;
      return n;
    }
  }

  @Test
  void aMillionRequestsTakeLessThanThirtyMegabytes() {
    long bytes =
        AllocatedBytes.by(() -> {
          try {
            assertThat(TraceReader.read("t", new Million()).requests()).isEqualTo(1_000_000);
          } catch (IOException e) {
            throw new AssertionError(e);
          }
        });
    assertThat(bytes).isLessThan(30_000_000);
  }
}
