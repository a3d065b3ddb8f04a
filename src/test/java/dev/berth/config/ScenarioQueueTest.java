// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.TestFiles;
import dev.berth.replay.Load;
import dev.berth.replay.Progress;
import dev.berth.replay.RequestTimes;
import dev.berth.replay.Scenario;
import dev.berth.replay.ScenarioRun;
import dev.berth.request.QueueRules;
import dev.berth.request.ServiceTerms;
import dev.berth.request.WaitingQueue.Policy;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The order of the waiting queue, chosen by name in a scenario file. */
class ScenarioQueueTest {
  private static final String FILE = "docs/examples/tenants.yaml";

  private static Scenario read(String text) {
    return ScenarioReader.read("tenants", ConfigNode.parse("tenants.yaml", text));
  }

  private static QueueRules queue(Scenario scenario, String arm) {
    return scenario.arms().stream()
        .filter(a -> a.name().equals(arm))
        .findFirst()
        .orElseThrow()
        .engine()
        .queue();
  }

  @Test
  void everyOrderHasAName() {
    Scenario scenario = read(TestFiles.text(FILE));

    assertThat(queue(scenario, "fcfs")).isEqualTo(QueueRules.FCFS);
    assertThat(queue(scenario, "priority")).isEqualTo(QueueRules.of(Policy.PRIORITY));
    assertThat(queue(scenario, "fair")).isEqualTo(QueueRules.of(Policy.FAIR));
    assertThat(queue(scenario, "deadline")).isEqualTo(new QueueRules(Policy.DEADLINE, 500));
    assertThat(scenario.arms()).hasSize(Policy.values().length);
  }

  @Test
  void aGroupHasTenantWeightPriorityAndDeadline() {
    Load load = read(TestFiles.text(FILE)).load();

    assertThat(load.groups().get(1).terms())
        .isEqualTo(new ServiceTerms(2, 2, ServiceTerms.NO_DEADLINE));
    assertThat(load.groups().get(2).terms()).isEqualTo(new ServiceTerms(0, 1, 30));
    assertThat(load.groups().get(2).priority()).isEqualTo(0.9);
  }

  @Test
  void theOrderDecidesWhoWaits() {
    Scenario scenario = read(TestFiles.text(FILE));
    ScenarioRun.Result result = ScenarioRun.run(scenario, Progress.NONE);

    assertThat(result.arms()).allSatisfy(arm -> assertThat(arm.run().done()).isEqualTo(67));
    // Tags 60 to 65 are the small tenant's, 66 is the urgent one.
    assertThat(meanFirstToken(result, "fair", 60, 66))
        .isLessThan(0.4 * meanFirstToken(result, "fcfs", 60, 66));
    assertThat(meanFirstToken(result, "priority", 66, 67))
        .isLessThan(0.1 * meanFirstToken(result, "fcfs", 66, 67));
    assertThat(meanFirstToken(result, "deadline", 66, 67))
        .isLessThan(0.1 * meanFirstToken(result, "fcfs", 66, 67));
    assertThat(meanFirstToken(result, "deadline", 60, 66))
        .isGreaterThan(0.9 * meanFirstToken(result, "fcfs", 60, 66));
  }

  private static double meanFirstToken(ScenarioRun.Result result, String arm, int from, int to) {
    RequestTimes times =
        result.arms().stream()
            .filter(a -> a.arm().name().equals(arm))
            .findFirst()
            .orElseThrow()
            .run()
            .times();
    return IntStream.range(from, to).mapToDouble(times::firstTokenAt).average().orElseThrow();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "queue: fair|queue: wfq|queue: found wfq; allowed: one of fcfs, priority, fair, deadline",
        "patience: 500|patience: -1|patience: found -1",
        "queue: deadline|queue: fair|patience: is for 'queue: deadline' only",
        "weight: 2|weight: 0|weight: found 0; allowed: an integer from 1 to 1024",
        "weight: 2|weight: -2|weight: found -2",
        "weight: 2|weight: 1025|weight: found 1025",
        "deadline: 30|deadline: -1|deadline: found -1",
        "deadline: 30|deadline: 9999999999|deadline: found 9999999999",
        "tenant: 1|tenant: nobody|tenant: found nobody",
        "tenant: 1|tenant: 99999999999999999999|tenant: found",
        "priority: 0.9|priority: .nan|priority: found .nan",
      })
  void aBadValueIsNamed(String good, String bad, String message) {
    String text = TestFiles.text(FILE);
    assertThat(text).contains(good);
    int line = (int) Arrays.stream(text.split("\n")).takeWhile(l -> !l.contains(good)).count() + 1;

    assertThatThrownBy(() -> read(text.replaceFirst(good + "\\b", bad)))
        .isInstanceOf(ConfigException.class)
        .hasMessageContaining(message)
        .hasMessageMatching("(?s)tenants\\.yaml:(" + line + "|" + (line + 1) + "):.*");
  }
}
