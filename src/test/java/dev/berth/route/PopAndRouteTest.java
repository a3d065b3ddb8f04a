// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.request.WaitingQueue;
import java.util.Collections;
import java.util.List;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The rows of spec 01 §12.1: the pop within its budget, then the default router. */
class PopAndRouteTest {
  private static final long[] TOKENS = {10, 15, 20, 25};
  private static final int CAP = 3;

  static Stream<Arguments> rows() {
    return Stream.of(
        row("seven on idle ranks", "0 0 0 0", none(7), "0 1|2 3|4 5|6", ""),
        row(
            "more than the budget, uneven",
            "1 2 3 0",
            none(13),
            "0 1|2||3 4 5",
            "6 7 8 9 10 11 12"),
        row("one more than the budget", "0 0 0 0", none(13), "0 1 3|2 4 6|5 7 9|8 10 11", "12"),
        row("nothing waits", "3 3 3 0", "", "|||", ""),
        row("a strict one is passed over", "3 1 3 0", "strict 0, relaxed 0", "|1||", "0"),
        row("the budget outlives a strict one", "3 2 3 3", "strict 0, relaxed 0", "|1||", "0"),
        row("two strict on two ranks", "2 1 3 0", "strict 1, strict 3", "|0||1", ""),
        row("the budget ends", "3 3 3 1", "relaxed 0, relaxed 1, relaxed 2", "|||0 1", "2"),
        row("strict goes first", "3 3 3 0", "strict 0, relaxed 1, strict 3", "|||2 1", "0"));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("rows")
  void popThenRoute(String name, String active, String wishes, String assignment, String waiting) {
    int[] counts = Stream.of(active.split(" ")).mapToInt(Integer::parseInt).toArray();
    RankLoads loads = Routed.loads(counts, TOKENS);
    var queue = queue(Wishes.requests(3, wishes));
    var batch = new RequestBatch();

    queue.pop((int) (4L * CAP - loads.routable()), loads, CAP, batch);
    var out = new Assignment();
    new DefaultRouter().route(loads, batch, CAP, out);

    List<List<Long>> expected =
        Stream.of(assignment.split("\\|", -1)).map(PopAndRouteTest::ids).toList();
    assertThat(Routed.of(out, batch).ranks()).isEqualTo(expected);
    assertThat(queue.waiting().stream().map(Request::id).toList()).isEqualTo(ids(waiting));
  }

  @Test
  void exactlyTheBudgetIsPoppedWhenStrictAndRelaxedAlternate() {
    RankLoads loads = Routed.loads(new int[] {5, 6, 3, 7}, new long[4]);
    String fiveEach = String.join(", ", Collections.nCopies(5, strictAndRelaxedForEachRank()));
    var queue = queue(Wishes.requests(3, fiveEach));
    var batch = new RequestBatch();

    int cost = queue.pop((int) (4 * 8 - loads.routable()), loads, 8, batch);

    assertThat(cost).isEqualTo(11);
    assertThat(batch.size()).isEqualTo(11);
    assertThat(queue.size()).isEqualTo(29);
  }

  private static String strictAndRelaxedForEachRank() {
    return "strict 0, relaxed 0, strict 1, relaxed 1, strict 2, relaxed 2, strict 3, relaxed 3";
  }

  private static WaitingQueue queue(List<Request> requests) {
    var queue = WaitingQueue.withAttentionDp(WaitingQueue.Policy.FCFS, 4);
    requests.forEach(queue::offer);
    return queue;
  }

  private static Arguments row(
      String name, String active, String wishes, String assignment, String waiting) {
    return arguments(name, active, wishes, assignment, waiting);
  }

  private static String none(int count) {
    return String.join(", ", Collections.nCopies(count, "none"));
  }

  private static List<Long> ids(String text) {
    return text.isEmpty()
        ? List.of()
        : LongStream.of(Stream.of(text.split(" ")).mapToLong(Long::parseLong).toArray())
            .boxed()
            .toList();
  }
}
