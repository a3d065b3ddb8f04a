// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.BatchView;
import dev.berth.engine.Ending;
import dev.berth.engine.Engine;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.KvHandoff;
import dev.berth.engine.KvSetup;
import dev.berth.engine.ModelRunner;
import dev.berth.engine.RequestHandle;
import dev.berth.engine.RequestResult;
import dev.berth.engine.StepPlan;
import dev.berth.engine.SubmitOptions;
import dev.berth.engine.TokenStream;
import dev.berth.engine.Transceiver;
import dev.berth.engine.WorkerRole;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Prompt;
import dev.berth.request.Request;
import dev.berth.transfer.Completion;
import dev.berth.transfer.InProcessTransport;
import dev.berth.transfer.InProcessTransport.Checksums;
import dev.berth.transfer.KvTransport;
import dev.berth.transfer.PageList;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.UnaryOperator;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A request's way over two workers: a context worker computes its prompt and its first token, a
 * generation worker fetches the pages and goes on. The tokens must be those of each prompt run
 * alone, and whatever breaks, nobody's pages are lost.
 */
class DisaggregationTest {
  private static final long SEED = Long.getLong("berth.seed", 20261130);
  private static final int RUNS = 6;
  private static final int LONGEST_PROMPT = 24;
  private static final int LONGEST_OUTPUT = 14;
  private static final int TOKENS_PER_BLOCK = 4;
  private static final long STEP_MICROS = 1000;
  private static final Transceiver.Options TIMES =
      Transceiver.Options.DEFAULT.withTimes(200 * STEP_MICROS, 400 * STEP_MICROS);
  private static final InProcessTransport.Options AT_ONCE =
      InProcessTransport.Options.DEFAULTS.with(Checksums.ON);

  /** What the layers of a model look back on. */
  enum Model {
    FULL(KvReach.FULL, KvReach.FULL),
    WINDOW(KvReach.FULL, new KvReach.Window(5, 2)),
    WINDOWS(new KvReach.Window(7, 3), KvReach.window(4)),
    STATE(KvReach.FULL, KvReach.STATE);

    final List<KvReach> reaches;
    final TinyTransformer transformer;
    final KvLayout layout;

    Model(KvReach... reaches) {
      this.reaches = List.of(reaches);
      this.transformer = new TinyTransformer(7, this.reaches);
      this.layout =
          KvLayout.plan(TOKENS_PER_BLOCK, PagedDevice.buffers(this.reaches, TOKENS_PER_BLOCK));
    }
  }

  /** How both workers run. */
  enum Loop {
    OVERLAP(1, Trait.ATTENTION_DP, Trait.OVERLAP),
    NON_OVERLAP(1, Trait.ATTENTION_DP),
    PIPELINE(2, Trait.ATTENTION_DP, Trait.OVERLAP),
    ONE_GROUP(1, Trait.OVERLAP);

    final int stages;
    final Trait[] traits;

    Loop(int stages, Trait... traits) {
      this.stages = stages;
      this.traits = traits;
    }
  }

  /** Who is let in on the generation worker. */
  enum Policy {
    GUARANTEED_NO_EVICT,
    MAX_UTILIZATION,
    STATIC_BATCH,
    ONE_LOOP;

    EngineConfig in(EngineConfig config) {
      return this == ONE_LOOP
          ? config.withScheduler(SchedulerKind.ONE_LOOP)
          : config.withPolicies(config.policies(), CapacityRule.byName(name()).orElseThrow());
    }
  }

  private static EngineConfig config(
      Loop loop, Model model, WorkerRole role, int ranks, int batch, int pages) {
    var shape =
        WorkerShape.builder(batch)
            .ranks(ranks)
            .pipelineSize(loop.stages)
            .maxNumTokens(role == WorkerRole.CONTEXT ? 9 : 0)
            .tokensPerBlock(TOKENS_PER_BLOCK)
            .maxSeqLen(LONGEST_PROMPT + LONGEST_OUTPUT)
            .transferBackend("NIXL")
            .with(loop.traits)
            .build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    long[] each = new long[model.layout.groups()];
    Arrays.fill(each, pages);
    return EngineConfig.builder(plan, role)
        .transfer(EngineConfig.Transfer.TRANSCEIVER)
        .chunkedContext(
            role == WorkerRole.CONTEXT ? Chunking.FIRST_COME_FIRST_SERVED : Chunking.NONE)
        .kv(
            KvSetup.paged(model.layout, KvSizes.device(each))
                .withIndex(40, KvConfig.Partial.COPY)
                .withMemory(KvConfig.Memory.HOST))
        .build();
  }

  /** An engine and its models, driven a step at a time: all on one thread, as their transports. */
  private static final class Worker implements AutoCloseable {
    final Engine engine;
    final TinyRunners models;
    final List<ModelRunner> runners = new ArrayList<>();

    Worker(Model model, EngineConfig config, Engine.Transports transports) {
      engine = Engine.builder(config).transports(transports, TIMES).open();
      models = new TinyRunners(model.transformer, config, LONGEST_PROMPT + LONGEST_OUTPUT);
      for (int stage = 0; stage < config.stages(); stage++) {
        for (int rank = 0; rank < config.ranks(); rank++) {
          runners.add(models.runner(engine.setup(rank, stage)));
        }
      }
    }

    void step(long now) {
      StepPlan plan = engine.step(now);
      for (BatchView batch : plan.launches()) {
        runners.get(batch.stage() * engine.config().ranks() + batch.rank()).launch(batch);
      }
      for (BatchView batch : plan.dues()) {
        for (int i = 0; i < batch.size(); i++) {
          if (batch.makesToken(i)) {
            int token = models.sampled(batch)[i];
            plan.result().token(batch, i, token);
            if (token < TinyTransformer.END_TOKENS) {
              plan.result().end(batch, i);
            }
          }
        }
      }
      if (!plan.idle()) {
        engine.commit(plan.result());
      }
    }

    /** Nothing is anybody's any more. */
    void isEmpty() {
      assertThat(engine.live()).isZero();
      for (int rank = 0; rank < engine.config().ranks(); rank++) {
        for (int stage = 0; stage < engine.config().stages(); stage++) {
          var cache = engine.setup(rank, stage).kv().orElseThrow();
          cache.check();
          assertThat(cache.usage().open()).isZero();
        }
      }
    }

    @Override
    public void close() {
      engine.close();
    }
  }

  /** A context worker, a generation worker, and requests that go over both. */
  private static final class Fleet implements AutoCloseable {
    final RandomGenerator random;
    final Model model;
    final Worker context;
    final Worker generation;
    final Map<Long, Request> requests = new HashMap<>();
    final Map<Long, RequestHandle> begun = new HashMap<>();
    final Map<Long, RequestHandle> going = new HashMap<>();
    final Map<Long, List<Integer>> read = new HashMap<>();
    final InProcessTransport.Network network = new InProcessTransport.Network();
    UnaryOperator<KvHandoff> onTheWay = handoff -> handoff;
    long now;
    int handed;

    Fleet(Loop loop, Policy policy, Model model, long seed, InProcessTransport.Options transport) {
      this(loop, policy, model, seed, transport, UnaryOperator.identity());
    }

    Fleet(
        Loop loop,
        Policy policy,
        Model model,
        long seed,
        InProcessTransport.Options transport,
        UnaryOperator<KvTransport> ofGeneration) {
      random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
      this.model = model;
      int ranks = between(2, 3);
      Engine.Transports transports = rank -> network.open(transport, () -> now);
      context =
          new Worker(
              model, config(loop, model, WorkerRole.CONTEXT, ranks, between(2, 4), 30), transports);
      generation =
          new Worker(
              model,
              policy.in(
                  config(loop, model, WorkerRole.GENERATION, between(2, 3), between(2, 4), 22)),
              rank -> ofGeneration.apply(transports.open(rank)));
    }

    int between(int lowest, int highest) {
      return random.nextInt(lowest, highest + 1);
    }

    Request request(long id) {
      return requests.computeIfAbsent(
          id,
          key -> {
            int[] prompt =
                random.ints(between(1, LONGEST_PROMPT), 0, TinyTransformer.VOCABULARY).toArray();
            return Request.of(key, prompt.length, between(1, LONGEST_OUTPUT))
                .withPrompt(Prompt.of(prompt));
          });
    }

    void begin(long id) {
      begun.put(id, context.engine.submit(request(id)));
    }

    /** One step of both; what the context worker hands over is submitted to the other as bytes. */
    void step() {
      now += STEP_MICROS;
      context.step(now);
      for (RequestHandle handle : begun.values()) {
        if (!going.containsKey(handle.id())) {
          handle
              .handoff()
              .toCompletableFuture()
              .getNow(Optional.empty())
              .ifPresent(kv -> goOn(handle.id(), kv));
        }
      }
      generation.step(now);
      going.values().forEach(this::read);
    }

    void goOn(long id, KvHandoff kv) {
      KvHandoff arrived = KvHandoff.of(onTheWay.apply(kv).bytes());
      going.put(id, generation.engine.submit(request(id), SubmitOptions.DEFAULT, arrived));
      handed++;
    }

    void read(RequestHandle handle) {
      TokenStream stream = handle.tokens();
      for (int token = stream.poll(); token >= 0; token = stream.poll()) {
        read.computeIfAbsent(handle.id(), id -> new ArrayList<>()).add(token);
      }
    }

    boolean over(RequestHandle handle) {
      return handle.ended().isPresent();
    }

    /** Until both are empty and everything that was handed over has ended. */
    void toTheEnd() {
      for (int i = 0; i < 5000; i++) {
        step();
        if (begun.values().stream().allMatch(this::over)
            && going.values().stream().allMatch(this::over)
            && context.engine.live() + generation.engine.live() == 0) {
          return;
        }
      }
      throw new AssertionError(
          "still live: %d and %d".formatted(context.engine.live(), generation.engine.live()));
    }

    /** What a request gave, wherever it ended. */
    List<Integer> output(long id) {
      if (!going.containsKey(id)) {
        read(Objects.requireNonNull(begun.get(id)));
      }
      return read.getOrDefault(id, List.of());
    }

    List<Integer> alone(long id) {
      Request request = request(id);
      var prompt = new ArrayList<Integer>();
      for (int i = 0; i < request.promptTokens(); i++) {
        prompt.add(request.prompt().token(i));
      }
      return model.transformer.decode(prompt, request.maxNewTokens());
    }

    Ending ending(Map<Long, RequestHandle> handles, long id) {
      return Objects.requireNonNull(handles.get(id))
          .ended()
          .map(RequestResult::ending)
          .orElseThrow();
    }

    @Override
    public void close() {
      context.close();
      generation.close();
    }
  }

  private static Fleet fleet(long seed) {
    return new Fleet(Loop.OVERLAP, Policy.GUARANTEED_NO_EVICT, Model.FULL, seed, AT_ONCE);
  }

  static Stream<Arguments> fleets() {
    return Arrays.stream(Loop.values())
        .flatMap(loop ->
            Arrays.stream(Policy.values())
                .flatMap(policy ->
                    Arrays.stream(Model.values()).map(model -> Arguments.of(loop, policy, model))));
  }

  @ParameterizedTest
  @MethodSource("fleets")
  void tokensAreThoseOfEachPromptRunAlone(Loop loop, Policy policy, Model model) {
    System.out.println("DisaggregationTest: -Dberth.seed=" + SEED);
    int handed = 0;
    for (int run = 0; run < RUNS; run++) {
      // Some move a page at a time, with little on the way: back-pressure is no exhaustion.
      var transport = run % 2 == 0 ? AT_ONCE : AT_ONCE.with(300, 200);
      try (var fleet = new Fleet(loop, policy, model, SEED + run, transport)) {
        long offered = 0;
        while (offered < 20) {
          for (int n = fleet.between(0, 3); n > 0 && offered < 20; n--) {
            fleet.begin(offered++);
          }
          fleet.step();
        }
        fleet.toTheEnd();
        for (long id = 0; id < offered; id++) {
          assertThat(fleet.ending(fleet.begun, id)).as("%d", id).isEqualTo(Ending.FINISHED);
          if (fleet.going.containsKey(id)) {
            assertThat(fleet.ending(fleet.going, id)).as("%d", id).isEqualTo(Ending.FINISHED);
          }
          assertThat(fleet.output(id))
              .as("seed %d, request %d", SEED + run, id)
              .isEqualTo(fleet.alone(id));
        }
        fleet.context.isEmpty();
        fleet.generation.isEmpty();
        handed += fleet.handed;
      }
    }
    assertThat(handed).as("most went over both").isGreaterThan(RUNS * 8);
  }

  /** A transport of which a few calls are answered otherwise. */
  private interface Meddler {
    Object call(KvTransport inner, Method method, Object[] arguments)
        throws ReflectiveOperationException;
  }

  private static KvTransport meddled(KvTransport inner, Meddler meddler) {
    return (KvTransport)
        Proxy.newProxyInstance(
            DisaggregationTest.class.getClassLoader(),
            new Class<?>[] {KvTransport.class},
            (proxy, method, arguments) -> {
              try {
                return meddler.call(inner, method, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  /** Pages count as transferred only if those of another place give other tokens. */
  @Test
  void pagesThatChangePlacesOnTheWayChangeTheTokens() {
    int changed = 0;
    int[] swaps = new int[1];
    Meddler swapping =
        (inner, method, arguments) -> {
          if (method.getName().equals("fetch") && ((PageList) arguments[3]).size() > 1) {
            arguments[3] = swapped((PageList) arguments[3]);
            swaps[0]++;
          }
          return method.invoke(inner, arguments);
        };
    for (int run = 0; run < RUNS; run++) {
      try (var fleet =
          new Fleet(
              Loop.OVERLAP,
              Policy.GUARANTEED_NO_EVICT,
              Model.FULL,
              SEED + run,
              AT_ONCE,
              transport -> meddled(transport, swapping))) {
        for (long id = 0; id < 12; id++) {
          fleet.begin(id);
        }
        fleet.toTheEnd();
        for (Long id : fleet.going.keySet()) {
          assertThat(fleet.ending(fleet.going, id)).isEqualTo(Ending.FINISHED);
          changed += fleet.output(id).equals(fleet.alone(id)) ? 0 : 1;
        }
      }
    }
    assertThat(swaps[0]).isPositive();
    assertThat(changed).isPositive();
  }

  /** Spec 08 §11: pages of a transfer that isn't quiesced belong to nobody, whatever the time. */
  @Test
  void pagesThatMayStillBeWrittenAreNobodys() {
    boolean[] writing = {true};
    int[] asked = new int[1];
    Meddler restless =
        (inner, method, arguments) -> {
          if (method.getName().equals("quiesced")) {
            asked[0]++;
            return !writing[0];
          }
          Object answer = method.invoke(inner, arguments);
          if (method.getName().equals("poll")) {
            Completion[] all = (Completion[]) arguments[0];
            for (int i = 0; i < (Integer) answer; i++) {
              all[i] =
                  new Completion(
                      all[i].id(), Completion.Outcome.TIMED_OUT, 0, false, "nobody answered");
            }
          }
          return answer;
        };
    try (var fleet =
        new Fleet(
            Loop.OVERLAP,
            Policy.GUARANTEED_NO_EVICT,
            Model.FULL,
            SEED,
            AT_ONCE,
            transport -> meddled(transport, restless))) {
      for (long id = 0; id < 4; id++) {
        fleet.begin(id);
      }
      for (int i = 0; i < 300; i++) {
        fleet.step();
        if (i == 100) { // their pages were asked for long ago
          fleet.going.values().forEach(RequestHandle::cancel);
        }
      }
      assertThat(fleet.going).isNotEmpty();
      assertThat(fleet.generation.engine.live()).isEqualTo(fleet.going.size());
      assertThat(asked[0]).isPositive();
      writing[0] = false;
      fleet.toTheEnd();
      fleet
          .going
          .keySet()
          .forEach(
              id -> assertThat(fleet.ending(fleet.going, id)).isInstanceOf(Ending.Cancelled.class));
      fleet.generation.isEmpty();
    }
  }

  private static PageList swapped(PageList list) {
    int[] pages = new int[list.size()];
    for (int i = 0; i < pages.length; i++) {
      pages[i] = list.get(i);
    }
    int first = pages[0];
    pages[0] = pages[1];
    pages[1] = first;
    return PageList.of(pages);
  }

  @Test
  void aLeaseGivesItsPagesInItsOrderAndInNoOther() {
    int changed = 0;
    int swapped = 0;
    for (int run = 0; run < RUNS; run++) {
      try (var fleet = fleet(SEED + run)) {
        int[] swaps = new int[1];
        fleet.onTheWay = kv -> swapTwoPages(kv, swaps);
        for (long id = 0; id < 12; id++) {
          fleet.begin(id);
        }
        fleet.toTheEnd();
        swapped += swaps[0];
        for (long id = 0; id < 12; id++) {
          boolean failed = fleet.going.containsKey(id) && !finished(fleet, id);
          changed += failed ? 1 : 0;
        }
      }
    }
    assertThat(changed).isEqualTo(swapped).isPositive();
  }

  private static boolean finished(Fleet fleet, long id) {
    return fleet.ending(fleet.going, id).equals(Ending.FINISHED);
  }

  private static KvHandoff swapTwoPages(KvHandoff kv, int[] swaps) {
    KvHandoff.Blocks blocks = kv.stages().getFirst().blocks().getFirst();
    if (blocks.numbers().size() < 2) {
      return kv;
    }
    swaps[0]++;
    return withBlocks(kv, new KvHandoff.Blocks(blocks.numbers(), swapped(blocks.pages())));
  }

  private static KvHandoff withBlocks(KvHandoff kv, KvHandoff.Blocks blocks) {
    KvHandoff.Stage stage = kv.stages().getFirst();
    var all = new ArrayList<>(stage.blocks());
    all.set(0, blocks);
    var stages = new ArrayList<>(kv.stages());
    stages.set(0, new KvHandoff.Stage(stage.offers(), all));
    return new KvHandoff(kv.promptTokens(), kv.firstToken(), stages);
  }

  /** The token that opens the second half comes from the first: another one gives other tokens. */
  @Test
  void theFirstTokenIsTheContextWorkers() {
    int changed = 0;
    for (int run = 0; run < RUNS; run++) {
      try (var fleet = fleet(SEED + run)) {
        fleet.onTheWay =
            kv ->
                new KvHandoff(
                    kv.promptTokens(),
                    (kv.firstToken() + 1) % TinyTransformer.VOCABULARY,
                    kv.stages());
        for (long id = 0; id < 12; id++) {
          fleet.begin(id);
        }
        fleet.toTheEnd();
        for (Long id : fleet.going.keySet()) {
          List<Integer> alone = fleet.alone(id);
          List<Integer> output = fleet.output(id);
          assertThat(output.getFirst())
              .isEqualTo((alone.getFirst() + 1) % TinyTransformer.VOCABULARY);
          int n = Math.min(alone.size(), output.size());
          changed += alone.subList(1, n).equals(output.subList(1, n)) ? 0 : 1;
        }
      }
    }
    assertThat(changed).isPositive();
  }

  @Test
  void aRequestMayComeToTheGenerationWorkerFirst() {
    try (var fleet = fleet(SEED)) {
      for (long id = 0; id < 6; id++) {
        fleet.going.put(id, fleet.generation.engine.submit(fleet.request(id)));
      }
      for (int i = 0; i < 10; i++) {
        fleet.step();
      }
      assertThat(fleet.read).as("nobody runs without its KV").isEmpty();
      for (long id = 0; id < 6; id++) {
        fleet.begin(id);
      }
      var told = new HashMap<Long, Boolean>();
      for (int i = 0; i < 200; i++) {
        fleet.step();
        for (long id = 0; id < 6; id++) {
          long number = id;
          Objects.requireNonNull(fleet.begun.get(id))
              .handoff()
              .toCompletableFuture()
              .getNow(Optional.empty())
              .filter(kv -> told.put(number, true) == null)
              .ifPresent(kv -> Objects.requireNonNull(fleet.going.get(number)).receive(kv));
        }
      }
      fleet.toTheEnd();
      assertThat(told).isNotEmpty();
      for (Long id : told.keySet()) {
        assertThat(fleet.output(id)).isEqualTo(fleet.alone(id));
      }
      for (long id = 0; id < 6; id++) { // whose first token was the last, nobody waited for
        if (!told.containsKey(id)) {
          assertThat(fleet.ending(fleet.going, id))
              .isInstanceOfSatisfying(
                  Ending.Failed.class,
                  e -> assertThat(e.message()).contains("nobody said where it is"));
        }
      }
      fleet.context.isEmpty();
      fleet.generation.isEmpty();
    }
  }

  @Test
  void cancelledAtAnyPointOfItsTransferNothingIsLost() {
    int cancelled = 0;
    for (int run = 0; run < 40; run++) {
      var transport = run % 2 == 0 ? AT_ONCE.with(300, 200) : AT_ONCE;
      try (var fleet =
          new Fleet(
              Loop.values()[run % 4],
              Policy.values()[run / 4 % 4],
              Model.FULL,
              SEED + run,
              transport)) {
        for (long id = 0; id < 14; id++) {
          fleet.begin(id);
        }
        for (int i = 0; i < 60; i++) {
          fleet.step();
          long id = fleet.between(0, 40);
          RequestHandle handle = (fleet.between(0, 1) == 0 ? fleet.begun : fleet.going).get(id);
          if (handle != null) {
            handle.cancel();
          }
        }
        fleet.toTheEnd();
        for (long id = 0; id < 14; id++) {
          if (fleet.going.containsKey(id) && finished(fleet, id)) {
            assertThat(fleet.output(id)).isEqualTo(fleet.alone(id));
          }
          cancelled += fleet.ending(fleet.begun, id) instanceof Ending.Cancelled ? 1 : 0;
        }
        fleet.context.isEmpty();
        fleet.generation.isEmpty();
      }
    }
    assertThat(cancelled).isGreaterThan(20);
  }

  @Test
  void whatNobodyFetchesInTimeComesBackAndIsThenRefused() {
    try (var fleet = fleet(SEED)) {
      var kept = new HashMap<Long, KvHandoff>();
      for (long id = 0; id < 4; id++) {
        fleet.begun.put(
            id,
            fleet.context.engine.submit(
                Request.of(id, 8, 5).withPrompt(Prompt.of(1, 2, 3, 4, 5, 6, 7, 8))));
        fleet.requests.put(id, Request.of(id, 8, 5).withPrompt(Prompt.of(1, 2, 3, 4, 5, 6, 7, 8)));
      }
      for (int i = 0; i < 500; i++) {
        fleet.now += STEP_MICROS;
        fleet.context.step(fleet.now);
        fleet
            .begun
            .values()
            .forEach(handle ->
                handle
                    .handoff()
                    .toCompletableFuture()
                    .getNow(Optional.empty())
                    .ifPresent(kv -> kept.put(handle.id(), kv)));
      }
      assertThat(kept).hasSize(4);
      for (long id = 0; id < 4; id++) {
        assertThat(fleet.ending(fleet.begun, id))
            .isInstanceOfSatisfying(
                Ending.Failed.class, e -> assertThat(e.message()).contains("EXPIRED"));
        fleet.goOn(id, Objects.requireNonNull(kept.get(id)));
      }
      fleet.toTheEnd();
      for (long id = 0; id < 4; id++) {
        assertThat(fleet.ending(fleet.going, id))
            .isInstanceOfSatisfying(
                Ending.Failed.class, e -> assertThat(e.message()).contains("REJECTED"));
      }
      fleet.context.isEmpty();
      fleet.generation.isEmpty();
    }
  }

  @Test
  void aContextWorkerThatGoesAwayEndsWhatWasFetchedFromIt() {
    try (var fleet =
        new Fleet(Loop.OVERLAP, Policy.GUARANTEED_NO_EVICT, Model.FULL, SEED, AT_ONCE.with(1, 1))) {
      for (long id = 0; id < 8; id++) {
        fleet.begin(id);
      }
      for (int i = 0; i < 12; i++) {
        fleet.step();
      }
      assertThat(fleet.going).isNotEmpty();
      fleet.context.close();
      for (int i = 0; i < 300; i++) {
        fleet.now += STEP_MICROS;
        fleet.generation.step(fleet.now);
      }
      assertThat(fleet.going.values()).allMatch(fleet::over);
      assertThat(fleet.going.keySet()).anyMatch(id -> !finished(fleet, id));
      assertThat(fleet.begun.values()).allMatch(fleet::over);
      fleet.generation.isEmpty();
    }
  }

  /** Whatever is wrong with a handoff ends its own request and no other. */
  @Test
  void aHandoffIsHostileInput() {
    try (var fleet = fleet(SEED)) {
      List<UnaryOperator<KvHandoff>> wrong =
          List.of(
              kv -> new KvHandoff(kv.promptTokens() + 1, kv.firstToken(), kv.stages()),
              kv -> new KvHandoff(kv.promptTokens(), kv.firstToken(), List.of()),
              kv ->
                  new KvHandoff(
                      kv.promptTokens(),
                      kv.firstToken(),
                      List.of(new KvHandoff.Stage(List.of(), List.of()))),
              kv -> withBlocks(kv, new KvHandoff.Blocks(List.of(), PageList.of())),
              kv -> withBlocks(kv, withOneMore(kv)),
              kv -> withBlocks(kv, elsewhere(kv)));
      int[] n = new int[1];
      fleet.onTheWay =
          kv -> {
            int which = n[0]++ % (wrong.size() + 1);
            return which == wrong.size() ? kv : wrong.get(which).apply(kv);
          };
      for (long id = 0; id < 28; id++) {
        fleet.begin(id);
      }
      fleet.toTheEnd();
      int good = 0;
      int bad = 0;
      for (Long id : fleet.going.keySet()) {
        if (finished(fleet, id)) {
          assertThat(fleet.output(id)).isEqualTo(fleet.alone(id));
          good++;
        } else {
          assertThat(fleet.ending(fleet.going, id))
              .isInstanceOfSatisfying(
                  Ending.Failed.class,
                  e -> assertThat(e.message()).contains("its KV didn't arrive"));
          bad++;
        }
      }
      assertThat(good).isGreaterThanOrEqualTo(n[0] / (wrong.size() + 1)).isPositive();
      assertThat(bad).isGreaterThanOrEqualTo(wrong.size());
      fleet.context.isEmpty();
      fleet.generation.isEmpty();
    }
  }

  private static KvHandoff.Blocks withOneMore(KvHandoff kv) {
    KvHandoff.Blocks blocks = kv.stages().getFirst().blocks().getFirst();
    var numbers = new ArrayList<>(blocks.numbers());
    numbers.add(1000);
    int[] pages = new int[numbers.size()];
    for (int i = 0; i < blocks.pages().size(); i++) {
      pages[i] = blocks.pages().get(i);
    }
    pages[pages.length - 1] = 1 << 20;
    return new KvHandoff.Blocks(numbers, PageList.of(pages));
  }

  private static KvHandoff.Blocks elsewhere(KvHandoff kv) {
    KvHandoff.Blocks blocks = kv.stages().getFirst().blocks().getFirst();
    int[] pages = new int[blocks.pages().size()];
    for (int i = 0; i < pages.length; i++) {
      pages[i] = Integer.MAX_VALUE - i;
    }
    return new KvHandoff.Blocks(blocks.numbers(), PageList.of(pages));
  }

  @Test
  void bytesThatAreNoHandoffAreRefusedWhateverTheyAre() {
    var random = RandomGeneratorFactory.of("L64X128MixRandom").create(SEED);
    byte[] good;
    try (var fleet = fleet(SEED)) {
      var caught = new ArrayList<KvHandoff>();
      fleet.onTheWay =
          kv -> {
            caught.add(kv);
            return kv;
          };
      for (long id = 0; id < 8; id++) {
        fleet.begin(id);
      }
      fleet.toTheEnd();
      good = caught.getFirst().bytes();
      assertThat(KvHandoff.of(good)).isEqualTo(caught.getFirst());
    }
    for (int i = 0; i < 10_000; i++) {
      byte[] bytes =
          Arrays.copyOf(good, random.nextInt(4) == 0 ? random.nextInt(good.length) : good.length);
      for (int n = random.nextInt(1, 5); n > 0 && bytes.length > 0; n--) {
        bytes[random.nextInt(bytes.length)] ^= (byte) random.nextInt(1, 256);
      }
      if (random.nextBoolean() && bytes.length > 8) { // as one who can count would send it
        var crc = new CRC32C();
        crc.update(bytes, 0, bytes.length - 4);
        ByteBuffer.wrap(bytes).putInt(bytes.length - 4, (int) crc.getValue());
      }
      try {
        KvHandoff.of(bytes);
      } catch (BerthException e) {
        assertThat(e.code()).isEqualTo(Code.ARGUMENT);
      }
    }
  }

  @Test
  void whatCannotTransferIsRefusedAtStart() {
    var network = new InProcessTransport.Network();
    Engine.Transports transports = rank -> network.open(AT_ONCE, () -> 0);
    EngineConfig sends = config(Loop.OVERLAP, Model.FULL, WorkerRole.CONTEXT, 2, 2, 20);
    assertThat(sends.sends()).isTrue();
    refused(sends.toBuilder().transfer(EngineConfig.Transfer.NONE).build(), transports);
    refused(sends.withKv(KvSetup.counted(20)), transports);
    refused(config(Loop.OVERLAP, Model.FULL, WorkerRole.AGGREGATED, 2, 2, 20), transports);
    assertThatThrownBy(() -> Transceiver.Options.DEFAULT.withTimes(5, 5))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION));
  }

  private static void refused(EngineConfig config, Engine.Transports transports) {
    assertThatThrownBy(() -> Engine.builder(config).transports(transports, TIMES).open())
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION));
  }
}
