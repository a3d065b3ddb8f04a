// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.Batch;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.id.BatchPosition;
import dev.berth.kv.KvStatus;
import dev.berth.kv.KvTables;
import dev.berth.kv.KvView;
import dev.berth.request.RequestTable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Runs the {@link TinyTransformer} for the ranks and stages of a fleet. Nothing here is keyed by a
 * request: keys and values lie where the block tables of the engine's KV cache say; sampler state
 * and the last token lie in the row of a seat, on the device, so that a generation can be launched
 * before the host has seen the token before it. A stage holds its share of the layers.
 */
final class TinyDevice implements LockstepGroup.Device {
  private static final double[][] NOTHING = {};

  /** One rank's pages on one stage, and the tables of its batches. */
  private static final class Kv {
    final PagedDevice pages;
    final KvTables tables;
    final PagedDevice.Form form;
    List<Integer> leases = List.of(); // of the last batch, by position

    Kv(RankEngine engine, int positions, int longest) {
      KvView cache = engine.kv().orElseThrow();
      pages = new PagedDevice(cache);
      long blocks = (long) positions * cache.config().maxBlocks();
      tables =
          cache.newTables(
              new KvTables.Shape(
                  positions, positions * longest, blocks, cache.layout().buffers().size()));
      form = PagedDevice.Form.values()[engine.rank() % PagedDevice.Form.values().length];
    }
  }

  private final TinyTransformer model;
  private final int stages;
  private final int positions;
  private final int longest;
  private final Map<String, Kv> kv = new HashMap<>(); // by stage and rank
  private final Map<Integer, Integer> swapped = new HashMap<>(); // leases of rank 0
  private final TinyTransformer.SamplerRow[][] samplers; // [rank][seat]
  private final Map<Integer, List<double[][]>> between =
      new HashMap<>(); // by rank: what a stage hands to the next
  private final Map<String, int[]> sampled =
      new HashMap<>(); // by rank and batch slot: a token a batch position

  /** Tokens delivered on each stage, by request. */
  final List<Map<Long, List<Integer>>> delivered = new ArrayList<>();

  /** Batch positions that were padding. */
  int pads;

  TinyDevice(TinyTransformer model, EngineConfig config, int longest) {
    this.model = model;
    this.stages = config.stages();
    this.longest = longest;
    var plan = config.plan();
    positions = plan.batchPositions().count() + 1;
    samplers = new TinyTransformer.SamplerRow[config.ranks()][plan.seats().count() + 1];
    for (int rank = 0; rank < config.ranks(); rank++) {
      for (int seat = 0; seat < samplers[rank].length; seat++) {
        samplers[rank][seat] = new TinyTransformer.SamplerRow();
      }
    }
    for (int stage = 0; stage < stages; stage++) {
      delivered.add(new HashMap<>());
    }
  }

  private Kv kv(RankEngine engine) {
    return kv.computeIfAbsent(
        engine.stage() + "/" + engine.rank(), k -> new Kv(engine, positions, longest));
  }

  @Override
  public void launch(RankEngine engine, Batch batch) {
    Kv mine = kv(engine);
    assertThat(engine.kv().orElseThrow().prepare(mine.tables, KvTables.Padding.CLEARED))
        .isEqualTo(KvStatus.OK);
    assertThat(mine.tables.rows()).isEqualTo(batch.size());
    var leases = new ArrayList<Integer>();
    for (int i = 0; i < batch.size(); i++) {
      leases.add(engine.table().lease(batch.row(i)));
    }
    mine.leases = leases;
    mine.pages.rowLens =
        row -> {
          int other = leases.indexOf(swapped.getOrDefault(leases.get(row), leases.get(row)));
          return engine.rank() == 0 && other >= 0 ? other : row;
        };
    var handed = new ArrayList<double[][]>();
    int[] tokens = new int[batch.size()];
    int query = 0;
    for (int i = 0; i < batch.size(); i++) {
      handed.add(
          batch.kind(i) == Batch.Kind.DUMMY ? NOTHING : forward(engine, batch, i, query, tokens));
      pads += batch.kind(i) == Batch.Kind.DUMMY ? 1 : 0;
      query += batch.tokens(i);
    }
    between.put(engine.rank(), handed);
    sampled.put(engine.rank() + "/" + batch.slot(), tokens);
  }

  /** The tokens of one batch position through this stage's layers. */
  private double[][] forward(RankEngine engine, Batch batch, int position, int query, int[] out) {
    RequestTable table = engine.table();
    int row = batch.row(position);
    int first = batch.firstToken(position);
    int count = batch.tokens(position);
    Kv mine = kv(engine);
    TinyTransformer.SamplerRow sampler = samplers[engine.rank()][table.seat(row)];
    TinyTransformer.Cache cache =
        mine.pages.view(mine.tables, mine.form, position, position, query, first);
    if (engine.stage() == stages - 1 && begins(batch, position, table)) {
      begin(sampler, table, row);
    }
    int perStage = TinyTransformer.LAYERS / stages;
    double[][] x = new double[count][];
    for (int t = 0; t < count; t++) {
      x[t] =
          engine.stage() > 0
              ? Objects.requireNonNull(between.get(engine.rank())).get(position)[t]
              : model.embed(
                  batch.kind(position) == Batch.Kind.GENERATION
                      ? sampler.lastToken
                      : table.token(row, first + t),
                  first + t);
    }
    for (int layer = engine.stage() * perStage; layer < (engine.stage() + 1) * perStage; layer++) {
      x = model.layer(layer, x, first, cache);
    }
    if (engine.stage() == stages - 1 && batch.makesToken(position)) {
      out[position] = model.sample(x[count - 1], sampler);
    }
    return x;
  }

  private static boolean begins(Batch batch, int position, RequestTable table) {
    return batch.kind(position) == Batch.Kind.CONTEXT
        && batch.firstToken(position) == table.cachedTokens(batch.row(position));
  }

  /** A sequence begins in this seat, maybe again: then it said something before. */
  private static void begin(TinyTransformer.SamplerRow sampler, RequestTable table, int row) {
    sampler.begin();
    int prompt = table.promptTokens(row);
    for (int at = prompt - table.pausedTokens(row); at < prompt; at++) {
      sampler.said[table.token(row, at)]++;
    }
  }

  @Override
  public void collect(RankEngine engine, Batch batch) {
    int[] tokens = Objects.requireNonNull(sampled.get(engine.rank() + "/" + batch.slot()));
    for (int i = 0; i < batch.size(); i++) {
      if (batch.makesToken(i)) {
        long id = engine.table().id(batch.row(i));
        delivered.get(engine.stage()).computeIfAbsent(id, k -> new ArrayList<>()).add(tokens[i]);
        batch.sampled(new BatchPosition(i), tokens[i]);
        if (tokens[i] < TinyTransformer.END_TOKENS) {
          batch.stop(new BatchPosition(i));
        }
      }
    }
  }

  void swapSeats(int a, int b) {
    TinyTransformer.SamplerRow row = samplers[0][a];
    samplers[0][a] = samplers[0][b];
    samplers[0][b] = row;
  }

  /** From now on each of two rows of rank 0's tables is read as the other. */
  void swapLeases(int a, int b) {
    if (swapped.remove(a) == null) {
      swapped.put(a, b);
      swapped.put(b, a);
    } else {
      swapped.remove(b);
    }
  }

  /** Were both in the last batch of rank 0? */
  boolean together(int leaseA, int leaseB) {
    Kv first = kv.get("0/0");
    return first != null && first.leases.containsAll(List.of(leaseA, leaseB));
  }
}
