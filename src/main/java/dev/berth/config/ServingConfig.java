// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.config.ConfigNode.Unread;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * A serving configuration of one of three engines, reduced to what planning and replay use.
 *
 * @param source the file's name
 * @param engine whose configuration it is
 * @param model the model's name, if the file tells
 * @param deployments at least one; several if the file lists servers
 * @param ignored keys that were not used, in file order
 */
public record ServingConfig(
    String source,
    Engine engine,
    Optional<String> model,
    List<Deployment> deployments,
    List<Unread> ignored) {
  public ServingConfig {
    deployments = List.copyOf(deployments);
    ignored = List.copyOf(ignored);
  }

  /**
   * Reads a file in any of the known forms.
   *
   * @throws ConfigException naming file, line and field of the first value that cannot be used
   */
  public static ServingConfig read(Path file) {
    return from(ConfigNode.read(file));
  }

  /**
   * Reads text in any of the known forms.
   *
   * @param source the name that messages give to it
   * @throws ConfigException naming file, line and field of the first value that cannot be used
   */
  public static ServingConfig parse(String source, String text) {
    return from(ConfigNode.parse(source, text));
  }

  /** Reads a document in any of the known forms. */
  public static ServingConfig from(ConfigNode root) {
    return ServingForms.read(root);
  }

  /** The ignored keys that the engine isn't known to have either: probably misspelt. */
  public List<Unread> unknown() {
    return ignored.stream().filter(key -> !KnownKeys.has(engine, key.path())).toList();
  }

  /** The deployment of that name. */
  public Optional<Deployment> deployment(String name) {
    return deployments.stream().filter(deployment -> deployment.name().equals(name)).findFirst();
  }
}
