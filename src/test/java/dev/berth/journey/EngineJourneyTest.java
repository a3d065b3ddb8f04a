// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.Ending;
import dev.berth.engine.Engine;
import dev.berth.engine.RequestHandle;
import dev.berth.engine.RequestResult;
import dev.berth.engine.TokenStream;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The same journeys through the engine that serves: submitted from one thread, run on the engine's
 * own, read from the streams.
 */
class EngineJourneyTest {
  private static final int RUNS = 4;

  private static Stream<Arguments> fleets() {
    return JourneyTest.fleets();
  }

  @ParameterizedTest
  @MethodSource("fleets")
  void whatReadersGetIsWhatEachPromptGivesAlone(JourneyTest.Fleet fleet, JourneyTest.Policy policy)
      throws InterruptedException {
    System.out.println("EngineJourneyTest: -Dberth.seed=" + JourneyTest.SEED);
    for (int i = 0; i < RUNS; i++) {
      var journey = new JourneyTest.Journey(fleet, policy, JourneyTest.SEED + i);
      try (Engine engine = Engine.builder(journey.config).start(journey.device)) {
        var handles = new ArrayList<RequestHandle>();
        journey.requests.forEach(request -> handles.add(engine.submit(request)));
        for (RequestHandle handle : handles) {
          List<Integer> read = read(handle.tokens());
          RequestResult result = handle.result().toCompletableFuture().join();
          assertThat(result.ending()).isEqualTo(Ending.FINISHED);
          assertThat(result.outputTokens()).containsExactly(read.size());
          assertThat(read).isEqualTo(journey.alone().get(handle.id()));
        }
      }
    }
  }

  private static List<Integer> read(TokenStream stream) throws InterruptedException {
    var all = new ArrayList<Integer>();
    for (int token = stream.take(); token != TokenStream.END; token = stream.take()) {
      all.add(token);
    }
    return all;
  }
}
