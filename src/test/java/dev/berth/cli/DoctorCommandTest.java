// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.BerthException;
import dev.berth.cli.Checkup.Finding;
import dev.berth.cli.Checkup.Machine;
import dev.berth.cli.Checkup.State;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Set;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.jr.ob.JSON;

/** {@code berth doctor} and {@code berth completion}. */
class DoctorCommandTest {
  @TempDir Path root;

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

  private static Properties properties(String os, String folder) {
    var properties = new Properties();
    properties.setProperty("java.version", "25.0.1");
    properties.setProperty("java.vendor", "somebody");
    properties.setProperty("java.home", "/jdk");
    properties.setProperty("os.name", os);
    properties.setProperty("os.arch", "amd64");
    properties.setProperty("java.io.tmpdir", folder);
    return properties;
  }

  private Machine machine(
      Properties properties,
      int feature,
      boolean nativeAccess,
      Supplier<String> library,
      String mount) {
    return new Machine(
        properties,
        feature,
        nativeAccess,
        2,
        3L << 30,
        library,
        () -> "scalar code",
        root,
        file -> Set.of("rw", mount));
  }

  private Machine well() {
    return machine(properties("Linux", root.toString()), 25, true, () -> "libberth", "exec");
  }

  private static Finding finding(Checkup checkup, String name) {
    return checkup.findings().stream().filter(f -> f.name().equals(name)).findFirst().orElseThrow();
  }

  @Test
  void itWorksHere() throws IOException {
    Ran ran = run("doctor");
    assertThat(ran.err).isEmpty();
    assertThat(ran.status).isZero();
    assertThat(ran.out).contains("ok        java", "ok        library", "ok        platform");
    var json = JSON.std.mapFrom(run("doctor", "--json").out);
    assertThat(json).containsEntry("kind", "doctor").containsEntry("works", true);
  }

  @Test
  void aMachineThatIsWellHasNothingToDo() throws IOException {
    Files.createDirectories(root.resolve("proc/driver/nvidia"));
    Files.writeString(root.resolve("proc/meminfo"), "MemTotal: 9 kB\nMemAvailable:   2097152 kB\n");
    Files.writeString(root.resolve("proc/driver/nvidia/version"), "NVRM version: 580\nGCC\n");
    Checkup checkup = Checkup.of(well());
    assertThat(checkup.exitStatus()).isZero();
    assertThat(checkup.findings()).allMatch(f -> f.state() == State.OK && f.advice().isEmpty());
    assertThat(finding(checkup, "memory").text())
        .isEqualTo("heap up to 3.0 GiB, 2.0 GiB available");
    assertThat(finding(checkup, "gpu").text()).isEqualTo("NVRM version: 580");
  }

  @Test
  void withoutAGpuOrNumbersItIsWellToo() {
    Checkup checkup = Checkup.of(well());
    assertThat(finding(checkup, "memory").text()).isEqualTo("heap up to 3.0 GiB");
    assertThat(finding(checkup, "gpu").text()).startsWith("no driver");
    assertThat(checkup.exitStatus()).isZero();
  }

  @Test
  void whatFailsIsToldWithWhatToDo() {
    Checkup checkup =
        Checkup.of(
            machine(
                properties("Mac OS X", root.toString()),
                21,
                false,
                () -> {
                  throw new BerthException(
                      BerthException.Code.UNAVAILABLE, "no libberth can be used\n  a\n  b");
                },
                "noexec"));
    assertThat(checkup.exitStatus()).isOne();
    assertThat(finding(checkup, "java").state()).isEqualTo(State.FAILURE);
    assertThat(finding(checkup, "java").advice()).contains("BERTH_JAVA_HOME");
    assertThat(finding(checkup, "platform").state()).isEqualTo(State.FAILURE);
    assertThat(finding(checkup, "native").state()).isEqualTo(State.WARNING);
    assertThat(finding(checkup, "native").advice()).contains("--enable-native-access");
    assertThat(finding(checkup, "library").state()).isEqualTo(State.FAILURE);
    assertThat(finding(checkup, "folder").text()).endsWith("is mounted noexec");
    assertThat(checkup.text().lines())
        .contains("failure   library   no libberth can be used", " ".repeat(20) + "  a");
    assertThat(checkup.json().fields()).containsEntry("works", false);
  }

  @Test
  void warningsAloneAreNoFailure() {
    Checkup checkup =
        Checkup.of(
            machine(
                properties("Linux", root.resolve("nowhere").toString()),
                26,
                false,
                () -> "libberth",
                "exec"));
    assertThat(finding(checkup, "folder").text()).endsWith("nowhere can't be written");
    assertThat(checkup.exitStatus()).isZero();
  }

  @Test
  void theCompletionKnowsEveryCommandAndIsBash(@TempDir Path folder) throws Exception {
    Ran ran = run("completion");
    assertThat(ran.status).isZero();
    for (String name : Main.commandLine().getSubcommands().keySet()) {
      assertThat(ran.out).contains(name);
    }
    Path script = Files.writeString(folder.resolve("berth.bash"), ran.out);
    Process bash = new ProcessBuilder("bash", "-n", script.toString()).inheritIO().start();
    assertThat(bash.waitFor()).isZero();
  }
}
