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
}
