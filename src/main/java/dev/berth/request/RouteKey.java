// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.Arrays;

/**
 * What a router may know of a request beyond its size: which conversation it belongs to, and how
 * its prompt begins. Immutable.
 *
 * <p>Source: spec 01 §4.3 (first prompt tokens), §4.4 (key of a conversation).
 */
public final class RouteKey {
  /** Prompt tokens that routers compare. */
  public static final int HEAD_TOKENS = 64;

  /** No conversation, nothing known of the prompt. */
  public static final RouteKey NONE = new RouteKey("", "", new int[0]);

  private final String conversation;
  private final String subagent;
  private final int[] head;

  /** The first four tokens, where sorting finds them without a look at the array. */
  private final long first;

  private final long second;

  private RouteKey(String conversation, String subagent, int[] head) {
    this.conversation = conversation;
    this.subagent = subagent;
    this.head = head;
    this.first = packed(head, 0);
    this.second = packed(head, 2);
  }

  /**
   * The key of a request of a conversation.
   *
   * @param id any text; empty for none
   */
  public static RouteKey conversation(String id) {
    return NONE.withConversation(id);
  }

  /**
   * The key of a request whose prompt begins with these tokens.
   *
   * @param tokens the whole prompt or at least its first {@value #HEAD_TOKENS} tokens, each 0 or
   *     more; copied
   * @throws BerthException {@code ARGUMENT} if one of them is negative
   */
  public static RouteKey prompt(int... tokens) {
    return NONE.withPrompt(tokens);
  }

  /** The same with another conversation; empty for none. */
  public RouteKey withConversation(String id) {
    return new RouteKey(id, subagent, head);
  }

  /**
   * The same with the id by which requests of a sub-agent stay together: unless it is empty it
   * counts instead of the conversation.
   */
  public RouteKey withSubagent(String id) {
    return new RouteKey(conversation, id, head);
  }

  /**
   * The same with the first tokens of a prompt.
   *
   * @param tokens as in {@link #prompt}
   */
  public RouteKey withPrompt(int... tokens) {
    int[] first = Arrays.copyOf(tokens, Math.min(tokens.length, HEAD_TOKENS));
    for (int i = 0; i < first.length; i++) {
      if (first[i] < 0) {
        throw new BerthException(Code.ARGUMENT, "token " + i + " is " + first[i] + ", below 0");
      }
    }
    return new RouteKey(conversation, subagent, first);
  }

  /** The conversation; empty for none. */
  public String conversation() {
    return conversation;
  }

  /** The sub-agent; empty for none. */
  public String subagent() {
    return subagent;
  }

  /** What its requests stay together by: the sub-agent, else the conversation; empty if neither. */
  public String affinity() {
    return subagent.isEmpty() ? conversation : subagent;
  }

  /** How many tokens are known of the prompt, 0 .. {@value #HEAD_TOKENS}. */
  public int headLength() {
    return head.length;
  }

  /**
   * A token of the prompt's beginning.
   *
   * @param index 0 .. {@code headLength() - 1}
   */
  public int headToken(int index) {
    return head[index];
  }

  /**
   * Two tokens as one number: unsigned, it orders prompts as these tokens do. A prompt that has
   * ended comes before all others; the lower half is 0 if it ends with or before the first of the
   * two.
   *
   * @param from index of the first one, 0 .. {@code headLength()}
   */
  public long pair(int from) {
    return from == 0 ? first : from == 2 ? second : packed(head, from);
  }

  private static long packed(int[] head, int from) {
    long one = from < head.length ? head[from] + 1L : 0;
    long other = from + 1 < head.length ? head[from + 1] + 1L : 0;
    return one << 32 | other;
  }

  /**
   * Where two prompts begin to differ.
   *
   * @param from they are equal before this, 0 .. the shorter length
   * @return the first index at which the tokens differ or one of the two has ended; {@code
   *     headLength()} if both are the same
   */
  public int firstDifference(RouteKey other, int from) {
    int at = Arrays.mismatch(head, from, head.length, other.head, from, other.head.length);
    return at < 0 ? head.length : from + at;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RouteKey that
        && conversation.equals(that.conversation)
        && subagent.equals(that.subagent)
        && Arrays.equals(head, that.head);
  }

  @Override
  public int hashCode() {
    return (conversation.hashCode() * 31 + subagent.hashCode()) * 31 + Arrays.hashCode(head);
  }

  @Override
  public String toString() {
    return "conversation '%s', sub-agent '%s', prompt %s"
        .formatted(conversation, subagent, Arrays.toString(head));
  }
}
