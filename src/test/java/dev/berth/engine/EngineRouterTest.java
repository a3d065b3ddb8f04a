// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.Request;
import dev.berth.request.RouteKey;
import dev.berth.route.ConversationRouter;
import dev.berth.route.KvAwareRouter;
import dev.berth.route.MatchSource;
import dev.berth.route.PlacementView;
import dev.berth.route.PrefixMatches;
import dev.berth.route.RouterChoice;
import dev.berth.test.TestConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** An engine places with the router that it was configured with. */
class EngineRouterTest {
  private static final int RANKS = 3;

  private static EngineConfig config(RouterChoice router) {
    return TestConfig.overlap(RANKS, 4).build().withRouter(router);
  }

  /** Steps once and says which rank each id was given. */
  private static List<String> step(LockstepGroup group) {
    group.step(LockstepGroup.NO_DEVICE);
    var given = new ArrayList<String>();
    for (int rank = 0; rank < RANKS; rank++) {
      for (int i = 0; i < group.admission().assigned(rank); i++) {
        given.add(group.admission().assignedId(rank, i) + "->" + rank);
      }
    }
    return given;
  }

  @Test
  void conversationsComeHomeTurnAfterTurn() {
    var router = new RouterChoice.Conversation(ConversationRouter.Options.DEFAULTS);
    try (var group = new LockstepGroup(config(router))) {
      offer(group, 0, "a", "b", "c");
      assertThat(step(group)).containsExactly("0->0", "1->1", "2->2");

      offer(group, 3, "c", "a", "c", "b");
      assertThat(step(group)).containsExactly("4->0", "6->1", "3->2", "5->2");
    }
  }

  private static void offer(LockstepGroup group, long firstId, String... conversations) {
    for (int i = 0; i < conversations.length; i++) {
      group.offer(Request.of(firstId + i, 8, 4).withRoute(RouteKey.conversation(conversations[i])));
    }
  }

  @Test
  void matchesAreAskedForWithNewRequestsOnlyAndWhatIsMissingIsTheLoad() {
    var asked = new ArrayList<Integer>();
    var matches = new PrefixMatches();
    MatchSource source =
        (batch, ranks) -> {
          asked.add(batch.size());
          matches.begin(batch.size(), ranks);
          IntStream.range(0, batch.size()).forEach(item -> matches.set(item, 2, 8));
          return matches;
        };
    var router = new RouterChoice.KvAware(KvAwareRouter.Options.DEFAULTS);
    try (var group = new LockstepGroup(config(router), source)) {
      group.offer(Request.of(7, 10, 4));
      assertThat(step(group)).containsExactly("7->2");
      assertThat(group.engine(2).routableTokens()).isEqualTo(2);

      assertThat(step(group)).isEmpty();
      assertThat(asked).containsExactly(1);
    }
  }

  @Test
  void aDefaultRouterAsksForNoMatches() {
    MatchSource source =
        (batch, ranks) -> {
          throw new AssertionError("asked");
        };
    try (var group = new LockstepGroup(config(RouterChoice.DEFAULT), source)) {
      group.offer(Request.of(7, 10, 4));
      assertThat(step(group)).containsExactly("7->0");
      assertThat(group.engine(0).routableTokens()).isEqualTo(10);
    }
  }

  /**
   * Rank 0's only request retires: to admission the rank looks empty, to the resident view it still
   * holds a prompt.
   */
  @Test
  void aRankThatParksItsRequestIsPassedOverInTheResidentViewOnly() {
    assertThat(afterParking(PlacementView.ADMISSION)).isEqualTo("9->0");
    assertThat(afterParking(PlacementView.RESIDENT)).isEqualTo("9->1");
  }

  private static String afterParking(PlacementView view) {
    EngineConfig config = config(new RouterChoice.Default(view));
    try (var group = new LockstepGroup(config)) {
      group.offer(Request.of(0, 8, 1));
      assertThat(step(group)).containsExactly("0->0");
      assertThat(group.engine(0).routable()).as("it retires").isZero();
      group.offer(Request.of(9, 8, 1));
      return step(group).getFirst();
    }
  }
}
