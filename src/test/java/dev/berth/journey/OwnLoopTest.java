// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.BatchView;
import dev.berth.engine.Engine;
import dev.berth.engine.ModelRunner;
import dev.berth.engine.RequestHandle;
import dev.berth.engine.StepPlan;
import dev.berth.engine.TokenStream;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The loop of the README, around the tests' transformer. */
class OwnLoopTest {
  /** What an engine with a loop of its own has already. */
  private static final class YourModel {
    private final List<ModelRunner> forwards = new ArrayList<>();
    private final TinyRunners model;
    private final int ranks;

    YourModel(Engine engine, TinyRunners model) {
      this.model = model;
      this.ranks = engine.config().ranks();
      for (int stage = 0; stage < engine.config().stages(); stage++) {
        for (int rank = 0; rank < ranks; rank++) {
          forwards.add(model.runner(engine.setup(rank, stage)));
        }
      }
    }

    void launch(BatchView batch) {
      forwards.get(batch.stage() * ranks + batch.rank()).launch(batch);
    }

    int token(BatchView batch, int position) {
      return model.sampled(batch)[position];
    }

    boolean ends(BatchView batch, int position) {
      return token(batch, position) < TinyTransformer.END_TOKENS;
    }
  }

  // shown in the README
  void serve(Engine engine, YourModel model) {
    while (!engine.drained()) {
      StepPlan plan = engine.step(System.nanoTime() / 1000);
      for (BatchView batch : plan.launches()) {
        model.launch(batch); // inputs(), seats(), firsts(), lengths(), tables()
      }
      for (BatchView batch : plan.dues()) {
        for (int i = 0; i < batch.size(); i++) {
          if (batch.makesToken(i)) {
            plan.result().token(batch, i, model.token(batch, i));
            if (model.ends(batch, i)) {
              plan.result().end(batch, i);
            }
          }
        }
      }
      engine.commit(plan.result());
      engine.awaitWork();
    }
  }

  // to here

  @ParameterizedTest
  @EnumSource
  void servesWhatEachPromptGivesAlone(JourneyTest.Fleet fleet) {
    var journey =
        new JourneyTest.Journey(fleet, JourneyTest.Policy.GUARANTEED_NO_EVICT, JourneyTest.SEED);
    try (Engine engine = Engine.builder(journey.config).open()) {
      var handles = new ArrayList<RequestHandle>();
      journey.requests.forEach(request -> handles.add(engine.submit(request)));
      engine.drain();
      serve(engine, new YourModel(engine, journey.device));
      for (RequestHandle handle : handles) {
        var read = new ArrayList<Integer>();
        for (int t = handle.tokens().poll(); t != TokenStream.END; t = handle.tokens().poll()) {
          read.add(t);
        }
        assertThat(read).isEqualTo(journey.alone().get(handle.id()));
      }
    }
  }
}
