// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import java.util.OptionalLong;

/**
 * The tokens of a request's prompt, and with whom they may be shared. Immutable.
 *
 * <p>A request of which only the length is known has {@link #UNKNOWN}: it shares nothing.
 */
public final class Prompt {
  /** Tokens that nobody knows. */
  public static final Prompt UNKNOWN =
      new Prompt(new int[0], 1, 0, OptionalLong.empty(), OptionalLong.empty());

  /** Each stands for the same token {@code each} times; the last one as often as is left. */
  private final int[] runs;

  private final int each;
  private final int size;
  private final OptionalLong adapter;
  private final OptionalLong salt;

  private Prompt(int[] runs, int each, int size, OptionalLong adapter, OptionalLong salt) {
    this.runs = runs;
    this.each = each;
    this.size = size;
    this.adapter = adapter;
    this.salt = salt;
  }

  /** These tokens, shared with everybody who uses no adapter. */
  public static Prompt of(int... tokens) {
    return new Prompt(tokens.clone(), 1, tokens.length, OptionalLong.empty(), OptionalLong.empty());
  }

  /**
   * A prompt of which only is known what it shares with others: block by block a number, alike for
   * blocks that are alike from the beginning on. Each token of a block is its number.
   *
   * @param blocks a number for each block, {@code ceil(size / blockTokens)} of them
   * @param blockTokens tokens a block, 1 or more; the last one may be shorter
   * @param size tokens of the prompt, 0 or more
   * @throws IllegalArgumentException if there are more or fewer blocks
   */
  public static Prompt ofBlocks(int[] blocks, int blockTokens, int size) {
    if (blockTokens < 1 || size < 0 || blocks.length != Math.ceilDiv(size, blockTokens)) {
      throw new IllegalArgumentException(
          blocks.length + " blocks of " + blockTokens + " for " + size + " tokens");
    }
    return new Prompt(
        blocks.clone(), blockTokens, size, OptionalLong.empty(), OptionalLong.empty());
  }

  /** The same tokens as an adapter sees them. */
  public Prompt withAdapter(long id) {
    return new Prompt(runs, each, size, OptionalLong.of(id), salt);
  }

  /** The same tokens, shared only under the same salt. */
  public Prompt withSalt(long value) {
    return new Prompt(runs, each, size, adapter, OptionalLong.of(value));
  }

  /** True for {@link #UNKNOWN} itself. */
  @SuppressWarnings("ReferenceEquality")
  public boolean isUnknown() {
    return this == UNKNOWN;
  }

  /** How many tokens are known: all or none. */
  public int size() {
    return size;
  }

  /** One of them. */
  public int token(int index) {
    return runs[Objects.checkIndex(index, size) / each];
  }

  /** The adapter, if there is one; 0 is one. */
  public OptionalLong adapter() {
    return adapter;
  }

  /** The salt, if there is one. */
  public OptionalLong salt() {
    return salt;
  }

  /** The place of the first token that isn't in [0, vocabulary); -1: all are. */
  public int firstOutside(int vocabulary) {
    for (int i = 0; i < runs.length; i++) {
      if (runs[i] < 0 || runs[i] >= vocabulary) {
        return i * each;
      }
    }
    return -1;
  }

  /** A copy of the first tokens, at most so many. */
  public int[] head(int most) {
    int[] head = new int[Math.min(most, size)];
    copyTo(MemorySegment.ofArray(head), head.length);
    return head;
  }

  /** A copy of the tokens. */
  public int[] toArray() {
    return head(size);
  }

  /** Writes the tokens to the front of {@code int32[]}. */
  public void copyTo(MemorySegment to) {
    copyTo(to, size);
  }

  private void copyTo(MemorySegment to, int tokens) {
    if (each == 1) {
      MemorySegment.copy(runs, 0, to, ValueLayout.JAVA_INT, 0, tokens);
      return;
    }
    for (int i = 0; i < tokens; i++) {
      to.setAtIndex(ValueLayout.JAVA_INT, i, runs[i / each]);
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Prompt that
        && size == that.size
        && (each == that.each
            ? Arrays.equals(runs, that.runs)
            : Arrays.equals(toArray(), that.toArray()))
        && adapter.equals(that.adapter)
        && salt.equals(that.salt);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.hashCode(toArray()) + adapter.hashCode() + 7 * salt.hashCode();
  }

  @Override
  public String toString() {
    return size + " tokens, adapter " + adapter + ", salt " + salt;
  }
}
