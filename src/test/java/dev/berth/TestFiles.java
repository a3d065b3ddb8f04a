// SPDX-License-Identifier: Apache-2.0
package dev.berth;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Where the build put things, and processes that a test starts. */
public final class TestFiles {
  private TestFiles() {}

  /** The repository's root. */
  public static Path root() {
    return Path.of(System.getProperty("berth.test.basedir", "")).toAbsolutePath();
  }

  /** The folder in which CMake built the library, its tests and the probes. */
  public static Path nativeBuild() {
    String folder = System.getProperty("berth.test.native.build", "");
    return folder.isEmpty() ? root().resolve("target/native-build") : Path.of(folder);
  }

  /** The folder or jar that a class was loaded from. */
  public static Path codeOf(Class<?> type) {
    try {
      return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI());
    } catch (URISyntaxException e) {
      throw new AssertionError(e);
    }
  }

  /** The text of a file of the repository. */
  public static String text(String path) {
    try {
      return Files.readString(root().resolve(path));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * What a process printed and how it ended.
   *
   * @param exit its exit code
   * @param out both streams
   */
  public record Result(int exit, String out) {}

  /** Runs a command to its end, at most two minutes; it is killed then, and the test fails. */
  public static Result run(Map<String, String> environment, List<String> command) {
    try {
      Path out = Files.createTempFile("berth-test", ".out");
      try {
        ProcessBuilder builder =
            new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(out.toFile());
        builder.environment().remove("JDK_JAVA_OPTIONS");
        builder.environment().remove("JAVA_TOOL_OPTIONS");
        builder.environment().remove("BERTH_LIBRARY_PATH");
        builder.environment().putAll(environment);
        Process process = builder.start();
        process.getOutputStream().close();
        if (!process.waitFor(2, TimeUnit.MINUTES)) {
          process.destroyForcibly().waitFor();
          throw new AssertionError(
              "still running after 2 minutes: " + command + "\n" + Files.readString(out));
        }
        return new Result(process.exitValue(), Files.readString(out, StandardCharsets.UTF_8));
      } finally {
        Files.delete(out);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
  }

  /** Runs a command to its end. */
  public static Result run(String... command) {
    return run(Map.of(), List.of(command));
  }

  /** A program of the JDK that runs the tests. */
  public static String jdkTool(String name) {
    return Path.of(System.getProperty("java.home"), "bin", name).toString();
  }

  /** Runs {@code java} with the given arguments. */
  public static Result java(Map<String, String> environment, List<String> arguments) {
    List<String> command =
        new ArrayList<>(List.of(jdkTool("java"), "-XX:+UseSerialGC", "-Xmx128m"));
    command.addAll(arguments);
    return run(environment, command);
  }
}
