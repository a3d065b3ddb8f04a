// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.TestFiles;
import dev.berth.config.ShippedScenarios;
import dev.berth.engine.log.Difference.Decision;
import dev.berth.replay.Arm;
import dev.berth.replay.Progress;
import dev.berth.replay.Scenario;
import dev.berth.replay.ScenarioRun;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The evidence scenarios, decision by decision: the first iterations from logs that lie in the
 * repository, the rest by checksums. {@code -Dberth.golden.write=true} writes both anew, for a
 * change that is meant to decide otherwise.
 */
class GoldenLogsTest {
  private static final Path FOLDER = TestFiles.root().resolve("src/test/resources/logs");

  /** Evidence E1 to E4. */
  private static final List<String> SCENARIOS =
      List.of(
          "deepseek-r1-ctx-dep4",
          "glm-5-ctx-leases",
          "glm-5-tp2-pp2",
          "gen-fill-early-end",
          "gen-fill-overloaded-rank");

  /** Iterations of each arm that lie in the repository as they were logged. */
  private static final int LOGGED = 200;

  /** Iterations between two checksums. */
  private static final int EVERY = 64;

  static List<String> arms() {
    var arms = new ArrayList<String>();
    for (String scenario : SCENARIOS) {
      ShippedScenarios.load(scenario).arms().forEach(arm -> arms.add(scenario + "/" + arm.name()));
    }
    return arms;
  }

  private static Scenario scenario(String name) {
    int slash = name.indexOf('/');
    return ShippedScenarios.load(name.substring(0, slash))
        .withArms(List.of(name.substring(slash + 1)));
  }

  private static byte[] run(String name, int iterations) {
    var bytes = new ByteArrayOutputStream();
    try (var writer = new LogWriter(Channels.newChannel(bytes), name)) {
      ScenarioRun.run(scenario(name), new Only(iterations), arm -> writer);
    }
    return bytes.toByteArray();
  }

  /** Ends a run after so many iterations. */
  private static final class Only implements Progress {
    private int left;

    Only(int iterations) {
      left = iterations;
    }

    @Override
    public void ended(long ended) {
      left--;
    }

    @Override
    public boolean interrupted() {
      return left <= 0;
    }
  }

  private static Path file(String name) {
    return FOLDER.resolve(name + ".log.gz");
  }

  private static byte[] golden(String name) throws IOException {
    if (Boolean.getBoolean("berth.golden.write")) {
      Files.createDirectories(file(name).resolveSibling("."));
      try (var out = new GZIPOutputStream(Files.newOutputStream(file(name)))) {
        out.write(run(name, LOGGED));
      }
    }
    try (InputStream in = new GZIPInputStream(Files.newInputStream(file(name)))) {
      return in.readAllBytes();
    }
  }

  @ParameterizedTest
  @MethodSource("arms")
  void everyDecisionIsTheLoggedOne(String name) throws IOException {
    LogReplay.Result result = LogFiles.replay(golden(name));
    assertThat(result.difference().map(Difference::describe)).isEmpty();
    assertThat(result.damage()).isEmpty();
    assertThat(result.ending()).isEqualTo(LogReplay.Ending.CLOSED);
    assertThat(result.label()).isEqualTo(name);
  }

  /** The log holds what the arm is today: the configuration among it. */
  @ParameterizedTest
  @MethodSource("arms")
  void theArmBeginsWithTheLog(String name) throws IOException {
    RecordReader logged = LogFiles.records(golden(name));
    assertThat(logged.label()).isEqualTo(name);
    assertThat(ConfigText.write(scenario(name).arms().getFirst().engine()))
        .isEqualTo(ConfigText.write(logged.config()));
    assertThat(LogFiles.payload(run(name, LOGGED))).isEqualTo(LogFiles.payload(golden(name)));
  }

  @Test
  void theWholeRunHasTheLoggedChecksums() throws IOException {
    var found = new TreeMap<String, List<String>>();
    for (String name : arms()) {
      found.put(name, LogFiles.digests(run(name, Integer.MAX_VALUE), EVERY));
    }
    Path file = FOLDER.resolve("checksums.txt");
    if (Boolean.getBoolean("berth.golden.write")) {
      var text = new StringBuilder("# Generated; see README.md.\n");
      found.forEach((name, sums) -> text.append(name + " " + String.join(" ", sums) + "\n"));
      Files.writeString(file, text);
    }
    var expected = new TreeMap<String, List<String>>();
    for (String line : Files.readAllLines(file)) {
      if (!line.startsWith("#")) {
        List<String> words = List.of(line.split(" "));
        expected.put(words.getFirst(), words.subList(1, words.size()));
      }
    }
    assertThat(found.keySet()).isEqualTo(expected.keySet());
    found.forEach((name, sums) -> {
      List<String> wanted = expected.getOrDefault(name, List.of());
      for (int i = 0; i < Math.min(sums.size(), wanted.size()); i++) {
        assertThat(sums.get(i))
            .as(
                "%s decides otherwise from iteration %d to %d on",
                name, i * EVERY, (i + 1) * EVERY - 1)
            .isEqualTo(wanted.get(i));
      }
      assertThat(sums).as(name).hasSameSizeAs(wanted);
    });
  }

  /** Each published bug's broken arm, run on the log of the arm that is right. */
  @ParameterizedTest
  @CsvSource({
    "deepseek-r1-ctx-dep4, fixed, charged, 1, BUDGET",
    "deepseek-r1-ctx-dep4, fixed-tokens-out, range-end-20, 1, BATCH",
    "glm-5-ctx-leases, two-batches-of-leases, one-batch-of-leases, 2, BATCH",
    "gen-fill-early-end, state-gate, count-gate, 11, GATE",
  })
  void aBrokenRuleIsPointedAt(
      String scenario, String right, String broken, long iteration, Decision decision)
      throws IOException {
    Arm arm = scenario(scenario + "/" + broken).arms().getFirst();
    LogReplay.Result result =
        LogReplay.run(new ByteArrayInputStream(golden(scenario + "/" + right)), arm.engine());
    Difference found = result.difference().orElseThrow();
    assertThat(found.decision()).as(found.describe()).isEqualTo(decision);
    assertThat(found.iteration()).as(found.describe()).isEqualTo(iteration);
  }
}
