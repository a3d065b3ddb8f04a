// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * One value of a YAML or JSON file: it knows its file, line and dotted path, and remembers which of
 * its keys were asked for. Getters check type and range; {@link #finish} refuses keys that nobody
 * asked for.
 *
 * <p>{@code require…} needs the key, {@code find…} reports its absence, {@code opt…} has a default.
 * An explicit {@code null} is absence; nothing at all after the colon is an error. Not thread-safe.
 */
public final class ConfigNode {
  /** What a value is. */
  public enum Kind {
    MAPPING,
    SEQUENCE,
    SCALAR,
    NULL
  }

  private static final Pattern INTEGER = Pattern.compile("[-+]?[0-9]+");
  private static final Pattern DECIMAL =
      Pattern.compile("[-+]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?");

  /** Longer numbers are out of every range here, and are not worth parsing. */
  private static final int MAX_DIGITS = 400;

  private static final int SHOWN = 60;

  private final String source;
  private final int line;
  private final int keyLine;
  private final String path;
  private final Kind kind;
  private final String text;
  private final boolean quoted;
  private final Map<String, ConfigNode> fields;
  private final List<ConfigNode> items;

  private final Set<String> asked = new LinkedHashSet<>();
  private boolean read;
  private boolean opaque;

  /** A key that nobody asked for, with the nearest one that somebody did. */
  public record Unread(String source, int line, String path, Optional<String> closest) {
    @Override
    public String toString() {
      return path + " (line " + line + ")";
    }
  }

  private ConfigNode(
      Place place,
      Kind kind,
      String text,
      boolean quoted,
      Map<String, ConfigNode> fields,
      List<ConfigNode> items) {
    this.source = place.source();
    this.line = place.line();
    this.keyLine = place.keyLine();
    this.path = place.path();
    this.kind = kind;
    this.text = text;
    this.quoted = quoted;
    this.fields = Collections.unmodifiableMap(fields);
    this.items = List.copyOf(items);
  }

  /** Where a value stands. */
  record Place(String source, int line, int keyLine, String path) {}

  static ConfigNode mapping(Place place, Map<String, ConfigNode> fields) {
    return new ConfigNode(place, Kind.MAPPING, "", false, new LinkedHashMap<>(fields), List.of());
  }

  static ConfigNode sequence(Place place, List<ConfigNode> items) {
    return new ConfigNode(place, Kind.SEQUENCE, "", false, Map.of(), items);
  }

  static ConfigNode scalar(Place place, String text) {
    return new ConfigNode(place, Kind.SCALAR, text, false, Map.of(), List.of());
  }

  static ConfigNode quoted(Place place, String text) {
    return new ConfigNode(place, Kind.SCALAR, text, true, Map.of(), List.of());
  }

  static ConfigNode nothing(Place place, String text) {
    return new ConfigNode(place, Kind.NULL, text, false, Map.of(), List.of());
  }

  /**
   * Reads a file.
   *
   * @throws ConfigException if it cannot be read, is empty, larger than 4 MiB, not UTF-8,
   *     malformed, nested deeper than 64 levels, expands to more than 200 000 values, or holds a
   *     key twice
   */
  public static ConfigNode read(Path file) {
    return parse(file.toString(), Yaml.readText(file));
  }

  /**
   * Reads text.
   *
   * @param source the name that messages give to it
   * @throws ConfigException as {@link #read}
   */
  public static ConfigNode parse(String source, String text) {
    if (text.length() > Yaml.MAX_SIZE) {
      throw new ConfigException(
          source, 0, "", "is larger than " + Yaml.MAX_SIZE + " characters, the most allowed");
    }
    return new ConfigTree(source).build(Yaml.compose(source, text));
  }

  /** Name of the file. */
  public String source() {
    return source;
  }

  /** 1-based line of the value. */
  public int line() {
    return line;
  }

  /** Dotted path from the root, {@code a.b[2].c}; empty at the root. */
  public String path() {
    return path;
  }

  public Kind kind() {
    return kind;
  }

  /**
   * Whether the key is there with a value other than an explicit {@code null}. Does not count as
   * asking for it.
   */
  public boolean has(String key) {
    var child = fields.get(key);
    return child != null && child.kind != Kind.NULL;
  }

  /** The keys of a mapping in file order. Does not count as asking for them. */
  public List<String> keys() {
    return List.copyOf(expect(Kind.MAPPING, "a mapping").fields.keySet());
  }

  /** Every key of a mapping with its value, in file order; all count as asked for. */
  public Map<String, ConfigNode> entries() {
    expect(Kind.MAPPING, "a mapping");
    fields.forEach((key, child) -> {
      asked.add(key);
      child.read = true;
    });
    return fields;
  }

  /** The items of a sequence in file order. */
  public List<ConfigNode> items() {
    expect(Kind.SEQUENCE, "a list");
    items.forEach(item -> item.read = true);
    return items;
  }

  /** The value of a key, absent if the key is missing or explicitly {@code null}. */
  public Optional<ConfigNode> find(String key) {
    expect(Kind.MAPPING, "a mapping");
    asked.add(key);
    var child = fields.get(key);
    if (child == null) {
      return Optional.empty();
    }
    child.read = true;
    if (child.kind != Kind.NULL) {
      return Optional.of(child);
    }
    if (child.text.isEmpty()) {
      throw child.error("found nothing after the colon; a value is needed, or the key removed");
    }
    return Optional.empty();
  }

  /** The value of a key that must be there. */
  public ConfigNode require(String key) {
    return find(key)
        .orElseThrow(() ->
            fields.containsKey(key)
                ? error(key, "found null; a value is needed")
                : error(key, "is missing; it is needed here" + misspelt(key)));
  }

  /** A mapping below a key that must be there. */
  public ConfigNode child(String key) {
    return require(key).expect(Kind.MAPPING, "a mapping");
  }

  /** A mapping below a key. */
  public Optional<ConfigNode> findChild(String key) {
    return find(key).map(node -> node.expect(Kind.MAPPING, "a mapping"));
  }

  /** The items below a key that must be there; an empty list is allowed. */
  public List<ConfigNode> list(String key) {
    return require(key).items();
  }

  /** The items below a key, none if the key is absent. */
  public List<ConfigNode> optList(String key) {
    return find(key).map(ConfigNode::items).orElse(List.of());
  }

  public int requireInt(String key, int min, int max) {
    return require(key).asInt(min, max);
  }

  public int optInt(String key, int otherwise, int min, int max) {
    return find(key).map(node -> node.asInt(min, max)).orElse(otherwise);
  }

  public OptionalInt findInt(String key, int min, int max) {
    return find(key).map(node -> OptionalInt.of(node.asInt(min, max))).orElse(OptionalInt.empty());
  }

  public long requireLong(String key, long min, long max) {
    return require(key).asLong(min, max);
  }

  public long optLong(String key, long otherwise, long min, long max) {
    return find(key).map(node -> node.asLong(min, max)).orElse(otherwise);
  }

  public OptionalLong findLong(String key, long min, long max) {
    return find(key)
        .map(node -> OptionalLong.of(node.asLong(min, max)))
        .orElse(OptionalLong.empty());
  }

  public double requireDouble(String key, double min, double max) {
    return require(key).asDouble(min, max);
  }

  public double optDouble(String key, double otherwise, double min, double max) {
    return find(key).map(node -> node.asDouble(min, max)).orElse(otherwise);
  }

  public Optional<BigDecimal> findDecimal(String key, BigDecimal min, BigDecimal max) {
    return find(key).map(node -> node.asDecimal(min, max));
  }

  public boolean requireBoolean(String key) {
    return require(key).asBoolean();
  }

  public boolean optBoolean(String key, boolean otherwise) {
    return find(key).map(ConfigNode::asBoolean).orElse(otherwise);
  }

  public Optional<Boolean> findBoolean(String key) {
    return find(key).map(ConfigNode::asBoolean);
  }

  /** {@code on} or {@code off}, or a boolean. */
  public boolean requireSwitch(String key) {
    return require(key).asSwitch();
  }

  /** {@code on} or {@code off}, or a boolean. */
  public boolean optSwitch(String key, boolean otherwise) {
    return find(key).map(ConfigNode::asSwitch).orElse(otherwise);
  }

  public String requireString(String key) {
    return require(key).asString();
  }

  public String optString(String key, String otherwise) {
    return find(key).map(ConfigNode::asString).orElse(otherwise);
  }

  public Optional<String> findString(String key) {
    return find(key).map(ConfigNode::asString);
  }

  public <E extends Enum<E>> E requireEnum(String key, Class<E> type) {
    return require(key).asEnum(type);
  }

  public <E extends Enum<E>> E optEnum(String key, E otherwise) {
    return find(key).map(node -> node.asEnum(otherwise.getDeclaringClass())).orElse(otherwise);
  }

  public <E extends Enum<E>> Optional<E> findEnum(String key, Class<E> type) {
    return find(key).map(node -> node.asEnum(type));
  }

  /** An integer, written plainly in decimal digits. */
  public int asInt(int min, int max) {
    return (int) asLong(min, max);
  }

  /** An integer, written plainly in decimal digits. */
  public long asLong(long min, long max) {
    var allowed = "an integer from " + min + " to " + max;
    if (kind != Kind.SCALAR || quoted || !INTEGER.matcher(text).matches()) {
      throw unexpected(allowed);
    }
    if (text.length() <= MAX_DIGITS) {
      var value = new BigInteger(text);
      if (value.bitLength() < Long.SIZE && value.longValue() >= min && value.longValue() <= max) {
        return value.longValue();
      }
    }
    throw unexpected(allowed);
  }

  /** A finite number. */
  public double asDouble(double min, double max) {
    var allowed = "a finite number from " + shortest(min) + " to " + shortest(max);
    double value = decimal(allowed).doubleValue();
    if (!(value >= min && value <= max) || Double.isInfinite(value)) {
      throw unexpected(allowed);
    }
    return value;
  }

  /** A finite number, digit for digit as it is written. */
  public BigDecimal asDecimal(BigDecimal min, BigDecimal max) {
    var allowed = "a number from " + min.toPlainString() + " to " + max.toPlainString();
    var value = decimal(allowed);
    if (value.compareTo(min) < 0 || value.compareTo(max) > 0) {
      throw unexpected(allowed);
    }
    return value;
  }

  private BigDecimal decimal(String allowed) {
    if (kind != Kind.SCALAR
        || quoted
        || text.length() > MAX_DIGITS
        || !DECIMAL.matcher(text).matches()) {
      throw unexpected(allowed);
    }
    return new BigDecimal(text);
  }

  /** {@code true} or {@code false}. */
  public boolean asBoolean() {
    if (kind == Kind.SCALAR && !quoted) {
      switch (text) {
        case "true", "True", "TRUE" -> {
          return true;
        }
        case "false", "False", "FALSE" -> {
          return false;
        }
        default -> {}
      }
    }
    throw unexpected("true or false");
  }

  /** {@code on} or {@code off}, or a boolean. */
  public boolean asSwitch() {
    if (kind == Kind.SCALAR) {
      switch (text) {
        case "on", "true" -> {
          return true;
        }
        case "off", "false" -> {
          return false;
        }
        default -> {}
      }
    }
    throw unexpected("on or off");
  }

  /** Text that is not empty; numbers are taken as they are written. */
  public String asString() {
    if (kind != Kind.SCALAR || text.isBlank()) {
      throw unexpected("text that is not empty");
    }
    return text;
  }

  /** A constant of the type by its name in lower case; {@code -} and {@code _} are the same. */
  public <E extends Enum<E>> E asEnum(Class<E> type) {
    return asEnum(EnumSet.allOf(type));
  }

  /** As {@link #asEnum(Class)}, one of some constants. */
  public <E extends Enum<E>> E asEnum(Set<E> allowed) {
    if (kind == Kind.SCALAR) {
      for (E constant : allowed) {
        if (spelling(constant.name()).equals(spelling(text))) {
          return constant;
        }
      }
    }
    throw unexpected(
        "one of "
            + allowed.stream()
                .map(constant -> spelling(constant.name()))
                .collect(Collectors.joining(", ")));
  }

  /** Takes the value and everything below it as read, whatever it holds. */
  public void skip() {
    read = true;
    opaque = true;
  }

  /** The keys at or below this value that nobody asked for, in file order. */
  public List<Unread> unread() {
    var found = new ArrayList<Unread>();
    collectUnread(found);
    return List.copyOf(found);
  }

  /**
   * To be called once everything was read.
   *
   * @throws ConfigException naming the first key at or below this value that nobody asked for, with
   *     the nearest known one
   */
  public void finish() {
    var unread = unread();
    if (unread.isEmpty()) {
      return;
    }
    var first = unread.getFirst();
    var more = unread.size() == 1 ? "" : " (and " + (unread.size() - 1) + " more)";
    throw new ConfigException(
        source,
        first.line(),
        first.path(),
        "unknown key"
            + first.closest().map(key -> "; did you mean '" + key + "'?").orElse("")
            + more);
  }

  private void collectUnread(List<Unread> found) {
    if (opaque) {
      return;
    }
    items.forEach(item -> item.collectUnread(found));
    fields.forEach((key, child) -> {
      if (child.read) {
        child.collectUnread(found);
      } else {
        found.add(new Unread(source, child.keyLine, child.path, closest(key)));
      }
    });
  }

  /** An error about this value. */
  public ConfigException error(String problem) {
    return new ConfigException(source, line, path, problem);
  }

  /** An error about the value of a key, at its line if it is there. */
  public ConfigException error(String key, String problem) {
    var child = fields.get(key);
    return new ConfigException(
        source,
        child == null ? line : child.line,
        path.isEmpty() ? key : path + "." + key,
        problem);
  }

  private ConfigNode expect(Kind wanted, String allowed) {
    if (kind != wanted) {
      throw unexpected(allowed);
    }
    return this;
  }

  private ConfigException unexpected(String allowed) {
    return error("found " + shown() + "; allowed: " + allowed);
  }

  private String shown() {
    return switch (kind) {
      case MAPPING -> "a mapping";
      case SEQUENCE -> "a list";
      case NULL -> text.isEmpty() ? "nothing" : text;
      case SCALAR -> {
        var cut = text.length() <= SHOWN ? text : text.substring(0, SHOWN) + "…";
        cut = cut.replaceAll("\\p{Cntrl}", " ");
        yield quoted ? "the text '" + cut + "'" : cut;
      }
    };
  }

  private String misspelt(String key) {
    return fields.keySet().stream()
        .filter(other -> !asked.contains(other) && Spelling.near(key, other))
        .findFirst()
        .map(other -> "; found '" + other + "', which looks like it")
        .orElse("");
  }

  private Optional<String> closest(String key) {
    return Spelling.closest(
        key, asked.stream().filter(other -> !fields.containsKey(other)).toList());
  }

  private static String spelling(String name) {
    return name.toLowerCase(Locale.ROOT).replace('_', '-');
  }

  private static String shortest(double value) {
    return value == Math.rint(value) && Math.abs(value) < 1e15
        ? Long.toString((long) value)
        : Double.toString(value);
  }
}
