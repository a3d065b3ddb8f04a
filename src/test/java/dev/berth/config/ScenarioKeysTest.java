// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.TestFiles;
import dev.berth.replay.ArmResult;
import dev.berth.replay.Check;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The page about scenario files and their reader know the same keys. */
class ScenarioKeysTest {
  /** Keys are the reader's only plain lower-case literals that aren't labels of a switch. */
  private static final Pattern ASKED = Pattern.compile("(?<!case )\"([a-z][a-z_]*)\"");

  /** Keys stand in the first column of a table. */
  private static final Pattern DESCRIBED = Pattern.compile("(?m)^\\| `([a-z_]+)` \\|");

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
}
