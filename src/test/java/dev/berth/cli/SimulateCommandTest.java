// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Map;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.jr.ob.JSON;

/** {@code berth simulate}: what it prints, when it fails, what it refuses. */
class SimulateCommandTest {
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

  @Test
  void worldsThatHoldAreCounted() {
    Ran ran = run("simulate", "--worlds", "20", "--seed", "7", "--threads", "1");
    assertThat(ran.err).isEmpty();
    assertThat(ran.status).isZero();
    assertThat(ran.out)
        .contains("worlds      20 from seed 7")
        .contains("10 checked after every iteration")
        .contains("cells of state × fault × setting")
        .endsWith("every world held every rule\n");
  }

  @Test
  void aBrokenRuleIsToldWithTheCommandThatShowsItAgain() {
    Ran ran = run("simulate", "--worlds", "200", "--break", "routable-idle");
    assertThat(ran.status).isOne();
    assertThat(ran.out).contains("violated    rule 9", "the fleet blocks with", "FAILED");
    String command =
        ran.out
            .lines()
            .filter(line -> line.startsWith("reproduce"))
            .findFirst()
            .orElseThrow()
            .replaceFirst("reproduce +berth ", "");
    Ran again = run(command.split(" "));
    assertThat(again.status).isOne();
    assertThat(again.out).contains("violated    rule 9", command);
  }

  @Test
  void whatIsRequiredAndMissingFails() {
    Ran ran = run("simulate", "--worlds", "3", "--require-coverage");
    assertThat(ran.status).isOne();
    assertThat(ran.out)
        .contains("missing     never seen: ", "and ", " more\n")
        .endsWith("NOT ENOUGH\n");
    Ran few = run("simulate", "--worlds", "3", "--require-rank-iterations", "1000000");
    assertThat(few.status).isOne();
    assertThat(few.out).contains("of the 1,000,000 required");
  }

  @Test
  void jsonHasTheSameNumbers() throws Exception {
    Ran ran = run("simulate", "--worlds", "200", "--break", "cap-off", "--json");
    assertThat(ran.status).isOne();
    Map<String, Object> json = JSON.std.mapFrom(ran.out);
    assertThat(json).containsEntry("broken", "cap-off").containsKeys("coverage", "median");
    assertThat(json.get("failure"))
        .asInstanceOf(InstanceOfAssertFactories.MAP)
        .containsEntry("rule", 8)
        .containsKeys("events", "history", "reproduction");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--worlds 0|--worlds: found 0; allowed: an integer from 1 to",
        "--worlds x|--worlds",
        "--threads 0|--threads: found 0; allowed: an integer from 1 to 256",
        "--break nothing-known|--break: found 'nothing-known'; allowed: none (nothing is broken), retiring-charged",
        "--only 4-2|'4-2' are no event numbers such as 0-3,17",
      })
  void badInputIsRefusedByName(String arguments, String message) {
    Ran ran = run(("simulate " + arguments).split(" "));
    assertThat(ran.status).isEqualTo(2);
    assertThat(ran.err).contains(message);
    assertThat(ran.out).isEmpty();
  }
}
