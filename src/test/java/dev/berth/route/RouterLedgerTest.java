// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.berth.BerthException;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.request.WaitingQueue;
import dev.berth.route.RouterLedger.Dispatch;
import dev.berth.route.RouterLedger.Options;
import dev.berth.route.RouterLedger.Release;
import dev.berth.route.RouterLedger.Report;
import dev.berth.route.RouterLedger.Standing;
import dev.berth.route.RouterLedger.Unknown;
import dev.berth.route.RouterLedger.Wait;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The ledger on published cases, its outcomes, and what it refuses. */
class RouterLedgerTest {
  private static final long BOUND = 1_000;
  private long nextId;

  private static RouterLedger ledger(int ranks, int cap, Unknown unknown) {
    return new RouterLedger(
        new DefaultRouter(), new Options(ranks, cap, BOUND, unknown, TokenLoad.PROMPT));
  }

  private Dispatch dispatch(RouterLedger ledger, int tokens, long time) {
    return ledger.dispatch(Request.of(nextId++, tokens, 1), PrefixMatches.NONE, time);
  }

  private int[] dispatchMany(RouterLedger ledger, int ranks, int count, int tokens) {
    int[] given = new int[ranks];
    for (int i = 0; i < count; i++) {
      if (dispatch(ledger, tokens, 0) instanceof Dispatch.Dispatched(int rank, long number)) {
        given[rank]++;
      }
    }
    return given;
  }

  // ----------------------------------------------------------------------------- own increments

  @Test
  void beforeAnyReportTheLedgersOwnCountsDecide() {
    assertThat(dispatchMany(ledger(4, 100, Unknown.USE_LEDGER), 4, 8, 10))
        .containsExactly(2, 2, 2, 2);
    assertThat(dispatchMany(ledger(8, 100, Unknown.USE_LEDGER), 8, 80, 10)).containsOnly(10);
  }

  @Test
  void snapshotsThatHaveSeenNothingDoNotEraseWhatWasSent() {
    RouterLedger ledger = ledger(2, 100, Unknown.USE_LEDGER);
    int[] given = new int[2];
    for (int i = 0; i < 10; i++) {
      int[] one = dispatchMany(ledger, 2, 1, 10);
      given[0] += one[0];
      given[1] += one[1];
      ledger.report(0, 0, 0, 0, 0, 0, 0);
      ledger.report(1, 0, 0, 0, 0, 0, 0);
    }

    assertThat(given).containsExactly(5, 5);
  }

  @Test
  void aReportCountsTogetherWithTheDispatchesItHasNotSeen() {
    RouterLedger ledger = ledger(2, 100, Unknown.USE_LEDGER);
    to(ledger, 1, 7);
    to(ledger, 1, 7);

    assertThat(ledger.report(0, 0, 0, 0, 3, 30, 0)).isEqualTo(Report.TAKEN);
    assertThat(ledger.report(1, 0, 0, 0, 1, 10, 0)).isEqualTo(Report.TAKEN);

    assertThat(ledger.activeRequests(0)).isEqualTo(3);
    assertThat(ledger.activeRequests(1)).isEqualTo(3);
    assertThat(ledger.activeTokens(1)).isEqualTo(24);
  }

  @Test
  void tokensAreChargedAtDispatch() {
    RouterLedger ledger = ledger(2, 100, Unknown.USE_LEDGER);

    assertThat(dispatchMany(ledger, 2, 2, 9_000)).containsExactly(1, 1);
  }

  @Test
  void aBurstStopsAtTheCapAlthoughTheReportIsOld() {
    RouterLedger ledger = ledger(1, 5, Unknown.USE_LEDGER);
    ledger.report(0, 0, 0, 0, 0, 0, 0);
    assertThat(dispatchMany(ledger, 1, 100, 1)).containsExactly(5);

    ledger.report(0, 0, 0, 5, 5, 5, 0);
    assertThat(dispatchMany(ledger, 1, 100, 1)).containsExactly(0);

    ledger.report(0, 0, 0, 5, 2, 2, 0);
    assertThat(dispatchMany(ledger, 1, 100, 1)).containsExactly(3);
  }

  @Test
  void onlyTerminalEventsReleaseHoweverOldARequestIs() {
    RouterLedger ledger = ledger(1, 96, Unknown.USE_LEDGER);
    dispatchMany(ledger, 1, 96, 1);

    assertThat(ledger.overdue(301_000, 300_000)).isEqualTo(96);
    assertThat(ledger.inFlight()).isEqualTo(96);
    assertThat(dispatch(ledger, 1, 301_000)).isEqualTo(new Dispatch.Deferred(Wait.FULL));

    assertThat(ledger.release(17)).isEqualTo(Release.RELEASED);
    assertThat(ledger.release(17)).isEqualTo(Release.NOT_HELD);
    assertThat(dispatch(ledger, 1, 301_000)).isInstanceOf(Dispatch.Dispatched.class);
    assertThat(dispatch(ledger, 1, 301_000)).isEqualTo(new Dispatch.Deferred(Wait.FULL));
  }

  @Test
  void anEndAfterAReportTakesItsShareOutOfTheReport() {
    RouterLedger ledger = ledger(1, 10, Unknown.USE_LEDGER);
    long first = to(ledger, 0, 7);
    long second = to(ledger, 0, 9);
    ledger.report(0, 0, 0, 1, 4, 40, 0);
    assertThat(ledger.activeRequests(0)).isEqualTo(5);

    ledger.release(first);
    assertThat(ledger.activeRequests(0)).isEqualTo(4);
    assertThat(ledger.activeTokens(0)).isEqualTo(33 + 9);
    ledger.release(second);
    assertThat(ledger.activeRequests(0)).isEqualTo(3);
    assertThat(ledger.activeTokens(0)).isEqualTo(33);
  }

  // ------------------------------------------------------------------------------------ unknown

  @Test
  void unknownIsNotFull() {
    RouterLedger hold = ledger(2, 4, Unknown.HOLD);
    RouterLedger use = ledger(2, 4, Unknown.USE_LEDGER);
    assertThat(dispatch(hold, 1, 0)).isEqualTo(new Dispatch.Deferred(Wait.UNKNOWN));
    assertThat(dispatch(use, 1, 0)).isInstanceOf(Dispatch.Dispatched.class);

    for (RouterLedger ledger : List.of(hold, use)) {
      ledger.report(0, 0, 0, 0, 2, 0, 0);
      assertThat(ledger.standing(0, BOUND)).isEqualTo(Standing.KNOWN);
      assertThat(ledger.standing(0, BOUND + 1)).isEqualTo(Standing.UNKNOWN);
    }
  }

  @Test
  void theLoadOfAPoolSaysWhatTheUnknownCountFor() {
    RouterLedger hold = ledger(2, 4, Unknown.HOLD);
    RouterLedger use = ledger(2, 4, Unknown.USE_LEDGER);
    for (RouterLedger ledger : List.of(hold, use)) {
      ledger.report(0, 0, 0, 0, 2, 0, 0);
      assertThat(ledger.staleRanks(0)).isEqualTo(1);
    }
    assertThat(hold.poolLoad(0)).isCloseTo(0.75, within(1e-9));
    assertThat(use.poolLoad(0)).isCloseTo(0.5, within(1e-9));

    assertThat(hold.poolLoad(5_000)).isEqualTo(1);
    assertThat(use.poolLoad(5_000)).isZero();
    assertThat(hold.staleRanks(5_000)).isEqualTo(2);
    assertThat(dispatch(hold, 1, 5_000)).isEqualTo(new Dispatch.Deferred(Wait.UNKNOWN));
    assertThat(dispatch(use, 1, 5_000)).isInstanceOf(Dispatch.Dispatched.class);

    for (RouterLedger ledger : List.of(hold, use)) {
      ledger.down(0, id -> {});
      ledger.down(1, id -> {});
      assertThat(ledger.poolLoad(5_000)).isEqualTo(1);
    }
  }

  @Test
  void aRankThatNeverReportsGetsItsShareByTheLedgersCounts() {
    RouterLedger ledger = ledger(4, 100, Unknown.USE_LEDGER);
    for (int rank : new int[] {0, 2, 3}) {
      ledger.report(rank, 0, 0, 0, 0, 0, 0);
    }

    assertThat(dispatchMany(ledger, 4, 8, 10)).containsExactly(2, 2, 2, 2);
    assertThat(ledger.staleRanks(0)).isEqualTo(1);
  }

  @Test
  void aRefreshThatIsSlowerThanTheBoundIsWarnedOf() {
    var options = new Options(2, 4, 200, Unknown.HOLD, TokenLoad.PROMPT);

    assertThat(options.warning(15_000)).hasValueSatisfying(w -> assertThat(w).contains("98.7"));
    assertThat(options.warning(200)).isEmpty();
  }

  // --------------------------------------------------------------------------------- membership

  @Test
  void whatWasInFlightOnADeadRankIsReportedOnceAndTheOthersGoOn() {
    RouterLedger ledger = ledger(4, 100, Unknown.USE_LEDGER);
    List<Long> onTwo = List.of(to(ledger, 2, 1), to(ledger, 2, 1), to(ledger, 2, 1));
    long epoch = ledger.epoch();
    var lost = new ArrayList<Long>();

    assertThat(ledger.down(2, lost::add)).isEqualTo(3);
    assertThat(ledger.down(2, lost::add)).isZero();

    assertThat(lost).isEqualTo(onTwo);
    assertThat(ledger.release(onTwo.get(0))).isEqualTo(Release.NOT_HELD);
    assertThat(ledger.epoch()).isEqualTo(epoch + 1);
    assertThat(dispatchMany(ledger, 4, 9, 1)).containsExactly(3, 3, 0, 3);
    assertThat(ledger.report(2, 0, 0, 3, 0, 0, 0)).isEqualTo(Report.DOWN);

    assertThat(ledger.up(2)).isEqualTo(1);
    assertThat(ledger.report(2, 0, 0, 0, 50, 50, 0)).as("of before").isEqualTo(Report.OUTDATED);
    assertThat(ledger.standing(2, 0)).isEqualTo(Standing.UNKNOWN);
    assertThat(dispatchMany(ledger, 4, 3, 1)).containsExactly(0, 0, 3, 0);
    assertThat(ledger.report(2, 0, 1, 3, 3, 3, 0)).isEqualTo(Report.TAKEN);
  }

  @Test
  void aDrainingRankFinishesWhatItHas() {
    RouterLedger ledger = ledger(2, 100, Unknown.USE_LEDGER);
    long id = to(ledger, 1, 1);
    ledger.drain(1);

    assertThat(ledger.standing(1, 0)).isEqualTo(Standing.DRAINING);
    assertThat(dispatchMany(ledger, 2, 4, 1)).containsExactly(4, 0);
    assertThat(ledger.inFlight(1)).isEqualTo(1);
    ledger.release(id);
    assertThat(ledger.inFlight(1)).isZero();
    ledger.up(1);
    assertThat(ledger.standing(1, 0)).isEqualTo(Standing.UNKNOWN);
  }

  @Test
  void withEveryRankGoneRequestsWaitBecauseNoneIsAvailable() {
    RouterLedger ledger = ledger(2, 100, Unknown.USE_LEDGER);
    ledger.drain(0);
    ledger.down(1, id -> {});

    assertThat(dispatch(ledger, 1, 0)).isEqualTo(new Dispatch.Deferred(Wait.UNAVAILABLE));
  }

  // ------------------------------------------------------------------------------------- wishes

  @Test
  void aStrictRequestWaitsForItsRank() {
    RouterLedger ledger = ledger(2, 1, Unknown.USE_LEDGER);
    to(ledger, 1, 1);

    assertThat(wish(ledger, 1, Relax.STRICT)).isEqualTo(new Dispatch.Deferred(Wait.FULL));
    assertThat(wish(ledger, 1, Relax.UNSET)).isEqualTo(new Dispatch.Deferred(Wait.FULL));
    assertThat(wish(ledger, 1, Relax.RELAXED)).isEqualTo(new Dispatch.Dispatched(0, 1));
  }

  @Test
  void aStrictRequestOfADrainingRankFindsItUnavailable() {
    RouterLedger ledger = ledger(2, 1, Unknown.USE_LEDGER);
    ledger.drain(1);

    assertThat(wish(ledger, 1, Relax.STRICT)).isEqualTo(new Dispatch.Deferred(Wait.UNAVAILABLE));
  }

  @Test
  void anIdInFlightIsRefusedAndTheFirstIsUntouched() {
    RouterLedger ledger = ledger(2, 4, Unknown.USE_LEDGER);
    Request request = Request.of(5, 10, 1);

    assertThat(ledger.dispatch(request, PrefixMatches.NONE, 0))
        .isEqualTo(new Dispatch.Dispatched(0, 1));
    assertThat(ledger.dispatch(request, PrefixMatches.NONE, 0))
        .isEqualTo(new Dispatch.Duplicate(0));
    assertThat(ledger.inFlight()).isEqualTo(1);
    ledger.release(5);
    assertThat(ledger.dispatch(request, PrefixMatches.NONE, 0))
        .isInstanceOf(Dispatch.Dispatched.class);
  }

  @Test
  void aConversationComesHome() {
    var ledger =
        new RouterLedger(
            new ConversationRouter(),
            new Options(3, 100, BOUND, Unknown.USE_LEDGER, TokenLoad.PROMPT));
    var ranks = new ArrayList<Integer>();
    for (int turn = 0; turn < 4; turn++) {
      for (String conversation : List.of("a", "b")) {
        Request request =
            Request.of(nextId++, 10, 1).withRoute(RouteKey.conversation(conversation));
        if (ledger.dispatch(request, PrefixMatches.NONE, 0)
            instanceof Dispatch.Dispatched(int rank, long number)) {
          ranks.add(rank);
        }
      }
    }

    assertThat(ranks).containsExactly(0, 1, 0, 1, 0, 1, 0, 1);
  }

  @Test
  void theKvAwareLedgerFollowsTheIndexAndChargesWhatIsMissing() {
    var index = new KvIndex(2, 4);
    index.stored(1, 1, 10, KvIndex.ROOT, 0, 1, 2, 3, 4);
    index.stored(1, 2, 11, 10, 0, 5, 6, 7, 8);
    var ledger =
        new RouterLedger(
            new KvAwareRouter(), new Options(2, 8, BOUND, Unknown.USE_LEDGER, TokenLoad.UNCACHED));
    int[] prompt = IntStream.rangeClosed(1, 10).toArray();
    var matches = new PrefixMatches();
    matches.begin(1, 2);
    index.match(0, prompt, prompt.length - 1, matches, 0);

    assertThat(ledger.dispatch(Request.of(0, 10, 1), matches, 0))
        .isEqualTo(new Dispatch.Dispatched(1, 1));
    assertThat(ledger.activeTokens(1)).isEqualTo(2);
  }

  // -------------------------------------------------------------------------------------- queue

  @Test
  void aQueueIsEmptiedAsFarAsThereIsRoom() {
    RouterLedger ledger = ledger(2, 2, Unknown.USE_LEDGER);
    var queue = WaitingQueue.withAttentionDp(WaitingQueue.Policy.FCFS, 2);
    for (Request request : Wishes.requests(10, "strict 1, strict 1, strict 1, none, none, none")) {
      queue.offer(request);
    }
    var out = new RequestBatch();
    int[] ranks = new int[6];

    int count = ledger.dispatch(queue, (batch, n) -> PrefixMatches.NONE, 0, out, ranks);

    assertThat(count).isEqualTo(4);
    assertThat(IntStream.range(0, 4).mapToObj(i -> out.get(i).id() + "->" + ranks[i]).toList())
        .containsExactly("0->1", "1->1", "3->0", "4->0");
    assertThat(queue.waiting().stream().map(Request::id)).containsExactly(2L, 5L);
    assertThat(ledger.inFlightIds()).containsExactly(0L, 1L, 3L, 4L);
    assertThat(ledger.rankOf(3)).isEqualTo(Optional.of(0));
    assertThat(ledger.rankOf(2)).isEmpty();
  }

  @Test
  void aQueuedIdThatIsInFlightLeavesTheQueueRefused() {
    RouterLedger ledger = ledger(2, 4, Unknown.USE_LEDGER);
    ledger.dispatch(Request.of(1, 10, 1), PrefixMatches.NONE, 0);
    var queue = WaitingQueue.withAttentionDp(WaitingQueue.Policy.FCFS, 2);
    queue.offer(Request.of(0, 10, 1));
    queue.offer(Request.of(1, 10, 1));
    var out = new RequestBatch();
    int[] ranks = new int[2];

    assertThat(ledger.dispatch(queue, (batch, n) -> PrefixMatches.NONE, 0, out, ranks))
        .isEqualTo(1);
    assertThat(out.size()).isEqualTo(2);
    assertThat(ranks).containsExactly(1, RouterLedger.REFUSED);
    assertThat(queue.isEmpty()).isTrue();
    assertThat(ledger.inFlight()).isEqualTo(2);
  }

  // ----------------------------------------------------------------------------------- refusals

  @Test
  void misuseIsRefusedAndChangesNothing() {
    RouterLedger ledger = ledger(2, 4, Unknown.USE_LEDGER);
    ledger.standing(0, 100);

    refused(() -> ledger.report(2, 100, 0, 0, 0, 0, 0), "rank 2");
    refused(() -> ledger.report(-1, 100, 0, 0, 0, 0, 0), "rank -1");
    refused(() -> ledger.report(0, 100, 0, 1, 0, 0, 0), "dispatch 1 of 0");
    refused(() -> ledger.report(0, 100, 0, -1, 0, 0, 0), "dispatch -1");
    refused(() -> ledger.report(0, 100, 0, 0, -1, 0, 0), "activeRequests");
    refused(() -> ledger.report(0, 100, 0, 0, 0, -1, 0), "activeTokens");
    refused(() -> ledger.report(0, 100, 0, 0, 0, 0, -1), "retiringRequests");
    refused(() -> ledger.report(0, 99, 0, 0, 0, 0, 0), "time went back");
    refused(() -> wish(ledger, 2, Relax.RELAXED), "target rank 2");
    refused(() -> ledger.down(2, id -> {}), "rank 2");
    refused(() -> ledger.drain(-1), "rank -1");
    refused(() -> ledger.up(2), "rank 2");
    refused(() -> new Options(0, 1, 1, Unknown.HOLD, TokenLoad.PROMPT), "1 or more");
    refused(() -> new Options(1, 0, 1, Unknown.HOLD, TokenLoad.PROMPT), "1 or more");
    refused(() -> new Options(1, 1, 0, Unknown.HOLD, TokenLoad.PROMPT), "1 or more");
    var queue = WaitingQueue.withAttentionDp(WaitingQueue.Policy.FCFS, 2);
    queue.offer(Request.of(0, 1, 1));
    refused(
        () ->
            ledger.dispatch(
                queue, (batch, n) -> PrefixMatches.NONE, 100, new RequestBatch(), new int[0]),
        "room for 0 ranks");

    assertThat(ledger.inFlight()).isZero();
    assertThat(ledger.staleRanks(100)).isEqualTo(2);
    assertThat(queue.size()).isEqualTo(1);
  }

  private static void refused(Runnable call, String with) {
    assertThatThrownBy(call::run).isInstanceOf(BerthException.class).hasMessageContaining(with);
  }

  /** Dispatches to a rank and says which id it was. */
  private long to(RouterLedger ledger, int rank, int tokens) {
    long id = nextId;
    Request request =
        Request.of(nextId++, tokens, 1).withScheduling(SchedulingParams.target(rank, Relax.STRICT));
    assertThat(ledger.dispatch(request, PrefixMatches.NONE, 0))
        .isInstanceOfSatisfying(
            Dispatch.Dispatched.class, d -> assertThat(d.rank()).isEqualTo(rank));
    return id;
  }

  private Dispatch wish(RouterLedger ledger, int rank, Relax relax) {
    return ledger.dispatch(
        Request.of(nextId++, 1, 1).withScheduling(SchedulingParams.target(rank, relax)),
        PrefixMatches.NONE,
        100);
  }

  @Test
  void idsNeedNotComeInOrder() {
    RouterLedger ledger = ledger(1, 1 << 20, Unknown.USE_LEDGER);
    long[] ids = {5, -1, Long.MIN_VALUE, Long.MAX_VALUE, 0, 1L << 40};
    for (long id : ids) {
      ledger.dispatch(Request.of(id, 1, 1), PrefixMatches.NONE, 0);
    }

    assertThat(ledger.inFlightIds()).isEqualTo(Arrays.stream(ids).sorted().boxed().toList());
  }
}
