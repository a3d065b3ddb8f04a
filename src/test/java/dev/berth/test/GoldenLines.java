// SPDX-License-Identifier: Apache-2.0
package dev.berth.test;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import tools.jackson.jr.ob.JSON;

/** Golden vectors: one JSON object a line. Reads, converts, decides nothing. */
public final class GoldenLines {
  private GoldenLines() {}

  /** One line, named by its vector number. */
  public record Line(int number, Map<String, Object> values) {
    public Line object(String key) {
      return new Line(number, map(value(key)));
    }

    public int integer(String key) {
      return ((Number) value(key)).intValue();
    }

    public long number(String key) {
      return ((Number) value(key)).longValue();
    }

    public boolean bool(String key) {
      return (Boolean) value(key);
    }

    public String text(String key) {
      return (String) value(key);
    }

    public List<Integer> integers(String key) {
      return list(value(key)).stream().map(v -> ((Number) v).intValue()).toList();
    }

    public List<Map<String, Object>> maps(String key) {
      return list(value(key)).stream().map(GoldenLines::map).toList();
    }

    private Object value(String key) {
      return Objects.requireNonNull(values.get(key), key);
    }

    @Override
    public String toString() {
      return "vector " + number;
    }
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> map(Object value) {
    return (Map<String, Object>) value;
  }

  @SuppressWarnings("unchecked")
  private static List<Object> list(Object value) {
    return (List<Object>) value;
  }

  /** All lines of a golden file of the test resources. */
  public static List<Line> read(String file) {
    var lines = new ArrayList<Line>();
    try (InputStream in =
            Objects.requireNonNull(GoldenLines.class.getResourceAsStream("/golden/" + file), file);
        var reader = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
      String text = reader.readLine();
      while (text != null) {
        Map<String, Object> values = JSON.std.mapFrom(text);
        lines.add(
            new Line(((Number) values.getOrDefault("vector", lines.size())).intValue(), values));
        text = reader.readLine();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    if (lines.isEmpty()) {
      throw new IllegalStateException(file + " is empty");
    }
    return lines;
  }
}
