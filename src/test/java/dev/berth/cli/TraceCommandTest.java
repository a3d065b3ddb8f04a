// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.config.ShippedTraces;
import dev.berth.config.TraceReader;
import dev.berth.replay.Trace;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.jr.ob.JSON;

/** {@code berth trace}. */
class TraceCommandTest {
  private record Ran(int status, String out, String err) {}

  private static Ran run(String... arguments) {
    var out = new StringWriter();
    var err = new StringWriter();
    int status =
        Main.commandLine()
            .setOut(new PrintWriter(out))
            .setErr(new PrintWriter(err))
            .execute(arguments);
    return new Ran(status, out.toString(), err.toString());
  }

  private static final String TINY =
      """
      {"timestamp": 500, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
      {"timestamp": 1400.25, "input_length": 10, "output_length": 7, "hash_ids": [9]}
      {"timestamp": 1600, "input_length": 700, "output_length": 1, "hash_ids": [0, 2]}
      {"timestamp": 2600, "input_length": 30, "output_length": 2, "hash_ids": [9]}
      """;

  private static String tiny(Path folder) throws IOException {
    return Files.writeString(folder.resolve("tiny.jsonl"), TINY).toString();
  }

  @Test
  void aTraceIsDescribed(@TempDir Path folder) throws IOException {
    Ran ran = run("trace", "inspect", tiny(folder));
    assertThat(ran.err).isEmpty();
    assertThat(ran.status).isZero();
    assertThat(ran.out.lines().skip(1))
        .containsExactly(
            "requests    4 in 2.1 s, 1.90 a second, at most 2 in a second",
            "prompts     mean 335.0, p50 30, p90 700, p99 700, most 700 tokens",
            "outputs     mean 3.8, p50 2, p90 7, p99 7, most 7 tokens",
            "prefixes    6 blocks of 512 tokens, 4 different; a cache without end finds 33.3 %");
  }

  @Test
  void soIsAShippedOneInJson() throws IOException {
    Ran ran = run("trace", "inspect", "azure-conv", "--json");
    Map<String, Object> json = JSON.std.mapFrom(ran.out);
    assertThat(json)
        .containsEntry("kind", "trace-summary")
        .containsEntry("format", "azure")
        .containsEntry("requests", 19366)
        .doesNotContainKey("prefixes");
    assertThat(json.get("prompt_tokens")).isInstanceOf(Map.class);
  }

  /** Times, lengths and blocks of a trace, without its name and format. */
  private static List<String> requests(Trace trace, boolean blocks) {
    var all = new ArrayList<String>();
    for (int i = 0; i < trace.requests(); i++) {
      all.add(
          "%d %d %d %s"
              .formatted(
                  trace.arrivalTicks(i),
                  trace.promptTokens(i),
                  trace.outputTokens(i),
                  blocks ? Arrays.toString(trace.blocks(i)) : ""));
    }
    return all;
  }

  @ParameterizedTest
  @ValueSource(strings = {"azure-conv", "mooncake-1000"})
  void thereAndBackAgainNothingElseIsLost(String name, @TempDir Path folder) {
    Trace shipped = ShippedTraces.load(name);
    for (Trace.Format format : Trace.Format.values()) {
      Path file = folder.resolve(format.name());
      Ran ran = run("trace", "convert", name, "--to", format.name(), "--out", file.toString());
      assertThat(ran.status).isZero();
      assertThat(ran.out)
          .contains(": " + shipped.requests() + " requests, " + format.title() + "\n");
      Trace read = TraceReader.read(file);
      assertThat(read.format()).isEqualTo(format);
      boolean same = format == shipped.format();
      assertThat(requests(read, same)).isEqualTo(requests(shipped, same));
      assertThat(ran.err)
          .isEqualTo(
              same
                  ? ""
                  : format == Trace.Format.AZURE
                      ? "berth: prefix blocks are left out: the format has none\n"
                      : "berth: prefix blocks are made up, none is shared: the trace tells of"
                          + " none\n");
      if (format == Trace.Format.MOONCAKE && !same) {
        assertThat(read.prefixes().orElseThrow().idealHitRate()).isZero();
      }
    }
  }

  @Test
  void withoutAFileItGoesToTheOutput(@TempDir Path folder) throws IOException {
    Ran ran = run("trace", "convert", tiny(folder), "--to", "azure");
    assertThat(ran.out.lines())
        .containsExactly(
            "TIMESTAMP,ContextTokens,GeneratedTokens",
            "1970-01-01 00:00:00.0000000,600,5",
            "1970-01-01 00:00:00.9002500,10,7",
            "1970-01-01 00:00:01.1000000,700,1",
            "1970-01-01 00:00:02.1000000,30,2");
  }

  @Test
  void aSampleIsAPartInOrderAndTheSameForASeed(@TempDir Path folder) {
    List<String> whole = requests(ShippedTraces.load("mooncake-1000"), true);
    var seen = new ArrayList<List<String>>();
    for (String seed : List.of("1", "1", "2")) {
      Path file = folder.resolve("part");
      Ran ran =
          run(
              "trace",
              "sample",
              "mooncake-1000",
              "--requests",
              "100",
              "--seed",
              seed,
              "--out",
              file.toString());
      assertThat(ran.status).isZero();
      Trace part = TraceReader.read(file);
      assertThat(part.requests()).isEqualTo(100);
      // Times count from the first request of the part.
      List<String> lengths = strip(requests(part, true));
      assertThat(strip(whole)).containsSubsequence(lengths);
      seen.add(lengths);
    }
    assertThat(seen.get(0)).isEqualTo(seen.get(1)).isNotEqualTo(seen.get(2));
  }

  private static List<String> strip(List<String> requests) {
    return requests.stream().map(line -> line.substring(line.indexOf(' '))).toList();
  }

  @Test
  void aSpanOfTimeHasItsFirstMomentAndNotItsLast(@TempDir Path folder) throws IOException {
    Ran ran = run("trace", "sample", tiny(folder), "--from", "0.90025", "--to", "2.1");
    assertThat(ran.out.lines())
        .containsExactly(
            "{\"timestamp\": 0, \"input_length\": 10, \"output_length\": 7, \"hash_ids\": [9]}",
            "{\"timestamp\": 199.7500, \"input_length\": 700, \"output_length\": 1, \"hash_ids\":"
                + " [0, 2]}");
  }

  /** Each of the four is drawn as often as the others, roughly. */
  @Test
  void everyRequestIsAsLikely(@TempDir Path folder) throws IOException {
    String file = tiny(folder);
    int[] drawn = new int[4];
    List<String> lengths = List.of("600", "10", "700", "30");
    for (int seed = 0; seed < 400; seed++) {
      String out = run("trace", "sample", file, "--requests", "2", "--seed", "" + seed).out;
      for (int i = 0; i < 4; i++) {
        drawn[i] += out.contains("\"input_length\": " + lengths.get(i) + ",") ? 1 : 0;
      }
    }
    assertThat(Arrays.stream(drawn).sum()).isEqualTo(800);
    for (int times : drawn) {
      assertThat(times).isBetween(150, 250);
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "inspect nosuch.csv | nosuch.csv: there is no such file",
        "convert azure-conv | Missing required option: '--to=format'",
        "convert azure-conv --to parquet | Invalid value for option '--to'",
        "convert azure-conv --to azure --out /nonexistent/file | /nonexistent/file can't be written",
        "sample azure-conv --requests 0 | --requests: found 0; allowed: an integer from 1 to 19366",
        "sample azure-conv --requests 20000 | --requests: found 20000; allowed: an integer from 1",
        "sample azure-conv --from -1 | --from, --to: found -1.0 and Infinity",
        "sample azure-conv --from 5 --to 5 | --from, --to: found 5.0 and 5.0",
        "sample azure-conv --from NaN | --from, --to: found NaN",
        "sample azure-conv --from 1e9 | --from, --to: no request arrives in that time",
      })
  void badInputIsOneLineAndExitTwo(String arguments, String message) {
    Ran ran = run(("trace " + arguments).split(" "));
    assertThat(ran.status).isEqualTo(2);
    assertThat(ran.err).startsWith("berth: " + message);
    assertThat(ran.out).isEmpty();
  }
}
