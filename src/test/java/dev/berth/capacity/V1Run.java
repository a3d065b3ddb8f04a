// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.request.RequestState;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Whole runs of a capacity scheduler: the loop that the golden traces and the scenario tables
 * describe, over a plain model of a cache manager that counts blocks (spec 02 §4, beam 1, one
 * window). Everything here belongs to the tests; the decisions and the needs are Berth's.
 */
final class V1Run implements AutoCloseable {
  private static final int MAX_INPUT = 1000;

  /** A request before it arrives. An empty prompt is one of unique tokens. */
  record Spec(
      int id,
      int arrival,
      int prompt,
      int maxNew,
      double priority,
      int drafts,
      int chunk,
      RequestState state,
      int[] tokens,
      int adapter,
      int encoderTokens) {
    static Spec of(int id, int prompt, int maxNew) {
      return new Spec(
          id, 0, prompt, maxNew, 0.5, 0, prompt, RequestState.CONTEXT_INIT, new int[0], -1, 0);
    }

    Spec arriving(int iteration) {
      return new Spec(
          id,
          iteration,
          prompt,
          maxNew,
          priority,
          drafts,
          chunk,
          state,
          tokens,
          adapter,
          encoderTokens);
    }

    Spec priority(double value) {
      return new Spec(
          id, arrival, prompt, maxNew, value, drafts, chunk, state, tokens, adapter, encoderTokens);
    }

    Spec drafts(int value) {
      return new Spec(
          id,
          arrival,
          prompt,
          maxNew,
          priority,
          value,
          chunk,
          state,
          tokens,
          adapter,
          encoderTokens);
    }

    Spec chunk(int value) {
      return new Spec(
          id,
          arrival,
          prompt,
          maxNew,
          priority,
          drafts,
          value,
          state,
          tokens,
          adapter,
          encoderTokens);
    }

    Spec receiving() {
      return new Spec(
          id,
          arrival,
          prompt,
          maxNew,
          priority,
          drafts,
          chunk,
          RequestState.GENERATION_INIT,
          tokens,
          adapter,
          encoderTokens);
    }

    Spec tokens(int... value) {
      return new Spec(
          id,
          arrival,
          prompt,
          maxNew,
          priority,
          drafts,
          chunk,
          state,
          value,
          adapter,
          encoderTokens);
    }

    Spec adapter(int value) {
      return new Spec(
          id,
          arrival,
          prompt,
          maxNew,
          priority,
          drafts,
          chunk,
          state,
          tokens,
          value,
          encoderTokens);
    }

    Spec encoder(int value) {
      return new Spec(
          id, arrival, prompt, maxNew, priority, drafts, chunk, state, tokens, adapter, value);
    }
  }

  /** The model's sizes. Cross blocks 0: no cross cache. */
  record Cache(
      int tokensPerBlock, int blocks, int crossBlocks, int window, boolean reuse, int sinks) {
    Cache(int tokensPerBlock, int blocks, int crossBlocks, int window, boolean reuse) {
      this(tokensPerBlock, blocks, crossBlocks, window, reuse, 0);
    }
  }

  /** One iteration as the traces record it: ids. */
  record Step(
      List<Integer> active, List<Integer> fitting, List<Integer> receiving, List<Integer> paused) {}

  private static final class Live {
    final Spec spec;
    final int row;
    final List<Integer> tokens = new ArrayList<>();
    RequestState state;
    int prompt;
    int maxNew;
    int position;
    int prepopulated;
    int chunk;
    int crossHeld;
    List<Integer> blocks = new ArrayList<>();
    boolean sequence;
    int cached;

    Live(Spec spec, int row) {
      this.spec = spec;
      this.row = row;
      this.state = spec.state();
      this.prompt = spec.prompt();
      this.maxNew = spec.maxNew();
      this.chunk = spec.chunk();
      for (int i = 0; i < prompt; i++) {
        tokens.add(spec.tokens().length > 0 ? spec.tokens()[i] : unique(i));
      }
    }

    int unique(int position) {
      return -1 - spec.id() * 100_000 - position;
    }

    boolean context() {
      return state == RequestState.CONTEXT_INIT;
    }

    boolean firstChunk() {
      return context() && position == prepopulated;
    }

    boolean generation() {
      return state == RequestState.GENERATION;
    }
  }

  private final CapacityRules rules;
  private final Cache cache;
  private final List<Spec> specs;
  private final Map<Integer, Live> live = new HashMap<>();
  private final SchedulingTable table;
  private final CapacityScheduler scheduler;
  private final PageNeeds needs;
  private final PageNeeds crossNeeds;
  private final int[] references;
  private final Map<List<Integer>, Integer> tree = new HashMap<>();
  private final Map<Integer, List<Integer>> cachedAs = new HashMap<>();
  private final Map<List<Integer>, Long> keys = new HashMap<>();
  private int crossFree;
  private int iteration;
  private int reused;
  private int arrived;

  V1Run(CapacityRules rules, Cache cache, int[] adapterPages, List<Spec> specs) {
    this.rules = rules;
    this.cache = cache;
    this.needs = PageNeeds.self(cache.tokensPerBlock(), cache.window()).withSinks(cache.sinks());
    this.crossNeeds = PageNeeds.cross(cache.tokensPerBlock());
    this.specs =
        specs.stream()
            .sorted(Comparator.comparingInt(Spec::arrival).thenComparingInt(Spec::id))
            .toList();
    this.references = new int[cache.blocks()];
    this.crossFree = cache.crossBlocks();
    Pool self = Pool.self(cache.window(), cache.blocks()).withPageIds(cache.blocks());
    Pool cross = Pool.cross(cache.window(), cache.crossBlocks());
    TableShape shape =
        cache.crossBlocks() > 0
            ? TableShape.of(specs.size(), self, cross)
            : TableShape.of(specs.size(), self);
    this.table =
        new SchedulingTable(shape.withAdapters(adapterPages.length).withHeldPages(cache.blocks()));
    for (int a = 0; a < adapterPages.length; a++) {
      table.adapterPages(a, adapterPages[a]);
    }
    this.scheduler = CapacityScheduler.of(table, rules);
  }

  int iteration() {
    return iteration;
  }

  int reused() {
    return reused;
  }

  boolean done() {
    return arrived == specs.size() && live.isEmpty();
  }

  /** Prompt and remaining output of a request, as a pause changes them. */
  List<Integer> lengths(int id) {
    Live request = request(id);
    return List.of(request.prompt, request.maxNew);
  }

  /** Context position of a request. */
  int position(int id) {
    return request(id).position;
  }

  /** Output tokens of a request. */
  int generated(int id) {
    Live request = request(id);
    return request.tokens.size() - request.prompt;
  }

  private Live request(int id) {
    return live.values().stream().filter(l -> l.spec.id() == id).findFirst().orElseThrow();
  }

  // ---------------------------------------------------------------------------- the loop

  Step step() {
    while (arrived < specs.size() && specs.get(arrived).arrival() <= iteration) {
      enter(specs.get(arrived), arrived);
      arrived++;
    }
    live.values().forEach(this::describe);
    table.freePages(0, Arrays.stream(references).filter(r -> r == 0).count());
    if (cache.crossBlocks() > 0) {
      table.freePages(1, crossFree);
    }
    CapacityPlan plan = scheduler.schedule();
    Step step =
        new Step(
            Lines.ids(table, table.size(), table::row),
            Lines.ids(table, plan.fitting(), plan::fitting),
            Lines.ids(table, plan.receiving(), plan::receiving),
            Lines.ids(table, plan.paused(), plan::paused));
    step.paused().forEach(id -> pause(request(id)));
    step.receiving().forEach(id -> receive(request(id)));
    step.fitting().stream().sorted().forEach(id -> forward(request(id)));
    iteration++;
    return step;
  }

  private void enter(Spec spec, int row) {
    Live request = new Live(spec, row);
    live.put(row, request);
    table.begin(row, spec.id(), spec.state(), spec.prompt(), spec.maxNew());
    table.priority(row, spec.priority());
    table.draftTokens(row, spec.drafts());
    table.adapter(row, spec.adapter());
    table.encoderTokens(row, spec.encoderTokens());
    table.enter(row);
  }

  private void pause(Live request) {
    release(request);
    table.pause(request.row, MAX_INPUT);
    int prompt = Math.min(MAX_INPUT, request.tokens.size());
    request.maxNew -= prompt - request.prompt;
    request.prompt = prompt;
    while (request.tokens.size() > prompt) {
      request.tokens.removeLast();
    }
    request.state = RequestState.CONTEXT_INIT;
    request.position = request.prepopulated = 0;
    request.chunk = prompt;
  }

  private void receive(Live request) {
    allocate(request, 0);
    request.state = RequestState.GENERATION;
    request.position = request.prompt;
    request.tokens.add(request.unique(request.tokens.size()));
  }

  private void forward(Live request) {
    if (request.context()) {
      if (request.firstChunk() && !request.sequence) {
        int matched = matched(request, request.prompt - 1);
        allocate(request, matched);
        reused += matched;
        if (matched > 0) {
          shift(request, matched * cache.tokensPerBlock());
        }
      }
      int chunk = Math.min(request.chunk, request.prompt - request.position);
      request.position += chunk;
      if (request.position < request.prompt) {
        return;
      }
      publish(request);
      request.state = RequestState.GENERATION;
    } else {
      request.cached++;
      if (needs.pages(request.cached) > request.blocks.size()) {
        request.blocks.add(freshBlock());
      }
    }
    request.tokens.add(request.unique(request.tokens.size()));
    if (request.tokens.size() == request.prompt + request.maxNew) {
      release(request);
      live.remove(request.row);
      table.leave(request.row);
    }
  }

  /** The chunk's window moves right by what was found (spec 02 §1.2). */
  private void shift(Live request, int found) {
    int tpb = cache.tokensPerBlock();
    int chunk = request.chunk;
    if (found + chunk < request.prompt) {
      chunk = (found + chunk) / tpb * tpb - found;
    }
    request.position = request.prepopulated = found;
    request.chunk = Math.min(chunk, request.prompt - found);
  }

  // ---------------------------------------------------------------------------- blocks

  private List<Integer> prefix(Live request, int blocks) {
    return List.copyOf(request.tokens.subList(0, blocks * cache.tokensPerBlock()));
  }

  /** Leading full blocks of the first so many tokens that are cached. */
  private int matched(Live request, int tokens) {
    int full = cache.reuse() ? tokens / cache.tokensPerBlock() : 0;
    int matched = 0;
    while (matched < full && tree.containsKey(prefix(request, matched + 1))) {
      matched++;
    }
    return matched;
  }

  private int freshBlock() {
    int cachedOnly = -1;
    for (int block = 0; block < references.length; block++) {
      if (references[block] == 0) {
        if (!cachedAs.containsKey(block)) {
          references[block] = 1;
          return block;
        }
        cachedOnly = block;
      }
    }
    if (cachedOnly < 0) {
      throw new IllegalStateException("iteration " + iteration + ": no free block");
    }
    tree.remove(cachedAs.remove(cachedOnly));
    references[cachedOnly] = 1;
    return cachedOnly;
  }

  private void allocate(Live request, int matched) {
    int blocks = needs.pages(request.prompt);
    for (int b = 0; b < matched; b++) {
      int block = tree.getOrDefault(prefix(request, b + 1), -1);
      references[block]++;
      request.blocks.add(block);
    }
    while (request.blocks.size() < blocks) {
      request.blocks.add(freshBlock());
    }
    request.cached = request.prompt;
    request.sequence = true;
    if (cache.crossBlocks() > 0) {
      request.crossHeld = crossNeeds.pages(request.spec.encoderTokens());
      crossFree -= request.crossHeld;
    }
  }

  private void publish(Live request) {
    int full = cache.reuse() ? (request.prompt - 1) / cache.tokensPerBlock() : 0;
    for (int b = 0; b < full; b++) {
      List<Integer> prefix = prefix(request, b + 1);
      if (!tree.containsKey(prefix)) {
        tree.put(prefix, request.blocks.get(b));
        cachedAs.put(request.blocks.get(b), prefix);
      }
    }
  }

  private void release(Live request) {
    request.blocks.forEach(block -> references[block]--);
    request.blocks = new ArrayList<>();
    request.sequence = false;
    request.cached = 0;
    crossFree += request.crossHeld;
    request.crossHeld = 0;
  }

  // ---------------------------------------------------------------------------- demand

  private void describe(Live request) {
    int row = request.row;
    table.state(row, request.state);
    table.context(
        row,
        request.generation() ? request.prompt : request.position,
        request.generation() ? 0 : request.prepopulated);
    table.contextChunk(
        row, request.context() ? Math.min(request.chunk, request.prompt - request.position) : 0);
    table.generatedTokens(row, request.tokens.size() - request.prompt);
    needs.describe(table, row, 0, request.blocks.size(), request.cached, credit(request));
    int[] blocks = request.blocks.stream().mapToInt(b -> b).toArray();
    table.held(row, 0, blocks, blocks.length);
    if (cache.crossBlocks() > 0) {
      crossNeeds.describe(table, row, 1, request.crossHeld, 0, 0);
      table.held(row, 1, request.crossHeld);
    }
    table.firstBlock(row, request.context() ? firstNewBlock(request) : 0);
    table.markDirty(row);
  }

  private long firstNewBlock(Live request) {
    if (!cache.reuse()) {
      return 0;
    }
    int matched = matched(request, request.prompt);
    if (matched >= request.prompt / cache.tokensPerBlock()) {
      return 0;
    }
    return keys.computeIfAbsent(prefix(request, matched + 1), prefix -> keys.size() + 1L);
  }

  /** Reusable blocks that somebody refers to (spec 02 §4.4). */
  private int credit(Live request) {
    if (!request.firstChunk() || request.sequence) {
      return 0;
    }
    int credit = 0;
    for (int b = 0; b < matched(request, request.prompt - 1); b++) {
      if (references[tree.getOrDefault(prefix(request, b + 1), -1)] > 0) {
        credit++;
      }
    }
    return credit;
  }

  CapacityRules rules() {
    return rules;
  }

  @Override
  public void close() {
    table.close();
  }
}
