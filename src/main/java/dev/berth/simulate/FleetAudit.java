// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.engine.Admission;
import dev.berth.engine.EndKind;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillGate;
import dev.berth.engine.WorkerRole;
import dev.berth.request.Request;
import java.util.Arrays;

/**
 * The books of a world about its requests and its iterations, kept from what reached the engines
 * and what they did, never from what they say of themselves.
 */
final class FleetAudit {
  private static final Whereabouts[] PLACES = Whereabouts.values();

  /**
   * Iterations without any progress after which a fleet with work has stopped: a pipeline's worth
   * to bring results home, as many again for those that wait for what they hold, and the same while
   * a rank that is full of retirees vetoes.
   */
  private final int patience;

  private final WorldPlan plan;
  private final EngineConfig config;
  private final int ranks;
  private final int cap;
  private final long capacity;

  private final byte[] place;
  private final int[] rankOf;
  private final int[] endsMissing;
  private final int[] stopAt;
  private final int[] named;
  private final int[] counts = new int[PLACES.length];
  private final long base;

  // ---- the iteration that is being decided, by its parity
  private final long[] decided = {-1, -1};
  private final long[] decisions = new long[2];
  private final boolean[] idle = new boolean[2];
  private final boolean[] progressed = new boolean[2];
  private final int[] finished = new int[2];
  private boolean gateOpen;
  private long fetched;
  private int still;

  FleetAudit(WorldPlan plan) {
    this.plan = plan;
    this.config = plan.config();
    this.ranks = config.ranks();
    this.cap = config.plan().admissionCap();
    this.capacity = config.plan().fleetCapacity();
    this.patience = 8 + 6 * config.stages();
    int n = plan.arrivals().size();
    place = new byte[n];
    rankOf = new int[n];
    endsMissing = new int[n];
    stopAt = new int[n];
    named = new int[n];
    Arrays.fill(rankOf, -1);
    Arrays.fill(named, -1);
    counts[Whereabouts.TO_COME.ordinal()] = plan.requests();
    base = plan.arrivals().getFirst().request().id(); // the first name is 0
    for (Happening happening : plan.happenings()) {
      if (happening.fault() == Fault.EARLY_END) {
        stopAt[happening.subject()] = happening.amount();
      }
    }
    gateOpen = !config.gate().active();
  }

  // ------------------------------------------------------------------------------ requests

  Request request(int number) {
    return plan.arrivals().get(number).request();
  }

  Whereabouts place(int request) {
    return PLACES[place[request]];
  }

  /** Requests in a place. */
  int count(Whereabouts where) {
    return counts[where.ordinal()];
  }

  /** The output token that ends a request early, 0 for none. */
  int stopAt(int request) {
    return stopAt[request];
  }

  /** Is nobody in the fleet who has a request's id? */
  boolean free(int request) {
    int holder = named[plan.arrivals().get(request).name()];
    return holder < 0
        || switch (place(holder)) {
          case TO_COME, WAITING, LIVE -> false;
          case OVER, REFUSED, TURNED_AWAY, WITHDRAWN -> true;
        };
  }

  /**
   * A request takes its id.
   *
   * @return true if another one had it
   */
  boolean claim(int request) {
    int name = plan.arrivals().get(request).name();
    boolean again = named[name] >= 0;
    named[name] = request;
    return again;
  }

  /** Is a request the last that took its id? */
  boolean claims(int request) {
    return named[plan.arrivals().get(request).name()] == request;
  }

  /** Is a request longer than any sequence may be? */
  boolean tooLong(int request) {
    return (long) request(request).promptTokens() + fullOutput(request)
        > config.plan().shape().maxSeqLen();
  }

  /** The request with an id, of several the last. */
  int byId(long id) {
    int name = (int) ((id - base) / 37);
    return name >= 0 && name < named.length ? named[name] : -1;
  }

  void move(int request, Whereabouts to) {
    counts[place[request]]--;
    counts[to.ordinal()]++;
    place[request] = (byte) to.ordinal();
  }

  /** Output tokens that a request makes if it is left alone. */
  int fullOutput(int request) {
    return config.role() == WorkerRole.CONTEXT ? 1 : request(request).maxNewTokens();
  }

  /** A stage of its rank saw a request end. */
  void ended(int request, int rank, EndKind kind, int tokens) {
    if (place(request) != Whereabouts.LIVE
        || rankOf[request] != rank
        || endsMissing[request] == 0) {
      throw new BrokenInvariant(
          Invariant.RELEASED_ONCE,
          "request %d ended on rank %d, the books have it %s on rank %d"
              .formatted(request, rank, place(request), rankOf[request]));
    }
    int full = fullOutput(request);
    int wanted = stopAt[request] > 0 ? Math.min(full, stopAt[request]) : full;
    if (kind == EndKind.FINISHED ? !complete(tokens, wanted, full) : tokens > full) {
      throw new BrokenInvariant(
          Invariant.RELEASED_ONCE,
          "request %d %s with %d tokens, %d were wanted".formatted(request, kind, tokens, wanted));
    }
    if (--endsMissing[request] == 0) {
      move(request, Whereabouts.OVER);
    }
  }

  /**
   * A received first token can't be the last but for its limit: no forward ran that could stop it.
   */
  private boolean complete(int tokens, int wanted, int full) {
    boolean received = config.role() == WorkerRole.GENERATION;
    return tokens == (received && wanted == 1 ? Math.min(2, full) : wanted);
  }

  // ------------------------------------------------------------------------------ iterations

  /**
   * A rank decided an iteration: the first writes down what it should have come to, the others must
   * have come to the same.
   *
   * @param stage the books of its stage
   */
  void decide(Node node, long sequence, RankAudit[] stage) {
    Admission admission = node.admission;
    int parity = (int) (sequence & 1);
    long decision = hash(admission);
    if (decided[parity] == sequence) {
      if (decisions[parity] != decision || idle[parity] != admission.idle()) {
        throw new BrokenInvariant(
            Invariant.RANKS_AGREE,
            "%s decided iteration %d otherwise than the first".formatted(node, sequence));
      }
      return;
    }
    long live = 0;
    long routable = 0;
    boolean settled = true;
    for (RankAudit rank : stage) {
      live += rank.liveAtGather();
      routable += rank.routableAtGather();
      settled &= rank.settledAtGather();
    }
    boolean expectedIdle = live == 0 && count(Whereabouts.WAITING) == 0;
    if (admission.idle() != expectedIdle) {
      throw new BrokenInvariant(
          expectedIdle ? Invariant.FLAGS_ARE_DERIVED : Invariant.LIVENESS,
          "iteration %d: the fleet %s with %d live and %d waiting requests"
              .formatted(
                  sequence,
                  admission.idle() ? "blocks" : "goes on",
                  live,
                  count(Whereabouts.WAITING)));
    }
    askGate(admission, sequence, settled);
    if (!admission.idle()) {
      admit(admission, sequence, routable, stage);
    }
    decided[parity] = sequence;
    decisions[parity] = decision;
    idle[parity] = admission.idle();
    finished[parity] = 0;
  }

  private long hash(Admission admission) {
    long hash = admission.idle() ? 1 : admission.held() ? 2 : 3;
    if (admission.idle()) {
      return hash;
    }
    hash = Noise.of(hash, admission.expectedActive());
    for (int rank = 0; rank < ranks; rank++) {
      for (int i = 0; i < admission.assigned(rank); i++) {
        hash = Noise.of(hash ^ rank, admission.assignedId(rank, i));
      }
    }
    return Noise.of(hash, admission.waiting());
  }

  private void askGate(Admission admission, long sequence, boolean settled) {
    FillGate gate = config.gate();
    gateOpen |= fetched >= gate.target() && settled;
    if (admission.held() == gateOpen) {
      throw new BrokenInvariant(
          gateOpen ? Invariant.LIVENESS : Invariant.FLAGS_ARE_DERIVED,
          "iteration %d: the gate is %s; target %d, fetched %d, %s"
              .formatted(
                  sequence,
                  gateOpen ? "closed" : "open",
                  gate.target(),
                  fetched,
                  settled ? "none before or in its transfer" : "some before or in their transfer"));
    }
  }

  private void admit(Admission admission, long sequence, long routable, RankAudit[] stage) {
    long cost = 0;
    for (int rank = 0; rank < ranks; rank++) {
      int n = admission.assigned(rank);
      for (int i = 0; i < n; i++) {
        long id = admission.assignedId(rank, i);
        int request = byId(id);
        if (request < 0 || place(request) != Whereabouts.WAITING) {
          throw new BrokenInvariant(
              Invariant.OWN_DEEDS_COUNT,
              "iteration %d gives rank %d the request %d, which is %s"
                  .formatted(sequence, rank, id, request < 0 ? "unknown" : place(request)));
        }
        move(request, Whereabouts.LIVE);
        rankOf[request] = rank;
        endsMissing[request] = config.stages();
        cost += request(request).admissionCost();
        fetched++;
      }
      long after = stage[rank].routableAtGather() + (long) n;
      if (n > 0 && after > cap) {
        throw new BrokenInvariant(
            Invariant.OWN_DEEDS_COUNT,
            "iteration %d gives rank %d its %dth routable request, K is %d"
                .formatted(sequence, rank, after, cap));
      }
    }
    if (cost > Math.max(0, capacity - routable)) {
      throw new BrokenInvariant(
          Invariant.OWN_DEEDS_COUNT,
          "iteration %d admits %d, %d of %d are routable"
              .formatted(sequence, cost, routable, capacity));
    }
    if (admission.waiting() != count(Whereabouts.WAITING)) {
      throw new BrokenInvariant(
          Invariant.NEVER_FITS_IS_REFUSED,
          "iteration %d: %d requests wait, the books have %d"
              .formatted(sequence, admission.waiting(), count(Whereabouts.WAITING)));
    }
    if (cost > 0) {
      progress(sequence);
    }
  }

  /** Something happened in an iteration that brings a request further. */
  void progress(long sequence) {
    progressed[(int) (sequence & 1)] = true;
  }

  /**
   * A node is through with an iteration that wasn't idle; the last one closes it.
   *
   * @param awaited something is under way that the engines can only wait for
   */
  void finish(long sequence, int nodes, boolean awaited) {
    int parity = (int) (sequence & 1);
    if (++finished[parity] < nodes) {
      return;
    }
    boolean moved = progressed[parity];
    progressed[parity] = false;
    if (moved || awaited || fillIsOutOfReach()) {
      still = 0;
    } else if (++still > patience) {
      throw new BrokenInvariant(
          Invariant.LIVENESS,
          "%d iterations without progress; %d live, %d waiting, %d to come"
              .formatted(
                  still,
                  count(Whereabouts.LIVE),
                  count(Whereabouts.WAITING),
                  count(Whereabouts.TO_COME)));
    }
  }

  /** More is to be fetched for a fill than will ever come: its harness waits for ever, rightly. */
  boolean fillIsOutOfReach() {
    return !gateOpen
        && fetched + count(Whereabouts.WAITING) + count(Whereabouts.TO_COME)
            < config.gate().target();
  }

  /** Nothing is left that an engine could do something about. */
  boolean empty() {
    return count(Whereabouts.LIVE) + count(Whereabouts.WAITING) == 0;
  }
}
