// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.Batch;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.id.BatchPosition;
import dev.berth.request.RequestTable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Runs the {@link TinyTransformer} for the ranks and stages of a fleet. Nothing here is keyed by a
 * request: keys and values lie in the row of a lease, page after page; sampler state and the last
 * token lie in the row of a seat, on the device, so that a generation can be launched before the
 * host has seen the token before it. A stage holds its share of the layers.
 */
final class TinyDevice implements LockstepGroup.Device {
  /**
   * Keys and values of one rank's share of layers: {@code [lease][page][layer][slot in
   * page][width]}.
   */
  private static final class KvRows {
    final double[][][][][] keys;
    final double[][][][][] values;
    final int tokensPerPage;

    KvRows(int leases, int pages, int tokensPerPage) {
      this.tokensPerPage = tokensPerPage;
      int layers = TinyTransformer.LAYERS;
      keys = new double[leases][pages][layers][tokensPerPage][TinyTransformer.WIDTH];
      values = new double[leases][pages][layers][tokensPerPage][TinyTransformer.WIDTH];
    }

    TinyTransformer.Cache of(int lease) {
      return new TinyTransformer.Cache() {
        @Override
        public double[] key(int layer, int position) {
          return keys[lease][position / tokensPerPage][layer][position % tokensPerPage];
        }

        @Override
        public double[] value(int layer, int position) {
          return values[lease][position / tokensPerPage][layer][position % tokensPerPage];
        }
      };
    }

    void swap(int a, int b) {
      swapRows(keys, a, b);
      swapRows(values, a, b);
    }
  }

  private final TinyTransformer model;
  private final Map<Long, List<Integer>> prompts;
  private final int stages;
  private final KvRows[][] kv; // [stage][rank]
  private final TinyTransformer.SamplerRow[][] samplers; // [rank][seat]
  private final Map<Integer, List<double[][]>> between =
      new HashMap<>(); // by rank: what a stage hands to the next
  private final Map<String, int[]> sampled =
      new HashMap<>(); // by rank and batch slot: a token a batch position

  /** Tokens delivered on each stage, by request. */
  final List<Map<Long, List<Integer>>> delivered = new ArrayList<>();

  /** Batch positions that were padding. */
  int pads;

  TinyDevice(
      TinyTransformer model, EngineConfig config, Map<Long, List<Integer>> prompts, int longest) {
    this.model = model;
    this.prompts = prompts;
    this.stages = config.stages();
    var plan = config.plan();
    int tokensPerPage = plan.shape().tokensPerBlock();
    int pages = (longest + tokensPerPage - 1) / tokensPerPage;
    kv = new KvRows[stages][config.ranks()];
    samplers = new TinyTransformer.SamplerRow[config.ranks()][plan.seats().count() + 1];
    for (int rank = 0; rank < config.ranks(); rank++) {
      for (int stage = 0; stage < stages; stage++) {
        kv[stage][rank] = new KvRows(plan.indexCapacity(), pages, tokensPerPage);
      }
      for (int seat = 0; seat < samplers[rank].length; seat++) {
        samplers[rank][seat] = new TinyTransformer.SamplerRow();
      }
    }
    for (int stage = 0; stage < stages; stage++) {
      delivered.add(new HashMap<>());
    }
  }

  @Override
  public void launch(RankEngine engine, Batch batch) {
    var handed = new ArrayList<double[][]>();
    int[] tokens = new int[batch.size()];
    for (int i = 0; i < batch.size(); i++) {
      handed.add(forward(engine, batch, i, tokens));
    }
    between.put(engine.rank(), handed);
    sampled.put(engine.rank() + "/" + batch.slot(), tokens);
  }

  /** The tokens of one batch position through this stage's layers. */
  private double[][] forward(RankEngine engine, Batch batch, int position, int[] tokens) {
    RequestTable table = engine.table();
    int row = batch.row(position);
    int first = batch.firstToken(position);
    int count = batch.tokens(position);
    TinyTransformer.SamplerRow sampler = samplers[engine.rank()][table.seat(row)];
    TinyTransformer.Cache cache = kv[engine.stage()][engine.rank()].of(table.lease(row));
    int perStage = TinyTransformer.LAYERS / stages;
    double[][] x = new double[count][];
    for (int t = 0; t < count; t++) {
      x[t] =
          engine.stage() > 0
              ? Objects.requireNonNull(between.get(engine.rank())).get(position)[t]
              : model.embed(input(batch, position, first + t, table.id(row), sampler), first + t);
      for (int layer = engine.stage() * perStage;
          layer < (engine.stage() + 1) * perStage;
          layer++) {
        x[t] = model.layer(layer, x[t], first + t, cache);
      }
    }
    if (batch.kind(position) != Batch.Kind.DUMMY) {
      int lastPage = (first + count - 1) / engineTokensPerPage(engine);
      assertThat(lastPage)
          .as("a position behind the pages of its row")
          .isLessThan(table.pages(row));
    }
    if (engine.stage() == stages - 1 && batch.makesToken(position)) {
      tokens[position] = model.sample(x[count - 1], sampler);
    }
    return x;
  }

  private int engineTokensPerPage(RankEngine engine) {
    return kv[engine.stage()][engine.rank()].tokensPerPage;
  }

  /** The token that is computed at a position of a sequence. */
  private int input(
      Batch batch, int position, int at, long id, TinyTransformer.SamplerRow sampler) {
    return switch (batch.kind(position)) {
      case DUMMY -> {
        pads++;
        yield 0;
      }
      case GENERATION -> sampler.lastToken;
      case CONTEXT -> {
        if (at == 0) {
          sampler.begin();
        }
        yield Objects.requireNonNull(prompts.get(id)).get(at);
      }
    };
  }

  @Override
  public void collect(RankEngine engine, Batch batch) {
    int[] tokens = Objects.requireNonNull(sampled.get(engine.rank() + "/" + batch.slot()));
    for (int i = 0; i < batch.size(); i++) {
      if (batch.makesToken(i)) {
        long id = engine.table().id(batch.row(i));
        delivered.get(engine.stage()).computeIfAbsent(id, k -> new ArrayList<>()).add(tokens[i]);
        if (tokens[i] < TinyTransformer.END_TOKENS) {
          batch.stop(new BatchPosition(i));
        }
      }
    }
  }

  void swapSeats(int rank, int a, int b) {
    swapRows(samplers[rank], a, b);
  }

  void swapLeases(int rank, int a, int b) {
    for (KvRows[] stage : kv) {
      stage[rank].swap(a, b);
    }
  }

  private static <T> void swapRows(T[] rows, int a, int b) {
    T row = rows[a];
    rows[a] = rows[b];
    rows[b] = row;
  }
}
