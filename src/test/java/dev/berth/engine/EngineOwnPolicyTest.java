// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.Request;
import dev.berth.test.NoEvictPolicy;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A serving engine lives on when the caller's own policy breaks. */
class EngineOwnPolicyTest {
  @Test
  void aPolicyThatThrowsCostsAnIterationAndNothingElse() {
    int[] calls = {0};
    EngineConfig config = EngineTest.config();
    var working = new NoEvictPolicy(config.rangeEnd());
    EngineConfig broken =
        config.withPolicy((table, selection) -> {
          if (calls[0]++ % 3 == 1) {
            throw new IllegalStateException("broken at times");
          }
          working.select(table, selection);
        });
    try (Engine engine = Engine.builder(broken).open()) {
      List<RequestHandle> handles =
          List.of(engine.submit(Request.of(1, 4, 6)), engine.submit(Request.of(2, 4, 6)));
      assertThat(engine.policyFailure()).isEmpty();
      EngineTest.run(engine);
      for (RequestHandle handle : handles) {
        assertThat(EngineTest.ending(handle)).isEqualTo(Ending.FINISHED);
        assertThat(EngineTest.read(handle.tokens())).hasSize(6);
      }
      BerthException failure = engine.policyFailure().orElseThrow();
      assertThat(failure.code()).isEqualTo(Code.POLICY);
      assertThat(failure).hasRootCauseMessage("broken at times");
    }
  }
}
