// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.capacity.Chunking;
import dev.berth.engine.EndKind;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.EngineConfig.RetiringTokens;
import dev.berth.engine.EngineConfig.Transfer;
import dev.berth.engine.FillGate;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.QueueRules;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.RequestTable;
import dev.berth.route.RankCap;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * A request's whole way: prompt, queue, rank, seat and lease, pages, batch, a real (small)
 * transformer, token. The fleet's tokens must be those of each prompt run alone. Pages are a
 * counter as yet: page p of a lease is storage {@code [lease][p]}.
 */
class JourneyTest {
  private static final long SEED = Long.getLong("berth.seed", 20261130);
  private static final int RUNS = 12;
  private static final int LONGEST_PROMPT = 24;
  private static final int LONGEST_OUTPUT = 14;
  private static final TinyTransformer MODEL = new TinyTransformer(7);

  /** Ways to run the same requests. */
  enum Fleet {
    OVERLAP(1, Chunking.NONE, 0, Trait.ATTENTION_DP, Trait.OVERLAP),
    OVERLAP_CHUNKED(1, Chunking.FIRST_COME_FIRST_SERVED, 9, Trait.ATTENTION_DP, Trait.OVERLAP),
    NON_OVERLAP(1, Chunking.NONE, 30, Trait.ATTENTION_DP),
    NON_OVERLAP_CHUNKED(1, Chunking.FIRST_COME_FIRST_SERVED, 7, Trait.ATTENTION_DP),
    PIPELINE(2, Chunking.NONE, 0, Trait.ATTENTION_DP, Trait.OVERLAP),
    PIPELINE_CHUNKED(2, Chunking.FIRST_COME_FIRST_SERVED, 9, Trait.ATTENTION_DP, Trait.OVERLAP),
    ONE_GROUP(1, Chunking.NONE, 0, Trait.OVERLAP);

    final int stages;
    final Chunking chunking;
    final int maxNumTokens;
    final List<Trait> traits;

    Fleet(int stages, Chunking chunking, int maxNumTokens, Trait... traits) {
      this.stages = stages;
      this.chunking = chunking;
      this.maxNumTokens = maxNumTokens;
      this.traits = List.of(traits);
    }

    EngineConfig config(int ranks, int batch, long pages) {
      var shape =
          WorkerShape.builder(batch)
              .ranks(ranks)
              .pipelineSize(stages)
              .maxNumTokens(maxNumTokens)
              .tokensPerBlock(4)
              .with(traits.toArray(Trait[]::new))
              .build();
      SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
      return new EngineConfig(
          plan,
          WorkerRole.AGGREGATED,
          EngineConfig.RANGE_END,
          EngineConfig.defaultMark(plan),
          Transfer.NONE,
          chunking,
          pages,
          FillGate.NONE,
          RetiringTokens.EXCLUDED,
          RankCap.HARD,
          QueueRules.FCFS);
    }
  }

  /** Something done to the device once, when two generations live on rank 0. */
  private interface Meddling {
    void meddle(TinyDevice device, RequestTable table, int rowA, int rowB);
  }

  private static final Meddling NONE = (device, table, a, b) -> {};

  /** One fleet, one random load. */
  private static final class Journey {
    final RandomGenerator random;
    final EngineConfig config;
    final Map<Long, List<Integer>> prompts = new HashMap<>();
    final List<Request> requests = new ArrayList<>();
    final Map<Long, List<Integer>> outputs = new HashMap<>();
    final TinyDevice device;
    int dropped;
    boolean meddled;

    Journey(Fleet fleet, long seed) {
      random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
      int ranks = between(2, 4);
      int batch = between(2, 4);
      config = fleet.config(ranks, batch, random.nextBoolean() ? -1 : between(12, 40));
      device = new TinyDevice(MODEL, config, prompts, LONGEST_PROMPT + LONGEST_OUTPUT);
      for (long id = 0; id < 30; id++) {
        prompts.put(
            id,
            random
                .ints(between(1, LONGEST_PROMPT), 0, TinyTransformer.VOCABULARY)
                .boxed()
                .toList());
        requests.add(
            Request.of(id, prompts.get(id).size(), between(1, LONGEST_OUTPUT)).withTag(id));
      }
    }

    int between(int lowest, int highest) {
      return random.nextInt(lowest, highest + 1);
    }

    Journey run(Meddling meddling) {
      try (var group = new LockstepGroup(config)) {
        int offered = 0;
        boolean live = true;
        while (live || offered < requests.size()) {
          for (int n = between(0, 4); n > 0 && offered < requests.size(); n--) {
            assertThat(group.offer(requests.get(offered++))).isEqualTo(Outcome.QUEUED);
          }
          meddle(group.engine(0), meddling);
          live = group.step(device);
          for (int rank = 0; live && rank < config.ranks(); rank++) {
            deliver(group.engine(rank));
          }
        }
        for (int rank = 0; rank < config.ranks(); rank++) {
          for (int stage = 0; stage < config.stages(); stage++) {
            RankEngine engine = group.engine(rank, stage);
            assertThat(engine.seatsUsed()).isZero();
            assertThat(engine.leasesUsed()).isZero();
            assertThat(engine.pagesUsed()).isZero();
          }
        }
      }
      return this;
    }

    /**
     * A request that left has as many tokens as the engine says; what was launched past its end is
     * dropped.
     */
    private void deliver(RankEngine engine) {
      for (int i = 0; i < engine.ended(); i++) {
        assertThat(engine.endedKind(i)).isEqualTo(EndKind.FINISHED);
        long id = engine.endedId(i);
        assertThat(engine.endedTag(i)).isEqualTo(id);
        List<Integer> all = Objects.requireNonNull(device.delivered.getFirst().get(id));
        assertThat(outputs.put(id, all.subList(0, engine.endedTokens(i))))
            .as("ended once")
            .isNull();
        dropped += all.size() - engine.endedTokens(i);
      }
    }

    private void meddle(RankEngine engine, Meddling meddling) {
      RequestTable table = engine.table();
      int[] rows =
          IntStream.range(0, table.rows() - 1)
              .filter(row -> table.seat(row) >= 0)
              .filter(row -> table.state(row) == RequestState.GENERATION)
              .filter(row -> table.generatedTokens(row) >= 1)
              .filter(row -> table.maxNewTokens(row) - table.generatedTokens(row) >= 4)
              .limit(2)
              .toArray();
      if (!meddled && rows.length == 2) {
        meddling.meddle(device, table, rows[0], rows[1]);
        meddled = true;
      }
    }

    Map<Long, List<Integer>> alone() {
      var alone = new HashMap<Long, List<Integer>>();
      requests.forEach(r ->
          alone.put(
              r.id(), MODEL.decode(Objects.requireNonNull(prompts.get(r.id())), r.maxNewTokens())));
      return alone;
    }
  }

  @ParameterizedTest
  @EnumSource
  void tokensAreThoseOfEachPromptRunAlone(Fleet fleet) {
    System.out.println("JourneyTest: -Dberth.seed=" + SEED);
    int pads = 0;
    int dropped = 0;
    int stopped = 0;
    int full = 0;
    for (int i = 0; i < RUNS; i++) {
      var journey = new Journey(fleet, SEED + i).run(NONE);
      assertThat(journey.outputs).as("seed %d", SEED + i).isEqualTo(journey.alone());
      for (Map<Long, List<Integer>> stage : journey.device.delivered) {
        assertThat(stage)
            .as("every stage sees the same")
            .isEqualTo(journey.device.delivered.getFirst());
        assertThat(stage.keySet()).as("padding makes no token").isEqualTo(journey.prompts.keySet());
      }
      for (Request request : journey.requests) {
        boolean ended =
            Objects.requireNonNull(journey.outputs.get(request.id())).size()
                < request.maxNewTokens();
        stopped += ended ? 1 : 0;
        full += ended ? 0 : 1;
      }
      pads += journey.device.pads;
      dropped += journey.dropped;
    }
    assertThat(stopped).as("some sequences ended early").isPositive();
    assertThat(full).as("some ran to their limit").isPositive();
    if (fleet.traits.contains(Trait.ATTENTION_DP)) {
      assertThat(pads).as("some ranks were padded").isPositive();
    }
    if (fleet.stages == 1 && fleet.traits.contains(Trait.OVERLAP)) {
      assertThat(dropped).as("some sequences were launched past their end").isPositive();
    } else {
      assertThat(dropped).as("a batch that is settled first launches nothing past an end").isZero();
    }
  }

  /** A pool counts as consumed only if swapping two of its rows changes the tokens. */
  @ParameterizedTest
  @EnumSource(names = {"OVERLAP", "NON_OVERLAP", "PIPELINE"})
  void seatsAreConsumedSwappingTwoSamplerRowsChangesTheTokens(Fleet fleet) {
    Journey journey =
        meddledRun(
            fleet,
            (device, table, a, b) -> {
              assertThat(table.seat(a)).isNotEqualTo(table.seat(b));
              device.swapSeats(0, table.seat(a), table.seat(b));
            });
    assertThat(journey.outputs).isNotEqualTo(journey.alone());
  }

  @ParameterizedTest
  @EnumSource(names = {"OVERLAP", "NON_OVERLAP", "PIPELINE"})
  void leasesAreConsumedSwappingTwoKvRowsChangesTheTokens(Fleet fleet) {
    Journey journey =
        meddledRun(
            fleet,
            (device, table, a, b) -> {
              assertThat(table.lease(a)).isNotEqualTo(table.lease(b));
              device.swapLeases(0, table.lease(a), table.lease(b));
            });
    assertThat(journey.outputs).isNotEqualTo(journey.alone());
  }

  private static Journey meddledRun(Fleet fleet, Meddling meddling) {
    var journey = new Journey(fleet, SEED).run(meddling);
    assertThat(journey.meddled).as("two generations lived on rank 0").isTrue();
    return journey;
  }

  @Test
  void aSwapThatIsSwappedBackChangesNothing() {
    Journey journey =
        meddledRun(
            Fleet.OVERLAP,
            (device, table, a, b) -> {
              device.swapLeases(0, table.lease(a), table.lease(b));
              device.swapLeases(0, table.lease(b), table.lease(a));
            });
    assertThat(journey.outputs).isEqualTo(journey.alone());
  }
}
