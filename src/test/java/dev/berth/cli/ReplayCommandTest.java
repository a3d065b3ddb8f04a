// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.TestFiles;
import dev.berth.config.ShippedScenarios;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine.Model.OptionSpec;
import tools.jackson.jr.ob.JSON;

class ReplayCommandTest {
  private static final String DISAGGREGATED =
      """
      worker_config:
        ctx:
          max_batch_size: 4
          max_num_tokens: 16384
          tensor_parallel_size: 2
          enable_attention_dp: true
          cache_transceiver_config: {backend: NIXL}
        gen:
          max_batch_size: 32
          max_num_tokens: 64
          tensor_parallel_size: 4
          enable_attention_dp: true
          cache_transceiver_config: {backend: NIXL}
      hardware:
        num_ctx_servers: 3
        num_gen_servers: 2
      """;

  private static final String TINY =
      """
      scenario: 1
      title: a little one
      worker: {role: aggregated, ranks: 2, attention_dp: on, max_batch_size: 2, max_num_tokens: 64}
      load: {requests: 8, concurrency: 8, input_tokens: 16, output_tokens: 4}
      arms:
        on:
          title: with overlap
          expect: {done: %d}
        off:
          title: without
          worker: {overlap: off}
          expect: {done: 8, iterations: {value: %s, within: 0.5, why: a bound}}
      compare:
        - {kind: same-metric, to: on, of: off, metric: done}
      """;

  @TempDir Path folder;

  private record Result(int exit, String out, String err) {}

  private static Result run(String... args) {
    var out = new StringWriter();
    var err = new StringWriter();
    int exit =
        Main.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err)).execute(args);
    return new Result(exit, out.toString(), err.toString());
  }

  private String file(String name, String text) throws IOException {
    return Files.writeString(folder.resolve(name), text).toString();
  }

  private static Map<String, Object> json(String text) {
    return JSON.std.mapFrom(text);
  }

  private static List<?> list(Result result, String key) {
    return (List<?>) Objects.requireNonNull(json(result.out()).get(key));
  }

  // ------------------------------------------------------------------------------ scenarios

  @Test
  void aScenarioThatComesOutAsExpectedExitsWithZero() {
    Result result = run("replay", "glm-5-ctx-con512");
    assertThat(result.exit()).isZero();
    assertThat(result.out()).endsWith("as expected: every figure, check and comparison\n");
    assertThat(result.err()).isEmpty();
  }

  @Test
  void everyShippedScenarioIsListedWithItsTitle() {
    Result result = run("replay", "--list");
    assertThat(result.exit()).isZero();
    for (String name : ShippedScenarios.names()) {
      assertThat(result.out()).containsPattern("(?m)^" + name + " +" + "\\S");
      assertThat(result.out()).contains(ShippedScenarios.load(name).title());
    }
    assertThat(result.out()).contains("traces: azure-conv, mooncake-1000");
  }

  @Test
  void anUnknownScenarioIsAnsweredWithThoseThereAre() {
    Result result = run("replay", "no-such-scenario");
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).contains("no-such-scenario").contains("glm-5-ctx-con512");
  }

  @Test
  void oneArmRunsAlone() {
    Result result = run("replay", "glm-5-ctx-con512", "--arm", "off", "--json");
    assertThat(result.exit()).isZero();
    assertThat(list(result, "arms")).hasSize(1);
    assertThat(list(result, "comparisons")).isEmpty();
  }

  @Test
  void anUnknownArmIsAnsweredWithThoseThereAre() {
    Result result = run("replay", "glm-5-ctx-con512", "--arm", "of");
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).contains("there is no arm 'of'; its arms: off, ");
  }

  @Test
  void aFigureThatDoesNotComeOutIsShownAndExitsWithOne() throws IOException {
    String scenario = file("s.yaml", TINY.formatted(9, "1000"));
    Result result = run("replay", scenario);
    assertThat(result.exit()).isEqualTo(1);
    assertThat(result.out())
        .containsSubsequence(
            "NOT as expected:",
            "  on: done 8, expected 9",
            "  off: iterations ",
            ", expected 1000 (within 0.5000: a bound)");
  }

  @Test
  void aScenarioAsJsonTellsWhatTheTextTells() throws IOException {
    Result result = run("replay", file("s.yaml", TINY.formatted(9, "1000")), "--json");
    assertThat(result.exit()).isEqualTo(1);
    Map<String, Object> json = json(result.out());
    assertThat(json)
        .containsEntry("schema", 1)
        .containsEntry("kind", "scenario")
        .containsEntry("name", "s")
        .containsEntry("as_expected", false);
    assertThat(json.keySet())
        .containsExactly(
            "schema",
            "kind",
            "name",
            "title",
            "notes",
            "as_expected",
            "arms",
            "comparisons",
            "problems");
    assertThat(json.toString())
        .contains("{metric=done, met=false, measured=8, expected=9, within=0}");
    assertThat(result.out())
        .isEqualTo(run("replay", folder.resolve("s.yaml").toString(), "--json").out());
  }

  // ------------------------------------------------------------------------------ traces

  @Test
  void aTraceGoesThroughContextAndGenerationServers() throws IOException {
    Result result =
        run(
            "replay",
            "--config",
            file("c.yaml", DISAGGREGATED),
            "--trace",
            "azure-conv",
            "--requests",
            "500",
            "--speedup",
            "20");
    assertThat(result.err()).isEmpty();
    assertThat(result.exit()).isZero();
    assertThat(result.out())
        .contains("trace azure-conv (Azure CSV): 19,366 requests in 58.4 min")
        .contains("arrivals: the trace's, 20.0 times faster")
        .contains("ctx: context, 3 servers of 2 ranks")
        .contains("gen: generation, 2 servers of 4 ranks")
        .containsOnlyOnce(
            "pools: seat pool, lease map, padding lease pool, batch compared with the plan;"
                + " skipped, without a bound: KV pages")
        .contains("500 of 500 done, 0 refused")
        .containsPattern("server 2\\.1 +[0-9.]+ %")
        .containsPattern("TTFT +[0-9.]+ m?s +[0-9.]+ m?s +[0-9.]+ m?s")
        .contains("wall time");
  }

  /** 40 pages of 32 tokens; each request comes with 64 tokens and makes 192: 8 pages to its end. */
  @Test
  void aFilesPolicyIsReplayed() throws IOException {
    String trace =
        file(
            "t.jsonl",
            IntStream.range(0, 24)
                .mapToObj(
                    "{\"timestamp\": 0, \"input_length\": 64, \"output_length\": 192, \"hash_ids\": [%d]}\n"
                        ::formatted)
                .collect(Collectors.joining()));
    String promised = replayed(trace, "GUARANTEED_NO_EVICT");
    assertThat(promised)
        .contains("24 of 24 done", "scheduling  GUARANTEED_NO_EVICT of berth-1")
        .doesNotContain("gave way");
    String stepByStep = replayed(trace, "MAX_UTILIZATION");
    assertThat(stepByStep)
        .contains("24 of 24 done", "scheduling  MAX_UTILIZATION of berth-1")
        .containsPattern("gave way {4}[1-9][0-9]* times");
    assertThat(replayed(trace, "MAX_UTILIZATION", true))
        .contains("24 of 24 done", "scheduling  MAX_UTILIZATION of berth-1, one loop")
        .containsPattern("gave way {4}[1-9][0-9]* times");
    assertThat(meanBatch(promised)).as("5 of 8 pages, but for the ends").isLessThan(5);
    assertThat(meanBatch(stepByStep)).isGreaterThan(5);
  }

  private static final String REUSING =
      """
      max_batch_size: 4
      max_num_tokens: 16384
      max_seq_len: 131072
      tensor_parallel_size: 1
      enable_chunked_prefill: true
      kv_cache_config: {max_tokens: %d, tokens_per_block: 32, enable_block_reuse: %b}
      """;

  /** One at a time, with room for all: whole pages whose tokens an earlier prompt began with. */
  @Test
  void promptsFindWhatEarlierOnesLeft() throws IOException {
    int requests = 80;
    var seen = new HashSet<List<Long>>();
    long found = 0;
    long asked = 0;
    for (String line :
        Files.readAllLines(
                Path.of("src/main/resources/dev/berth/traces/mooncake/mooncake_trace_1000.jsonl"))
            .subList(0, requests)) {
      Matcher fields =
          Pattern.compile("\"input_length\": *(\\d+).*\"hash_ids\": *\\[([^]]*)]").matcher(line);
      assertThat(fields.find()).as(line).isTrue();
      int prompt = Integer.parseInt(fields.group(1));
      List<Long> blocks =
          Arrays.stream(fields.group(2).split(",")).map(id -> Long.parseLong(id.strip())).toList();
      asked += prompt;
      boolean leading = true;
      for (int page = 0; page < prompt / 32; page++) {
        var path = new ArrayList<>(blocks.subList(0, page * 32 / 512 + 1));
        path.add((long) page);
        leading &= !seen.add(path);
        // the last token is always computed
        found += leading && (page + 1) * 32 < prompt ? 32 : 0;
      }
    }
    assertThat(found).isPositive();
    String config = file("r.yaml", REUSING.formatted(8_000_000, true));
    String[] command = {
      "replay",
      "--config",
      config,
      "--trace",
      "mooncake-1000",
      "--requests",
      "" + requests,
      "--arrivals",
      "closed",
      "--concurrency",
      "1"
    };
    Result result = run(command);
    assertThat(result.err()).isEmpty();
    assertThat(result.out())
        .contains(
            String.format(Locale.ROOT, "prefixes    %,d of %,d prompt tokens reused", found, asked),
            " 0 blocks evicted",
            requests + " of " + requests + " done");
    assertThat(run(with(command, "--prefix-reuse", "off")).out()).doesNotContain("prefixes  ");
    assertThat(run(with(command, "--json")).out())
        .contains("\"asked_tokens\" : " + asked, "\"reused_tokens\" : " + found);

    String small = file("s.yaml", REUSING.formatted(200_000, true));
    command[2] = small;
    assertThat(run(command).out())
        .containsPattern("prompt tokens reused \\([0-9.]+ %\\), [1-9][0-9,]* blocks evicted");
    command[2] = file("n.yaml", REUSING.formatted(8_000_000, false));
    assertThat(run(command).out()).doesNotContain("prefixes  ", "warning");
    assertThat(run(with(command, "--prefix-reuse", "on")).out()).contains("prefixes  ");
  }

  @Test
  void reuseThatCannotBeIsNamedOrRefused() throws IOException {
    String config =
        file("u.yaml", "max_batch_size: 4\nmax_num_tokens: 16384\ntensor_parallel_size: 1\n");
    String[] command = {
      "replay", "--config", config, "--trace", "mooncake-1000", "--requests", "3"
    };
    Result left = run(command);
    assertThat(left.exit()).isZero();
    assertThat(left.out())
        .contains(
            "prefixes aren't reused: KV pages aren't limited",
            "prefixes aren't reused: the file names no longest sequence");
    Result refused = run(with(command, "--prefix-reuse", "on"));
    assertThat(refused.exit()).isEqualTo(2);
    assertThat(refused.err())
        .contains(
            "u.yaml:1: ",
            "prefixes can't be reused: KV pages aren't limited (kv-pages, or free memory with the"
                + " model's shape); the file names no longest sequence");
    command[4] = "azure-conv";
    assertThat(run(command).out()).doesNotContain("prefixes");
    assertThat(run(with(command, "--prefix-reuse", "on")).err())
        .contains("--prefix-reuse on needs a trace with prefix blocks: azure-conv has none");
  }

  private static String[] with(String[] command, String... more) {
    return Stream.of(command, more).flatMap(Arrays::stream).toArray(String[]::new);
  }

  private String replayed(String trace, String policy) throws IOException {
    return replayed(trace, policy, false);
  }

  private String replayed(String trace, String policy, boolean secondManager) throws IOException {
    String config =
        file(
            policy + secondManager + ".yaml",
            """
            max_batch_size: 32
            max_num_tokens: 512
            tensor_parallel_size: 1
            kv_cache_config: {max_tokens: 1280, tokens_per_block: 32, use_kv_cache_manager_v2: %b}
            scheduler_config: {capacity_scheduler_policy: %s}
            """
                .formatted(secondManager, policy));
    Result result = run("replay", "--config", config, "--trace", trace);
    assertThat(result.err()).isEmpty();
    assertThat(result.exit()).isZero();
    return result.out();
  }

  private static double meanBatch(String report) {
    Matcher found = Pattern.compile("mean batch ([0-9.]+)").matcher(report);
    assertThat(found.find()).isTrue();
    return Double.parseDouble(found.group(1));
  }

  @Test
  void aTraceAsJsonHasTheSameNumbersEveryTime() throws IOException {
    String config = file("c.yaml", DISAGGREGATED);
    String[] args = {
      "replay",
      "--config",
      config,
      "--trace",
      "mooncake-1000",
      "--requests",
      "1200",
      "--json",
      "--kv-pages",
      "3000",
      "--cost",
      "1,0.1,500",
      "--transfer",
      "10,0.1"
    };
    Map<String, Object> first = json(run(args).out());
    Map<String, Object> second = json(run(args).out());
    first.remove("wall_ms");
    second.remove("wall_ms");
    assertThat(first).isEqualTo(second);
    assertThat(first)
        .containsEntry("schema", 1)
        .containsEntry("kind", "trace")
        .containsEntry("complete", true)
        .containsEntry("ending", "done");
    assertThat(first.get("requests")).asString().contains("total=1200").contains("unaccounted=0");
    assertThat(first.get("stages")).asString().contains("kv_pages=3000");
  }

  @ParameterizedTest
  @CsvSource({"ctx, context, 1", "gen, generation, 1", "all, context, 2"})
  void workersTakePartAsAsked(String worker, String role, int stages) throws IOException {
    Result result =
        run(
            "replay",
            "--config",
            file("c.yaml", DISAGGREGATED),
            "--trace",
            "azure-conv",
            "--requests",
            "50",
            "--worker",
            worker,
            "--servers",
            "2",
            "--json");
    assertThat(result.exit()).isZero();
    List<?> found = list(result, "stages");
    assertThat(found).hasSize(stages);
    assertThat(String.valueOf(found.getFirst())).contains("role=" + role).contains("servers=2");
  }

  @Test
  void closedArrivalsKeepTheirConcurrency() throws IOException {
    Result result =
        run(
            "replay",
            "--config",
            file("c.yaml", DISAGGREGATED),
            "--trace",
            "azure-conv",
            "--requests",
            "60",
            "--arrivals",
            "closed",
            "--concurrency",
            "7",
            "--servers",
            "ctx=1,gen=1");
    assertThat(result.exit()).isZero();
    assertThat(result.out()).contains("arrivals: closed, 7 in the system");
  }

  @Test
  void memoryIsTurnedIntoPages() throws IOException {
    Result result =
        run(
            "replay",
            "--config",
            file(
                "c.yaml",
                DISAGGREGATED
                    .replace(
                        "max_batch_size: 4",
                        "max_batch_size: 4\n    max_seq_len: 20000\n    kv_cache_config: {free_gpu_memory_fraction: 0.8}")
                    .replace(
                        "max_batch_size: 32",
                        "max_batch_size: 32\n    max_seq_len: 20000\n    kv_cache_config: {free_gpu_memory_fraction: 0.8}")),
            "--trace",
            "azure-conv",
            "--requests",
            "50",
            "--free-memory",
            "20GiB",
            "--model",
            "layers=61,latent=576,dtype=fp8");
    assertThat(result.err()).isEmpty();
    assertThat(result.exit()).isZero();
    // 20 GiB · 0.8 / (61 · 576 B · 32 tokens) = 15,279 pages
    assertThat(result.out()).contains("KV pages    15,279 a rank");
  }

  // ------------------------------------------------------------------------------ shared

  private static OptionSpec option(String command, String name) {
    var commands = Main.commandLine().getSubcommands();
    return Objects.requireNonNull(commands.get(command)).getCommandSpec().findOption(name);
  }

  @Test
  void planAndReplayKnowTheSamePlanningOptions() {
    var shared =
        List.of(
            "--assume-overlap",
            "--policy",
            "--trait",
            "--model",
            "--free-memory",
            "--fraction",
            "--reserve");
    for (String option : shared) {
      var plan = option("plan", option);
      var replay = option("replay", option);
      assertThat(replay.description()).as(option).isEqualTo(plan.description());
      assertThat(replay.userObject()).as("declared once").isEqualTo(plan.userObject());
    }
  }

  // ------------------------------------------------------------------------------ bad input

  private static final String PLAIN_SCENARIO =
      """
      scenario: 1
      title: plain
      worker: {role: context, ranks: 2, attention_dp: on, max_batch_size: 2}
      load: {requests: 8, input_tokens: 16, output_tokens: 1}
      cost: {alpha_us_per_token: 1}
      arms:
        a: {title: a}
      """;

  /** Scenarios that can't be run, each for one reason. */
  private Map<String, String> scenarios() throws IOException {
    String arm = "a: {title: a}";
    String whatIf = "a: {title: a, what_if: {%s}}";
    return Map.ofEntries(
        Map.entry("NOCOST", changed("nocost.yaml", "per_token: 1", "per_token: 0")),
        Map.entry("NOWHERE", changed("nowhere.yaml", "requests: 8", "requests: 8, target_rank: 2")),
        Map.entry("NOTRANSFER", changed("notransfer.yaml", "role: context", "role: generation")),
        Map.entry(
            "TOOWIDE", changed("toowide.yaml", "max_batch_size: 2", "max_batch_size: 1048576")),
        Map.entry(
            "TOOMANY",
            changed(
                "toomany.yaml",
                "ranks: 2, attention_dp: on, max_batch_size: 2",
                "ranks: 4096, attention_dp: on, max_batch_size: 4096")),
        Map.entry("CROWDED", changed("crowded.yaml", "requests: 8", "requests: 2147483647")),
        Map.entry(
            "MANYGROUPS",
            changed(
                "manygroups.yaml",
                "requests: 8",
                "groups: [{count: 2147483647}, {count: 2147483647}]")),
        Map.entry("LEASES", changed("leases.yaml", arm, whatIf.formatted("leases: 1048577"))),
        Map.entry("SEATS", changed("seats.yaml", arm, whatIf.formatted("seats: 2147483648"))),
        Map.entry("RESERVED", changed("reserved.yaml", arm, whatIf.formatted("reserved: -1"))),
        Map.entry("TOGETHER", changed("together.yaml", arm, whatIf.formatted("reserved: 1048576"))),
        Map.entry("DISAGREES", changed("disagrees.yaml", arm, whatIf.formatted("leases: 3"))),
        Map.entry("TWINS", changed("twins.yaml", arm, arm + "\n  b: {title: b}")));
  }

  private String changed(String name, String from, String to) throws IOException {
    assertThat(PLAIN_SCENARIO).contains(from);
    return file(name, PLAIN_SCENARIO.replace(from, to));
  }

  @Test
  void theScenarioThatTheBadOnesAreMadeFromIsGood() throws IOException {
    assertThat(run("replay", file("plain.yaml", PLAIN_SCENARIO)).exit()).isZero();
  }

  @Test
  void aScenarioAndATraceMayComeThroughAPipe() throws Exception {
    String pipe = folder.resolve("pipe").toString();
    assertThat(new ProcessBuilder("mkfifo", pipe).start().waitFor()).isZero();
    Thread.ofVirtual().start(() -> write(pipe, PLAIN_SCENARIO));
    assertThat(run("replay", pipe).exit()).isZero();
    Thread.ofVirtual()
        .start(() ->
            write(
                pipe,
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"));
    Result result =
        run("replay", "--config", file("config.yaml", DISAGGREGATED), "--trace", pipe, "--json");
    assertThat(result.exit()).as(result.err()).isZero();
    assertThat(json(result.out()).get("requests")).asString().contains("total=1");
  }

  private static void write(String pipe, String text) {
    try {
      Files.writeString(Path.of(pipe), text, StandardOpenOption.WRITE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "replay | a scenario is needed",
        "replay FOLDER | folder: is a folder; a file is needed",
        "replay /dev/null | /dev/null:1: is empty; a document is needed",
        "replay NOCOST | nocost.yaml:5: cost: a forward must cost something",
        "replay NOWHERE | nowhere.yaml:7: arms.a: the load asks for target_rank 2; this arm's ranks are 0 to 1",
        "replay NOTRANSFER | notransfer.yaml:7: arms.a: a generation worker receives KV: it needs",
        "replay TOOWIDE | toowide.yaml:3: worker.max_batch_size: a rank would hold up to ",
        "replay TOOMANY | toomany.yaml:3: worker.max_batch_size: 1 server of 4096 ranks and 1 stage"
            + " make room for ",
        "replay CROWDED | crowded.yaml:4: load.requests: found 2147483647 requests in all; allowed: ",
        "replay MANYGROUPS | manygroups.yaml:4: load.groups: found 4294967294 requests in all;",
        "replay LEASES | leases.yaml:7: arms.a.what_if.leases: found 1048577; allowed: an integer"
            + " from 1 to 1048576",
        "replay SEATS | seats.yaml:7: arms.a.what_if.seats: found 2147483648; allowed: an integer",
        "replay RESERVED | reserved.yaml:7: arms.a.what_if.reserved: found -1; allowed: an integer"
            + " from 0 to 1048576",
        "replay TOGETHER | together.yaml:7: arms.a.what_if.reserved: a rank would hold up to ",
        "replay DISAGREES | disagrees.yaml:7: arms.a: there are 4 seats and 3 leases: unified seats"
            + " need as many leases as seats (override_validator: true runs it all the same)",
        "replay TWINS | twins.yaml:8: arms.b: arms a and b are declared different, but their",
        "replay --config WIDE --trace azure-conv | wide.yaml:1: max_batch_size: can't work:"
            + " server: a rank would hold up to ",
        "replay --config MANY --trace azure-conv | many.yaml:1: max_batch_size: 1 server of 65536 ranks",
        "replay --config LARGE --trace azure-conv --servers 4096 | large.yaml:1: max_batch_size: 4096"
            + " servers",
        "replay --config CONFIG --trace FOLDER | folder: is a folder; a file is needed",
        "replay --config CONFIG --trace /dev/null | /dev/null: holds no line",
        "replay --config CONFIG --trace mooncake-1000 --requests 2147483647 | --requests: found 2147483647; allowed: an integer from 1 to ",
        "replay --trace azure-conv | --trace needs a --config",
        "replay --config CONFIG | --config needs a --trace",
        "replay glm-5-ctx-con512 --config CONFIG | leave out --config",
        "replay --config CONFIG --trace azure-conv --arm off | --arm belongs to a scenario",
        "replay --config nosuch.yaml --trace azure-conv | nosuch.yaml: there is no such file",
        "replay --config CONFIG --trace nosuch.csv | nosuch.csv: there is no such file",
        "replay --config BAD --trace azure-conv | bad.yaml:1: ",
        "replay --config CONFIG --trace EMPTY | empty.csv: holds no line",
        "replay --config CONFIG --trace CUT | cut.csv:2: ContextTokens: the line has 1 of 3 fields",
        "replay --config CONFIG --trace azure-conv --requests 0 | --requests: found 0",
        "replay --config CONFIG --trace azure-conv --requests x | --requests",
        "replay --config CONFIG --trace azure-conv --requests 99999999999 | --requests",
        "replay --config CONFIG --trace azure-conv --speedup 0 | --speedup: found 0.0",
        "replay --config CONFIG --trace azure-conv --speedup NaN | --speedup: found NaN",
        "replay --config CONFIG --trace azure-conv --speedup -1 | --speedup: found -1.0",
        "replay --config CONFIG --trace azure-conv --cost 1,2 | --cost takes three numbers",
        "replay --config CONFIG --trace azure-conv --cost -1,2,3 | --cost: alpha must be from 0",
        "replay --config CONFIG --trace azure-conv --cost 0,0,0 | --cost: a forward must cost",
        "replay --config CONFIG --trace azure-conv --transfer 1 | --transfer takes two numbers",
        "replay --config CONFIG --trace azure-conv --transfer 1,-2 | --transfer: transfer times",
        "replay --config CONFIG --trace azure-conv --servers 0 | --servers: found '0'",
        "replay --config CONFIG --trace azure-conv --servers agg=2 | --servers: found 'agg=2'",
        "replay --config CONFIG --trace azure-conv --servers ctx= | --servers: found ''",
        "replay --config CONFIG --trace azure-conv --kv-pages 0 | --kv-pages: found 0",
        "replay --config CONFIG --trace azure-conv --kv-pages 5 --free-memory 1GiB | exclude each",
        "replay --config CONFIG --trace azure-conv --free-memory 1GiB | no KV budget, for want of",
        "replay --config CONFIG --trace azure-conv --model layers=1,latent=1 | --model is for",
        "replay --config CONFIG --trace azure-conv --worker agg | --worker",
        "replay --config CONFIG --trace azure-conv --deployment x | holds no deployment 'x'",
        "replay --config CONFIG --trace azure-conv --arrivals closed | needs --concurrency",
        "replay --config CONFIG --trace azure-conv --concurrency 0 | --concurrency: found 0",
        "replay --config CONFIG --trace azure-conv --arrivals closed --concurrency 1 --speedup 2 | --speedup is for",
        "replay --config PLAIN --trace azure-conv --worker ctx | has no context worker; it has: aggregated",
        "replay --config REFUSED --trace azure-conv | can't work: ",
      })
  void badInputIsOneSentenceAndExitsWithTwo(String line, String message) throws IOException {
    Map<String, String> files = new HashMap<>(scenarios());
    files.put("FOLDER", Files.createDirectory(folder.resolve("folder")).toString());
    files.putAll(
        Map.of(
            "CONFIG", file("config.yaml", DISAGGREGATED),
            "BAD", file("bad.yaml", "max_batch_size: -1\n"),
            "LARGE", file("large.yaml", "max_batch_size: 4096\n"),
            "WIDE", file("wide.yaml", "max_batch_size: 1048576\n"),
            "MANY",
                file(
                    "many.yaml",
                    "max_batch_size: 4096\ntensor_parallel_size: 65536\n"
                        + "enable_attention_dp: true\n"),
            "PLAIN", file("plain.yaml", "max_batch_size: 4\ntensor_parallel_size: 2\n"),
            "REFUSED",
                file(
                    "refused.yaml",
                    "max_batch_size: 4\nmax_num_tokens: 1\nenable_attention_dp: true\n"
                        + "speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 3}\n"),
            "EMPTY", file("empty.csv", ""),
            "CUT", file("cut.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15")));
    var args = new ArrayList<String>();
    for (String word : line.strip().split(" ")) {
      args.add(files.getOrDefault(word, word));
    }
    Result result = run(args.toArray(String[]::new));
    assertThat(result.exit()).as(result.err()).isEqualTo(2);
    assertThat(result.out()).isEmpty();
    assertThat(result.err()).startsWith("berth: ").contains(message.strip());
    assertThat(result.err()).doesNotContain("\tat ");
  }

  // ------------------------------------------------------------------------------ documentation

  @Test
  void everyKeyOfTheJsonIsDescribed() throws IOException {
    var keys = new TreeSet<String>();
    collect(json(run("replay", file("s.yaml", TINY.formatted(9, "1000")), "--json").out()), keys);
    collect(
        json(
            run(
                    "replay",
                    "--config",
                    file("c.yaml", DISAGGREGATED),
                    "--trace",
                    "mooncake-1000",
                    "--requests",
                    "50",
                    "--kv-pages",
                    "300",
                    "--json")
                .out()),
        keys);
    String text = TestFiles.text("docs/json.md");
    assertThat(keys).hasSizeGreaterThan(60);
    assertThat(keys).allSatisfy(key -> assertThat(text).contains("`" + key + "`"));
  }

  /** Keys that are names of figures or values are described where they come from. */
  private static void collect(Object value, Collection<String> keys) {
    if (value instanceof Map<?, ?> map) {
      map.forEach((key, inner) -> {
        keys.add(String.valueOf(key));
        if (!List.of("histograms", "numbers", "deferrals").contains(key)) {
          collect(inner, keys);
        }
      });
    } else if (value instanceof List<?> list) {
      list.forEach(item -> collect(item, keys));
    }
  }

  // ------------------------------------------------------------------------------ decision logs

  private String log(String scenario, String arm) {
    String file = folder.resolve(arm + ".log").toString();
    assertThat(run("replay", scenario, "--arm", arm, "--write-log", file).exit()).isZero();
    return file;
  }

  @Test
  void aLogOfAnArmIsRunAgainAndEveryDecisionIsTheSame() throws IOException {
    String file = log(file("tiny.yaml", TINY.formatted(8, "8")), "on");
    Result result = run("replay", "--log", file);
    assertThat(result.exit()).isZero();
    assertThat(result.out())
        .startsWith("log of tiny/on: 2 ranks, 1 stage\n")
        .contains("8 requests run again")
        .endsWith("every decision is the same\n");
    assertThat(json(run("replay", "--log", file, "--json").out()))
        .containsEntry("kind", "log")
        .containsEntry("name", "tiny/on")
        .containsEntry("requests", 8)
        .containsEntry("ending", "closed")
        .containsEntry("same", true)
        .doesNotContainKeys("difference", "damage");
  }

  /** Not a rule is changed here but what the log says: its checksums are made right again. */
  @Test
  void aDecisionThatDiffersIsNamed() throws IOException {
    Path file = Path.of(log(file("tiny.yaml", TINY.formatted(8, "8")), "on"));
    byte[] bytes = Files.readAllBytes(file);
    String text = new String(bytes, StandardCharsets.ISO_8859_1);
    int admissions = text.indexOf("maxNumTokens") + "maxNumTokens".length() + 1;
    assertThat(text.substring(admissions)).startsWith("64");
    bytes[admissions] = '1'; // 14 tokens a step: no prompt of 16 fits
    seal(bytes);
    Files.write(file, bytes);
    Result result = run("replay", "--log", file.toString());
    assertThat(result.exit()).isEqualTo(1);
    assertThat(result.out())
        .contains("the first decision that is not the logged one:\n  iteration  0\n")
        .contains("  request    0\n  decision   offer\n  logged     Queued")
        .containsPattern("  came       Refused\\[reason=TOKENS, required=16, available=14]");
    assertThat(
            Objects.requireNonNull(
                json(run("replay", "--log", file.toString(), "--json").out()).get("difference")))
        .hasToString(
            "{iteration=0, request=0, decision=offer, logged=Queued[], came=Refused[reason=TOKENS,"
                + " required=16, available=14]}");
  }

  /** The checksum of the first block. */
  private static void seal(byte[] log) {
    ByteBuffer fields = ByteBuffer.wrap(log).order(ByteOrder.LITTLE_ENDIAN);
    var crc = new CRC32C();
    crc.update(log, 20, 8 + fields.getInt(20));
    fields.putInt(16, (int) crc.getValue());
  }

  @Test
  void aLogThatIsCutIsRunAsFarAsItGoesAndExitsWithTwo() throws IOException {
    Path file = Path.of(log("deepseek-r1-ctx-dep4", "charged"));
    byte[] bytes = Files.readAllBytes(file);
    Files.write(file, Arrays.copyOf(bytes, bytes.length - 1));
    Result result = run("replay", "--log", file.toString());
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.out())
        .contains("every decision up to there is the same; then the log can't be read:")
        .contains("byte " + (bytes.length - 1) + ": the log ends inside a block");
    assertThat(result.out()).doesNotContain("\n0 iterations");
  }

  @Test
  void aFileThatIsNoLogIsBadInput() throws IOException {
    String file = file("no.log", "nothing of the kind");
    Result result = run("replay", "--log", file);
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).contains(file, "byte 0", "doesn't begin as a decision log does");
    result = run("replay", "--log", folder.resolve("none.log").toString());
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).contains("none.log can't be read: there is no such file");
    assertThat(run("replay", "--log", folder.toString()).exit()).isEqualTo(2);
  }

  @Test
  void aLogIsOfOneArm() {
    String file = folder.resolve("a.log").toString();
    Result result = run("replay", "deepseek-r1-ctx-dep4", "--write-log", file);
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).contains("one arm", "--arm=off, --arm=charged");
    assertThat(Path.of(file)).doesNotExist();
    result = run("replay", "--log", file, "deepseek-r1-ctx-dep4");
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).contains("--log says what ran");
    result =
        run(
            "replay",
            "glm-5-ctx-con1",
            "--arm=fixed",
            "--write-log",
            folder.resolve("none/a.log").toString());
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).contains("can't be written: there is no such file");
  }
}
