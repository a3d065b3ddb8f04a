// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.TestFiles;
import dev.berth.replay.ArmResult;
import dev.berth.replay.Check;
import dev.berth.replay.Scenario;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The page about scenario files and their reader know the same keys. */
class ScenarioKeysTest {
  /** Keys are the reader's only plain lower-case literals that aren't labels of a switch. */
  private static final Pattern ASKED = Pattern.compile("(?<!case )\"([a-z][a-z_]*)\"");

  /** Keys stand in the first column of a table. */
  private static final Pattern DESCRIBED = Pattern.compile("(?m)^\\| `([a-z_]+)` \\|");

  private static final String EVERY_MAPPING =
      """
      scenario: 1
      title: every mapping that a file may have
      worker:
        role: context
        max_batch_size: 2
      load:
        groups:
          - count: 1
            input_tokens: 8
            output_tokens: 1
      cost:
        alpha_us_per_token: 1
      arms:
        one:
          title: one
          what_if:
            charge_retiring: true
          expect:
            done:
              value: 1
        two:
          title: two
          worker:
            overlap: off
      compare:
        - kind: same-forwards
          of: two
          to: one
      class:
        arm: two
        is: guard
      """;

  private static Set<String> all(Pattern pattern, String text) {
    return pattern
        .matcher(text)
        .results()
        .map((MatchResult match) -> match.group(1))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  private static String page() {
    return TestFiles.text("docs/scenarios.md");
  }

  @Test
  void everyKeyIsDescribedAndEveryDescribedKeyIsRead() {
    Set<String> asked =
        all(ASKED, TestFiles.text("src/main/java/dev/berth/config/ScenarioReader.java"));
    assertThat(asked).contains("scenario", "worker", "same_as", "within").hasSizeGreaterThan(50);
    assertThat(all(DESCRIBED, page())).isEqualTo(asked);
  }

  @Test
  void everyFigureAndEveryCheckIsDescribed() {
    String page = page();
    assertThat(ArmResult.HISTOGRAMS)
        .allSatisfy(name -> assertThat(page).contains("`" + name + "`"));
    assertThat(ArmResult.NUMBERS).allSatisfy(name -> assertThat(page).contains("`" + name + "`"));
    assertThat(Check.values())
        .allSatisfy(check -> assertThat(page).contains("`" + check.id() + "`"));
  }

  @Test
  void theScenarioWithEveryMappingIsGood() {
    assertThat(read(EVERY_MAPPING).arms()).hasSize(2);
  }

  /** Wherever it stands: an unknown key is an error that names its line. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "title: every",
        "  max_batch_size",
        "  groups",
        "      input_tokens",
        "  alpha_us",
        "    what_if",
        "      charge_retiring",
        "        value",
        "      overlap",
        "    of: two",
        "  is: guard"
      })
  void anUnknownKeyIsAnErrorThatNamesItsLine(String beside) {
    String[] lines = EVERY_MAPPING.split("\n");
    int at = 0;
    while (!lines[at].startsWith(beside)) {
      at++;
    }
    String indent = lines[at].substring(0, lines[at].indexOf(lines[at].strip()));
    lines[at] = indent + "surprise: 1\n" + lines[at];
    assertThatThrownBy(() -> read(String.join("\n", lines)))
        .isInstanceOf(ConfigException.class)
        .hasMessageMatching("s\\.yaml:" + (at + 1) + ": (.*\\.)?surprise: unknown key");
  }

  private static Scenario read(String text) {
    return ScenarioReader.read("s", ConfigNode.parse("s.yaml", text));
  }
}
