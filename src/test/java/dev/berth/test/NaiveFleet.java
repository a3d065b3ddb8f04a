// SPDX-License-Identifier: Apache-2.0
package dev.berth.test;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillGate;
import dev.berth.engine.FillRules;
import dev.berth.engine.FillWarmUp;
import dev.berth.engine.RetiringMark;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.PolicySet;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestState;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitReason;
import dev.berth.route.PlacementView;
import dev.berth.route.RankCap;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.TreeMap;

/**
 * The ranks of a worker once more, as spec 01 §2-§4, §7, §8 and §10 tell it, in plain collections:
 * one object a request, no rows, no handles, no native code. Slow and meant to be read. It knows
 * whole fleets only: what one stage of a pipeline decides, all decide.
 */
public final class NaiveFleet {
  /** A request on a rank. */
  private static final class Sequence {
    final Request request;
    int prompt; // what gave way comes back with its output as prompt
    int maxNewTokens; // to come
    int before; // output that became prompt
    RequestState state;
    int context; // prompt tokens whose forward was launched
    int settled; // output tokens whose result is known
    int underway; // output tokens launched, result not known
    int flights; // launched batches that hold it
    boolean seat;
    boolean lease;
    long pages;
    boolean cancelled;
    boolean encoderPending; // its encoder hasn't been started
    boolean encoderRuns;
    String end = "";

    Sequence(Request request, int maxNewTokens, RequestState state) {
      this.request = request;
      this.prompt = request.promptTokens();
      this.maxNewTokens = maxNewTokens;
      this.state = state;
      this.context = state == RequestState.GENERATION_INIT ? request.promptTokens() : 0;
      this.encoderPending = prefills() && request.encoderTokens() > 0;
    }

    boolean awaitsEncoder() {
      return prefills() && (encoderPending || encoderRuns);
    }

    boolean prefills() {
      return state == RequestState.CONTEXT_INIT;
    }

    boolean retiring() {
      return state == RequestState.RETIRING;
    }
  }

  /** A batch position: a sequence and its tokens; the dummy is a position without a sequence. */
  private record Position(Sequence sequence, int tokens, boolean makesToken, boolean context) {}

  private static final class Batch {
    final List<Position> positions = new ArrayList<>();
    boolean dummy;

    int size() {
      return positions.size() + (dummy ? 1 : 0);
    }

    int tokens() {
      return positions.stream().mapToInt(Position::tokens).sum() + (dummy ? 1 : 0);
    }
  }

  private static final class Rank {
    final List<Sequence> active = new ArrayList<>(); // in order of admission
    final Set<Sequence> over = new HashSet<>(); // ended, still held by a launched batch
    final Deque<Batch> flying =
        new ArrayDeque<>(); // oldest first; an empty batch where nothing was launched
    final List<String> done = new ArrayList<>();
    final Map<WaitReason, Integer> deferred = new EnumMap<>(WaitReason.class);
    boolean padded;
    boolean late; // the dummy came after scheduling
    int encoderWaited;
    final List<Long> encodes = new ArrayList<>();
    Batch batch = new Batch();
    int resident;
    int tokensOut;
    final List<Sequence> claimed = new ArrayList<>();
    final Set<Sequence> hadLease = new HashSet<>();
    final Map<Sequence, Long> grown = new HashMap<>(); // pages before this iteration
    int paused;

    List<Sequence> holders() {
      List<Sequence> all = new ArrayList<>(active);
      all.addAll(over);
      return all;
    }

    void defer(WaitReason reason) {
      deferred.merge(reason, 1, Integer::sum);
    }
  }

  /**
   * What an iteration decided.
   *
   * @param states of every rank at the gather
   * @param assigned ids of every rank
   * @param done {@code id:end:tokens} of every rank, sorted
   */
  public record Iteration(
      List<Map<RequestState, Integer>> states,
      List<Long> tokensIn,
      long charged,
      long budget,
      int expected,
      List<List<Long>> assigned,
      List<Boolean> padded,
      List<Integer> resident,
      List<Integer> scheduled,
      List<Integer> contexts,
      List<Integer> batchTokens,
      List<Map<WaitReason, Integer>> deferred,
      List<Integer> paused,
      boolean held,
      boolean canQueue,
      boolean contextsHeld,
      List<List<Long>> encodes,
      List<Integer> tokensOut,
      List<List<String>> done,
      List<Integer> seats,
      List<Integer> leases,
      List<Long> pages) {}

  private final EngineConfig config;
  private final int batchPositions;
  private final int cap; // K
  private final long capacity; // A
  private final int tokenLimit;
  private final boolean adp;
  private final boolean overlap;
  private final int stages;
  private final List<Rank> ranks = new ArrayList<>();
  private final LinkedList<Request> queue = new LinkedList<>();
  private final Map<Long, Integer> stopAt = new HashMap<>();
  private final Map<Long, RequestState> news =
      new HashMap<>(); // what happens to a transfer before the next step
  private final Set<Long> cancels = new HashSet<>();
  private final Set<Long> encoded = new HashSet<>();
  private boolean contextDummy;
  private int unbalanced; // iterations that contexts were held because ranks differ
  private int balanced; // that they were held although they don't, for more of them
  private int waitedForTokens;

  /** The fleet fails: what it waits for can't come, or didn't. */
  public static final class Stalled extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }

  // A rank's frame is made when its step ends, or where it pauses, when it goes on.
  private boolean late;
  private int arrived;
  private boolean warming;
  private boolean frameProgress;
  private boolean frameWarming;
  private long pauses; // since the last progress
  private boolean paused;
  private boolean gateOpen;
  private long fetched;
  private long ramp;

  public NaiveFleet(EngineConfig config) {
    this.config = config;
    var shape = config.plan().shape();
    this.adp = shape.attentionDp();
    this.stages = shape.pipelineSize();
    this.overlap = stages == 1 && shape.overlap();
    this.batchPositions = shape.maxBatchSize();
    this.tokenLimit = shape.maxNumTokens() == 0 ? Integer.MAX_VALUE : shape.maxNumTokens();
    int base = stages * batchPositions;
    this.cap = adp ? Math.min(base, tokenLimit / (1 + shape.draftTokens())) : base;
    int count = adp ? shape.ranks() : 1;
    this.capacity = (long) count * cap;
    for (int rank = 0; rank < count; rank++) {
      ranks.add(new Rank());
    }
    this.gateOpen = !config.gate().active();
  }

  public void offer(Request request) {
    queue.add(adp ? request : request.withScheduling(SchedulingParams.NONE));
  }

  /** The sequence ends with its n-th output token whatever its limit says. */
  public void stopAt(long id, int token) {
    stopAt.put(id, token);
  }

  /** Nobody wants the request any more; it waits or lives. */
  public void cancel(long id) {
    if (!queue.removeIf(r -> r.id() == id)) {
      cancels.add(id);
    }
  }

  /** The KV of a request arrived, or its transfer failed, before the next step. */
  public void transferOver(long id, RequestState becomes) {
    news.put(id, becomes);
    arrived += becomes == RequestState.GENERATION_TRANSFER_COMPLETE ? 1 : 0;
  }

  /** The output of a request's encoder is here, before the next step. */
  public void encoded(long id) {
    encoded.add(id);
  }

  /** Whether a warm-up is on. */
  public void warmUp(FillWarmUp phase) {
    warming = phase == FillWarmUp.ON;
  }

  private void frame() {
    frameProgress = arrived > 0;
    frameWarming = warming;
    arrived = 0;
  }

  /** Requests whose encoder runs. */
  public List<Long> encoding() {
    return ranks.stream()
        .flatMap(r -> r.active.stream())
        .filter(s -> s.encoderRuns)
        .map(s -> s.request.id())
        .toList();
  }

  /** Requests whose KV is on the way. */
  public List<Long> inTransfer() {
    return ranks.stream()
        .flatMap(r -> r.active.stream())
        .filter(s -> s.state == RequestState.GENERATION_TRANSFER)
        .map(s -> s.request.id())
        .toList();
  }

  /** Ids of requests that live, and of those that wait. */
  public List<Long> present() {
    var all = new ArrayList<Long>(queue.stream().map(Request::id).toList());
    ranks.forEach(r -> r.active.forEach(s -> all.add(s.request.id())));
    return all;
  }

  public boolean gateOpen() {
    return gateOpen;
  }

  // ------------------------------------------------------------------------------ one iteration

  /** One iteration; empty if nothing lives and nothing waits. */
  public java.util.Optional<Iteration> step() {
    // gather (spec 01 §2.1): retirees are left out where they aren't charged; what is over is never
    // routable
    int n = ranks.size();
    if (late) {
      frame();
    }
    long[] routable = new long[n];
    long[] tokens = new long[n];
    long live = 0;
    var states = new ArrayList<Map<RequestState, Integer>>();
    for (int r = 0; r < n; r++) {
      Rank rank = ranks.get(r);
      Map<RequestState, Integer> counts = new EnumMap<>(RequestState.class);
      for (Sequence s : rank.active) {
        counts.merge(s.state, 1, Integer::sum);
        boolean leftOut = s.retiring() && config.plan().excludesRetiring();
        routable[r] += leftOut ? 0 : 1;
        boolean tokensLeftOut =
            leftOut && config.retiringTokens() == EngineConfig.RetiringTokens.EXCLUDED;
        tokens[r] += tokensLeftOut ? 0 : s.request.promptTokens();
      }
      states.add(counts);
      live += rank.holders().size();
    }
    boolean held = !frameWarming && askGate();
    boolean progress = held && frameProgress;
    pauses = !held || progress ? 0 : pauses + (paused ? 1 : 0);
    long bound = config.fill().stallMicros();
    if (bound > 0 && pauses * 100_000 >= bound) {
      throw new Stalled();
    }
    if (live == 0 && queue.isEmpty()) {
      late = true;
      paused = false;
      return java.util.Optional.empty();
    }
    long charged = java.util.Arrays.stream(routable).sum();

    // budget, pop, route (§3, §4)
    long budget = capacity - charged;
    if (held) {
      boolean doubles = config.fill().ramp() == FillRules.Ramp.DOUBLING;
      ramp = ramp == 0 || !doubles ? n : Math.min(2 * ramp, capacity);
      budget = Math.min(budget, ramp);
    } else {
      ramp = 0;
    }
    List<Request> popped = pop(budget, routable);
    fetched += frameWarming ? 0 : popped.size();
    paused = held && !progress && popped.isEmpty();
    late = paused;
    List<List<Request>> assigned = new ArrayList<>();
    long[] beside = new long[n];
    long[] load = tokens.clone();
    if (config.router().view() == PlacementView.RESIDENT) {
      weighRetiring(popped, routable, load, beside);
    }
    int expected = route(popped, routable, load, beside, assigned);
    if (config.plan().shape().disaggregated() && !popped.isEmpty()) {
      contextDummy =
          switch (config.role()) {
            case CONTEXT -> true;
            case GENERATION -> false;
            case AGGREGATED -> contextDummy;
          };
    }

    // what happened since, then who arrives
    for (int r = 0; r < n; r++) {
      Rank rank = ranks.get(r);
      rank.done.clear();
      rank.deferred.clear();
      rank.padded = false;
      rank.tokensOut = 0;
      applyNews(rank);
      assigned.get(r).forEach(request -> rank.active.add(enter(request)));
      rank.resident = rank.active.size();
    }
    news.clear();
    cancels.clear();
    encoded.clear();

    // pad, schedule, pad (§7.1, §7.2)
    for (int r = 0; r < n; r++) {
      Rank rank = ranks.get(r);
      rank.batch = new Batch();
      rank.claimed.clear();
      rank.hadLease.clear();
      rank.grown.clear();
      rank.paused = 0;
      boolean fills = held;
      boolean before =
          adp && !fills && Math.max(expected, routable[r]) > 0 && forwardable(rank) == 0;
      if (config.scheduler() == SchedulerKind.ONE_LOOP) {
        scheduleInOneLoop(rank);
      } else {
        scheduleInStages(rank);
      }
      boolean after =
          adp
              && stages == 1
              && !fills
              && !before
              && expected > 0
              && rank.batch.size() == 0
              && !rank.active.isEmpty()
              && rank.active.size() < cap;
      boolean context = before && contextDummy;
      int dummyTokens = context ? 1 : 1 + config.plan().shape().draftTokens();
      int dummyPages = Math.ceilDiv(dummyTokens, config.plan().shape().tokensPerBlock());
      // All its pages are free, or there is none; requests come first.
      rank.padded = (before || after) && dummyPages <= freePages(rank);
      rank.late = after;
      rank.batch.dummy = rank.padded;
    }

    // vote (§7): one empty rank vetoes the forward everywhere
    boolean canQueue = ranks.stream().allMatch(r -> r.batch.size() > 0);
    boolean launched = canQueue && !held;
    failFast(held);
    boolean contextsHeld = holdsContexts();
    for (Rank rank : ranks) {
      if (contextsHeld) {
        dropContexts(rank);
      }
      encode(rank);
      if (launched) {
        launch(rank.batch);
      } else {
        rank.claimed.forEach(s -> {
          s.seat = false;
          if (!rank.hadLease.contains(s)) {
            s.lease = false;
            s.pages = 0;
          }
        });
        rank.grown.forEach((s, pages) -> s.pages = Math.min(s.pages, pages));
      }
      if (held) {
        rank.batch.positions.forEach(p -> rank.defer(WaitReason.GATE));
      } else {
        settle(rank, launched);
      }
      if (launched && marks()) {
        markRetiring(rank.batch);
      }
    }

    if (!late) {
      frame();
    }
    return java.util.Optional.of(
        new Iteration(
            states,
            java.util.Arrays.stream(tokens).boxed().toList(),
            charged,
            budget,
            expected,
            assigned.stream().map(list -> list.stream().map(Request::id).toList()).toList(),
            each(r -> r.padded),
            each(r -> r.resident),
            each(r -> r.batch.size()),
            each(r -> (int) r.batch.positions.stream().filter(Position::context).count()),
            each(r -> r.batch.tokens()),
            each(r -> Map.copyOf(r.deferred)),
            each(r -> r.paused),
            held,
            canQueue,
            contextsHeld,
            each(r -> List.copyOf(r.encodes)),
            each(r -> r.tokensOut),
            each(r -> r.done.stream().sorted().toList()),
            each(r -> (int) r.holders().stream().filter(s -> s.seat).count()),
            each(r -> (int) r.holders().stream().filter(s -> s.lease).count()),
            each(r -> r.holders().stream().mapToLong(s -> s.pages).sum())));
  }

  private <T> List<T> each(java.util.function.Function<Rank, T> what) {
    return ranks.stream().map(what).toList();
  }

  /** §8.3 and the table of #13347. */
  private void failFast(boolean held) {
    boolean stuck = ranks.stream().anyMatch(rank -> isStuck(rank, held));
    boolean all = config.gate().active() && fetched >= config.gate().target();
    boolean fails =
        switch (config.fill().failFast()) {
          case OFF -> false;
          case SUPPRESS_DURING_FILL -> stuck && !held;
          case FILL_ONLY_VOTE -> stuck && held && all;
        };
    if (fails) {
      throw new Stalled();
    }
  }

  /** Somebody's KV can't be asked for, and nobody will make room. */
  private boolean isStuck(Rank rank, boolean held) {
    return config.transfer() == EngineConfig.Transfer.TRANSCEIVER
        && rank.over.isEmpty()
        && (held || rank.batch.positions.isEmpty())
        && rank.active.stream()
            .noneMatch(s -> s.state == RequestState.GENERATION_TRANSFER || s.flights > 0)
        && rank.active.stream().anyMatch(s -> s.state == RequestState.GENERATION_INIT);
  }

  /** §9: what each rank scheduled, before an empty batch was padded. */
  private boolean holdsContexts() {
    List<Integer> contexts = each(r -> contexts(r) + (earlyDummy(r) && contextDummy ? 1 : 0));
    List<Integer> real = each(r -> r.batch.positions.size() - contexts(r));
    List<Integer> generations =
        each(
            r -> r.batch.positions.size() - contexts(r) + (earlyDummy(r) && !contextDummy ? 1 : 0));
    return switch (config.hold()) {
      case ContextHold.Never ignored -> false;
      case ContextHold.Batched(var rules) -> {
        boolean few = ranks.getFirst().batch.tokens() < rules.tokenRatio() * tokenLimit;
        if (contexts.getFirst() == 0 || generations.getFirst() == 0) {
          yield false;
        }
        boolean waits = few && waitedForTokens < rules.timeoutIterations();
        waitedForTokens = waits ? waitedForTokens + 1 : 0;
        yield waits;
      }
      case ContextHold.Balanced(var rules) -> {
        boolean work = generations.stream().allMatch(g -> g > 0);
        if (generations.stream().allMatch(g -> g < batchPositions)
            && contexts.stream().allMatch(c -> c > 0)) {
          unbalanced = 0;
          if (!work) {
            yield false;
          }
          boolean more = balanced < rules.batchingWaitIterations();
          balanced = more ? balanced + 1 : 0;
          yield more;
        }
        unbalanced++;
        boolean low = real.stream().anyMatch(g -> g < rules.minGenerations());
        int limit = low ? rules.lowOccupancyTimeoutIterations() : rules.timeoutIterations();
        boolean runs = !work || unbalanced >= limit;
        unbalanced = runs ? 0 : unbalanced;
        yield !runs;
      }
    };
  }

  private static int contexts(Rank rank) {
    return (int) rank.batch.positions.stream().filter(Position::context).count();
  }

  private static boolean earlyDummy(Rank rank) {
    return rank.batch.dummy && !rank.late;
  }

  private static void dropContexts(Rank rank) {
    for (Position p : List.copyOf(rank.batch.positions)) {
      if (p.context) {
        rank.batch.positions.remove(p);
        giveBack(rank, p.sequence);
        rank.defer(WaitReason.GATE);
      }
    }
  }

  private static void giveBack(Rank rank, Sequence s) {
    if (rank.claimed.remove(s)) {
      s.seat = false;
      if (!rank.hadLease.contains(s)) {
        s.lease = false;
        s.pages = 0;
      }
    }
  }

  /** All that waits begins, or nothing. */
  private void encode(Rank rank) {
    rank.encodes.clear();
    List<Sequence> pending = rank.active.stream().filter(s -> s.encoderPending).toList();
    long tokens = pending.stream().mapToLong(s -> s.request.encoderTokens()).sum();
    var rules = config.encoderWait().rules();
    if (pending.isEmpty()) {
      return;
    }
    if (tokens < rules.tokenRatio() * config.encoderWait().maxTokens()
        && rank.encoderWaited < rules.timeoutIterations()) {
      rank.encoderWaited++;
      return;
    }
    rank.encoderWaited = 0;
    for (Sequence s : pending) {
      s.encoderPending = false;
      s.encoderRuns = true;
      rank.encodes.add(s.request.id());
    }
  }

  /** §8.1; asked about what the gather shows, so that all ranks open in the same iteration. */
  private boolean askGate() {
    if (gateOpen) {
      return false;
    }
    List<Sequence> all = ranks.stream().flatMap(r -> r.active.stream()).toList();
    long ready =
        all.stream()
            .filter(s ->
                s.state == RequestState.GENERATION
                    || s.state == RequestState.GENERATION_TRANSFER_COMPLETE)
            .count();
    boolean underway =
        all.stream()
            .anyMatch(s ->
                s.state == RequestState.GENERATION_INIT
                    || s.state == RequestState.GENERATION_TRANSFER
                    || s.state == RequestState.TRANSFER_ERROR);
    gateOpen =
        config.gate().kind() == FillGate.Kind.COUNT
            ? ready >= config.gate().target()
            : fetched >= config.gate().target() && !underway;
    return !gateOpen;
  }

  /** §3.4 */
  private List<Request> pop(long budget, long[] routable) {
    long[] strict = routable.clone();
    var popped = new ArrayList<Request>();
    var aside = new ArrayList<Request>();
    while (popped.size() < budget && !queue.isEmpty()) {
      Request head = queue.removeFirst();
      int target = head.scheduling().targetRank();
      if (target != SchedulingParams.NO_RANK && head.scheduling().relax() != Relax.RELAXED) {
        if (strict[target] >= cap) {
          aside.add(head);
          continue;
        }
        strict[target]++;
      }
      popped.add(head);
    }
    queue.addAll(0, aside);
    return popped;
  }

  private record Load(long tokens, long requests, long beside, int rank) {
    long held() {
      return requests + beside;
    }
  }

  /** §4.5: who is retiring weighs what others on its rank do on average, without being counted. */
  private void weighRetiring(List<Request> popped, long[] routable, long[] load, long[] beside) {
    long others = java.util.Arrays.stream(routable).sum();
    double mean =
        others > 0
            ? (double) java.util.Arrays.stream(load).sum() / others
            : popped.stream().mapToInt(Request::promptTokens).average().orElse(0);
    for (int r = 0; r < routable.length; r++) {
      beside[r] = ranks.get(r).holders().size() - routable[r];
      load[r] += beside[r] * (routable[r] > 0 ? load[r] / routable[r] : (long) mean);
    }
  }

  /** §4.1, §4.2 */
  private int route(
      List<Request> popped,
      long[] before,
      long[] load,
      long[] beside,
      List<List<Request>> assigned) {
    long limit = config.cap() == RankCap.HARD ? cap : Integer.MAX_VALUE;
    long[] n = before.clone();
    for (int r = 0; r < n.length; r++) {
      assigned.add(new ArrayList<>());
    }
    var sorted = new ArrayList<>(popped);
    sorted.sort(
        Comparator.comparing(q ->
            q.scheduling().targetRank() == SchedulingParams.NO_RANK
                || q.scheduling().relax() != Relax.STRICT));
    var rest = new ArrayList<Request>();
    for (Request q : sorted) {
      int target = q.scheduling().targetRank();
      if (target != SchedulingParams.NO_RANK && n[target] < limit) {
        n[target]++;
        assigned.get(target).add(q);
      } else {
        rest.add(q);
      }
    }
    long total = java.util.Arrays.stream(n).sum() + rest.size();
    long fair = (total + n.length - 1) / n.length;
    long expected = Math.min(Math.max(fair, java.util.Arrays.stream(n).max().orElse(0)), limit);
    var heap =
        new PriorityQueue<Load>(
            Comparator.comparingLong(Load::tokens)
                .thenComparingLong(Load::held)
                .thenComparingInt(Load::rank));
    for (int r = 0; r < n.length; r++) {
      if (n[r] < expected) {
        heap.add(new Load(load[r], n[r], beside[r], r));
      }
    }
    rest.sort(Comparator.comparingInt(Request::promptTokens).reversed());
    for (Request q : rest) {
      Load least = heap.remove();
      assigned.get(least.rank).add(q);
      if (least.requests + 1 < expected) {
        heap.add(
            new Load(
                least.tokens + q.promptTokens(), least.requests + 1, least.beside, least.rank));
      }
    }
    return (int) expected;
  }

  private Sequence enter(Request request) {
    return new Sequence(
        request,
        config.role() == WorkerRole.CONTEXT ? 1 : request.maxNewTokens(),
        config.role() == WorkerRole.GENERATION
            ? RequestState.GENERATION_INIT
            : RequestState.CONTEXT_INIT);
  }

  /**
   * What became of transfers, then who is cancelled. Pages of a running transfer stay until it is
   * over, whoever cancels (spec 06 BC-31).
   */
  private void applyNews(Rank rank) {
    for (Sequence s : List.copyOf(rank.active)) {
      RequestState becomes = news.get(s.request.id());
      if (s.state == RequestState.GENERATION_TRANSFER && becomes != null) {
        transferIsOver(rank, s, becomes);
      }
    }
    rank.active.stream()
        .filter(s -> encoded.contains(s.request.id()))
        .forEach(s -> s.encoderRuns = false);
    for (Sequence s : List.copyOf(rank.active)) {
      if (cancels.contains(s.request.id())) {
        s.cancelled = true;
        if (s.state != RequestState.GENERATION_TRANSFER) {
          end(rank, s, "CANCELLED");
        }
      }
    }
  }

  private static void transferIsOver(Rank rank, Sequence s, RequestState becomes) {
    if (s.cancelled) {
      end(rank, s, "CANCELLED");
    } else if (becomes == RequestState.TRANSFER_ERROR) {
      end(rank, s, "FAILED");
    } else {
      s.state = RequestState.GENERATION_TRANSFER_COMPLETE;
      s.settled = 1; // the context worker made the first token
      if (s.settled >= s.maxNewTokens) {
        end(rank, s, "FINISHED");
      }
    }
  }

  /**
   * §7.1: retirees count; requests whose KV isn't here don't, where there is a transceiver; without
   * overlap retirees don't either.
   */
  private int forwardable(Rank rank) {
    int count = 0;
    for (Sequence s : rank.active) {
      boolean noKv =
          s.state == RequestState.GENERATION_INIT || s.state == RequestState.GENERATION_TRANSFER;
      boolean scheduled = !s.retiring() || overlap || stages > 1;
      boolean receives = config.transfer() == EngineConfig.Transfer.TRANSCEIVER;
      count += receives && (noKv || !scheduled) ? 0 : 1;
    }
    return count;
  }

  private long freeLeases(Rank rank) {
    return config.plan().spendableLeases() - rank.holders().stream().filter(s -> s.lease).count();
  }

  private long freeSeats(Rank rank) {
    return config.plan().seats().count() - rank.holders().stream().filter(s -> s.seat).count();
  }

  private long freePages(Rank rank) {
    return config.pages() < 0
        ? Long.MAX_VALUE
        : config.pages() - rank.holders().stream().mapToLong(s -> s.pages).sum();
  }

  private long pagesOf(Sequence s) {
    var shape = config.plan().shape();
    long tokens = (long) s.prompt + s.maxNewTokens + shape.draftTokens();
    if (config.capacity() == CapacityRule.MAX_UTILIZATION && !stays(s)) {
      tokens = s.prompt; // the rest comes step by step
    }
    return (tokens + shape.tokensPerBlock() - 1) / shape.tokensPerBlock();
  }

  /** KV to the last token, all of it or none; nobody waits while holding. */
  private WaitReason claim(Rank rank, Sequence s, boolean withSeat) {
    boolean needsLease = !s.lease;
    boolean needsSeat = withSeat && !s.seat;
    if (needsLease && pagesOf(s) > freePages(rank)) {
      return WaitReason.PAGES;
    }
    if (needsLease && freeLeases(rank) < 1) {
      return WaitReason.LEASE;
    }
    if (needsSeat && freeSeats(rank) < 1) {
      return WaitReason.SEAT;
    }
    if (needsLease || needsSeat) {
      rank.claimed.add(s);
      if (!needsLease) {
        rank.hadLease.add(s);
      }
    }
    if (needsLease) {
      s.lease = true;
      s.pages = pagesOf(s);
    }
    s.seat |= withSeat;
    return WaitReason.NONE;
  }

  /**
   * A request before its transfer takes a lease and pages, no seat; what is started stays started.
   */
  private void startReceives(Rank rank, boolean batchRuns) {
    if (config.transfer() == EngineConfig.Transfer.NONE) {
      return;
    }
    int most = Math.max(stages * batchPositions, adp ? 2 : 1);
    WaitReason closed = WaitReason.NONE;
    for (Sequence s : rank.active) {
      if (s.state != RequestState.GENERATION_INIT) {
        continue;
      }
      long holding = rank.active.stream().filter(o -> o.lease && !o.retiring()).count();
      WaitReason reason = batchRuns ? WaitReason.BATCH : closed;
      if (reason == WaitReason.NONE) {
        reason = holding >= most ? WaitReason.BATCH : claim(rank, s, false);
      }
      // Who lacks pages keeps its place (spec 02 §3.2), or small requests would pass it for ever.
      closed = reason == WaitReason.PAGES ? reason : closed;
      if (reason == WaitReason.NONE) {
        s.state = RequestState.GENERATION_TRANSFER;
      } else {
        rank.defer(reason);
      }
    }
    rank.claimed.clear();
    rank.hadLease.clear();
  }

  private void scheduleInStages(Rank rank) {
    switch (config.capacity()) {
      case MAX_UTILIZATION -> scheduleStepByStep(rank);
      case MAX_REQUESTS -> scheduleByNumber(rank);
      case GUARANTEED_NO_EVICT, STATIC_BATCH -> {
        boolean closed = config.capacity() == CapacityRule.STATIC_BATCH && runs(rank);
        startReceives(rank, closed);
        schedule(rank, closed);
      }
    }
  }

  /** Spec 02 §3.3: somebody runs, or will when its KV is here, and the batch takes nobody else. */
  private boolean runs(Rank rank) {
    return rank.active.stream()
        .anyMatch(s -> s.state == RequestState.GENERATION_TRANSFER || started(s));
  }

  /**
   * States in [10, end); generations first, then contexts, each in order of admission.
   *
   * @param batchRuns nobody new is taken in
   */
  private void schedule(Rank rank, boolean batchRuns) {
    var contexts = new ArrayList<Sequence>();
    var generations = new ArrayList<Sequence>();
    for (Sequence s : rank.active) {
      if (s.state == RequestState.GENERATION_TRANSFER) {
        rank.defer(WaitReason.TRANSFER);
      } else if (s.awaitsEncoder()) {
        rank.defer(WaitReason.ENCODER);
      } else if (s.state.value() < RequestState.CONTEXT_INIT.value()) {
        continue;
      } else if (s.state.value() >= config.rangeEnd()) {
        rank.defer(WaitReason.RETIRING);
      } else if (stages > 1 && s.flights > 0) {
        rank.defer(WaitReason.IN_FLIGHT);
      } else {
        (s.prefills() ? contexts : generations).add(s);
      }
    }
    // What has begun runs (docs/policies.md, D10): it may be behind who waited for its encoder.
    contexts.sort(Comparator.comparing(s -> s.context == 0));
    int each = 1 + config.plan().shape().draftTokens();
    for (Sequence s : generations) {
      WaitReason reason =
          rank.batch.size() >= batchPositions
              ? WaitReason.BATCH
              : rank.batch.tokens() + each > tokenLimit ? WaitReason.TOKENS : claim(rank, s, true);
      if (reason == WaitReason.NONE) {
        rank.batch.positions.add(new Position(s, each, true, false));
      } else {
        rank.defer(reason);
      }
    }
    WaitReason closed = WaitReason.NONE;
    for (Sequence s : contexts) {
      int remaining = s.prompt - s.context;
      int left = tokenLimit - rank.batch.tokens();
      int tokens = config.chunkedContext() == Chunking.NONE ? remaining : Math.min(remaining, left);
      boolean fresh = s.context == 0;
      if (batchRuns && fresh) {
        rank.defer(WaitReason.BATCH);
        continue;
      }
      WaitReason reason = closed;
      if (reason == WaitReason.NONE) {
        reason =
            rank.batch.size() >= batchPositions
                ? WaitReason.BATCH
                : tokens > left || tokens == 0 ? WaitReason.TOKENS : claim(rank, s, true);
      }
      if (reason == WaitReason.NONE) {
        rank.batch.positions.add(new Position(s, tokens, tokens == remaining, true));
      } else {
        rank.defer(reason);
        // A lease or a seat may be held by one behind; batch, tokens and pages keep the order.
        closed = reason == WaitReason.LEASE || reason == WaitReason.SEAT ? closed : reason;
      }
    }
  }

  /** Pages that a sequence needs for its next step. */
  private long step(Sequence s) {
    if (!s.lease) {
      return pagesOf(s);
    }
    if (s.prefills() || stays(s)) {
      return 0;
    }
    var shape = config.plan().shape();
    int end = s.prompt + s.maxNewTokens + shape.draftTokens();
    int next = s.prompt + s.settled + s.underway + shape.draftTokens();
    int tokens = Math.min(next, end);
    return Math.max(0, Math.ceilDiv(tokens, shape.tokensPerBlock()) - s.pages);
  }

  /**
   * Spec 02 §3.4 as berth-1 has it, with the batch stage in the same pass, in order of admission:
   * who lacks a page for its step takes those of the last that has any and is in no launched batch.
   */
  private void scheduleStepByStep(Rank rank) {
    List<Sequence> list = List.copyOf(rank.active);
    boolean transceiver = config.transfer() == EngineConfig.Transfer.TRANSCEIVER;
    long most = transceiver ? most(list, true) : Long.MAX_VALUE;
    long free = freePages(rank);
    long used = 0;
    long admitted = 0;
    var filling = new Filling(rank);
    boolean shortage = false; // somebody waits for pages, and nobody could give way
    int lands = -1; // who will in the next iteration: it isn't launched again
    int end = list.size();
    int i = 0;
    while (i < end) {
      Sequence s = list.get(i);
      if (!inside(s)) {
        admitted += s.state == RequestState.GENERATION_TRANSFER ? 1 : 0;
        outside(rank, s);
        i++;
        continue;
      }
      long need = step(s);
      if (shortage && (i == lands || !s.lease || need > 0)) {
        rank.defer(WaitReason.PAGES);
        i++;
        continue;
      }
      if (s.state == RequestState.GENERATION_INIT
          && list.stream().filter(h -> h.lease && !h.retiring()).count() >= most(list, false)) {
        rank.defer(WaitReason.BATCH); // it passes nobody that holds KV
        i++;
        continue;
      }
      if (admitted >= most) {
        break;
      }
      if (used + need > free && need > 0) {
        int victim = end - 1;
        while (victim >= i && !(givesWay(list.get(victim)))) {
          victim--;
        }
        if (victim < i) {
          // Who holds its pages and needs no more goes on; the last in flight lands, to give way
          // then.
          rank.defer(WaitReason.PAGES);
          for (int k = end - 1; k > i && lands < 0; k--) {
            Sequence last = list.get(k);
            lands = started(last) && last.flights > 0 && !stays(last) ? k : -1;
          }
          shortage = true;
          i++;
          continue;
        }
        for (int k = Math.max(victim, i); k < end; k++) {
          if (inside(list.get(k))) {
            rank.defer(WaitReason.PAGES);
          } else {
            outside(rank, list.get(k));
          }
        }
        free += list.get(victim).pages;
        pause(rank, list.get(victim));
        end = victim;
        continue;
      }
      i++;
      if (s.state == RequestState.GENERATION_INIT) {
        WaitReason reason = claim(rank, s, false);
        if (reason != WaitReason.NONE) {
          rank.defer(reason);
          continue;
        }
        rank.claimed.remove(s); // what is started stays started
        s.state = RequestState.GENERATION_TRANSFER;
        rank.defer(WaitReason.TRANSFER);
        admitted++;
        used += need;
        continue;
      }
      if (filling.offer(s, need)) {
        admitted++;
        used += need;
      }
    }
    for (; i < end; i++) {
      if (inside(list.get(i))) {
        rank.defer(WaitReason.BATCH);
      } else {
        outside(rank, list.get(i));
      }
    }
    filling.end();
  }

  /** Requests that may hold KV or be looked at: as many as a batch has places on all stages. */
  private long most(List<Sequence> list, boolean retireesPass) {
    long most = Math.max(stages * batchPositions, adp ? 2 : 1);
    boolean inside = config.rangeEnd() > RequestState.RETIRING.value();
    return most + (retireesPass && inside ? list.stream().filter(Sequence::retiring).count() : 0);
  }

  /**
   * Spec 02 §3.1: the first so many of the list. Who finds no pages for all that it may become
   * waits, and who has none either doesn't pass it.
   */
  private void scheduleByNumber(Rank rank) {
    List<Sequence> list = List.copyOf(rank.active);
    long most = most(list, config.transfer() == EngineConfig.Transfer.TRANSCEIVER);
    long admitted = 0;
    boolean shortage = false;
    var filling = new Filling(rank);
    for (Sequence s : list) {
      if (!inside(s)) {
        outside(rank, s);
      } else if (admitted >= most) {
        rank.defer(WaitReason.BATCH);
      } else if (shortage && !s.lease) {
        rank.defer(WaitReason.PAGES);
      } else if (filling.offer(s, 0)) {
        admitted++;
      } else {
        shortage |= filling.last == WaitReason.PAGES;
      }
    }
    filling.end();
  }

  /** The batch stage, offered one sequence after the other. */
  private final class Filling {
    final Rank rank;
    final List<Sequence> chunked = new ArrayList<>();
    final int each = 1 + config.plan().shape().draftTokens();
    final boolean chunks = config.chunkedContext() != Chunking.NONE;
    int generationTokens;
    int contextTokens;
    int places;
    WaitReason closed = WaitReason.NONE;
    WaitReason last = WaitReason.NONE;

    Filling(Rank rank) {
      this.rank = rank;
    }

    /**
     * It runs or waits.
     *
     * @param need pages that its next step takes
     * @return false if it holds nothing and gets nothing
     */
    boolean offer(Sequence s, long need) {
      int remaining = s.prompt - s.context;
      WaitReason reason = closed;
      if (stages > 1 && s.flights > 0) {
        reason = WaitReason.IN_FLIGHT;
      } else if (reason == WaitReason.NONE && s.prefills() && chunks) {
        reason =
            generationTokens + contextTokens >= tokenLimit ? WaitReason.TOKENS : WaitReason.NONE;
      } else if (reason == WaitReason.NONE && s.prefills()) {
        reason = generationTokens + remaining > tokenLimit ? WaitReason.TOKENS : WaitReason.NONE;
        closed = reason;
      } else if (reason == WaitReason.NONE) {
        reason = generationTokens + each > tokenLimit ? WaitReason.TOKENS : WaitReason.NONE;
      }
      if (reason != WaitReason.NONE) {
        rank.defer(reason);
        return true;
      }
      boolean hadLease = s.lease;
      last = claim(rank, s, true);
      if (last != WaitReason.NONE) {
        rank.defer(last);
        return hadLease; // who holds KV counts, seat or no seat
      }
      if (s.prefills() && chunks) {
        chunked.add(s);
        contextTokens += remaining;
      } else if (s.prefills()) {
        rank.batch.positions.add(new Position(s, remaining, true, true));
        generationTokens += remaining;
      } else {
        rank.grown.put(s, s.pages);
        s.pages += need;
        rank.batch.positions.add(new Position(s, each, true, false));
        generationTokens += each;
      }
      places++;
      closed = places == batchPositions ? WaitReason.BATCH : closed;
      return true;
    }

    void end() {
      shareTokens(rank, chunked, generationTokens);
    }
  }

  /**
   * Spec 02 §9 on caches that hold their whole prompt from the start and leave their pages when
   * they are suspended: generations first, whoever lacks a page takes those of the last one behind
   * it; then contexts.
   */
  private void scheduleInOneLoop(Rank rank) {
    List<Sequence> list = List.copyOf(rank.active);
    Map<Sequence, WaitReason> reasons = new HashMap<>();
    for (Sequence s : list) {
      reasons.put(s, busy(s) ? WaitReason.IN_FLIGHT : inside(s) ? WaitReason.PAGES : outside(s));
    }
    int each = 1 + config.plan().shape().draftTokens();
    var contexts = new ArrayList<Sequence>();
    WaitReason stopped = WaitReason.NONE;
    int end = list.size();
    int place = 0;
    for (; place < end; place++) {
      Sequence s = list.get(place);
      if (busy(s)) {
        continue;
      }
      if (s.state == RequestState.GENERATION_INIT) {
        reasons.put(s, receive(rank, s));
        continue;
      }
      if (rank.batch.size() >= batchPositions) {
        stopped = WaitReason.BATCH;
        break;
      }
      if (!inside(s)) {
        continue;
      }
      if (s.prefills()) {
        contexts.add(s);
        continue;
      }
      if (rank.batch.tokens() + each > tokenLimit) {
        stopped = WaitReason.TOKENS;
        break;
      }
      if (!s.seat && freeSeats(rank) < 1) {
        reasons.put(s, WaitReason.SEAT);
        continue;
      }
      long need = step(s);
      while (need > 0 && need > freePages(rank)) {
        int victim = end - 1;
        while (victim > place
            && !(mayYield(list.get(victim))
                && givesWay(list.get(victim))
                && list.get(victim).lease)) {
          victim--;
        }
        if (victim == place) {
          break;
        }
        pause(rank, list.get(victim));
        end = victim;
      }
      if (need > 0 && need > freePages(rank)) {
        if (givesWay(s) && !lands(list, place, end)) {
          pause(rank, s);
        }
        stopped = WaitReason.PAGES;
        break;
      }
      claim(rank, s, true);
      rank.grown.put(s, s.pages);
      s.pages += need;
      rank.batch.positions.add(new Position(s, each, true, false));
      reasons.put(s, WaitReason.NONE);
    }
    boolean batchIsFull = stopped == WaitReason.BATCH || stopped == WaitReason.TOKENS;
    for (int k = place; k < end; k++) {
      Sequence s = list.get(k);
      boolean receives =
          s.state == RequestState.GENERATION_INIT
              && batchIsFull
              && config.policies() == PolicySet.BERTH_1; // D14
      if (inside(s) && !busy(s)) {
        reasons.put(s, receives ? receive(rank, s) : stopped);
      }
    }
    begin(rank, contexts, reasons);
    reasons.values().stream().filter(r -> r != WaitReason.NONE).forEach(rank::defer);
  }

  private WaitReason receive(Rank rank, Sequence s) {
    WaitReason reason = claim(rank, s, false);
    if (reason != WaitReason.NONE) {
      return reason;
    }
    s.state = RequestState.GENERATION_TRANSFER; // what is started stays started
    rank.claimed.remove(s);
    return WaitReason.TRANSFER;
  }

  /** The second phase. A context that isn't chunked and finds no room ends it. */
  private void begin(Rank rank, List<Sequence> contexts, Map<Sequence, WaitReason> reasons) {
    boolean chunks = config.chunkedContext() != Chunking.NONE;
    for (Sequence s : contexts) {
      int left = tokenLimit - rank.batch.tokens();
      int remaining = s.prompt - s.context;
      if (rank.batch.size() >= batchPositions) {
        reasons.put(s, WaitReason.BATCH);
        continue;
      }
      if (chunks && left < 1) {
        reasons.put(s, WaitReason.TOKENS);
        continue;
      }
      if (!s.seat && freeSeats(rank) < 1) {
        reasons.put(s, WaitReason.SEAT);
        continue;
      }
      boolean fresh = !s.lease;
      WaitReason reason = claim(rank, s, true);
      if (reason == WaitReason.NONE && !chunks && remaining > left) {
        reason = WaitReason.TOKENS;
        if (fresh) {
          rank.claimed.remove(s);
          s.seat = s.lease = false;
          s.pages = 0;
        }
      }
      reasons.put(s, reason);
      if (reason != WaitReason.NONE && !chunks) {
        return;
      }
      if (reason == WaitReason.NONE) {
        int tokens = Math.min(remaining, left);
        rank.batch.positions.add(new Position(s, tokens, tokens == remaining, true));
      }
    }
  }

  private boolean busy(Sequence s) {
    return stages > 1 && s.flights > 0;
  }

  /** It is in flight, or somebody behind it who will then have to give way. */
  private boolean lands(List<Sequence> list, int place, int end) {
    for (int k = place; k < end; k++) {
      Sequence s = list.get(k);
      if (s.flights > 0 && (k == place || (mayYield(s) && started(s) && !stays(s) && s.lease))) {
        return true;
      }
    }
    return false;
  }

  /** Contexts share what the others left of the tokens; who gets none gives back what it took. */
  private void shareTokens(Rank rank, List<Sequence> chunked, int taken) {
    int left = tokenLimit - taken;
    for (Sequence s : chunked) {
      int remaining = s.prompt - s.context;
      int tokens = Math.min(remaining, left);
      left -= tokens;
      if (tokens > 0) {
        rank.batch.positions.add(new Position(s, tokens, tokens == remaining, true));
      } else {
        rank.defer(WaitReason.TOKENS);
        giveBack(rank, s);
      }
    }
  }

  /** Its output as prompt, it might not fit a batch: so it has its pages to its last token. */
  private boolean stays(Sequence s) {
    return config.chunkedContext() == Chunking.NONE && s.prompt + s.maxNewTokens - 1 > tokenLimit;
  }

  private boolean inside(Sequence s) {
    return s.state == RequestState.GENERATION_INIT
        || (!s.awaitsEncoder()
            && s.state.value() >= RequestState.CONTEXT_INIT.value()
            && s.state.value() < config.rangeEnd());
  }

  private static void outside(Rank rank, Sequence s) {
    if (outside(s) != WaitReason.NONE) {
      rank.defer(outside(s));
    }
  }

  private static WaitReason outside(Sequence s) {
    if (s.state == RequestState.GENERATION_TRANSFER) {
      return WaitReason.TRANSFER;
    } else if (s.awaitsEncoder()) {
      return WaitReason.ENCODER;
    }
    return s.retiring() ? WaitReason.RETIRING : WaitReason.NONE;
  }

  /** It holds pages, can begin again, and nothing that was launched writes them. */
  private boolean givesWay(Sequence s) {
    return started(s) && s.flights == 0 && !stays(s);
  }

  /** D6, in the one loop: who retires keeps its pages. */
  private boolean mayYield(Sequence s) {
    return s.state != RequestState.RETIRING || config.policies() != PolicySet.BERTH_1;
  }

  private boolean started(Sequence s) {
    return inside(s) && (s.prefills() ? s.context > 0 : s.state != RequestState.GENERATION_INIT);
  }

  private static void pause(Rank rank, Sequence s) {
    s.before += s.settled;
    s.prompt += s.settled;
    s.maxNewTokens -= s.settled;
    s.settled = s.context = 0;
    s.state = RequestState.CONTEXT_INIT;
    s.seat = s.lease = false;
    s.pages = 0;
    rank.paused++;
  }

  private static void launch(Batch batch) {
    for (Position p : batch.positions) {
      Sequence s = p.sequence;
      s.flights++;
      if (p.context) {
        s.context += p.tokens;
      }
      if (p.makesToken) {
        s.underway++;
        if (!s.retiring()) {
          s.state = RequestState.GENERATION;
        }
      }
    }
  }

  /**
   * §10: non-overlap settles at once, overlap one batch later (§7.4), a pipeline stages - 1 later.
   */
  private void settle(Rank rank, boolean launched) {
    if (stages > 1) {
      rank.flying.addLast(launched ? rank.batch : new Batch());
      if (rank.flying.size() == stages) {
        results(rank, rank.flying.removeFirst());
      }
    } else if (!overlap) {
      results(rank, launched ? rank.batch : new Batch());
    } else if (launched || rank.batch.positions.isEmpty()) {
      // A rank with work of its own while a peer is empty keeps its previous batch; a dummy went
      // back with the veto.
      List.copyOf(rank.flying).forEach(previous -> results(rank, previous));
      rank.flying.clear();
      if (launched) {
        rank.flying.addLast(rank.batch);
      }
    }
  }

  private void results(Rank rank, Batch batch) {
    for (Position p : batch.positions) {
      Sequence s = p.sequence;
      s.flights--;
      s.underway -= p.makesToken ? 1 : 0;
      if (!s.end.isEmpty()) {
        leaveIfLanded(rank, s);
      } else if (p.makesToken) {
        s.settled++;
        rank.tokensOut++;
        int stop = stopAt.getOrDefault(s.request.id(), Integer.MAX_VALUE);
        if (s.settled >= s.maxNewTokens || s.before + s.settled >= stop) {
          end(rank, s, "FINISHED");
        }
      }
    }
  }

  private boolean marks() {
    return config.mark() == RetiringMark.EVERY_STAGE;
  }

  /** §1: predictive, from the token count alone. */
  private static void markRetiring(Batch batch) {
    for (Position p : batch.positions) {
      Sequence s = p.sequence;
      if (s.state == RequestState.GENERATION
          && s.end.isEmpty()
          && s.settled + s.underway >= s.maxNewTokens) {
        s.state = RequestState.RETIRING;
      }
    }
  }

  private static void end(Rank rank, Sequence s, String how) {
    s.end = how;
    rank.active.remove(s);
    rank.over.add(s);
    leaveIfLanded(rank, s);
  }

  private static void leaveIfLanded(Rank rank, Sequence s) {
    if (s.flights == 0) {
      rank.over.remove(s);
      rank.done.add(s.request.id() + ":" + s.end + ":" + (s.before + s.settled));
    }
  }

  /** What a run adds up to, by name: for comparisons of whole runs. */
  public static Map<String, Long> histogram(List<String> values) {
    var counts = new TreeMap<String, Long>();
    values.forEach(v -> counts.merge(v, 1L, Long::sum));
    return counts;
  }
}
