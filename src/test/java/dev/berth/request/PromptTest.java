// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;

class PromptTest {
  @Test
  void blocksStandForTheirTokens() {
    Prompt prompt = Prompt.ofBlocks(new int[] {7, 9, 4}, 4, 10);
    assertThat(prompt.toArray()).containsExactly(7, 7, 7, 7, 9, 9, 9, 9, 4, 4);
    assertThat(prompt.size()).isEqualTo(10);
    assertThat(prompt.token(3)).isEqualTo(7);
    assertThat(prompt.token(9)).isEqualTo(4);
    assertThat(prompt.head(5)).containsExactly(7, 7, 7, 7, 9);
    assertThat(prompt.head(99)).hasSize(10);
    int[] copy = new int[12];
    prompt.copyTo(MemorySegment.ofArray(copy));
    assertThat(copy).containsExactly(7, 7, 7, 7, 9, 9, 9, 9, 4, 4, 0, 0);
    assertThatThrownBy(() -> prompt.token(10)).isInstanceOf(IndexOutOfBoundsException.class);
  }

  @Test
  void theSameTokensAreTheSamePromptHoweverTheyWereTold() {
    Prompt blocks = Prompt.ofBlocks(new int[] {1, 2}, 2, 3);
    assertThat(blocks).isEqualTo(Prompt.of(1, 1, 2)).hasSameHashCodeAs(Prompt.of(1, 1, 2));
    assertThat(blocks).isNotEqualTo(Prompt.of(1, 1, 2, 2));
    assertThat(Prompt.ofBlocks(new int[] {1, 2}, 2, 4)).isNotEqualTo(blocks);
    assertThat(blocks.withSalt(3)).isNotEqualTo(blocks).isNotEqualTo(blocks.withAdapter(3));
    assertThat(Prompt.ofBlocks(new int[0], 2, 0)).isEqualTo(Prompt.UNKNOWN);
  }

  @Test
  void theCallersArraysStayTheCallers() {
    int[] blocks = {1, 2};
    Prompt prompt = Prompt.ofBlocks(blocks, 1, 2);
    blocks[0] = 9;
    prompt.toArray()[0] = 9;
    assertThat(prompt.token(0)).isEqualTo(1);
  }

  @Test
  void blocksThatDontMakeTheLengthAreRefused() {
    assertThatThrownBy(() -> Prompt.ofBlocks(new int[] {1}, 4, 5))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("1 blocks of 4 for 5 tokens");
    assertThatThrownBy(() -> Prompt.ofBlocks(new int[] {1, 2}, 4, 4))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> Prompt.ofBlocks(new int[] {1}, 0, 1))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> Prompt.ofBlocks(new int[0], 1, -1))
        .isInstanceOf(IllegalArgumentException.class);
  }
}
