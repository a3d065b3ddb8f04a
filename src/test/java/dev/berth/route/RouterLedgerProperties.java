// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.Request;
import dev.berth.route.RouterLedger.Dispatch;
import dev.berth.route.RouterLedger.Options;
import dev.berth.route.RouterLedger.Release;
import dev.berth.route.RouterLedger.Report;
import dev.berth.route.RouterLedger.Unknown;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;

/**
 * The ledger against a model that keeps the whole history and adds it up anew for every question.
 */
class RouterLedgerProperties {

  /** A dispatch: to whom, in which incarnation, as the how-manieth. */
  private record Sent(
      long id, int rank, int incarnation, long number, int cost, long tokens, long at) {}

  /** What a rank last said, and what has ended since. */
  private record Said(long at, int incarnation, long seen, int active, long tokens) {}

  private static final class Naive {
    final Options options;
    final List<Sent> live = new ArrayList<>();
    final List<Said> said = new ArrayList<>();
    final List<List<Sent>> endedSince = new ArrayList<>();
    final int[] incarnation;
    final long[] count;
    final boolean[] down;
    final boolean[] draining;
    long now;

    Naive(Options options) {
      this.options = options;
      incarnation = new int[options.ranks()];
      count = new long[options.ranks()];
      down = new boolean[options.ranks()];
      draining = new boolean[options.ranks()];
      for (int rank = 0; rank < options.ranks(); rank++) {
        said.add(new Said(Long.MIN_VALUE / 2, 0, 0, 0, 0));
        endedSince.add(new ArrayList<>());
      }
    }

    boolean known(int rank) {
      return now - said.get(rank).at() <= options.staleness();
    }

    long active(int rank) {
      Said it = said.get(rank);
      if (!known(rank)) {
        return live.stream().filter(s -> s.rank() == rank).mapToLong(Sent::cost).sum();
      }
      long base = it.active();
      for (Sent ended : endedSince.get(rank)) {
        base = Math.max(0, base - ended.cost());
      }
      return base
          + live.stream()
              .filter(s -> s.rank() == rank && s.number() > it.seen())
              .mapToLong(Sent::cost)
              .sum();
    }

    long tokens(int rank) {
      Said it = said.get(rank);
      if (!known(rank)) {
        return live.stream().filter(s -> s.rank() == rank).mapToLong(Sent::tokens).sum();
      }
      long base = it.tokens();
      for (Sent ended : endedSince.get(rank)) {
        base = Math.max(0, base - ended.tokens());
      }
      return base
          + live.stream()
              .filter(s -> s.rank() == rank && s.number() > it.seen())
              .mapToLong(Sent::tokens)
              .sum();
    }

    boolean takes(int rank) {
      return !down[rank]
          && !draining[rank]
          && (known(rank) || options.unknown() == Unknown.USE_LEDGER);
    }

    void end(Sent sent) {
      live.remove(sent);
      if (sent.number() <= said.get(sent.rank()).seen()) {
        endedSince.get(sent.rank()).add(sent);
      }
    }
  }

  @Test
  void theLedgerAddsUpAsItsHistoryDoes() {
    RandomGenerator random = Seeds.generator(Seeds.seed("RouterLedgerProperties"));
    int deferred = 0;
    int outdated = 0;
    int lost = 0;
    for (int run = 0; run < 300; run++) {
      var options =
          new Options(
              1 + random.nextInt(6),
              1 + random.nextInt(8),
              1 + random.nextInt(40),
              random.nextBoolean() ? Unknown.HOLD : Unknown.USE_LEDGER,
              TokenLoad.PROMPT);
      var ledger = new RouterLedger(new DefaultRouter(), options);
      var router = new DefaultRouter();
      var naive = new Naive(options);
      long nextId = 0;
      for (int step = 0; step < 300; step++) {
        naive.now += random.nextInt(4);
        int rank = random.nextInt(options.ranks());
        switch (random.nextInt(12)) {
          case 0 -> {
            lost += ledger.down(rank, id -> {});
            naive.down[rank] = true;
            for (Sent sent : List.copyOf(naive.live)) {
              if (sent.rank() == rank) {
                naive.end(sent);
              }
            }
          }
          case 1 -> {
            if (random.nextInt(3) == 0) {
              ledger.drain(rank);
              naive.draining[rank] = true;
            }
          }
          case 2, 3 -> {
            if (naive.down[rank]) {
              naive.incarnation[rank]++;
              naive.count[rank] = 0;
              naive.said.set(rank, new Said(Long.MIN_VALUE / 2, 0, 0, 0, 0));
              naive.endedSince.get(rank).clear();
            }
            naive.down[rank] = false;
            naive.draining[rank] = false;
            assertThat(ledger.up(rank)).isEqualTo(naive.incarnation[rank]);
          }
          case 4, 5, 6 -> {
            long seen = naive.count[rank] == 0 ? 0 : random.nextLong(naive.count[rank] + 1);
            int incarnation = naive.incarnation[rank] - (random.nextInt(8) == 0 ? 1 : 0);
            int active = random.nextInt(options.cap() + 2);
            long tokens = random.nextInt(500);
            Report expected =
                naive.down[rank]
                    ? Report.DOWN
                    : incarnation != naive.incarnation[rank] || seen < naive.said.get(rank).seen()
                        ? Report.OUTDATED
                        : Report.TAKEN;
            assertThat(ledger.report(rank, naive.now, incarnation, seen, active, tokens, 0))
                .isEqualTo(expected);
            if (expected == Report.TAKEN) {
              naive.said.set(rank, new Said(naive.now, incarnation, seen, active, tokens));
              naive.endedSince.get(rank).clear();
            }
            outdated += expected == Report.OUTDATED ? 1 : 0;
          }
          case 7, 8 -> {
            if (!naive.live.isEmpty() && random.nextInt(8) > 0) {
              Sent sent = naive.live.get(random.nextInt(naive.live.size()));
              assertThat(ledger.release(sent.id())).isEqualTo(Release.RELEASED);
              naive.end(sent);
            } else {
              assertThat(ledger.release(nextId + 7)).isEqualTo(Release.NOT_HELD);
            }
          }
          default -> {
            Request request = Request.of(nextId++, random.nextInt(100), 1);
            Dispatch dispatch = ledger.dispatch(request, PrefixMatches.NONE, naive.now);
            int expected = routed(router, naive, request);
            if (dispatch instanceof Dispatch.Dispatched(int to, long number)) {
              assertThat(to).isEqualTo(expected);
              assertThat(number).isEqualTo(++naive.count[to]);
              naive.live.add(
                  new Sent(
                      request.id(),
                      to,
                      naive.incarnation[to],
                      number,
                      1,
                      request.promptTokens(),
                      naive.now));
            } else {
              assertThat(expected).as("%s", dispatch).isEqualTo(-1);
              deferred++;
            }
          }
        }
        compare(ledger, naive, options);
      }
      for (Sent sent : List.copyOf(naive.live)) {
        assertThat(ledger.release(sent.id())).isEqualTo(Release.RELEASED);
      }
      assertThat(ledger.inFlight()).as("empty when the system is empty").isZero();
    }
    assertThat(deferred).isGreaterThan(1_000);
    assertThat(outdated).isGreaterThan(1_000);
    assertThat(lost).isGreaterThan(1_000);
  }

  private static void compare(RouterLedger ledger, Naive naive, Options options) {
    assertThat(ledger.overdue(naive.now, 30))
        .isEqualTo((int) naive.live.stream().filter(s -> naive.now - s.at() >= 30).count());
    assertThat(ledger.inFlight()).isEqualTo(naive.live.size());
    int stale = 0;
    for (int rank = 0; rank < options.ranks(); rank++) {
      int its = rank;
      stale += !naive.down[rank] && !naive.known(rank) ? 1 : 0;
      assertThat(ledger.activeRequests(rank)).isEqualTo((int) naive.active(rank));
      assertThat(ledger.activeTokens(rank)).isEqualTo(naive.tokens(rank));
      assertThat(ledger.inFlight(rank))
          .isEqualTo((int) naive.live.stream().filter(s -> s.rank() == its).count());
    }
    assertThat(ledger.staleRanks(naive.now)).isEqualTo(stale);
  }

  /** Where the router alone would send it, seeing the model's loads; -1 for nowhere. */
  private static int routed(AdpRouter router, Naive naive, Request request) {
    var states = new ArrayList<RankState>();
    for (int rank = 0; rank < naive.options.ranks(); rank++) {
      states.add(RankState.of(rank, (int) naive.active(rank), naive.tokens(rank), 0));
    }
    RankLoads loads = RankLoads.of(states);
    boolean room = false;
    for (int rank = 0; rank < naive.options.ranks(); rank++) {
      if (!naive.takes(rank)) {
        loads.close(rank);
      }
      room |= naive.takes(rank) && naive.active(rank) < naive.options.cap();
    }
    Routed routed = Routed.by(router, loads, List.of(request), naive.options.cap());
    for (int rank = 0; room && rank < naive.options.ranks(); rank++) {
      if (!routed.ranks().get(rank).isEmpty()) {
        return rank;
      }
    }
    return -1;
  }

  @Test
  void dispatchingAndReleasingAllocatesNothingButItsOutcome() {
    var ledger =
        new RouterLedger(
            new DefaultRouter(), new Options(4, 64, 100, Unknown.USE_LEDGER, TokenLoad.PROMPT));
    var queue =
        dev.berth.request.WaitingQueue.withAttentionDp(
            dev.berth.request.WaitingQueue.Policy.FCFS, 4);
    List<Request> requests = Wishes.plain(100, 10);
    var out = new dev.berth.request.RequestBatch();
    int[] ranks = new int[100];
    Runnable round =
        () -> {
          for (int i = 0; i < requests.size(); i++) {
            queue.offer(requests.get(i));
          }
          ledger.dispatch(queue, (batch, n) -> PrefixMatches.NONE, 0, out, ranks);
          for (int i = 0; i < out.size(); i++) {
            ledger.release(out.get(i).id());
          }
        };
    round.run();
    round.run();

    assertThat(AllocatedBytes.by(round)).isZero();
    assertThat(ledger.inFlight()).isZero();
  }
}
