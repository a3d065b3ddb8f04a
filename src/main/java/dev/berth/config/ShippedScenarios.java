// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.replay.Scenario;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/** The scenarios that come with Berth, and those in files. */
public final class ShippedScenarios {
  private static final ShippedFiles FILES = new ShippedFiles("/dev/berth/scenarios/", "scenario");
  private static final String ENDING = ".yaml";

  private ShippedScenarios() {}

  /** Names of the shipped scenarios, in order. */
  public static List<String> names() {
    return FILES.text("index.txt").lines().filter(line -> !line.isBlank()).toList();
  }

  /**
   * A file by its path, or a shipped scenario by its name.
   *
   * @throws ConfigException if there is neither, or the file is malformed
   */
  public static Scenario load(String nameOrFile) {
    return FILES.load(
        nameOrFile,
        ShippedScenarios::read,
        ShippedScenarios::shipped,
        "shipped scenarios: " + String.join(", ", names()));
  }

  private static Scenario read(Path file) {
    String name = Objects.toString(file.getFileName()).replaceFirst("\\.ya?ml$", "");
    return ScenarioReader.read(name, ConfigNode.read(file));
  }

  private static Optional<Scenario> shipped(String name) {
    String source = name + ENDING;
    return names().contains(name)
        ? Optional.of(ScenarioReader.read(name, ConfigNode.parse(source, FILES.text(source))))
        : Optional.empty();
  }
}
