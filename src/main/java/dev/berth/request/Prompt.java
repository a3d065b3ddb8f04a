// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.OptionalLong;

/**
 * The tokens of a request's prompt, and with whom they may be shared. Immutable.
 *
 * <p>A request of which only the length is known has {@link #UNKNOWN}: it shares nothing.
 */
public final class Prompt {
  /** Tokens that nobody knows. */
  public static final Prompt UNKNOWN =
      new Prompt(new int[0], OptionalLong.empty(), OptionalLong.empty());

  private final int[] tokens;
  private final OptionalLong adapter;
  private final OptionalLong salt;

  private Prompt(int[] tokens, OptionalLong adapter, OptionalLong salt) {
    this.tokens = tokens;
    this.adapter = adapter;
    this.salt = salt;
  }

  /** These tokens, shared with everybody who uses no adapter. */
  public static Prompt of(int... tokens) {
    return new Prompt(tokens.clone(), OptionalLong.empty(), OptionalLong.empty());
  }

  /** The same tokens as an adapter sees them. */
  public Prompt withAdapter(long id) {
    return new Prompt(tokens, OptionalLong.of(id), salt);
  }

  /** The same tokens, shared only under the same salt. */
  public Prompt withSalt(long value) {
    return new Prompt(tokens, adapter, OptionalLong.of(value));
  }

  /** True for {@link #UNKNOWN} itself. */
  @SuppressWarnings("ReferenceEquality")
  public boolean isUnknown() {
    return this == UNKNOWN;
  }

  /** How many tokens are known: all or none. */
  public int size() {
    return tokens.length;
  }

  /** One of them. */
  public int token(int index) {
    return tokens[index];
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
    for (int i = 0; i < tokens.length; i++) {
      if (tokens[i] < 0 || tokens[i] >= vocabulary) {
        return i;
      }
    }
    return -1;
  }

  /** A copy of the first tokens, at most so many. */
  public int[] head(int most) {
    return Arrays.copyOf(tokens, Math.min(most, tokens.length));
  }

  /** A copy of the tokens. */
  public int[] toArray() {
    return tokens.clone();
  }

  /** Writes the tokens to the front of {@code int32[]}. */
  public void copyTo(MemorySegment to) {
    MemorySegment.copy(tokens, 0, to, ValueLayout.JAVA_INT, 0, tokens.length);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Prompt that
        && Arrays.equals(tokens, that.tokens)
        && adapter.equals(that.adapter)
        && salt.equals(that.salt);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.hashCode(tokens) + adapter.hashCode() + 7 * salt.hashCode();
  }

  @Override
  public String toString() {
    return tokens.length + " tokens, adapter " + adapter + ", salt " + salt;
  }
}
