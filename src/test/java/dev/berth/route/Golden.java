// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import tools.jackson.jr.ob.JSON;

/** One line of a golden file; see {@code golden/README-adp.md}. */
public record Golden(Map<String, Object> fields) {

  /**
   * All lines of a file, which must be as many as the README says: no line is skipped in silence.
   */
  public static List<Golden> lines(String file, int count) {
    try (var in = Objects.requireNonNull(Golden.class.getResourceAsStream("/golden/" + file));
        var reader = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
      var lines = new ArrayList<Golden>();
      for (String line : reader.lines().toList()) {
        lines.add(new Golden(JSON.std.mapFrom(line)));
      }
      assertThat(lines).as(file).hasSize(count);
      return lines;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The object under a key. */
  @SuppressWarnings("unchecked")
  public Golden at(String key) {
    return new Golden((Map<String, Object>) present(key));
  }

  /** The objects of the list under a key. */
  @SuppressWarnings("unchecked")
  public List<Golden> list(String key) {
    return ((List<Map<String, Object>>) present(key)).stream().map(Golden::new).toList();
  }

  /** The numbers of the list under a key. */
  public List<Long> longs(String key) {
    return ((List<?>) present(key)).stream().map(n -> ((Number) n).longValue()).toList();
  }

  /** The number under a key, in the range of an {@code int}. */
  public int integer(String key) {
    return Math.toIntExact(((Number) present(key)).longValue());
  }

  /** The text under a key. */
  public String text(String key) {
    return (String) present(key);
  }

  /** The truth under a key. */
  public boolean flag(String key) {
    return (Boolean) present(key);
  }

  /** True if the key holds a value other than null. */
  public boolean has(String key) {
    return fields.get(key) != null;
  }

  /** This line as a request. */
  public Request request() {
    Request plain =
        new Request(
            integer("id"),
            integer("num_tokens"),
            1,
            has("priority")
                ? ((Number) present("priority")).doubleValue()
                : Request.DEFAULT_PRIORITY,
            SchedulingParams.NONE,
            has("children") ? longs("children").size() : 0,
            0);
    return flag("has_scheduling_params") ? plain.withScheduling(wishes()) : plain;
  }

  private SchedulingParams wishes() {
    Relax relax =
        has("attention_dp_relax")
            ? (flag("attention_dp_relax") ? Relax.RELAXED : Relax.STRICT)
            : Relax.UNSET;
    return has("attention_dp_rank")
        ? SchedulingParams.target(integer("attention_dp_rank"), relax)
        : SchedulingParams.untargeted(relax);
  }

  private Object present(String key) {
    @Nullable Object value = fields.get(key);
    return Objects.requireNonNull(value, key);
  }

  @Override
  public String toString() {
    return "vector " + fields.get("vector");
  }
}
