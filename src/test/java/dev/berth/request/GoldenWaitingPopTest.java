// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.route.Golden;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every line of the golden file of pops: what is popped, in which order, and what stays. */
class GoldenWaitingPopTest {

  static Stream<Golden> lines() {
    return Golden.lines("adp_waiting_pop.jsonl", 256).stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("lines")
  void popsAsRecorded(Golden line) {
    Golden config = line.at("config");
    var policy = WaitingQueue.Policy.valueOf(config.text("policy").toUpperCase(Locale.ROOT));
    int budget = config.integer("max_req_count");
    var batch = new RequestBatch();
    WaitingQueue queue;
    if (config.flag("enable_attention_dp")) {
      queue = WaitingQueue.withAttentionDp(policy, config.integer("tp_size"));
      offerAll(queue, line);
      List<Long> counts = line.longs("all_ranks_num_active_requests");
      queue.pop(budget, Counts.of(counts), config.integer("max_num_active_requests"), batch);
    } else {
      queue = WaitingQueue.withoutAttentionDp(policy);
      offerAll(queue, line);
      queue.pop(budget, batch);
    }

    Golden expected = line.at("expected");
    var popped = new ArrayList<Long>();
    for (int i = 0; i < batch.size(); i++) {
      popped.add(batch.get(i).id());
    }
    assertThat(popped).isEqualTo(expected.longs("popped"));
    assertThat(queue.waiting().stream().map(Request::id).toList())
        .isEqualTo(expected.longs("queue_after"));
    assertThat(queue.size()).isEqualTo(expected.longs("queue_after").size());
  }

  private static void offerAll(WaitingQueue queue, Golden line) {
    for (Golden request : line.list("requests")) {
      assertThat(queue.offer(request.request())).isEqualTo(WaitingQueue.Offer.QUEUED);
    }
  }
}
