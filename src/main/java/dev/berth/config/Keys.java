// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.Optional;

/** Keys that have several spellings, and values that are documents themselves. */
final class Keys {
  private Keys() {}

  /**
   * The value under any of the spellings; {@code -} and {@code _} are the same.
   *
   * @throws ConfigException if two spellings are there and say different things
   */
  static Optional<ConfigNode> any(ConfigNode node, String... spellings) {
    Optional<ConfigNode> found = Optional.empty();
    for (String spelling : spellings) {
      found = agree(found, node.find(spelling));
      if (spelling.contains("-")) {
        found = agree(found, node.find(spelling.replace('-', '_')));
      }
    }
    return found;
  }

  /** The value under any of the spellings, which must be there. */
  static ConfigNode need(ConfigNode node, String... spellings) {
    return any(node, spellings).orElseGet(() -> node.require(spellings[0]));
  }

  private static Optional<ConfigNode> agree(Optional<ConfigNode> one, Optional<ConfigNode> two) {
    if (one.isEmpty() || two.isEmpty()) {
      return one.or(() -> two);
    }
    if (!one.get().asString().equals(two.get().asString())) {
      throw two.get()
          .error(
              "found %s, but %s on line %d says %s; remove one"
                  .formatted(
                      two.get().asString(),
                      one.get().path(),
                      one.get().line(),
                      one.get().asString()));
    }
    return one;
  }

  /** A mapping, or text that holds one as JSON. */
  static ConfigNode document(ConfigNode node) {
    if (node.kind() == ConfigNode.Kind.MAPPING) {
      return node;
    }
    var text = node.asString();
    ConfigNode inner;
    try {
      inner = ConfigNode.parse(node.source() + ":" + node.line() + ": " + node.path(), text);
    } catch (ConfigException e) {
      throw node.error("found text that is no JSON; allowed: a mapping, or JSON text of one");
    }
    if (inner.kind() != ConfigNode.Kind.MAPPING) {
      throw node.error(
          "found text that is no JSON mapping; allowed: a mapping, or JSON text of one");
    }
    return inner;
  }
}
