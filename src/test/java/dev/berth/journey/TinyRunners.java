// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.Batch;
import dev.berth.engine.BatchResults;
import dev.berth.engine.BatchView;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.ModelRunner;
import dev.berth.engine.RankSetup;
import dev.berth.kv.KvStatus;
import dev.berth.kv.KvTables;
import dev.berth.kv.KvView;
import dev.berth.request.RequestTable;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The {@link TinyTransformer} as the model of a fleet. Nothing here is keyed by a request but what
 * is delivered: keys and values lie where the block tables say; sampler state and the last token
 * lie in the row of a seat, on the device, so that a generation can be launched before the host has
 * seen the token before it. A stage holds its share of the layers.
 */
public final class TinyRunners implements ModelRunner.Factory {
  private static final double[][] NOTHING = {};

  private final TinyTransformer model;
  private final int stages;
  private final int longest;
  private final Map<String, Runner> runners = new HashMap<>(); // by stage and rank
  private final Map<Integer, Integer> swapped = new HashMap<>(); // leases of rank 0
  private final TinyTransformer.SamplerRow[][] samplers; // [rank][seat]
  private final Map<Integer, List<double[][]>> between =
      new HashMap<>(); // by rank: what a stage hands to the next
  private final Map<String, int[]> sampled =
      new HashMap<>(); // by rank and batch slot: a token a batch position

  /** Tokens delivered on each stage, by request; those of padding would be -1's. */
  public final List<Map<Long, List<Integer>>> delivered = new ArrayList<>();

  /** Batch positions that were padding. */
  public int pads;

  public TinyRunners(TinyTransformer model, EngineConfig config, int longest) {
    this.model = model;
    this.stages = config.stages();
    this.longest = longest;
    samplers = new TinyTransformer.SamplerRow[config.ranks()][config.plan().seats().count() + 1];
    for (int rank = 0; rank < config.ranks(); rank++) {
      for (int seat = 0; seat < samplers[rank].length; seat++) {
        samplers[rank][seat] = new TinyTransformer.SamplerRow();
      }
    }
    for (int stage = 0; stage < stages; stage++) {
      delivered.add(new HashMap<>());
    }
  }

  @Override
  public ModelRunner runner(RankSetup setup) {
    var runner = new Runner(setup);
    runners.put(setup.stage() + "/" + setup.rank(), runner);
    return runner;
  }

  /** One rank's pages on one stage, and the tables of its batches. */
  private final class Runner implements ModelRunner {
    final RankSetup setup;
    final PagedDevice pages;
    final KvTables tables;
    final PagedDevice.Form form;
    List<Integer> leases = List.of(); // of the last batch, by position

    Runner(RankSetup setup) {
      this.setup = setup;
      KvView cache = setup.kv().orElseThrow();
      pages = new PagedDevice(cache);
      int positions = setup.positions();
      long blocks = (long) positions * cache.config().maxBlocks();
      tables =
          cache.newTables(
              new KvTables.Shape(
                  positions, positions * longest, blocks, cache.layout().buffers().size()));
      form = PagedDevice.Form.values()[setup.rank() % PagedDevice.Form.values().length];
    }

    @Override
    public void launch(BatchView batch) {
      assertThat(batch.fill(tables)).isEqualTo(KvStatus.OK);
      assertThat(tables.rows()).isEqualTo(batch.size());
      var read = new ArrayList<Integer>();
      for (int i = 0; i < batch.size(); i++) {
        read.add(batch.leases().getAtIndex(JAVA_INT, i));
      }
      leases = read;
      pages.rowLens =
          row -> {
            int other = read.indexOf(swapped.getOrDefault(read.get(row), read.get(row)));
            return setup.rank() == 0 && other >= 0 ? other : row;
          };
      var handed = new ArrayList<double[][]>();
      int[] tokens = new int[batch.size()];
      int query = 0;
      for (int i = 0; i < batch.size(); i++) {
        boolean padding = batch.kind(i) == Batch.Kind.DUMMY;
        handed.add(padding ? NOTHING : forward(batch, i, query, tokens));
        pads += padding ? 1 : 0;
        query += batch.lengths().getAtIndex(JAVA_INT, i);
      }
      between.put(setup.rank(), handed);
      sampled.put(setup.rank() + "/" + batch.slot(), tokens);
    }

    /** The tokens of one batch position through this stage's layers. */
    private double[][] forward(BatchView batch, int position, int query, int[] out) {
      int first = batch.firsts().getAtIndex(JAVA_INT, position);
      int count = batch.lengths().getAtIndex(JAVA_INT, position);
      int seat = batch.seats().getAtIndex(JAVA_INT, position);
      TinyTransformer.SamplerRow sampler = samplers[setup.rank()][seat];
      TinyTransformer.Cache cache = pages.view(tables, form, position, position, query, first);
      if (setup.stage() == stages - 1 && begins(batch, position)) {
        begin(sampler, batch.table(), batch.row(position));
      }
      if (setup.stage() == 0 && batch.received(position)) {
        sampler.begin();
        sampler.lastToken = batch.table().token(batch.row(position), first);
        sampler.said[sampler.lastToken]++;
      }
      int perStage = TinyTransformer.LAYERS / stages;
      double[][] x = new double[count][];
      for (int t = 0; t < count; t++) {
        x[t] =
            setup.stage() > 0
                ? Objects.requireNonNull(between.get(setup.rank())).get(position)[t]
                : model.embed(
                    batch.kind(position) == Batch.Kind.GENERATION
                        ? sampler.lastToken
                        : batch.inputs().getAtIndex(JAVA_INT, (long) query + t),
                    first + t);
      }
      for (int layer = setup.stage() * perStage; layer < (setup.stage() + 1) * perStage; layer++) {
        x = model.layer(layer, x, first, cache);
      }
      if (setup.stage() == stages - 1 && batch.makesToken(position)) {
        out[position] = model.sample(x[count - 1], sampler);
      }
      return x;
    }

    @Override
    public void collect(BatchView batch, BatchResults results) {
      int[] tokens = Objects.requireNonNull(sampled.get(setup.rank() + "/" + batch.slot()));
      if (setup.rank() == 0) {
        results.tokens(MemorySegment.ofArray(tokens));
      }
      for (int i = 0; i < batch.size(); i++) {
        if (batch.makesToken(i)) {
          long id = batch.ids().getAtIndex(JAVA_LONG, i);
          delivered.get(setup.stage()).computeIfAbsent(id, k -> new ArrayList<>()).add(tokens[i]);
          if (setup.rank() > 0) {
            results.token(i, tokens[i]); // on rank 0 all in one
          }
          if (tokens[i] < TinyTransformer.END_TOKENS) {
            results.end(i);
          }
        }
      }
    }
  }

  private static boolean begins(BatchView batch, int position) {
    return batch.kind(position) == Batch.Kind.CONTEXT
        && batch.first(position) == batch.table().cachedTokens(batch.row(position));
  }

  /** A sequence begins in this seat, maybe again: then it said something before. */
  private static void begin(TinyTransformer.SamplerRow sampler, RequestTable table, int row) {
    sampler.begin();
    int prompt = table.promptTokens(row);
    for (int at = prompt - table.pausedTokens(row); at < prompt; at++) {
      sampler.said[table.token(row, at)]++;
    }
  }

  /** The tokens that a batch made, by position. */
  int[] sampled(BatchView batch) {
    return Objects.requireNonNull(sampled.get(batch.rank() + "/" + batch.slot()));
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
    Runner first = runners.get("0/0");
    return first != null && first.leases.containsAll(List.of(leaseA, leaseB));
  }
}
