// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a name means: one rule for configurations, scenarios and traces. */
class ShippedFilesTest {
  private final ShippedFiles files = new ShippedFiles("/dev/berth/configs/", "thing");

  @TempDir Path folder;

  private String load(Path name, Optional<String> shipped) {
    return files.load(name.toString(), path -> "own", found -> shipped, "see there");
  }

  @Test
  void aFileThatExistsStandsBeforeAShippedOneOfThatName() throws IOException {
    Path file = Files.writeString(folder.resolve("x"), "");
    assertThat(load(file, Optional.of("shipped"))).isEqualTo("own");
    assertThat(load(folder.resolve("y"), Optional.of("shipped"))).isEqualTo("shipped");
  }

  @Test
  void aFolderHidesNoShippedFileAndIsNamedWhereThereIsNone() {
    assertThat(load(folder, Optional.of("shipped"))).isEqualTo("shipped");
    assertThatThrownBy(() -> ShippedConfigs.load(folder.toString()))
        .hasMessage(folder + ": is a folder; a file is needed");
    assertThatThrownBy(() -> ShippedScenarios.load(folder.toString()))
        .hasMessage(folder + ": is a folder; a file is needed");
    assertThatThrownBy(() -> ShippedTraces.load(folder.toString()))
        .hasMessage(folder + ": is a folder; a file is needed");
  }

  @Test
  void whatIsNeitherFileNorShippedIsSaidTheSameWayForEveryKind() {
    String neither = "nosuch: there is no such file, and no shipped %s of that name (";
    assertThatThrownBy(() -> ShippedConfigs.load("nosuch"))
        .isInstanceOf(ConfigException.class)
        .hasMessageStartingWith(neither.formatted("configuration"));
    assertThatThrownBy(() -> ShippedScenarios.load("nosuch"))
        .isInstanceOf(ConfigException.class)
        .hasMessageStartingWith(neither.formatted("scenario"));
    assertThatThrownBy(() -> ShippedTraces.load("nosuch"))
        .isInstanceOf(ConfigException.class)
        .hasMessageStartingWith(neither.formatted("trace"));
  }
}
