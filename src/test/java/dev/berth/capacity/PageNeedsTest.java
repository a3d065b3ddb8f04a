// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.request.RequestState;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The page formulas of spec 02 §4, worked by hand. */
class PageNeedsTest {
  @ParameterizedTest
  @CsvSource({"0, 0", "4, 6", "10, 0", "11, 9", "20, 0"})
  void sinksArePaddedToWholePages(int sinks, int bubble) {
    assertThat(PageNeeds.self(10, 90).withSinks(sinks).sinkBubble()).isEqualTo(bubble);
  }

  @ParameterizedTest
  @CsvSource({
    // prompt, output, tokens, beam, held: window 90, pages of 10
    "10, 80, 10, 1, 0, 9", // 1 of the prompt, 8 more
    "10, 80, 35, 1, 4, 5", // a generation that holds 4
    "15, 20, 15, 1, 0, 4",
    "15, 20, 15, 4, 0, 13", // one whole page, three more for each of four beams
    "15, 20, 15, 4, 1, 12", // the prompt's page is there
    "15, 20, 20, 4, 2, 8",
    "10, 80, 90, 1, 9, 0",
    "10, 10, 20, 1, 5, 0", // it holds more than it needs: nothing comes back
  })
  void toCompletion(int prompt, int maxNew, int tokens, int beam, int held, int pages) {
    assertThat(PageNeeds.self(10, 90).toCompletion(prompt, maxNew, tokens, beam, held))
        .isEqualTo(pages);
  }

  @ParameterizedTest
  @CsvSource({
    "100, 20, 100, 1, 0, 6", // 5 of the window, one to slide
    "100, 20, 100, 2, 0, 7", // and one for each beam
    "100, 20, 120, 1, 5, 0", // the last page is begun: it doesn't slide again
    "40, 10, 40, 1, 0, 5", // ends inside the window
    "45, 10, 45, 1, 0, 6",
  })
  void aSlidingWindowTakesAPageBeforeItDropsOne(
      int prompt, int maxNew, int tokens, int beam, int held, int pages) {
    assertThat(PageNeeds.self(10, 50).toCompletion(prompt, maxNew, tokens, beam, held))
        .isEqualTo(pages);
  }

  @Test
  void chunksLengthenTheWindow() {
    PageNeeds needs = PageNeeds.self(10, 50).withChunks(20);
    assertThat(needs.toCompletion(100, 20, 100, 1, 0)).isEqualTo(8);
    assertThat(needs.toBegin(100, 0, 1)).isEqualTo(7);
    assertThat(needs.toGoOn(60, 20, 60, 0, 1, 1)).isEqualTo(1);
  }

  @ParameterizedTest
  @CsvSource({
    // prompt, drafts, beam, sinks
    "30, 0, 1, 0, 3",
    "30, 1, 1, 0, 4",
    "30, 5, 3, 0, 6", // the page that isn't full is each beam's
    "30, 0, 3, 0, 3",
    "200, 0, 1, 0, 9", // no more than the window
    "30, 0, 1, 4, 4",
  })
  void toBegin(int prompt, int drafts, int beam, int sinks, int pages) {
    assertThat(PageNeeds.self(10, 90).withSinks(sinks).toBegin(prompt, drafts, beam))
        .isEqualTo(pages);
  }

  @ParameterizedTest
  @CsvSource({
    // prompt, output, cached, drafts, beam, one step, two steps
    "10, 80, 10, 0, 1, 1, 1",
    "10, 80, 11, 0, 1, 0, 0",
    "10, 80, 19, 0, 1, 0, 1",
    "10, 80, 15, 5, 1, 1, 1", // 15 + 6 = 21 needs a third page; so does 27
    "10, 80, 15, 5, 4, 4, 4",
    "10, 80, 19, 5, 1, 1, 2", // two steps are twice the drafts too (T22)
    "10, 10, 18, 20, 1, 0, 0", // but no more than may still be generated
    "10, 10, 20, 0, 1, 0, 0", // nothing is left
    "80, 40, 90, 0, 1, 0, 0", // beyond the window it slides
  })
  void toGoOn(int prompt, int maxNew, int cached, int drafts, int beam, int one, int two) {
    PageNeeds needs = PageNeeds.self(10, 90);
    assertThat(needs.toGoOn(prompt, maxNew, cached, drafts, beam, 1)).isEqualTo(one);
    assertThat(needs.toGoOn(prompt, maxNew, cached, drafts, beam, 2)).isEqualTo(two);
  }

  @Test
  void aRowIsDescribedByItsState() {
    try (SchedulingTable table =
        new SchedulingTable(TableShape.of(4, Pool.self(90, 99), Pool.cross(90, 99)))) {
      PageNeeds self = PageNeeds.self(10, 90);
      PageNeeds cross = PageNeeds.cross(10);
      table.begin(0, 0, RequestState.CONTEXT_INIT, 35, 20);
      table.begin(1, 1, RequestState.CONTEXT_INIT, 35, 20);
      table.context(1, 20, 0);
      table.begin(2, 2, RequestState.GENERATION, 35, 20);
      table.context(2, 35, 0);
      table.generatedTokens(2, 6);
      table.begin(3, 3, RequestState.GENERATION_INIT, 35, 20);
      for (int row = 0; row < 4; row++) {
        table.encoderTokens(row, 25);
      }
      self.describe(table, 0, 0, 0, 0, 1);
      self.describe(table, 1, 0, 4, 35, 0);
      self.describe(table, 2, 0, 4, 40, 0);
      self.describe(table, 3, 0, 0, 0, 0);
      for (int row = 0; row < 4; row++) {
        cross.describe(table, row, 1, 0, 0, 0);
        table.markDirty(row);
      }

      assertThat(needs(table, 0)).containsExactly(6, 4, 1, 3, 3);
      assertThat(needs(table, 1)).containsExactly(2, 0, 0, 0, 0);
      assertThat(needs(table, 2)).containsExactly(2, 1, 0, 0, 0);
      assertThat(needs(table, 3)).containsExactly(6, 4, 0, 0, 3);
    }
  }

  private static int[] needs(SchedulingTable table, int row) {
    return new int[] {
      table.remainingPages(row, 0),
      table.oneStepPages(row, 0),
      table.creditPages(row, 0),
      table.remainingPages(row, 1),
      table.oneStepPages(row, 1)
    };
  }

  @Test
  void thePoolMustBeTheRulesOwn() {
    try (SchedulingTable table = new SchedulingTable(TableShape.of(1, Pool.self(90, 99)))) {
      table.begin(0, 0, RequestState.CONTEXT_INIT, 35, 20);
      assertThatThrownBy(() -> PageNeeds.cross(10).describe(table, 0, 0, 0, 0, 0))
          .isInstanceOf(BerthException.class)
          .hasMessageContaining("pool 0 is of the SELF cache");
    }
  }

  @ParameterizedTest
  @CsvSource({"0, 1, 0, 0", "1, 0, 0, 0", "1, 1, -1, 0", "1, 1, 0, -1"})
  void noPoolIsLikeThat(int tokens, int window, int chunk, int sinks) {
    assertThatThrownBy(() -> new PageNeeds(Pool.Cache.SELF, tokens, window, chunk, sinks))
        .isInstanceOf(BerthException.class);
  }

  @Test
  void theLongestRequestDoesNotOverflow() {
    int most = Integer.MAX_VALUE;
    PageNeeds needs = PageNeeds.self(64, most);
    assertThat(needs.toCompletion(most, most, most, 1, 0)).isEqualTo((1 << 25) + 1);
    assertThat(needs.toBegin(most, most, 1)).isEqualTo(1 << 25);
    assertThat(needs.toGoOn(1, most, 1, most, 1, 2)).isZero(); // the window
    PageNeeds single = PageNeeds.self(1, most).withChunks(most).withSinks(most);
    assertThat(single.toCompletion(most, most, most, 1000, 0)).isEqualTo(most);
    assertThat(single.toBegin(most, most, 1000)).isEqualTo(most);
    assertThat(single.toGoOn(1, most, 1, most, 1000, 2)).isEqualTo(most);
  }
}
