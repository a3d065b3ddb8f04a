// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

/** The README shows what its commands really print. */
class ReadmeTest {
  private static final Pattern OUTPUT =
      Pattern.compile("<!-- output: berth ([^\\n]+) -->\\n```\\n(.*?)\\n```\\n", Pattern.DOTALL);

  @Test
  void everyOutputInTheReadmeIsTheRealOne() throws IOException {
    String readme =
        Files.readString(Path.of(System.getProperty("berth.test.basedir", "."), "README.md"));
    Matcher shown = OUTPUT.matcher(readme);
    int outputs = 0;
    while (shown.find()) {
      var out = new StringWriter();
      CommandLine berth = Main.commandLine();
      berth.setOut(new PrintWriter(out));
      assertThat(berth.execute(shown.group(1).split(" "))).isZero();
      assertThat(out.toString().stripTrailing()).isEqualTo(shown.group(2));
      outputs++;
    }
    assertThat(outputs).isPositive();
  }

  private static final Pattern CODE =
      Pattern.compile("<!-- code: ([^\\n]+) -->\\n```java\\n(.*?)\\n```\\n", Pattern.DOTALL);

  /** What is compiled and run stands between two lines of a test. */
  private static final Pattern SHOWN =
      Pattern.compile("// shown in the README\\n(.*?)\\n\\s*// to here\\n", Pattern.DOTALL);

  @Test
  void theCodeInTheReadmeIsCodeThatATestRuns() throws IOException {
    Path root = Path.of(System.getProperty("berth.test.basedir", "."));
    Matcher shown = CODE.matcher(Files.readString(root.resolve("README.md")));
    int examples = 0;
    while (shown.find()) {
      Matcher real = SHOWN.matcher(Files.readString(root.resolve(shown.group(1))));
      assertThat(real.find()).isTrue();
      assertThat(shown.group(2)).isEqualTo(real.group(1).stripIndent());
      assertThat(shown.group(2).lines().count()).isLessThanOrEqualTo(22);
      examples++;
    }
    assertThat(examples).isPositive();
  }
}
