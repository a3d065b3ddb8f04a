// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.replay.Scenario;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;

/** The scenarios that come with Berth, and those in files. */
public final class ShippedScenarios {
  private static final String FOLDER = "/dev/berth/scenarios/";
  private static final String ENDING = ".yaml";

  private ShippedScenarios() {}

  /** Names of the shipped scenarios, in order. */
  public static List<String> names() {
    return text(FOLDER + "index.txt").lines().filter(line -> !line.isBlank()).toList();
  }

  /**
   * A shipped scenario by its name, or a file by its path.
   *
   * @throws ConfigException if the file is malformed
   * @throws BerthException CONFIGURATION if there is neither
   */
  public static Scenario load(String nameOrFile) {
    if (names().contains(nameOrFile)) {
      String source = nameOrFile + ENDING;
      return ScenarioReader.read(nameOrFile, ConfigNode.parse(source, text(FOLDER + source)));
    }
    Path file = Path.of(nameOrFile);
    if (Files.exists(file)) {
      String name = Objects.toString(file.getFileName()).replaceFirst("\\.ya?ml$", "");
      return ScenarioReader.read(name, ConfigNode.read(file));
    }
    throw new BerthException(
        Code.CONFIGURATION,
        "there is no scenario and no file '%s'; shipped scenarios: %s"
            .formatted(nameOrFile, String.join(", ", names())));
  }

  private static String text(String resource) {
    try (InputStream in =
        Objects.requireNonNull(ShippedScenarios.class.getResourceAsStream(resource), resource)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(resource, e);
    }
  }
}
