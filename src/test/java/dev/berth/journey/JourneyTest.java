// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.BrokenBatchException;
import dev.berth.engine.EndKind;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.KvSetup;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.ModelRunners;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.engine.WorkerRole;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvLevel;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.kv.KvUsage;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Prompt;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.RequestTable;
import dev.berth.test.NoEvictPolicy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A request's whole way: prompt, queue, rank, seat and lease, pages, batch, a real (small)
 * transformer, token. The fleet's tokens must be those of each prompt run alone, whoever gave way
 * meanwhile, and whoever found what others had computed.
 */
class JourneyTest {
  static final long SEED = Long.getLong("berth.seed", 20261130);
  private static final int RUNS = 12;
  private static final int LONGEST_PROMPT = 24;
  private static final int LONGEST_OUTPUT = 14;
  private static final int TOKENS_PER_BLOCK = 4;
  private static final TinyTransformer MODEL = new TinyTransformer(7);
  private static final KvLayout LAYOUT =
      KvLayout.plan(
          TOKENS_PER_BLOCK,
          PagedDevice.buffers(List.of(KvReach.FULL, KvReach.FULL), TOKENS_PER_BLOCK));

  /** Ways to run the same requests. */
  enum Fleet {
    OVERLAP(1, Chunking.NONE, 0, Trait.ATTENTION_DP, Trait.OVERLAP),
    OVERLAP_CHUNKED(1, Chunking.FIRST_COME_FIRST_SERVED, 9, Trait.ATTENTION_DP, Trait.OVERLAP),
    NON_OVERLAP(1, Chunking.NONE, 40, Trait.ATTENTION_DP),
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

    EngineConfig config(int ranks, int batch, Policy policy, KvSetup kv) {
      var shape =
          WorkerShape.builder(batch)
              .ranks(ranks)
              .pipelineSize(stages)
              .maxNumTokens(maxNumTokens)
              .tokensPerBlock(TOKENS_PER_BLOCK)
              .maxSeqLen(LONGEST_PROMPT + LONGEST_OUTPUT)
              .with(traits.toArray(Trait[]::new))
              .build();
      SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
      EngineConfig config =
          EngineConfig.builder(plan, WorkerRole.AGGREGATED)
              .chunkedContext(chunking)
              .kv(kv)
              .policies(PolicySet.BERTH_1)
              .build();
      return policy.in(config);
    }
  }

  /** Who decides who runs. */
  enum Policy {
    GUARANTEED_NO_EVICT,
    MAX_UTILIZATION,
    STATIC_BATCH,
    MAX_REQUESTS,
    ONE_LOOP,
    OF_ONES_OWN;

    EngineConfig in(EngineConfig config) {
      return switch (this) {
        case ONE_LOOP -> config.withScheduler(SchedulerKind.ONE_LOOP);
        case OF_ONES_OWN -> config.withPolicy(new NoEvictPolicy(config.rangeEnd()));
        default ->
            config.withPolicies(config.policies(), CapacityRule.byName(name()).orElseThrow());
      };
    }

    boolean somebodyGivesWay() {
      return this == MAX_UTILIZATION || this == ONE_LOOP;
    }
  }

  /** Something done to the device once, when two generations live on rank 0. */
  private interface Meddling {
    void meddle(TinyRunners device, RequestTable table, int rowA, int rowB);
  }

  private static final Meddling NONE = (device, table, a, b) -> {};

  private static void mustNotBreak(BrokenBatchException broken) {
    throw new AssertionError(broken);
  }

  /** One fleet, one random load. */
  static final class Journey {
    final RandomGenerator random;
    final EngineConfig config;
    final Map<Long, List<Integer>> prompts = new HashMap<>();
    final List<Request> requests = new ArrayList<>();
    final Map<Long, List<Integer>> outputs = new HashMap<>();
    final TinyRunners device;
    int dropped;
    boolean meddled;

    long hits;
    int paused;

    Journey(Fleet fleet, Policy policy, long seed) {
      random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
      int ranks = between(2, 4);
      int batch = between(2, 4);
      config = fleet.config(ranks, batch, policy, kv());
      device = new TinyRunners(MODEL, config, LONGEST_PROMPT + LONGEST_OUTPUT);
      int[][] known = new int[3][];
      for (int i = 0; i < known.length; i++) {
        known[i] = random.ints(LONGEST_PROMPT, 0, TinyTransformer.VOCABULARY).toArray();
      }
      for (long id = 0; id < 30; id++) {
        int[] prompt = known[between(0, 2)].clone();
        int alike = between(0, LONGEST_PROMPT);
        for (int i = alike; i < prompt.length; i++) {
          prompt[i] = random.nextInt(TinyTransformer.VOCABULARY);
        }
        prompt = Arrays.copyOf(prompt, between(1, LONGEST_PROMPT));
        prompts.put(id, Arrays.stream(prompt).boxed().toList());
        requests.add(
            Request.of(id, prompt.length, between(1, LONGEST_OUTPUT))
                .withTag(id)
                .withPrompt(Prompt.of(prompt)));
      }
    }

    /** Few pages, so that somebody has to give way; sometimes a host level below them. */
    private KvSetup kv() {
      KvSizes sizes = KvSizes.device(between(11, 24));
      if (random.nextBoolean()) {
        sizes = sizes.with(KvLevel.HOST, between(1, 8));
      }
      int index = random.nextInt(4) == 0 ? 0 : between(4, 40);
      var partial = KvConfig.Partial.values()[random.nextInt(2)];
      return KvSetup.paged(LAYOUT, sizes)
          .withIndex(index, partial)
          .withPaused(KvSetup.Paused.values()[random.nextInt(2)])
          .withSharing(KvSetup.Sharing.values()[random.nextInt(2)])
          .withMemory(KvConfig.Memory.HOST);
    }

    int between(int lowest, int highest) {
      return random.nextInt(lowest, highest + 1);
    }

    Journey run(Meddling meddling) {
      try (var group = new LockstepGroup(config);
          var runners = new ModelRunners(group, device, JourneyTest::mustNotBreak)) {
        int offered = 0;
        boolean live = true;
        while (live || offered < requests.size()) {
          for (int n = between(0, 4); n > 0 && offered < requests.size(); n--) {
            assertThat(group.offer(requests.get(offered++))).isEqualTo(Outcome.QUEUED);
          }
          meddle(group.engine(0), meddling);
          live = group.step(runners);
          for (int rank = 0; live && rank < config.ranks(); rank++) {
            deliver(group.engine(rank));
            paused += group.engine(rank).paused();
          }
          for (int rank = 0; rank < config.ranks(); rank++) {
            for (int stage = 0; stage < config.stages(); stage++) {
              group.engine(rank, stage).kv().orElseThrow().check();
            }
          }
        }
        for (int rank = 0; rank < config.ranks(); rank++) {
          for (int stage = 0; stage < config.stages(); stage++) {
            RankEngine engine = group.engine(rank, stage);
            assertThat(engine.seatsUsed()).isZero();
            assertThat(engine.leasesUsed()).isZero();
            assertThat(engine.pagesUsed()).isZero();
            KvUsage usage = engine.kv().orElseThrow().usage();
            assertThat(usage.open()).isZero();
            assertThat(usage.pages(KvLevel.DEVICE, 0).held()).isZero();
            hits += stage == 0 ? usage.hitTokens() : 0;
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
              .toArray();
      for (int i = 1; !meddled && i < rows.length; i++) {
        if (device.together(table.lease(rows[0]), table.lease(rows[i]))) {
          meddling.meddle(device, table, rows[0], rows[i]);
          meddled = true;
        }
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

  static Stream<Arguments> fleets() {
    return Arrays.stream(Fleet.values())
        .flatMap(
            fleet -> Arrays.stream(Policy.values()).map(policy -> Arguments.of(fleet, policy)));
  }

  @ParameterizedTest
  @MethodSource("fleets")
  void tokensAreThoseOfEachPromptRunAlone(Fleet fleet, Policy policy) {
    System.out.println("JourneyTest: -Dberth.seed=" + SEED);
    int pads = 0;
    int dropped = 0;
    int stopped = 0;
    int full = 0;
    long hits = 0;
    int paused = 0;
    for (int i = 0; i < RUNS; i++) {
      var journey = new Journey(fleet, policy, SEED + i).run(NONE);
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
      hits += journey.hits;
      paused += journey.paused;
      pads += journey.device.pads;
      dropped += journey.dropped;
    }
    assertThat(stopped).as("some sequences ended early").isPositive();
    assertThat(full).as("some ran to their limit").isPositive();
    assertThat(hits).as("some found what others had computed").isPositive();
    if (policy.somebodyGivesWay()) {
      assertThat(paused).as("some gave way").isPositive();
    } else {
      assertThat(paused).isZero();
    }
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
    changesTokens(
        fleet,
        (device, table, a, b) -> {
          assertThat(table.seat(a)).isNotEqualTo(table.seat(b));
          device.swapSeats(table.seat(a), table.seat(b));
        });
  }

  @ParameterizedTest
  @EnumSource(names = {"OVERLAP", "NON_OVERLAP", "PIPELINE"})
  void leasesAreConsumedSwappingTwoRowsOfThePageTableChangesTheTokens(Fleet fleet) {
    changesTokens(
        fleet,
        (device, table, a, b) -> {
          assertThat(table.lease(a)).isNotEqualTo(table.lease(b));
          device.swapLeases(table.lease(a), table.lease(b));
        });
  }

  /** Two sequences may be alike in what a swap exchanges; in some load they aren't. */
  private static void changesTokens(Fleet fleet, Meddling meddling) {
    boolean changed = false;
    for (int i = 0; i < RUNS && !changed; i++) {
      Journey journey = meddledRun(fleet, SEED + i, meddling);
      changed = journey.meddled && !journey.outputs.equals(journey.alone());
    }
    assertThat(changed).isTrue();
  }

  private static Journey meddledRun(Fleet fleet, long seed, Meddling meddling) {
    return new Journey(fleet, Policy.GUARANTEED_NO_EVICT, seed).run(meddling);
  }

  @Test
  void aSwapThatIsSwappedBackChangesNothing() {
    int meddled = 0;
    for (int i = 0; i < RUNS; i++) {
      Journey journey =
          meddledRun(
              Fleet.OVERLAP,
              SEED + i,
              (device, table, a, b) -> {
                device.swapLeases(table.lease(a), table.lease(b));
                device.swapLeases(table.lease(b), table.lease(a));
              });
      meddled += journey.meddled ? 1 : 0;
      assertThat(journey.outputs).isEqualTo(journey.alone());
    }
    assertThat(meddled).as("two generations lived on rank 0").isPositive();
  }
}
