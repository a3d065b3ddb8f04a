// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.plan.PolicySet;
import dev.berth.request.RequestState;
import dev.berth.test.GoldenLines.Line;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.IntUnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Puts a golden line into a scheduling table. Converts, decides nothing. */
final class Lines {
  private Lines() {}

  /** A pool of a line: where its numbers stand in a request. */
  private record PoolKey(String prefix, String window) {}

  /** Names of a line's single-step vectors carry a zero that our keys can't have. */
  private static long key(Map<String, Object> request, String field) {
    Object value = request.get(field);
    return value == null ? 0 : ((Number) value).longValue() + 1;
  }

  static int integer(Map<String, Object> request, String field, int absent) {
    Object value = request.get(field);
    return value == null ? absent : ((Number) value).intValue();
  }

  static boolean isNull(Line line, String field) {
    return line.values().get(field) == null;
  }

  static int orZero(Line line, String field) {
    return isNull(line, field) ? 0 : line.integer(field);
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(@Nullable Object value) {
    return (Map<String, Object>) Objects.requireNonNull(value);
  }

  @SuppressWarnings("unchecked")
  static int[] ints(@Nullable Object value) {
    return ((List<Object>) Objects.requireNonNull(value)).stream().mapToInt(v -> ((Number) v).intValue()).toArray();
  }

  private static List<PoolKey> poolKeys(Line line) {
    List<PoolKey> keys = new ArrayList<>();
    if (!isNull(line, "kv")) {
      object(line.object("kv").values().get("free_blocks"))
          .keySet()
          .forEach(window -> keys.add(new PoolKey("", window)));
    }
    if (!isNull(line, "cross_kv")) {
      object(line.object("cross_kv").values().get("free_blocks"))
          .keySet()
          .forEach(window -> keys.add(new PoolKey("cross_", window)));
    }
    return keys;
  }

  /** A table with everything that a single-step capacity line says. */
  static SchedulingTable capacity(Line line) {
    List<PoolKey> keys = poolKeys(line);
    List<Map<String, Object>> requests = line.maps("requests");
    Pool[] pools =
        keys.stream()
            .map(
                key ->
                    new Pool(
                        Integer.parseInt(key.window()),
                        key.prefix().isEmpty() ? Pool.Cache.SELF : Pool.Cache.CROSS,
                        Pool.UNKNOWN,
                        1 + largest(requests, key.prefix() + "allocated_block_ids")))
            .toArray(Pool[]::new);
    SchedulingTable table =
        new SchedulingTable(
            shape(line, pools)
                .withHeldPages(
                    Math.max(
                        longest(requests, "allocated_block_ids"),
                        longest(requests, "cross_allocated_block_ids"))));
    adapters(table, line);
    for (int p = 0; p < pools.length; p++) {
      PoolKey key = keys.get(p);
      Line kv = line.object(key.prefix().isEmpty() ? "kv" : "cross_kv");
      table.freePages(
          p, new Line(0, object(kv.values().get("free_blocks"))).number(key.window()));
    }
    for (int row = 0; row < requests.size(); row++) {
      Map<String, Object> request = requests.get(row);
      begin(table, row, request);
      for (int p = 0; p < pools.length; p++) {
        PoolKey key = keys.get(p);
        int[] remaining = ints(object(request.get(key.prefix() + "remaining_blocks")).get(key.window()));
        int[] steps = ints(object(request.get(key.prefix() + "one_step_blocks")).get(key.window()));
        boolean completes = !line.text("policy").equals("MAX_UTILIZATION");
        table.demand(
            row, p, remaining[0], steps[0], steps[2], completes ? remaining[1] : steps[1]);
        int[] ids = ints(object(request.get(key.prefix() + "allocated_block_ids")).get(key.window()));
        table.held(row, p, ids, ids.length);
      }
      table.markDirty(row);
      table.enter(row);
    }
    return table;
  }

  /** As large as the line's requests, adapters and snapshot points need. */
  static TableShape shape(Line line, Pool... pools) {
    List<Map<String, Object>> requests = line.maps("requests");
    int adapters =
        1 + requests.stream().mapToInt(r -> integer(r, "lora_task_id", -1)).max().orElse(-1);
    if (!isNull(line, "peft")) {
      for (String task : object(line.object("peft").values().get("pages_by_task")).keySet()) {
        adapters = Math.max(adapters, 1 + Integer.parseInt(task));
      }
    }
    return TableShape.of(requests.size(), pools)
        .withAdapters(adapters)
        .withSnapshotPoints(longest(requests, "snapshot_points"));
  }

  /** Lists of numbers that stand in a field, by themselves or by window. */
  private static Stream<int[]> lists(List<Map<String, Object>> requests, String field) {
    return requests.stream()
        .map(request -> request.get(field))
        .filter(Objects::nonNull)
        .flatMap(
            value -> value instanceof Map<?, ?> ? object(value).values().stream() : Stream.of(value))
        .map(Lines::ints);
  }

  private static int longest(List<Map<String, Object>> requests, String field) {
    return lists(requests, field).mapToInt(list -> list.length).max().orElse(0);
  }

  private static int largest(List<Map<String, Object>> requests, String field) {
    return lists(requests, field).flatMapToInt(Arrays::stream).max().orElse(-1);
  }

  static void adapters(SchedulingTable table, Line line) {
    if (!isNull(line, "peft")) {
      object(line.object("peft").values().get("pages_by_task"))
          .forEach(
              (task, pages) ->
                  table.adapterPages(Integer.parseInt(task), ((Number) pages).intValue()));
    }
  }

  /** A row with everything that a request says of itself. */
  static void begin(SchedulingTable table, int row, Map<String, Object> request) {
    int prompt = integer(request, "prompt_len", 100);
    RequestState state = RequestState.of(integer(request, "state", 0));
    table.begin(row, integer(request, "id", 0), state, prompt, 10);
    int cursor = integer(request, "context_position", -1);
    if (cursor < 0) { // only whether it is the first chunk is known
      boolean first = !Boolean.FALSE.equals(request.get("first_chunk"));
      cursor = first ? 0 : prompt / 2;
    }
    table.context(row, cursor, integer(request, "prepopulated_prompt_len", 0));
    table.generatedTokens(row, integer(request, "num_tokens", prompt) - prompt);
    table.draftTokens(row, integer(request, "draft_tokens", 0));
    table.beamWidth(row, integer(request, "beam_width", 1));
    table.adapter(row, integer(request, "lora_task_id", -1));
    table.reusableTokens(row, integer(request, "estimated_reusable_tokens", 0));
    table.encoderTokens(
        row,
        integer(request, "encoder_output_len", state == RequestState.ENCODER_INIT ? 1 : 0));
    table.firstBlock(row, key(request, "first_new_block"));
    table.crossFirstBlock(row, key(request, "cross_first_new_block"));
    if (Boolean.TRUE.equals(request.get("encoder_output_pending"))) {
      table.awaitEncoder(row);
    }
    if (Boolean.TRUE.equals(request.get("multimodal"))) {
      table.multimodal(row);
    }
    Object points = request.get("snapshot_points");
    if (points != null) {
      table.snapshotPoints(row, ints(points));
    }
  }

  static void inFlight(SchedulingTable table, Line line) {
    Set<Integer> ids = Set.copyOf(line.integers("inflight_ids"));
    for (int place = 0; place < table.size(); place++) {
      int row = table.row(place);
      if (ids.contains((int) table.id(row))) {
        table.inFlight(row, 1);
        table.markDirty(row);
      }
    }
  }

  /** The parity rules of a capacity line. */
  static CapacityRules capacityRules(Line line, int maxRequests) {
    Set<CacheTrait> traits = EnumSet.noneOf(CacheTrait.class);
    if (!isNull(line, "kv")) {
      add(traits, line.object("kv"), "block_reuse", CacheTrait.SELF_REUSE);
      add(traits, line.object("kv"), "variable_window", CacheTrait.SELF_VARIABLE_WINDOW);
    }
    if (!isNull(line, "cross_kv")) {
      add(traits, line.object("cross_kv"), "block_reuse", CacheTrait.CROSS_REUSE);
      add(traits, line.object("cross_kv"), "variable_window", CacheTrait.CROSS_VARIABLE_WINDOW);
    }
    return new CapacityRules(
        PolicySet.TRTLLM_2026_09,
        CapacityRule.byName(line.text("policy")).orElseThrow(),
        maxRequests,
        line.bool("two_step_lookahead") ? Lookahead.TWO_STEPS : Lookahead.ONE_STEP,
        line.integer("no_schedule_until_state"),
        line.integer("no_schedule_after_state"),
        line.bool("enable_prefix_aware_scheduling") ? PrefixSharing.ON : PrefixSharing.OFF,
        traits,
        adapterPages(line));
  }

  static int adapterPages(Line line) {
    return isNull(line, "peft")
        ? CapacityRules.NO_ADAPTERS
        : line.object("peft").integer("max_device_pages");
  }

  private static void add(Set<CacheTrait> traits, Line kv, String field, CacheTrait trait) {
    if (kv.bool(field)) {
      traits.add(trait);
    }
  }

  /** The parity rules of a batch line. */
  static BatchRules batchRules(Line line, int maxContextTokens, int rangeEnd) {
    boolean chunks = !isNull(line, "chunking");
    return new BatchRules(
        PolicySet.TRTLLM_2026_09,
        line.integer("max_batch_size"),
        orZero(line, "max_num_tokens"),
        maxContextTokens,
        chunks
            ? Chunking.byName(line.object("chunking").text("policy")).orElseThrow()
            : Chunking.NONE,
        chunks ? line.object("chunking").integer("unit_size") : 1,
        line.integer("no_schedule_until_state"),
        rangeEnd);
  }

  /** Ids of rows. */
  static List<Integer> ids(SchedulingTable table, int count, IntUnaryOperator row) {
    List<Integer> ids = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      ids.add((int) table.id(row.applyAsInt(i)));
    }
    return ids;
  }

  /** Contexts as the vectors write them: id and chunk. */
  static List<List<@Nullable Object>> contexts(SchedulingTable table, MicroBatch batch, boolean chunks) {
    List<List<@Nullable Object>> contexts = new ArrayList<>();
    for (int i = 0; i < batch.contexts(); i++) {
      List<@Nullable Object> context = new ArrayList<>();
      context.add((int) table.id(batch.contextRow(i)));
      context.add(chunks ? batch.contextTokens(i) : null);
      contexts.add(context);
    }
    return contexts;
  }
}
