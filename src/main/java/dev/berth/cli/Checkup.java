// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.BerthException;
import dev.berth.internal.MountOptions;
import dev.berth.internal.NativeLibrary;
import dev.berth.route.kernel.Kernels;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** What {@code berth doctor} finds. */
record Checkup(List<Finding> findings) {
  /** How a thing is. */
  enum State {
    OK,
    /** It works, but slower or with less than it might. */
    WARNING,
    /** Berth doesn't work here. */
    FAILURE
  }

  /**
   * One thing that was looked at.
   *
   * @param advice what to do; empty if there is nothing to do
   */
  record Finding(String name, State state, String text, String advice) {
    static Finding ok(String name, String text) {
      return new Finding(name, State.OK, text, "");
    }
  }

  /**
   * What a machine is asked, so that tests can be another one.
   *
   * @param properties of the JVM
   * @param feature of the Java release
   * @param nativeAccess whether native code may be called
   * @param processors that the JVM may use
   * @param heap most bytes of the Java heap
   * @param library describes the native library; throws UNAVAILABLE with every attempt
   * @param vectors what the routers' kernels use
   * @param root where {@code proc} lies
   * @param mounts mount options of a file
   */
  record Machine(
      Properties properties,
      int feature,
      boolean nativeAccess,
      int processors,
      long heap,
      Supplier<String> library,
      Supplier<String> vectors,
      Path root,
      java.util.function.Function<Path, java.util.Set<String>> mounts) {
    static Machine here() {
      return new Machine(
          System.getProperties(),
          Runtime.version().feature(),
          Checkup.class.getModule().isNativeAccessEnabled(),
          Runtime.getRuntime().availableProcessors(),
          Runtime.getRuntime().maxMemory(),
          () -> NativeLibrary.describe().toString(),
          Kernels::describe,
          Path.of("/"),
          MountOptions::of);
    }

    private String property(String name) {
      return properties.getProperty(name, "");
    }
  }

  private static final int LEAST_JAVA = 25;
  private static final long GIB = 1L << 30;

  static Checkup of(Machine machine) {
    return new Checkup(
        List.of(
            java(machine),
            platform(machine),
            nativeAccess(machine),
            library(machine),
            folder(machine),
            vectors(machine),
            memory(machine),
            gpu(machine)));
  }

  /** 1 if something fails. */
  int exitStatus() {
    return findings.stream().anyMatch(finding -> finding.state == State.FAILURE) ? 1 : 0;
  }

  private static Finding java(Machine machine) {
    String text =
        "%s (%s), %s"
            .formatted(
                machine.property("java.version"),
                machine.property("java.vendor"),
                machine.property("java.home"));
    return machine.feature >= LEAST_JAVA
        ? Finding.ok("java", text)
        : new Finding(
            "java",
            State.FAILURE,
            text,
            "Berth needs Java " + LEAST_JAVA + " or later: set BERTH_JAVA_HOME");
  }

  private static Finding platform(Machine machine) {
    String text =
        "%s %s, %s"
            .formatted(
                machine.property("os.name"),
                machine.property("os.arch"),
                Words.count(machine.processors, "processor"));
    boolean known =
        machine.property("os.name").equals("Linux")
            && List.of("amd64", "aarch64").contains(machine.property("os.arch"));
    return known
        ? Finding.ok("platform", text)
        : new Finding(
            "platform", State.FAILURE, text, "Berth runs on Linux with glibc: use a container");
  }

  private static Finding nativeAccess(Machine machine) {
    return machine.nativeAccess
        ? Finding.ok("native", "calls are allowed")
        : new Finding(
            "native",
            State.WARNING,
            "calls aren't allowed by name: the JVM warns, and later ones will refuse",
            "start it with --enable-native-access=ALL-UNNAMED (or =dev.berth on the module path)");
  }

  private static Finding library(Machine machine) {
    try {
      return Finding.ok("library", machine.library.get());
    } catch (BerthException e) {
      String attempts = String.valueOf(e.getMessage());
      return new Finding(
          "library",
          State.FAILURE,
          attempts,
          "name one with BERTH_LIBRARY_PATH, or build: mvn package");
    }
  }

  /** Where the library of the jar is unpacked. */
  private static Finding folder(Machine machine) {
    String named = machine.property(NativeLibrary.WORKDIR_PROPERTY);
    Path folder = Path.of(named.isEmpty() ? machine.property("java.io.tmpdir") : named);
    String advice =
        "name another with -D" + NativeLibrary.WORKDIR_PROPERTY + ", in BERTH_JAVA_OPTS";
    if (!Files.isDirectory(folder) || !Files.isWritable(folder)) {
      return new Finding("folder", State.WARNING, folder + " can't be written", advice);
    }
    return machine.mounts.apply(folder).contains("noexec")
        ? new Finding("folder", State.WARNING, folder + " is mounted noexec", advice)
        : Finding.ok("folder", folder + " can be written");
  }

  private static Finding vectors(Machine machine) {
    return Finding.ok("vectors", machine.vectors.get());
  }

  private static Finding memory(Machine machine) {
    String heap = "heap up to " + gib(machine.heap);
    return Finding.ok(
        "memory",
        number(machine.root.resolve("proc/meminfo"), "MemAvailable:")
            .map(kib -> heap + ", " + gib(kib << 10) + " available")
            .orElse(heap));
  }

  private static String gib(long bytes) {
    return String.format(Locale.ROOT, "%.1f GiB", (double) bytes / GIB);
  }

  private static Optional<Long> number(Path file, String label) {
    try (Stream<String> lines = Files.lines(file, StandardCharsets.UTF_8)) {
      return lines
          .filter(line -> line.startsWith(label))
          .map(line -> line.replaceAll("\\D", ""))
          .filter(digits -> !digits.isEmpty() && digits.length() < 18)
          .map(Long::parseLong)
          .findFirst();
    } catch (IOException | java.io.UncheckedIOException e) {
      return Optional.empty();
    }
  }

  private static Finding gpu(Machine machine) {
    Path version = machine.root.resolve("proc/driver/nvidia/version");
    try (Stream<String> lines = Files.lines(version, StandardCharsets.UTF_8)) {
      return Finding.ok("gpu", lines.findFirst().orElse("a driver of NVIDIA's").strip());
    } catch (IOException | java.io.UncheckedIOException e) {
      return Finding.ok("gpu", "no driver: everything runs on the CPU");
    }
  }

  String text() {
    var text = new StringBuilder();
    for (Finding finding : findings) {
      text.append(
          String.format(
              Locale.ROOT,
              "%-9s %-9s %s%n",
              Words.lower(finding.state),
              finding.name,
              finding.text.replace("\n", System.lineSeparator() + " ".repeat(20))));
      if (!finding.advice.isEmpty()) {
        text.append(" ".repeat(20)).append(finding.advice).append(System.lineSeparator());
      }
    }
    return text.toString().stripTrailing();
  }

  Json json() {
    return new Json()
        .put("schema", ReplayJson.SCHEMA)
        .put("kind", "doctor")
        .put("works", exitStatus() == 0)
        .put(
            "findings",
            findings.stream()
                .map(finding ->
                    new Json()
                        .put("name", finding.name)
                        .put("state", Words.lower(finding.state))
                        .put("text", finding.text)
                        .put(
                            "advice",
                            finding.advice.isEmpty()
                                ? Optional.empty()
                                : Optional.of(finding.advice))
                        .fields())
                .toList());
  }
}
