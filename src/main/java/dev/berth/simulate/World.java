// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.BerthException;
import dev.berth.engine.Admission;
import dev.berth.engine.Batch;
import dev.berth.engine.Effect;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.Event;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.exchange.FrameBoard;
import dev.berth.exchange.FrameBoard.Op;
import dev.berth.request.Request;
import dev.berth.request.WaitingQueue;
import dev.berth.route.RankState;
import dev.berth.simulate.RankAudit.Change;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.StringJoiner;

/**
 * A fleet of engines and everything around it, on virtual time in one thread. Each rank has its own
 * pace: it acts when what it waits for has reached it. It decides nothing that an engine decides;
 * it brings frames, requests, transfers and accidents, and has the books compared after every call.
 *
 * <p>What all ranks must hear alike is cut by rank 0's frame of an iteration (offers, cancels), and
 * by the first stage's for the stages of one rank (transfers, failed forwards).
 */
final class World implements AutoCloseable {
  /** A collective is watched in turns of this length, µs of the rank's own clock. */
  static final long WATCH_MICROS = 250_000;

  /** After so many turns a rank gives up and names who is missing. */
  static final int WATCH_TURNS = 3;

  /** An idle fleet looks at its queue at least this often, µs. */
  private static final long POLL_MICROS = 50_000;

  /** A transfer that takes longer is given up, µs of the rank's own clock. */
  private static final long TRANSFER_LIMIT_MICROS = 3_000;

  /** A lost frame is sent again after this, µs. */
  private static final int RESEND_MICROS = 2_000;

  /** How long a rank stays slow, or its frames late, µs. */
  private static final long SPELL_MICROS = 4_000;

  /** A death waits so long for its moment, µs. */
  private static final long DEATH_WAITS_MICROS = 20_000;

  /** More than any world needs that gets on. */
  private static final long MOST_ITERATIONS = 40_000;

  private static final long NEVER = Long.MAX_VALUE;

  // ---- what breaks of a batch
  private static final int LAUNCH = 0;
  private static final int RESULTS = 1;

  // ---- commands, cut by the leader
  private static final byte OFFER = 0;
  private static final byte CANCEL = 1;
  private static final byte OFFER_AGAIN = 2;
  private static final byte HOLD = 3;
  private static final byte RESUME = 4;

  /** What a command came to on the first rank that carried it out. */
  private static final byte UNKNOWN = 0;

  private static final byte VOID = 1;
  private static final byte TAKEN = 2;
  private static final byte EXPIRED = 3;
  private static final byte DUPLICATE = 4;
  private static final byte WAITED = 5;
  private static final byte WAITED_NOT = 6;

  private final WorldPlan plan;
  private final EngineConfig config;
  private final History history;
  private final int ranks;
  private final int stages;
  private final boolean attentionDp;
  private final FleetAudit fleet;
  private final Node[] nodes;
  private final RankAudit[][] byStage;
  private final Collective[] gathers = new Collective[2];
  private final Collective[] votes = new Collective[2];

  private final byte[] commandKind;
  private final int[] commandRequest;
  private final long[] commandAt;
  private final byte[] commandResult;
  private final int[] commandCut = new int[2];
  private int intake;
  private final int[] taken; // commands that an admission has carried out, by admission

  private final Transfers[] transfers;
  private final int[][] changeCut;
  private final List<Happening> timeline = new ArrayList<>();
  private int nextHappening;
  private Optional<Happening> dying = Optional.empty();

  // ---- broken batches: the stages of a rank hear of the same one
  private final long[] errorFrom;
  private final int[] errorKind;
  private final long[] errorSequence;
  private final int[] errorStages;
  private final long[] faultAt = {-1, -1};
  private boolean slowReaders;

  private final int[] struck = new int[Fault.values().length];
  private long now;
  private long step;
  private long rankIterations;
  private long iterations;
  private boolean stopped;

  World(WorldPlan plan, History history) {
    this.plan = plan;
    this.config = plan.config();
    this.history = history;
    this.ranks = config.ranks();
    this.stages = config.stages();
    this.attentionDp = config.plan().shape().attentionDp();
    this.fleet = new FleetAudit(plan);
    this.nodes = new Node[plan.nodes()];
    this.byStage = new RankAudit[stages][ranks];
    this.taken = new int[plan.nodes()];
    this.transfers = new Transfers[ranks];
    this.errorFrom = new long[ranks];
    this.errorKind = new int[ranks];
    this.errorSequence = new long[ranks];
    this.errorStages = new int[ranks];
    this.changeCut = new int[ranks][2];
    for (Happening happening : plan.happenings()) {
      if (!happening.ofRequest()) {
        timeline.add(happening);
      }
      slowReaders |= happening.fault() == Fault.SLOW_READER;
    }
    List<Command> commands = commands();
    int n = commands.size();
    commandKind = new byte[n];
    commandRequest = new int[n];
    commandAt = new long[n];
    commandResult = new byte[n];
    for (int i = 0; i < n; i++) {
      commandKind[i] = commands.get(i).kind;
      commandRequest[i] = commands.get(i).request;
      commandAt[i] = commands.get(i).at;
    }
    Arrays.fill(errorFrom, NEVER);
    for (int rank = 0; rank < ranks; rank++) {
      transfers[rank] = new Transfers(plan, fleet);
    }
    for (int stage = 0; stage < stages; stage++) {
      openStage(stage);
    }
  }

  private record Command(long at, byte kind, int request) {}

  /** Offers and what else clients do, in order of time. */
  private List<Command> commands() {
    var all = new ArrayList<Command>();
    for (int i = plan.kept().nextSetBit(0); i >= 0; i = plan.kept().nextSetBit(i + 1)) {
      all.add(new Command(plan.arrivals().get(i).at(), OFFER, i));
    }
    for (Happening happening : plan.happenings()) {
      long at = happening.at();
      int request = happening.subject();
      switch (happening.fault()) {
        case CANCEL -> all.add(new Command(at, CANCEL, request));
        case OFFERED_TWICE -> all.add(new Command(at, OFFER_AGAIN, request));
        case SLOW_READER -> {
          all.add(new Command(at, HOLD, request));
          all.add(new Command(at + happening.amount(), RESUME, request));
        }
        default -> {}
      }
    }
    all.sort(Comparator.comparingLong(Command::at));
    return all;
  }

  private void openStage(int stage) {
    boolean shared = plan.admissions() == WorldPlan.Admissions.ONE_A_STAGE;
    var first = new Admission(config, stage, new Matches());
    for (int rank = 0; rank < ranks; rank++) {
      Admission admission =
          shared || rank == 0 ? first : new Admission(config, stage, new Matches());
      var engine = new RankEngine(config, rank, stage, admission);
      int number = stage * ranks + rank;
      var audit = new RankAudit(plan, fleet, engine);
      byStage[stage][rank] = audit;
      nodes[number] = new Node(number, engine, admission, audit, engine.scheduled());
    }
  }

  // ------------------------------------------------------------------------------ the run

  /** Runs a world to its end. */
  static WorldResult run(WorldPlan plan, History history) {
    try (var world = new World(plan, history)) {
      return world.toTheEnd();
    }
  }

  private WorldResult toTheEnd() {
    try {
      for (Node node : nodes) {
        handle(node, node.engine.start());
      }
      while (!stopped) {
        Node node = next();
        if (node.nextAt == NEVER) {
          break;
        }
        now = Math.max(now, node.nextAt);
        while (nextHappening < timeline.size() && timeline.get(nextHappening).at() <= now) {
          befall(timeline.get(nextHappening++));
        }
        if (dying.isPresent()) {
          die(dying.get());
        }
        if (node.nextAt <= now) {
          act(node);
        }
      }
      return result(finish(), Optional.empty());
    } catch (BrokenInvariant e) {
      return violated(e.invariant(), e.what());
    } catch (BerthException e) {
      boolean diverged = e.code() == BerthException.Code.DIVERGED;
      return violated(
          diverged ? Invariant.RANKS_AGREE : Invariant.EXHAUSTION_IS_A_RESULT, e.toString());
    } catch (RuntimeException e) {
      return violated(
          Invariant.EXHAUSTION_IS_A_RESULT, e + " at " + Arrays.toString(e.getStackTrace()));
    }
  }

  private WorldResult violated(Invariant invariant, String what) {
    return result(
        WorldResult.Ending.VIOLATED, Optional.of(new Violation(invariant, what, iterations, now)));
  }

  private WorldResult result(WorldResult.Ending ending, Optional<Violation> violation) {
    return new WorldResult(violation, ending, iterations, rankIterations, struck);
  }

  /** Who acts next; of several, chance says who. */
  private Node next() {
    int n = nodes.length;
    int at = n == 1 ? 0 : Noise.below(Noise.of(plan.seed(), ++step), n);
    Node best = nodes[at];
    for (int i = 1; i < n; i++) {
      at = at + 1 == n ? 0 : at + 1;
      if (nodes[at].nextAt < best.nextAt) {
        best = nodes[at];
      }
    }
    return best;
  }

  private int chance(Node node, int bound) {
    return Noise.below(Noise.of(plan.seed() ^ node.number << 8, ++step), bound);
  }

  private void act(Node node) {
    switch (node.place) {
      case GATHERING -> {
        Collective gather = gathers[(int) (node.sequence & 1)];
        if (ready(gather, node)) {
          onGathered(node, gather);
        } else {
          watch(node, gather);
        }
      }
      case VOTING -> {
        Collective vote = votes[(int) (node.sequence & 1)];
        if (ready(vote, node)) {
          onVoted(node, vote);
        } else {
          watch(node, vote);
        }
      }
      case LAUNCHING -> {
        if (node.breaks) {
          node.audit.launchFails(node.batch.slot());
        }
        handle(node, node.engine.advance(node.breaks ? Event.LAUNCH_FAILED : Event.LAUNCHED));
      }
      case COLLECTING -> collect(node);
      case IDLE -> handle(node, node.engine.advance(Event.WOKEN));
      case DEAD, STALLED -> node.nextAt = NEVER;
    }
  }

  private void collect(Node node) {
    if (node.breaks) {
      node.audit.collectFails();
      handle(node, node.engine.advance(Event.COLLECT_FAILED));
      return;
    }
    node.audit.collect(node.batch);
    if (node.engine.stage() == 0 && node.audit.endsEarly()) {
      strike(Fault.EARLY_END);
    }
    if (node.engine.stage() == 0 && node.audit.losesOne()) {
      strike(Fault.RESULT_LOST);
    }
    handle(node, node.engine.advance(Event.COLLECTED));
  }

  /** Does the batch break that a node launches or collects? If on one stage, then on all. */
  private boolean breaks(Node node, int kind) {
    int rank = node.engine.rank();
    if (errorKind[rank] != kind || node.sequence < errorFrom[rank]) {
      return false;
    }
    if (errorSequence[rank] < 0 && node.engine.real() > 0) {
      errorSequence[rank] = node.sequence;
      strike(Fault.RUNNER_ERROR);
    }
    if (errorSequence[rank] != node.sequence) {
      return false;
    }
    if (++errorStages[rank] == stages) {
      errorFrom[rank] = NEVER;
    }
    tell(node, kind == LAUNCH ? "the forward can't be started" : "the results are lost");
    return true;
  }

  private boolean ready(Collective collective, Node node) {
    return collective.sequence == node.sequence
        && collective.full()
        && collective.readyAt[node.number] <= now;
  }

  private void handle(Node node, Effect effect) {
    switch (effect) {
      case Effect.NeedGather gather -> {
        if (node.inIteration) {
          settle(node);
        }
        sendGather(node, gather.frame());
      }
      case Effect.NeedVote vote -> {
        node.batchSize = node.engine.batch();
        node.place = Node.Place.VOTING;
        send(node, votes, Op.VOTE, vote.frame());
      }
      case Effect.Launch launch -> {
        node.batch = launch.batch();
        launch(node);
      }
      case Effect.Collect collect -> {
        node.batch = collect.batch();
        node.place = Node.Place.COLLECTING;
        node.breaks = breaks(node, RESULTS);
        node.nextAt = now + paced(node, 20 + chance(node, 160));
      }
      case Effect.Idle idle -> {
        if (node.inIteration) {
          settle(node);
          pause(node, idle.pauseMicros());
        } else {
          node.sequence++;
          sleep(node);
        }
      }
    }
  }

  private int paced(Node node, int micros) {
    return now < node.slowUntil ? micros * node.slowFactor : micros;
  }

  // ------------------------------------------------------------------------------ collectives

  private void sendGather(Node node, long[] frame) {
    node.audit.told(frame);
    if (node.audit.breaks()) {
      faultAt[(int) (node.sequence & 1)] = node.sequence;
    }
    node.place = Node.Place.GATHERING;
    int parity = (int) (node.sequence & 1);
    if (node.leads()) {
      cutCommands(parity);
      wakeFollowers(node);
    }
    if (node.engine.stage() == 0) {
      int rank = node.engine.rank();
      bringTransfers(node, transfers[rank]);
      changeCut[rank][parity] = transfers[rank].log();
    }
    send(
        node, gathers, Op.GATHER, plan.broken() == BrokenRule.ROUTABLE_IDLE ? forge(frame) : frame);
  }

  /** The frame without its retirees. */
  private long[] forge(long[] frame) {
    long[] copy = Arrays.copyOf(frame, frame.length);
    copy[FrameBoard.HEADER_WORDS + RankState.RETIRING_REQUESTS] = 0;
    return copy;
  }

  private void send(Node node, Collective[] pair, Op op, long[] frame) {
    int parity = (int) (node.sequence & 1);
    Collective collective = pair[parity];
    if (collective == null) {
      collective = new Collective(op, nodes.length, frame.length - FrameBoard.HEADER_WORDS);
      pair[parity] = collective;
    }
    node.suspicions = 0;
    node.watchEnds = clock(node) + WATCH_MICROS;
    node.nextAt = plan.broken() == BrokenRule.NO_WATCH ? NEVER : now + WATCH_MICROS;
    if (collective.send(node.number, frame, node.sequence, now)) {
      deliver(collective, op);
    }
  }

  /** All frames are sent: each node has them all at a time of its own. */
  private void deliver(Collective collective, Op op) {
    Node.Place waiting = op == Op.GATHER ? Node.Place.GATHERING : Node.Place.VOTING;
    boolean calm = true;
    for (Node sender : nodes) {
      calm &= sender.losses == 0 && now >= sender.lateUntil;
    }
    for (Node node : nodes) {
      if (node.place != waiting || node.sequence != collective.sequence) {
        continue; // dead, or it gave up
      }
      long at = now + 1 + (chance(node, 16) == 0 ? chance(node, 300) : chance(node, 8));
      at = calm ? at : Math.max(at, lastFrame(collective, node));
      collective.readyAt[node.number] = at;
      node.nextAt = at == NEVER ? node.nextAt : at;
    }
    if (!calm) {
      for (Node sender : nodes) {
        sender.losses = 0;
      }
    }
  }

  /** When the last frame reaches a node; never if its sender died before it could send it again. */
  private long lastFrame(Collective collective, Node receiver) {
    long last = now;
    for (Node sender : nodes) {
      if (sender == receiver || chance(receiver, 2) == 0) {
        continue;
      }
      long sentAt = collective.sentAt(sender.number);
      if (now < sender.lateUntil) {
        last = Math.max(last, sentAt + sender.lateBy);
        strike(Fault.MESSAGES_LATE);
      }
      if (sender.losses > 0) {
        strike(Fault.MESSAGES_LOST);
        if (!sender.alive()) {
          return NEVER;
        }
        last = Math.max(last, sentAt + (long) sender.losses * RESEND_MICROS);
      }
    }
    return last;
  }

  /** A collective isn't complete after a turn of the watch. */
  private void watch(Node node, Collective collective) {
    Node leader = nodes[0];
    if (node.place == Node.Place.GATHERING && leader.place == Node.Place.IDLE) {
      node.suspicions = 0; // the fleet waits for work
      node.nextAt = leader.nextAt == NEVER ? NEVER : now + WATCH_MICROS;
      node.watchEnds = clock(node) + WATCH_MICROS;
      return;
    }
    if (++node.suspicions < WATCH_TURNS) {
      node.watchEnds = clock(node) + WATCH_MICROS;
      node.nextAt = now + WATCH_MICROS;
      return;
    }
    var missing = new StringJoiner(", ");
    for (Node peer : nodes) {
      if (!collective.has(peer.number) || collective.full() && !peer.alive()) {
        node.missing |= 1 << peer.number;
        missing.add(peer.toString());
      }
    }
    node.stall =
        "%s waits for %s in the %s of iteration %d"
            .formatted(
                node,
                missing,
                node.place == Node.Place.GATHERING ? "gather" : "vote",
                node.sequence);
    node.place = Node.Place.STALLED;
    node.nextAt = NEVER;
    tell(node, node.stall);
  }

  private long clock(Node node) {
    return now + node.clockOffset;
  }

  // ------------------------------------------------------------------------------ an iteration

  private void onGathered(Node node, Collective gather) {
    int parity = (int) (node.sequence & 1);
    if (faultAt[parity] == node.sequence) {
      onFault(node, gather);
      return;
    }
    carryOutCommands(node, commandCut[parity]);
    Transfers news = transfers[node.engine.rank()];
    for (; node.changes < changeCut[node.engine.rank()][parity]; node.changes++) {
      node.audit.change(news.request(node.changes), news.change(node.changes));
    }
    tellWishes(node);
    Effect effect = node.engine.advance(gather.complete);
    fleet.decide(node, node.sequence, byStage[node.engine.stage()]);
    if (!(effect instanceof Effect.Idle)) {
      node.inIteration = true;
      node.audit.scheduled(node, node.sequence);
      if (node.engine.stage() == 0) {
        startTransfers(node);
      }
    }
    handle(node, effect);
  }

  /** What was to be told in an iteration that only ends what broke is told in the next. */
  private void onFault(Node node, Collective gather) {
    Effect effect = node.engine.advance(gather.complete);
    fleet.decideFault(node, node.sequence);
    if (history.listens()) {
      tell(node, "iteration %d ends what broke", node.sequence);
    }
    node.audit.faulted(node.sequence);
    fleet.finish(node.sequence, nodes.length, true);
    node.sequence++;
    handle(node, effect);
  }

  private void onVoted(Node node, Collective vote) {
    boolean all = node.batchSize > 0;
    if (attentionDp) {
      int first = node.engine.stage() * ranks;
      for (int i = first; i < first + ranks; i++) {
        all &= nodes[i].batchSize > 0;
      }
    }
    Effect effect = node.engine.advance(vote.complete);
    fleet.vote(node, node.sequence, node.admission.contextsHeld());
    if (node.admission.contextsHeld()) {
      node.audit.dropContexts();
    }
    boolean launches = all && !node.admission.held() && node.audit.batch() > 0;
    int slot = effect instanceof Effect.Launch(Batch batch) ? batch.slot() : -1;
    node.audit.expectDue(slot, node.admission.held());
    if (node.engine.canQueue() != all || node.engine.launched() != launches) {
      throw new BrokenInvariant(
          Invariant.RANKS_AGREE,
          "%s: the vote of iteration %d is %s, launched %s, with a batch of %d"
              .formatted(
                  node,
                  node.sequence,
                  node.engine.canQueue(),
                  node.engine.launched(),
                  node.batchSize));
    }
    if (history.listens() && !launches) {
      tell(
          node,
          "iteration %d: no forward, batch of %d, vote %s%s",
          node.sequence,
          node.batchSize,
          all,
          node.admission.held() ? ", held" : "");
    }
    handle(node, effect);
  }

  private void launch(Node node) {
    node.audit.launched(node.batch.slot(), node.sequence);
    node.place = Node.Place.LAUNCHING;
    node.nextAt = now + paced(node, 1 + chance(node, 5));
    if (history.listens()) {
      tell(node, "iteration %d launches %s", node.sequence, node.audit.describeBatch());
    }
    node.breaks = breaks(node, LAUNCH);
  }

  private void settle(Node node) {
    node.inIteration = false;
    if (history.listens()) {
      for (int i = 0; i < node.engine.ended(); i++) {
        tell(
            node,
            "iteration %d: request %d %s with %d tokens",
            node.sequence,
            node.engine.endedTag(i),
            node.engine.endedKind(i),
            node.engine.endedTokens(i));
      }
    }
    node.audit.settled(node.sequence);
    if ((node.sequence & 63) == 63) {
      node.engine.kv().ifPresent(kv -> kv.check());
    }
    long awaited = 0;
    for (Transfers some : transfers) {
      awaited += some.underway();
    }
    if (slowReaders) {
      for (Node some : nodes) {
        awaited += some.audit.heldNow();
      }
    }
    fleet.finish(node.sequence, nodes.length, awaited > 0);
    node.sequence++;
    if (node.engine.stage() == 0) {
      rankIterations++;
    }
    if (node.leads()) {
      iterations++;
      stopped = awaited == 0 && intake == commandAt.length && fleet.fillIsOutOfReach();
      if (iterations > MOST_ITERATIONS) {
        throw new BrokenInvariant(
            Invariant.LIVENESS, "no end after %d iterations".formatted(iterations));
      }
    }
  }

  /** Nothing lives and nothing waits. */
  private void sleep(Node node) {
    node.place = Node.Place.IDLE;
    Node leader = nodes[0];
    if (node.leads()) {
      node.nextAt =
          intake == commandAt.length
              ? NEVER
              : Math.min(now + POLL_MICROS, Math.max(now + 1, commandAt[intake]));
    } else if (leader.place == Node.Place.GATHERING && leader.sequence == node.sequence
        || chance(node, 3) == 0) {
      node.nextAt = now + 1 + chance(node, 8);
    } else {
      node.nextAt =
          leader.place == Node.Place.IDLE && leader.nextAt == NEVER ? NEVER : now + 2 * POLL_MICROS;
    }
    node.watchEnds = node.nextAt == NEVER ? NEVER : node.nextAt + node.clockOffset;
  }

  private void wakeFollowers(Node leader) {
    for (Node node : nodes) {
      if (node.place == Node.Place.IDLE && node != leader) {
        node.nextAt = Math.min(node.nextAt, now + 1 + chance(node, 8));
      }
    }
  }

  /** A closed gate saw no progress. */
  private void pause(Node node, long micros) {
    node.place = Node.Place.IDLE;
    node.watchEnds = clock(node) + micros;
    long news = transfers[node.engine.rank()].nextAt();
    if (intake < commandAt.length && chance(node, 4) > 0) {
      news = Math.min(news, commandAt[intake]);
    }
    node.nextAt = Math.min(now + micros, Math.max(now + 1, news));
  }

  // ------------------------------------------------------------------------------ clients

  /** What has come by now reaches every rank in this iteration. */
  private void cutCommands(int parity) {
    while (intake < commandAt.length && commandAt[intake] <= now) {
      int request = commandRequest[intake];
      commandResult[intake] =
          switch (commandKind[intake]) {
            case OFFER -> take(request);
            case CANCEL, HOLD, RESUME -> fleet.claims(request) ? UNKNOWN : VOID;
            default ->
                fleet.claims(request) && fleet.place(request) == Whereabouts.WAITING
                    ? UNKNOWN
                    : VOID;
          };
      intake++;
    }
    commandCut[parity] = intake;
  }

  /** The first rank looks at a request before the others hear of it. */
  private byte take(int number) {
    Request request = fleet.request(number);
    if (!fleet.free(number)) {
      fleet.move(number, Whereabouts.TURNED_AWAY);
      return VOID;
    }
    Outcome outcome = nodes[0].engine.fits(request);
    boolean tooLong = fleet.tooLong(number);
    if (outcome instanceof Outcome.Refused refused) {
      if (refused.required() <= refused.available()) {
        throw new BrokenInvariant(
            Invariant.NEVER_FITS_IS_REFUSED,
            "request %d is refused: %s".formatted(number, refused));
      }
      fleet.move(number, Whereabouts.REFUSED);
      strike(Fault.NEVER_FITS);
      return VOID;
    } else if (tooLong) {
      throw new BrokenInvariant(
          Invariant.NEVER_FITS_IS_REFUSED,
          "request %d can never fit and is taken".formatted(number));
    }
    if (fleet.claim(number)) {
      strike(Fault.ID_REUSED);
    }
    return UNKNOWN;
  }

  private void carryOutCommands(Node node, int cut) {
    int admission =
        plan.admissions() == WorldPlan.Admissions.ONE_A_STAGE ? node.engine.stage() : node.number;
    for (; node.commands < cut; node.commands++) {
      int command = node.commands;
      if (commandResult[command] == VOID) {
        taken[admission] = Math.max(taken[admission], command + 1);
        continue;
      }
      boolean first = taken[admission] <= command;
      taken[admission] = Math.max(taken[admission], command + 1);
      int request = commandRequest[command];
      switch (commandKind[command]) {
        case OFFER -> {
          if (first) {
            offer(node, command, request);
          }
        }
        case CANCEL -> cancel(node, command, request, first);
        case HOLD -> node.wishes.add(new Node.Wish(request, Change.HELD));
        case RESUME -> node.wishes.add(new Node.Wish(request, Change.RESUMED));
        default -> {
          if (first) {
            offerAgain(node, command, request);
          }
        }
      }
    }
  }

  /** As far as the engine has room for changes; the others come in a later iteration. */
  private void tellWishes(Node node) {
    while (!node.wishes.isEmpty()) {
      int request = node.wishes.element().request();
      if (node.engine.changeRoom() < fleet.request(request).admissionCost()) {
        return;
      }
      Change change = node.wishes.remove().change();
      if (change == Change.CANCELLED) {
        changeSequences(node, request, change);
        node.audit.withdraw(request);
      } else {
        read(node, request, change);
      }
    }
  }

  private void offer(Node node, int command, int number) {
    byte result =
        switch (node.admission.offer(fleet.request(number))) {
          case QUEUED -> TAKEN;
          case EXPIRED -> EXPIRED;
          case DUPLICATE -> DUPLICATE;
        };
    if (agree(node, command, result)) {
      fleet.move(number, result == TAKEN ? Whereabouts.WAITING : Whereabouts.TURNED_AWAY);
      tell(node, "request %d is offered: %s", number, result == TAKEN ? "waits" : "turned away");
      if (result == EXPIRED) {
        strike(Fault.EXPIRED);
      }
      if (result == DUPLICATE) {
        throw new BrokenInvariant(
            Invariant.RELEASED_ONCE, "request %d is a duplicate of none".formatted(number));
      }
    }
  }

  private void cancel(Node node, int command, int number, boolean first) {
    if (first && !(plan.broken() == BrokenRule.LOCAL_CANCEL && !node.leads())) {
      boolean waited = node.admission.cancel(fleet.request(number).id());
      if (agree(node, command, waited ? WAITED : WAITED_NOT)) {
        strike(Fault.CANCEL);
        tell(node, "request %d is cancelled", number);
        if (waited) {
          fleet.move(number, Whereabouts.WITHDRAWN);
        }
      }
    }
    if (commandResult[command] == WAITED_NOT) {
      node.wishes.add(new Node.Wish(number, Change.CANCELLED));
    }
  }

  private boolean changeSequences(Node node, int number, Change change) {
    boolean here = false;
    int first = fleet.firstSequence(number);
    for (int child = 0; child < fleet.request(number).admissionCost(); child++) {
      if (node.audit.has(first + child)) {
        node.audit.change(first + child, change);
        here = true;
      }
    }
    return here;
  }

  /** A reader can't keep up, or can again. */
  private void read(Node node, int number, Change change) {
    if (changeSequences(node, number, change) && node.engine.stage() == 0) {
      tell(node, "request %d: its reader is %s", number, change == Change.HELD ? "slow" : "back");
      if (change == Change.HELD) {
        strike(Fault.SLOW_READER);
      }
    }
  }

  private void offerAgain(Node node, int command, int number) {
    if (commandResult[command] == UNKNOWN && fleet.place(number) != Whereabouts.WAITING) {
      commandResult[command] = VOID; // withdrawn in this very iteration
      return;
    }
    WaitingQueue.Offer offer = node.admission.offer(fleet.request(number));
    if (offer != WaitingQueue.Offer.DUPLICATE) {
      throw new BrokenInvariant(
          Invariant.RELEASED_ONCE,
          "request %d waits and is taken again: %s".formatted(number, offer));
    }
    if (agree(node, command, DUPLICATE)) {
      strike(Fault.OFFERED_TWICE);
    }
  }

  /**
   * All admissions come to the same.
   *
   * @return true for the first
   */
  private boolean agree(Node node, int command, byte result) {
    if (commandResult[command] == UNKNOWN) {
      commandResult[command] = result;
      return true;
    }
    if (commandResult[command] != result) {
      throw new BrokenInvariant(
          Invariant.RANKS_AGREE,
          "%s: command %d for request %d came to %d, elsewhere to %d"
              .formatted(node, command, commandRequest[command], result, commandResult[command]));
    }
    return false;
  }

  // ------------------------------------------------------------------------------ transfers

  private void startTransfers(Node node) {
    RankEngine engine = node.engine;
    for (int i = 0; i < engine.receives(); i++) {
      int row = engine.receiveRow(i);
      int request = (int) engine.table().tag(row);
      transfers[engine.rank()].start(
          fleet.firstSequence(request) + engine.table().child(row), now, clock(node));
      tell(node, "request %d: its KV is asked for", request);
    }
  }

  /** Ends of transfers that reached a rank by now. */
  private void bringTransfers(Node node, Transfers some) {
    if (some.quiet()) {
      return;
    }
    int before = some.log();
    some.bring(now, clock(node), TRANSFER_LIMIT_MICROS, this::strike);
    if (history.listens()) {
      for (int i = before; i < some.log(); i++) {
        tell(node, "request %d: its transfer %s", fleet.requestOf(some.request(i)), some.change(i));
      }
    }
  }

  // ------------------------------------------------------------------------------ accidents

  private void befall(Happening happening) {
    Node node = nodes[happening.subject()];
    if (!node.alive() || node.place == Node.Place.STALLED) {
      return;
    }
    switch (happening.fault()) {
      case DEAD_RANK -> {
        dying = Optional.of(happening);
        return;
      }
      case SLOW_RANK -> {
        node.slowFactor = happening.amount();
        node.slowUntil = now + SPELL_MICROS;
        strike(Fault.SLOW_RANK);
      }
      case MESSAGES_LATE -> {
        node.lateBy = happening.amount();
        node.lateUntil = now + SPELL_MICROS;
      }
      case MESSAGES_LOST -> node.losses = happening.amount();
      case CLOCK_JUMPS -> {
        node.clockOffset += happening.amount();
        boolean timed = node.place == Node.Place.IDLE && node.nextAt != NEVER;
        boolean watched =
            (node.place == Node.Place.GATHERING || node.place == Node.Place.VOTING)
                && node.watchEnds - node.clockOffset + happening.amount() == node.nextAt;
        if (timed || watched) {
          node.nextAt = Math.max(now + 1, node.watchEnds - node.clockOffset);
        }
        strike(Fault.CLOCK_JUMPS);
      }
      case RUNNER_ERROR -> arm(node.engine.rank(), happening.amount());
      case CANCEL,
          EARLY_END,
          RESULT_LOST,
          SLOW_READER,
          TRANSFER_LATE,
          TRANSFER_FAILS,
          TRANSFER_TIMES_OUT,
          SIGNAL_REPEATED,
          OFFERED_TWICE,
          ID_REUSED,
          NEVER_FITS,
          EXPIRED ->
          throw new AssertionError(happening);
    }
    tell(node, happening.toString());
  }

  /** A batch of the rank breaks that none of its stages has begun. */
  private void arm(int rank, int kind) {
    if (errorFrom[rank] != NEVER) {
      return; // one after the other
    }
    long from = 0;
    for (int stage = 0; stage < stages; stage++) {
      from = Math.max(from, nodes[stage * ranks + rank].sequence + 1);
    }
    errorFrom[rank] = from;
    errorKind[rank] = kind;
    errorSequence[rank] = -1;
    errorStages[rank] = 0;
  }

  /** A death waits a while for its moment. */
  private void die(Happening death) {
    boolean moment = (seen() >> death.amount() & 1) != 0;
    if (!moment && now < death.at() + DEATH_WAITS_MICROS) {
      return;
    }
    dying = Optional.empty();
    Node node = nodes[death.subject()];
    strike(Fault.DEAD_RANK);
    tell(node, "dies");
    node.place = Node.Place.DEAD;
    node.nextAt = NEVER;
    pollWithoutLeader();
  }

  /** Idle ranks look up now and then; that needn't be simulated while the leader sleeps too. */
  private void pollWithoutLeader() {
    for (Node node : nodes) {
      if (node.place == Node.Place.IDLE && !nodes[0].alive()) {
        node.nextAt = Math.min(node.nextAt, now + 2 * POLL_MICROS);
      }
    }
  }

  /** A fault strikes: where were the requests? */
  private void strike(Fault fault) {
    struck[fault.ordinal()] |= seen();
  }

  private int seen() {
    int seen = fleet.count(Whereabouts.WAITING) > 0 ? Seen.WAITING.bit() : 0;
    for (Node node : nodes) {
      seen |= node.audit.seen();
    }
    return seen;
  }

  private void tell(Node node, String what, Object... values) {
    if (history.listens()) {
      history.add(now, node.toString(), values.length == 0 ? what : what.formatted(values));
    }
  }

  // ------------------------------------------------------------------------------ the end

  /** Nobody acts any more: was that right? */
  private WorldResult.Ending finish() {
    if (stopped) {
      return WorldResult.Ending.FILL_OUT_OF_REACH;
    }
    int dead = 0;
    for (Node node : nodes) {
      dead |= node.alive() ? 0 : 1 << node.number;
    }
    boolean rests =
        nodes[0].place == Node.Place.IDLE && intake == commandAt.length && fleet.empty();
    for (Node node : nodes) {
      boolean atRest =
          rests
              && (node.place == Node.Place.IDLE
                  || node.place == Node.Place.GATHERING && node.sequence == nodes[0].sequence);
      if (node.alive() && !atRest && !(node.place == Node.Place.STALLED && leadsTo(node, dead))) {
        throw new BrokenInvariant(Invariant.LIVENESS, hang());
      }
    }
    if (!rests) {
      return WorldResult.Ending.STALLED_BY_NAME;
    }
    for (Node node : nodes) {
      if (node.alive()) {
        node.audit.atRest();
      }
    }
    return WorldResult.Ending.DONE; // a rank that died meanwhile has missed nothing
  }

  /** Do the ranks that a stalled one misses, and those that they miss, end with the dead? */
  private boolean leadsTo(Node node, int dead) {
    int found = node.missing;
    for (int round = 0; round < nodes.length; round++) {
      for (Node peer : nodes) {
        found |= (found >> peer.number & 1) != 0 ? peer.missing : 0;
      }
    }
    return (found & dead) != 0;
  }

  private String hang() {
    var text = new StringJoiner("; ", "nobody can act: ", "");
    for (Node node : nodes) {
      text.add(
          "%s %s in iteration %d%s"
              .formatted(
                  node,
                  node.place,
                  node.sequence,
                  node.stall.isEmpty() ? "" : " (" + node.stall + ")"));
    }
    return text.toString();
  }

  @Override
  public void close() {
    for (Node node : nodes) {
      node.engine.close();
    }
  }
}
