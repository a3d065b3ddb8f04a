// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.List;
import java.util.Optional;

/** Public serving configurations that come with the product; their NOTICE names the sources. */
public final class ShippedConfigs {
  private static final ShippedFiles FILES =
      new ShippedFiles("/dev/berth/configs/", "configuration");
  private static final String SUFFIX = ".yaml";

  private ShippedConfigs() {}

  /** Names without {@code .yaml}, in the order of the index. */
  public static List<String> names() {
    return FILES.text("index").lines().filter(line -> !line.isBlank()).toList();
  }

  /** The configuration of that name, with or without {@code .yaml}. */
  public static Optional<ServingConfig> read(String name) {
    var bare = name.endsWith(SUFFIX) ? name.substring(0, name.length() - SUFFIX.length()) : name;
    return names().contains(bare)
        ? Optional.of(ServingConfig.parse(bare + SUFFIX, FILES.text(bare + SUFFIX)))
        : Optional.empty();
  }

  /**
   * A file by its path, or a shipped configuration by its name.
   *
   * @throws ConfigException if there is neither, or the file is malformed
   */
  public static ServingConfig load(String nameOrFile) {
    return FILES.load(
        nameOrFile, ServingConfig::read, ShippedConfigs::read, "berth plan --list names them");
  }
}
