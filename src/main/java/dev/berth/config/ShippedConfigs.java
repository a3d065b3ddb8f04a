// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.BerthException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;

/** Public serving configurations that come with the product; their NOTICE names the sources. */
public final class ShippedConfigs {
  private static final String FOLDER = "/dev/berth/configs/";
  private static final String SUFFIX = ".yaml";

  private ShippedConfigs() {}

  /** Names without {@code .yaml}, in the order of the index. */
  public static List<String> names() {
    return text("index").orElseThrow().lines().filter(line -> !line.isBlank()).toList();
  }

  /** The configuration of that name, with or without {@code .yaml}. */
  public static Optional<ServingConfig> read(String name) {
    var bare = name.endsWith(SUFFIX) ? name.substring(0, name.length() - SUFFIX.length()) : name;
    return names().contains(bare)
        ? text(bare + SUFFIX).map(text -> ServingConfig.parse(bare + SUFFIX, text))
        : Optional.empty();
  }

  private static Optional<String> text(String file) {
    try (var in = ShippedConfigs.class.getResourceAsStream(FOLDER + file)) {
      return in == null
          ? Optional.empty()
          : Optional.of(new String(in.readAllBytes(), StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new BerthException(BerthException.Code.INTERNAL, "cannot read the shipped " + file, e);
    }
  }
}
