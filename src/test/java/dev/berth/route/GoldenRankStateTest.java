// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.request.RequestState;
import java.util.List;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every line of the rank-state golden file, for the load rules of all three routers. */
class GoldenRankStateTest {

  static Stream<Golden> lines() {
    return Golden.lines("adp_rank_state.jsonl", 160).stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("lines")
  void theTallyReportsTheRecordedWords(Golden line) {
    Golden config = line.at("config");
    boolean kvAware = config.text("router").equals("kv_aware");
    TokenLoad load = kvAware ? TokenLoad.UNCACHED : TokenLoad.PROMPT;
    String length = config.flag("has_cp_helix") ? "total_input_len_cp" : "py_orig_prompt_len";
    var tally =
        new RankTally(
            config.flag("has_seq_slot_headroom") ? RetiringRule.EXCLUDED : RetiringRule.CHARGED);
    for (Golden request : line.list("active_requests")) {
      tally.addActive(
          RequestState.of(request.integer("state_value")),
          load.tokens(request.integer(length), request.integer("cached_tokens")));
    }
    if (kvAware && config.flag("account_for_in_transfer")) {
      for (Golden request : line.list("requests_in_transfer")) {
        tally.addInTransfer(load.tokens(request.integer(length), request.integer("cached_tokens")));
      }
    }

    long[] words = new long[RankState.WORDS];
    RankState state =
        tally.state(config.integer("tp_rank"), config.integer("num_pending_new_requests"));
    state.encode(words, 0);

    List<Long> expected = line.at("expected").longs("wire");
    assertThat(LongStream.of(words).boxed().toList()).isEqualTo(expected);
    assertThat(RankState.decode(words, 0, words.length)).isEqualTo(state);
  }
}
