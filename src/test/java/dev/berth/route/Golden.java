// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
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

  /** The number under a key. */
  public double number(String key) {
    return ((Number) present(key)).doubleValue();
  }

  /** The pairs of text and number of the list under a key. */
  public List<Map.Entry<String, Integer>> pairs(String key) {
    return ((List<?>) present(key))
        .stream()
            .map(pair -> (List<?>) pair)
            .map(pair -> Map.entry((String) pair.get(0), ((Number) pair.get(1)).intValue()))
            .toList();
  }

  /** The states under "rank_states", as gathered. */
  public RankLoads loads() {
    return RankLoads.of(
        list("rank_states").stream()
            .map(state ->
                RankState.of(
                    state.integer("rank"),
                    state.integer("num_active_requests"),
                    state.integer("num_active_tokens"),
                    state.integer("num_retiring_requests")))
            .toList());
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
            0,
            ServiceTerms.NONE,
            route());
    return flag("has_scheduling_params") ? plain.withScheduling(wishes()) : plain;
  }

  private RouteKey route() {
    RouteKey key = RouteKey.NONE;
    if (has("token_base")) {
      int first = integer("token_base");
      key = key.withPrompt(IntStream.range(first, first + integer("num_tokens")).toArray());
    }
    key = has("conversation_id") ? key.withConversation(text("conversation_id")) : key;
    return has("subagent_affinity_id") ? key.withSubagent(text("subagent_affinity_id")) : key;
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
