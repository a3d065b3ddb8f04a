// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.config.ConfigNode.Place;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.snakeyaml.engine.v2.common.ScalarStyle;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/**
 * Expands a composed document into {@link ConfigNode}s: aliases and merge keys resolved, duplicates
 * refused.
 */
final class ConfigTree {
  /** Most values after aliases are expanded; a real file has some hundreds. */
  static final int MAX_VALUES = 200_000;

  private static final String MERGE = "<<";

  private final String source;
  private final Set<Node> open = Collections.newSetFromMap(new IdentityHashMap<>());
  private int values;

  ConfigTree(String source) {
    this.source = source;
  }

  ConfigNode build(Node root) {
    return value(root, lineOf(root), "");
  }

  private ConfigNode value(Node node, int keyLine, String path) {
    var place = new Place(source, lineOf(node), keyLine, path);
    count(node, path);
    if (!open.add(node)) {
      throw new ConfigException(
          source, place.line(), path, "an alias refers to a value that contains it");
    }
    try {
      return switch (node) {
        case MappingNode mapping -> ConfigNode.mapping(place, fields(mapping, path));
        case SequenceNode sequence -> ConfigNode.sequence(place, items(sequence, path));
        case ScalarNode scalar -> scalar(scalar, place);
        default ->
            throw new ConfigException(
                source, place.line(), path, "found an unsupported YAML value");
      };
    } finally {
      open.remove(node);
    }
  }

  private static ConfigNode scalar(ScalarNode scalar, Place place) {
    var text = scalar.getValue();
    if (scalar.getScalarStyle() != ScalarStyle.PLAIN) {
      return ConfigNode.quoted(place, text);
    }
    return switch (text) {
      case "", "~", "null", "Null", "NULL" -> ConfigNode.nothing(place, text);
      default -> ConfigNode.scalar(place, text);
    };
  }

  private List<ConfigNode> items(SequenceNode sequence, String path) {
    var items = new ArrayList<ConfigNode>();
    for (Node item : sequence.getValue()) {
      items.add(value(item, lineOf(item), path + "[" + items.size() + "]"));
    }
    return items;
  }

  private Map<String, ConfigNode> fields(MappingNode mapping, String path) {
    var fields = new LinkedHashMap<String, ConfigNode>();
    var merged = new ArrayList<MappingNode>();
    for (NodeTuple tuple : mapping.getValue()) {
      var key = key(tuple.getKeyNode(), path);
      var at = lineOf(tuple.getKeyNode());
      if (isMerge(tuple.getKeyNode())) {
        merged.addAll(merges(tuple.getValueNode(), path));
        continue;
      }
      var child = path.isEmpty() ? key : path + "." + key;
      var earlier = fields.get(key);
      if (earlier != null) {
        throw new ConfigException(
            source,
            at,
            child,
            "the key stands here a second time (first on line " + earlier.line() + ")");
      }
      fields.put(key, value(tuple.getValueNode(), at, child));
    }
    for (MappingNode other : merged) {
      inherited(other, path).forEach(fields::putIfAbsent);
    }
    return fields;
  }

  private void count(Node node, String path) {
    if (++values > MAX_VALUES) {
      throw new ConfigException(
          source,
          lineOf(node),
          path,
          "the file expands to more than " + MAX_VALUES + " values, the most allowed");
    }
  }

  private Map<String, ConfigNode> inherited(MappingNode other, String path) {
    count(other, path);
    if (!open.add(other)) {
      throw new ConfigException(
          source, lineOf(other), path, "an alias refers to a value that contains it");
    }
    try {
      return fields(other, path);
    } finally {
      open.remove(other);
    }
  }

  private static boolean isMerge(Node key) {
    return key instanceof ScalarNode scalar
        && scalar.getScalarStyle() == ScalarStyle.PLAIN
        && scalar.getValue().equals(MERGE);
  }

  private List<MappingNode> merges(Node node, String path) {
    if (node instanceof SequenceNode list) {
      return list.getValue().stream().map(item -> merge(item, path)).toList();
    }
    return List.of(merge(node, path));
  }

  private MappingNode merge(Node node, String path) {
    if (node instanceof MappingNode mapping) {
      return mapping;
    }
    throw new ConfigException(
        source,
        lineOf(node),
        path,
        "<< takes the alias of a mapping, or a list of such; found something else");
  }

  private String key(Node node, String path) {
    if (node instanceof ScalarNode scalar) {
      return scalar.getValue();
    }
    throw new ConfigException(
        source, lineOf(node), path, "found a list or mapping as a key; allowed: text");
  }

  private static int lineOf(Node node) {
    return node.getStartMark().map(Yaml::line).orElse(1);
  }
}
