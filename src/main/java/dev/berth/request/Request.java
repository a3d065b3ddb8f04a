// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;

/**
 * One request as it enters the waiting queue. Immutable.
 *
 * @param id unique among live requests, any value
 * @param promptTokens length of the prompt in tokens, 0 or more (a request that is to run needs at
 *     least 1)
 * @param maxNewTokens output limit in tokens, 1 or more
 * @param priority larger is more urgent; {@link #DEFAULT_PRIORITY} unless set
 * @param scheduling placement wishes, {@link SchedulingParams#NONE} if there are none
 * @param children further sequences of the same prompt (n - 1), 0 or more; they cost admission
 *     budget (spec 01 §3.4)
 * @param tag the caller's own number, returned with the result
 * @param terms tenant and deadline, {@link ServiceTerms#NONE} if there are none
 * @param route what routers may know of it beyond its size, {@link RouteKey#NONE} if nothing
 * @param prompt the prompt's tokens, or {@link Prompt#UNKNOWN}
 * @param encoderTokens encoder input (images, sound) that is computed before the prompt, in tokens;
 *     0 if there is none
 */
public record Request(
    long id,
    int promptTokens,
    int maxNewTokens,
    double priority,
    SchedulingParams scheduling,
    int children,
    long tag,
    ServiceTerms terms,
    RouteKey route,
    Prompt prompt,
    int encoderTokens) {
  /** The priority of a request that asks for none. */
  public static final double DEFAULT_PRIORITY = 0.5;

  /** Most further sequences of one request. */
  public static final int MAX_CHILDREN = 1 << 20;

  public Request {
    if (promptTokens < 0) {
      throw new BerthException(
          BerthException.Code.ARGUMENT, "promptTokens must be >= 0, got " + promptTokens);
    }
    if (maxNewTokens < 1) {
      throw new BerthException(
          BerthException.Code.ARGUMENT, "maxNewTokens must be >= 1, got " + maxNewTokens);
    }
    if (children < 0 || children > MAX_CHILDREN) {
      throw new BerthException(
          BerthException.Code.ARGUMENT,
          "children must be from 0 to " + MAX_CHILDREN + ", got " + children);
    }
    if (encoderTokens < 0) {
      throw new BerthException(
          BerthException.Code.ARGUMENT, "encoderTokens must be >= 0, got " + encoderTokens);
    }
    if (Double.isNaN(priority)) {
      throw new BerthException(BerthException.Code.ARGUMENT, "priority must be a number");
    }
    if (prompt.size() != 0 && prompt.size() != promptTokens) {
      throw new BerthException(
          BerthException.Code.ARGUMENT,
          "%d tokens of a prompt of %d: all or none".formatted(prompt.size(), promptTokens));
    }
  }

  /** A request of whose prompt only the length is known. */
  public Request(
      long id,
      int promptTokens,
      int maxNewTokens,
      double priority,
      SchedulingParams scheduling,
      int children,
      long tag,
      ServiceTerms terms,
      RouteKey route) {
    this(
        id,
        promptTokens,
        maxNewTokens,
        priority,
        scheduling,
        children,
        tag,
        terms,
        route,
        Prompt.UNKNOWN,
        0);
  }

  /** A request of which routers know its size and wishes only. */
  public Request(
      long id,
      int promptTokens,
      int maxNewTokens,
      double priority,
      SchedulingParams scheduling,
      int children,
      long tag,
      ServiceTerms terms) {
    this(id, promptTokens, maxNewTokens, priority, scheduling, children, tag, terms, RouteKey.NONE);
  }

  /** A request of no tenant in particular, without a deadline. */
  public Request(
      long id,
      int promptTokens,
      int maxNewTokens,
      double priority,
      SchedulingParams scheduling,
      int children,
      long tag) {
    this(id, promptTokens, maxNewTokens, priority, scheduling, children, tag, ServiceTerms.NONE);
  }

  /** A request with default priority and no placement wishes. */
  public static Request of(long id, int promptTokens, int maxNewTokens) {
    return new Request(
        id, promptTokens, maxNewTokens, DEFAULT_PRIORITY, SchedulingParams.NONE, 0, 0);
  }

  /** The same request with placement wishes. */
  public Request withScheduling(SchedulingParams wishes) {
    return new Request(
        id,
        promptTokens,
        maxNewTokens,
        priority,
        wishes,
        children,
        tag,
        terms,
        route,
        prompt,
        encoderTokens);
  }

  /** The same request with another priority. */
  public Request withPriority(double newPriority) {
    return new Request(
        id,
        promptTokens,
        maxNewTokens,
        newPriority,
        scheduling,
        children,
        tag,
        terms,
        route,
        prompt,
        encoderTokens);
  }

  /** The same request with another caller's number. */
  public Request withTag(long newTag) {
    return new Request(
        id,
        promptTokens,
        maxNewTokens,
        priority,
        scheduling,
        children,
        newTag,
        terms,
        route,
        prompt,
        encoderTokens);
  }

  /** The same request on other terms. */
  public Request withTerms(ServiceTerms newTerms) {
    return new Request(
        id,
        promptTokens,
        maxNewTokens,
        priority,
        scheduling,
        children,
        tag,
        newTerms,
        route,
        prompt,
        encoderTokens);
  }

  /** The same request with what routers may know of it. */
  public Request withRoute(RouteKey key) {
    return new Request(
        id,
        promptTokens,
        maxNewTokens,
        priority,
        scheduling,
        children,
        tag,
        terms,
        key,
        prompt,
        encoderTokens);
  }

  /** The same request with the tokens of its prompt; routers see the first ones. */
  public Request withPrompt(Prompt tokens) {
    RouteKey key = route.withPrompt(tokens.head(RouteKey.HEAD_TOKENS));
    return new Request(
        id,
        promptTokens,
        maxNewTokens,
        priority,
        scheduling,
        children,
        tag,
        terms,
        key,
        tokens,
        encoderTokens);
  }

  /** The same request with encoder input, in tokens. */
  public Request withEncoder(int tokens) {
    return new Request(
        id,
        promptTokens,
        maxNewTokens,
        priority,
        scheduling,
        children,
        tag,
        terms,
        route,
        prompt,
        tokens);
  }

  /**
   * Most tokens that serving it takes: the prompt once and the output limit of every sequence. At
   * most 2^31 + 2^51.
   */
  public long serviceTokens() {
    return promptTokens + (1L + children) * maxNewTokens;
  }

  /** Admission budget that the request takes: itself and its children (spec 01 §3.4). */
  public int admissionCost() {
    return 1 + children;
  }
}
