// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.BalanceGate;
import dev.berth.engine.BatchWait;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.EngineConfig.RetiringTokens;
import dev.berth.engine.FillGate;
import dev.berth.engine.KvSetup;
import dev.berth.engine.RetiringMark;
import dev.berth.engine.WorkerRole;
import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.plan.PolicySet;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Prompt;
import dev.berth.request.QueueRules;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;
import dev.berth.request.WaitingQueue;
import dev.berth.route.ConversationRouter;
import dev.berth.route.KvAwareRouter;
import dev.berth.route.NewConversation;
import dev.berth.route.PlacementView;
import dev.berth.route.RankCap;
import dev.berth.route.RouterChoice;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;

/** Draws a world from its seed: a configuration that may be, a load, and what befalls them. */
final class WorldDraw {
  /** About what an iteration with a forward takes in a world, µs. */
  static final int ITERATION_MICROS = 250;

  /** Nodes of a world: more than any pair of one rank and another shows nothing new. */
  private static final int MOST_NODES = 12;

  private static final int FAMILIES = 4;
  private static final int VOCABULARY = 50_000;
  private static final Map<Integer, KvLayout> LAYOUTS = new ConcurrentHashMap<>();

  private final SplittableRandom random;
  private final BrokenRule broken;
  private int tokensPerBlock;
  private int longestPrompt;
  private int longestOutput;
  private int requests;
  private boolean paged;
  private boolean deadlocks;

  private WorldDraw(long seed, BrokenRule broken) {
    this.random = new SplittableRandom(seed);
    this.broken = broken;
  }

  /** The world of a seed. */
  static WorldPlan of(long seed, BrokenRule broken) {
    return new WorldDraw(seed, broken).draw(seed);
  }

  private int between(int lowest, int highest) {
    return random.nextInt(lowest, highest + 1);
  }

  private boolean oneIn(int n) {
    return random.nextInt(n) == 0;
  }

  private <T> T any(T[] values) {
    return values[random.nextInt(values.length)];
  }

  private WorldPlan draw(long seed) {
    requests = between(50, 120);
    EngineConfig config = config();
    long span = (long) between(210, 390) * ITERATION_MICROS;
    List<Arrival> arrivals = arrivals(config, span);
    List<Happening> happenings = happenings(config, arrivals, span);
    var kept = new BitSet();
    kept.set(0, arrivals.size());
    return new WorldPlan(
        seed,
        broken,
        config,
        any(WorldPlan.Admissions.values()),
        arrivals,
        kept,
        happenings,
        IntStream.range(arrivals.size(), arrivals.size() + happenings.size()).boxed().toList());
  }

  // ------------------------------------------------------------------------------ configuration

  private EngineConfig config() {
    WorkerRole role = any(WorkerRole.values());
    boolean generation = role == WorkerRole.GENERATION;
    boolean answers = generation && oneIn(2); // more output than prompt: many give way
    longestPrompt = answers ? between(3, 10) : between(4, 40);
    longestOutput = answers ? between(8, 20) : between(2, 14);
    tokensPerBlock = 1 << between(1, 3);
    int batch = between(1, 4);
    int drafts = oneIn(4) ? between(1, 3) : 0;
    int stages = oneIn(3) ? between(2, 3) : 1;
    boolean attentionDp = !oneIn(7);
    int ranks = Math.min(between(2, 6), MOST_NODES / stages);
    var shape =
        WorkerShape.builder(batch)
            .ranks(ranks)
            .pipelineSize(stages)
            .draftTokens(drafts)
            .tokensPerBlock(tokensPerBlock)
            .maxSeqLen(longestPrompt + longestOutput);
    if (generation ? !oneIn(3) : oneIn(2)) {
      shape.maxNumTokens((1 + drafts) * between(1, batch) + between(0, longestPrompt));
    }
    if (attentionDp) {
      shape.with(Trait.ATTENTION_DP);
    }
    if (!oneIn(3)) {
      shape.with(Trait.OVERLAP);
    }
    if (generation || oneIn(6)) {
      shape.transferBackend("NIXL");
    }
    SeatPlan plan = SeatPlan.of(shape.build(), any(SeatPolicy.values())).orThrow();
    if (broken == BrokenRule.RETIRING_CHARGED) {
      plan = plan.withWhatIf(WhatIf.builder().with(WhatIf.Switch.CHARGE_RETIRING).build());
    }
    // A generation worker computes prompts of requests that gave way only: make it often in chunks.
    Chunking chunking =
        (generation ? !oneIn(3) : oneIn(2)) ? Chunking.FIRST_COME_FIRST_SERVED : Chunking.NONE;
    PolicySet policies = oneIn(3) ? PolicySet.TRTLLM_2026_09 : PolicySet.BERTH_1;
    // Difference D10: a context in the middle of its prompt and a head that comes back before it,
    // because it waited to
    // share or for its reader.
    deadlocks = policies == PolicySet.TRTLLM_2026_09 && chunking != Chunking.NONE;
    var config =
        EngineConfig.builder(plan, role)
            .chunkedContext(chunking)
            .retiringTokens(oneIn(4) ? RetiringTokens.RAW : RetiringTokens.EXCLUDED)
            .router(router())
            .queue(new QueueRules(any(WaitingQueue.Policy.values()), between(0, 40)))
            .policies(policies);
    FillGate gate = generation && random.nextInt(5) < 3 ? gate(plan) : FillGate.NONE;
    CapacityRule capacity = capacity(gate, generation);
    // Difference D14: a request to be received behind a batch that waits for it.
    boolean hangs = policies == PolicySet.TRTLLM_2026_09 && gate.active();
    if (capacity == CapacityRule.MAX_UTILIZATION && !hangs && oneIn(3)) {
      config.scheduler(SchedulerKind.ONE_LOOP);
    }
    config.hold(hold(plan));
    config.capacity(capacity).gate(gate).kv(kv(plan, gate, capacity, chunking));
    switch (broken) {
      case RANGE_END_20 -> config.rangeEnd(20).kv(KvSetup.UNLIMITED);
      case LAST_STAGE_MARK ->
          config.mark(stages > 1 ? RetiringMark.LAST_STAGE : RetiringMark.EVERY_STAGE);
      case CAP_OFF -> config.cap(RankCap.OFF);
      case NONE, RETIRING_CHARGED, COUNT_GATE, ROUTABLE_IDLE, LOCAL_CANCEL, NO_WATCH -> {}
    }
    return config.build();
  }

  private ContextHold hold(SeatPlan plan) {
    boolean attentionDp = plan.shape().attentionDp();
    if (oneIn(2) || !attentionDp && plan.shape().maxNumTokens() == 0) {
      return ContextHold.NEVER;
    }
    if (!attentionDp) {
      return new ContextHold.Batched(new BatchWait.Rules(between(1, 4), random.nextDouble()));
    }
    int timeout = between(0, 6);
    return new ContextHold.Balanced(
        new BalanceGate.Rules(
            timeout,
            between(0, 3),
            between(0, plan.batchPositions().count()),
            between(0, timeout)));
  }

  /** Those under which requests give way come as often as the others together. */
  private CapacityRule capacity(FillGate gate, boolean generation) {
    if (oneIn(2)) {
      return CapacityRule.MAX_UTILIZATION;
    }
    if (gate.active() || oneIn(3)) {
      return CapacityRule.GUARANTEED_NO_EVICT;
    }
    return generation || oneIn(2) ? CapacityRule.STATIC_BATCH : CapacityRule.MAX_REQUESTS;
  }

  /** Pages for a request or a few; where a fill is to be, for all that a rank may hold. */
  private KvSetup kv(SeatPlan plan, FillGate gate, CapacityRule capacity, Chunking chunking) {
    int worst = Math.ceilDiv(plan.shape().maxSeqLen() + plan.shape().draftTokens(), tokensPerBlock);
    int batch = plan.batchPositions().count();
    int most = capacity == CapacityRule.MAX_UTILIZATION ? 1 + batch / 2 : 1 + batch;
    int room = worst * between(1, most) + between(0, worst);
    int few = oneIn(8) ? Math.max(1, worst - between(0, 2)) : room;
    boolean gives =
        capacity == CapacityRule.MAX_UTILIZATION
            && (chunking != Chunking.NONE || plan.shape().maxNumTokens() == 0);
    int begun = Math.ceilDiv(longestPrompt + 2 + plan.shape().draftTokens(), tokensPerBlock);
    int pages = gate.active() ? (gives ? begun : worst) * plan.admissionCap() : few;
    KvSetup setup =
        switch (random.nextInt(4)) {
          case 0 -> KvSetup.UNLIMITED;
          case 1 -> KvSetup.counted(pages);
          default -> cache(pages);
        };
    paged = setup instanceof KvSetup.Paged;
    return setup;
  }

  private KvSetup cache(int pages) {
    KvLayout layout =
        LAYOUTS.computeIfAbsent(
            tokensPerBlock,
            tokens ->
                KvLayout.plan(tokens, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL))));
    return KvSetup.paged(layout, KvSizes.device(pages))
        .withIndex(oneIn(6) ? 0 : pages, any(KvConfig.Partial.values()))
        .withPaused(any(KvSetup.Paused.values()))
        .withSharing(deadlocks ? KvSetup.Sharing.EACH_COMPUTES : any(KvSetup.Sharing.values()));
  }

  /** No more than the fleet can hold (spec 06 BC-40). */
  private FillGate gate(SeatPlan plan) {
    var kind = broken == BrokenRule.COUNT_GATE ? FillGate.Kind.COUNT : FillGate.Kind.STATE;
    return new FillGate(kind, between(1, Math.min(requests / 2, plan.fleetCapacity())));
  }

  private RouterChoice router() {
    PlacementView view = oneIn(3) ? PlacementView.RESIDENT : PlacementView.ADMISSION;
    return switch (random.nextInt(4)) {
      case 0 ->
          new RouterChoice.KvAware(
              KvAwareRouter.Options.DEFAULTS
                  .with(any(KvAwareRouter.ColdStart.values()))
                  .with(view));
      case 1 ->
          new RouterChoice.Conversation(
              ConversationRouter.Options.DEFAULTS
                  .withMaxSessions(between(1, 8))
                  .with(any(NewConversation.values()))
                  .with(view));
      default -> new RouterChoice.Default(view);
    };
  }

  // ------------------------------------------------------------------------------ load

  private List<Arrival> arrivals(EngineConfig config, long span) {
    int[] bursts =
        IntStream.range(0, between(3, 14)).map(i -> (int) (span * random.nextDouble())).toArray();
    long[] times = new long[requests];
    for (int i = 0; i < requests; i++) {
      boolean fill = i < config.gate().target();
      boolean burst = random.nextBoolean();
      times[i] =
          fill ? between(0, 1000) : burst ? any(bursts) : (long) (span * random.nextDouble());
    }
    Arrays.sort(times);
    boolean wishes = oneIn(3);
    boolean tenants = config.queue().policy() == WaitingQueue.Policy.FAIR || oneIn(6);
    boolean reuse = oneIn(2);
    long base = random.nextLong();
    int names = 0;
    var arrivals = new ArrayList<Arrival>(requests);
    for (int i = 0; i < requests; i++) {
      boolean again = reuse && names > 0 && oneIn(12);
      int name = again ? random.nextInt(names) : names++;
      Request request = request(i, base + 37L * name, config);
      if (wishes && oneIn(2)) {
        request = request.withScheduling(wish(config.ranks()));
      }
      request = request.withTerms(terms(config, times[i], tenants));
      arrivals.add(new Arrival(times[i], request, name, between(20, 600)));
    }
    return List.copyOf(arrivals);
  }

  private int any(int[] values) {
    return values[random.nextInt(values.length)];
  }

  private Request request(int number, long id, EngineConfig config) {
    int prompt = between(1, longestPrompt);
    int output = oneIn(5) ? 1 : between(1, longestOutput);
    if (oneIn(40)) {
      prompt += longestPrompt + longestOutput; // can never fit
    }
    int family = random.nextInt(FAMILIES);
    var request =
        new Request(
            id,
            prompt,
            output,
            config.queue().policy() == WaitingQueue.Policy.PRIORITY || oneIn(8)
                ? between(0, 3) / 2.0
                : Request.DEFAULT_PRIORITY,
            SchedulingParams.NONE,
            config.gate().active() || !oneIn(16) ? 0 : between(1, 2), // a fill counts requests
            number,
            ServiceTerms.NONE,
            config.router() instanceof RouterChoice.Conversation
                ? RouteKey.conversation("c" + between(0, 9))
                : RouteKey.NONE);
    return paged && !oneIn(10) ? request.withPrompt(prompt(request, family)) : request;
  }

  /** Requests of a family begin alike, as far as each likes. */
  private Prompt prompt(Request request, int family) {
    int shared = between(0, request.promptTokens());
    int[] tokens = new int[request.promptTokens()];
    for (int i = 0; i < tokens.length; i++) {
      long whose = i < shared ? family : 1000 + request.tag();
      tokens[i] = Noise.below(Noise.of(whose, i), VOCABULARY);
    }
    Prompt prompt = Prompt.of(tokens);
    if (oneIn(8)) {
      prompt = prompt.withAdapter(between(0, 1));
    }
    return oneIn(8) ? prompt.withSalt(between(0, 1)) : prompt;
  }

  private SchedulingParams wish(int ranks) {
    Relax relax = any(Relax.values());
    return oneIn(4)
        ? SchedulingParams.untargeted(relax)
        : SchedulingParams.target(random.nextInt(ranks), relax);
  }

  private ServiceTerms terms(EngineConfig config, long at, boolean tenants) {
    ServiceTerms terms =
        tenants
            ? ServiceTerms.ofTenant(between(0, 3)).withWeight(between(1, 3))
            : ServiceTerms.NONE;
    if (config.queue().policy() != WaitingQueue.Policy.DEADLINE || oneIn(3)) {
      return terms;
    }
    return terms.withDeadline(oneIn(8) ? 0 : at / ITERATION_MICROS + between(1, 80));
  }

  // ------------------------------------------------------------------------------ accidents

  private static final Set<Fault> EVERYWHERE =
      EnumSet.of(
          Fault.CANCEL,
          Fault.EARLY_END,
          Fault.RESULT_LOST,
          Fault.SLOW_READER,
          Fault.RUNNER_ERROR,
          Fault.SLOW_RANK,
          Fault.CLOCK_JUMPS,
          Fault.OFFERED_TWICE);

  private static final Set<Fault> WITH_TRANSFERS =
      EnumSet.of(
          Fault.TRANSFER_LATE,
          Fault.TRANSFER_FAILS,
          Fault.TRANSFER_TIMES_OUT,
          Fault.SIGNAL_REPEATED);

  private static final Set<Fault> WITH_PEERS = EnumSet.of(Fault.MESSAGES_LATE, Fault.MESSAGES_LOST);

  /** States that don't last, or need pages to run out. */
  private static final Seen[] SELDOM = {Seen.CHUNKED_CONTEXT, Seen.GAVE_WAY, Seen.ENDING};

  private List<Happening> happenings(EngineConfig config, List<Arrival> arrivals, long span) {
    var possible = EnumSet.copyOf(EVERYWHERE);
    if (config.role() == WorkerRole.GENERATION) {
      possible.addAll(WITH_TRANSFERS);
    }
    if (deadlocks) { // whoever is held back comes back to the head, before one that has started
      possible.remove(Fault.SLOW_READER);
    }
    int nodes = config.ranks() * config.stages();
    if (nodes > 1) {
      possible.addAll(WITH_PEERS);
    }
    var all = new ArrayList<Happening>();
    for (Fault fault : possible) {
      for (int i = oneIn(2) ? between(2, most(fault)) : 0; i > 0; i--) {
        all.add(happening(fault, nodes, arrivals, span));
      }
    }
    if (oneIn(7)) {
      Arrival when = arrivals.get(random.nextInt(arrivals.size()));
      Seen state = oneIn(2) ? any(SELDOM) : any(Seen.values());
      all.add(new Happening(Fault.DEAD_RANK, random.nextInt(nodes), when.at(), state.ordinal()));
    }
    all.sort(Comparator.comparingLong(Happening::at));
    return List.copyOf(all);
  }

  private static int most(Fault fault) {
    return switch (fault) {
      case CANCEL,
          EARLY_END,
          RESULT_LOST,
          TRANSFER_LATE,
          TRANSFER_FAILS,
          TRANSFER_TIMES_OUT,
          SIGNAL_REPEATED ->
          20;
      case OFFERED_TWICE -> 16;
      case MESSAGES_LATE, MESSAGES_LOST, RUNNER_ERROR -> 10;
      default -> 6;
    };
  }

  private Happening happening(Fault fault, int nodes, List<Arrival> arrivals, long span) {
    int request = random.nextInt(arrivals.size());
    Arrival arrival = arrivals.get(request);
    int node = random.nextInt(nodes);
    long at = random.nextLong(span);
    return switch (fault) {
      case CANCEL -> new Happening(fault, request, arrival.at() + between(0, 2500), 0);
      case OFFERED_TWICE -> new Happening(fault, request, arrival.at() + between(0, 1000), 0);
      case SLOW_READER ->
          new Happening(fault, request, arrival.at() + between(0, 1500), between(100, 3000));
      case EARLY_END, RESULT_LOST ->
          new Happening(fault, request, 0, between(1, arrival.request().maxNewTokens()));
      case TRANSFER_LATE -> new Happening(fault, request, 0, between(200, 4000));
      case TRANSFER_FAILS, TRANSFER_TIMES_OUT -> new Happening(fault, request, 0, 0);
      case SIGNAL_REPEATED -> new Happening(fault, request, 0, between(0, 3000));
      case RUNNER_ERROR -> new Happening(fault, node, at, random.nextInt(2));
      case SLOW_RANK -> new Happening(fault, node, at, between(3, 30));
      case MESSAGES_LATE -> new Happening(fault, node, at, between(50, 5000));
      case MESSAGES_LOST -> new Happening(fault, node, at, between(1, 3));
      case CLOCK_JUMPS -> {
        int jump = between(500, 50_000);
        // One in eight ends a turn of the watch that has only begun.
        jump += jump % 8 == 0 ? (int) World.WATCH_MICROS : 0;
        yield new Happening(fault, node, at, random.nextBoolean() ? jump : -jump);
      }
      case DEAD_RANK, ID_REUSED, NEVER_FITS, EXPIRED -> throw new AssertionError(fault);
    };
  }
}
