// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.config.ConfigException;
import dev.berth.config.FleetSetup;
import dev.berth.config.PlanOptions;
import dev.berth.config.ServingConfig;
import dev.berth.config.ShippedConfigs;
import dev.berth.config.ShippedScenarios;
import dev.berth.config.ShippedTraces;
import dev.berth.config.TraceReader;
import dev.berth.replay.CostModel;
import dev.berth.replay.Progress;
import dev.berth.replay.Scenario;
import dev.berth.replay.ScenarioRun;
import dev.berth.replay.Trace;
import dev.berth.replay.TraceArrivals;
import dev.berth.replay.TraceRun;
import dev.berth.replay.TransferModel;
import dev.berth.test.Damage;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Damaged configurations, scenarios and traces through the commands themselves: every one is
 * planned or run, or refused with exit status 2 and one line that names file, line and field;
 * nothing shows a stack trace, and nothing hangs.
 */
class DamagedInputTest {
  /** {@code file:line: } and what is wrong, in one line. */
  private static final String REFUSAL = "berth: %s:[1-9][0-9]*: \\S[^\n]*\n";

  /** Iterations after which a replay of a file that was damaged to no effect has shown enough. */
  private static final int ENOUGH = 64;

  /** Requests that a rank of such a replay may make room for. */
  private static final long SMALL = 1 << 14;

  private static final String TRACED =
      """
      max_batch_size: 4
      max_num_tokens: 16384
      max_seq_len: 65536
      enable_chunked_prefill: true
      """;

  private static final String SCENARIO =
      """
      scenario: 1
      title: everything that a scenario can say
      source: nowhere
      notes: [one, two]
      worker:
        role: context
        ranks: 2
        attention_dp: on
        max_batch_size: 2
        max_num_tokens: 64
        max_seq_len: 128
        tokens_per_block: 4
        kv_pages: 64
        draft_tokens: 0
        queue: priority
        policies: trtllm-2026-09
        seats: split
        chunked_context: on
        capacity: static_batch
      load:
        concurrency: 9
        output_tokens: 1
        waves: [1, 2]
        groups:
          - {count: 5, input_tokens: 16, target_rank: 1, relax: strict}
          - {count: 7, input_tokens: 8}
      cost: {alpha_us_per_token: 1, beta_us_per_token: 0.5, fixed_us: 3}
      transfer_us: 10
      arms:
        plain:
          title: as it is
          expect: {done: 12, "batch": {"0": {value: 1, within: 99, why: it depends}}}
        other:
          title: with departures
          worker: {overlap: off, mrope_delta: off, hybrid: off}
          what_if: {leases: 3, seats: 4, reserved: 2, range_end: 20, router_cap: off}
          override_validator: true
          must_fail: {no-veto: 1}
      compare:
        - {kind: throughput, of: other, to: plain, percent: 1.5, within: 2}
        - {kind: same-metric, of: other, to: plain, metric: done}
      class: {arm: plain, is: movable}
      """;

  @TempDir Path folder;

  private record Result(int exit, String out, String err) {}

  private static Result berth(String... args) {
    var out = new StringWriter();
    var err = new StringWriter();
    int exit =
        Main.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err)).execute(args);
    return new Result(exit, out.toString(), err.toString());
  }

  /** How often damage was refused and how often it did no harm: both must come up. */
  private static final class Count {
    private int refused;
    private int harmless;

    void require(int rounds) {
      System.out.printf("%d refused, %d harmless of %d%n", refused, harmless, rounds);
      assertThat(refused).isGreaterThan(rounds / 50);
      assertThat(harmless).isGreaterThan(rounds / 50);
      assertThat(refused + harmless).isEqualTo(rounds);
    }
  }

  private interface Round {
    void run(RandomGenerator random) throws IOException;
  }

  private static void rounds(int rounds, Count count, Round round) {
    long seed = Long.getLong("berth.seed", 20_260_903L);
    System.out.println("berth.seed=" + seed);
    var random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    for (int i = 0; i < rounds; i++) {
      try {
        round.run(random);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      } catch (RuntimeException | Error e) {
        throw new AssertionError("round " + i + " of seed " + seed, e);
      }
    }
    count.require(rounds);
  }

  private Path write(String name, String text) throws IOException {
    // An unpaired surrogate becomes a byte that no UTF-8 text has.
    return Files.write(folder.resolve(name), text.getBytes(StandardCharsets.UTF_8));
  }

  private static void requireRefusal(Result result, Path file, String text) {
    assertThat(result.exit()).as(text).isEqualTo(2);
    assertThat(result.out()).as(text).isEmpty();
    assertThat(result.err()).as(text).matches(REFUSAL.formatted(file)).doesNotContain("\tat ");
  }

  private static List<String> resources(String folder, List<String> names, String ending) {
    return names.stream()
        .map(name -> {
          try (var in =
              Objects.requireNonNull(
                  ShippedConfigs.class.getResourceAsStream(folder + name + ending))) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        })
        .toList();
  }

  /** Stops a replay once it has shown that it runs. */
  private static Progress stopping() {
    return new Progress() {
      private int iterations;

      @Override
      public void ended(long requests) {
        iterations++;
      }

      @Override
      public boolean interrupted() {
        return iterations >= ENOUGH;
      }
    };
  }

  // ------------------------------------------------------------------------------ configurations

  @Test
  void damagedConfigurationsArePlannedOrRefusedWithTheirPlace() {
    configurations(500);
  }

  @Test
  @Tag("deep")
  void damagedConfigurationsArePlannedOrRefusedWithTheirPlaceForLong() {
    configurations(150_000);
  }

  private void configurations(int rounds) {
    var texts = resources("/dev/berth/configs/", ShippedConfigs.names(), ".yaml");
    var count = new Count();
    rounds(
        rounds,
        count,
        random -> {
          String text = Damage.wound(texts.get(random.nextInt(texts.size())), random);
          Path file = write("x.yaml", text);
          Result result = berth("plan", "--assume-overlap", "on", file.toString());
          if (!result.out().isEmpty()) { // a plan, good or bad
            count.harmless++;
            assertThat(result.exit()).as(text).isIn(0, 2);
            assertThat(result.err()).as(text).isEmpty();
          } else {
            count.refused++;
            requireRefusal(result, file, text);
          }
        });
  }

  // ------------------------------------------------------------------------------ scenarios

  @Test
  void damagedScenariosAreRunOrRefusedWithTheirPlace() {
    scenarios(500);
  }

  @Test
  @Tag("deep")
  void damagedScenariosAreRunOrRefusedWithTheirPlaceForLong() {
    scenarios(100_000);
  }

  private void scenarios(int rounds) {
    var texts =
        new ArrayList<>(resources("/dev/berth/scenarios/", ShippedScenarios.names(), ".yaml"));
    int shipped = texts.size();
    for (int i = 0; i < shipped; i++) {
      texts.add(SCENARIO);
    }
    var count = new Count();
    rounds(
        rounds,
        count,
        random -> {
          String text = Damage.wound(texts.get(random.nextInt(texts.size())), random);
          Path file = write("x.yaml", text);
          Scenario scenario;
          try {
            scenario = ShippedScenarios.load(file.toString());
          } catch (ConfigException e) {
            count.refused++;
            requireRefusal(berth("replay", file.toString()), file, text);
            return;
          }
          count.harmless++;
          if (scenario.arms().stream().allMatch(arm -> arm.engine().workerRows() <= SMALL)) {
            ScenarioRun.run(scenario, stopping());
          }
        });
  }

  // ------------------------------------------------------------------------------ traces

  @Test
  void damagedTracesAreRunOrRefusedWithTheirPlace() throws IOException {
    traces(500);
  }

  @Test
  @Tag("deep")
  void damagedTracesAreRunOrRefusedWithTheirPlaceForLong() throws IOException {
    traces(150_000);
  }

  private void traces(int rounds) throws IOException {
    var texts =
        List.of(
            head("azure/AzureLLMInferenceTrace_conv.csv"),
            head("mooncake/mooncake_trace_1000.jsonl"));
    Path config = write("config.yaml", TRACED);
    FleetSetup setup = FleetSetup.of(ServingConfig.read(config), options());
    var count = new Count();
    rounds(
        rounds,
        count,
        random -> {
          String text = Damage.wound(texts.get(random.nextInt(texts.size())), random);
          Path file = write("x.trace", text);
          Trace trace;
          try {
            trace = TraceReader.read(file);
          } catch (ConfigException e) {
            count.refused++;
            String[] command = {
              "replay", "--config", config.toString(), "--trace", file.toString()
            };
            requireRefusal(berth(command), file, text);
            return;
          }
          count.harmless++;
          TraceRun.run(
              trace, setup.stages(), new TraceArrivals(trace, 1, trace.requests()), stopping());
        });
  }

  private static String head(String trace) throws IOException {
    try (var in =
        Objects.requireNonNull(
            ShippedTraces.class.getResourceAsStream("/dev/berth/traces/" + trace))) {
      String text = new String(in.readNBytes(6_000), StandardCharsets.UTF_8);
      return text.substring(0, text.lastIndexOf('\n') + 1);
    }
  }

  private static FleetSetup.Options options() {
    return new FleetSetup.Options(
        Optional.empty(),
        FleetSetup.Workers.ALL,
        PlanOptions.NONE,
        OptionalLong.empty(),
        FleetSetup.PrefixReuse.FILE,
        OptionalInt.empty(),
        OptionalInt.empty(),
        new CostModel(10, 1, 8000),
        new TransferModel(1000, 1));
  }
}
