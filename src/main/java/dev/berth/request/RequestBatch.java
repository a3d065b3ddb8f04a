// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Requests to place in one iteration, in arrival order. Reusable: it grows to the largest batch
 * seen and allocates nothing after that. What routers read of every request stands in primitive
 * columns. Not thread-safe.
 */
public final class RequestBatch {
  private static final int INITIAL_CAPACITY = 16;

  private @Nullable Request[] requests = new @Nullable Request[INITIAL_CAPACITY];
  private @Nullable RouteKey[] routes = new @Nullable RouteKey[INITIAL_CAPACITY];
  private int[] promptTokens = new int[INITIAL_CAPACITY];
  private int[] targetRanks = new int[INITIAL_CAPACITY];
  private int size;
  private int targeted;
  private int highestTarget = SchedulingParams.NO_RANK;

  /** An empty batch. */
  public RequestBatch() {}

  /** Appends a request. */
  public void add(Request request) {
    int target = request.scheduling().targetRank();
    if (size == requests.length) {
      int capacity = size * 2;
      requests = Arrays.copyOf(requests, capacity);
      routes = Arrays.copyOf(routes, capacity);
      promptTokens = Arrays.copyOf(promptTokens, capacity);
      targetRanks = Arrays.copyOf(targetRanks, capacity);
    }
    requests[size] = request;
    routes[size] = request.route();
    promptTokens[size] = request.promptTokens();
    targetRanks[size] = target;
    size++;
    if (target != SchedulingParams.NO_RANK) {
      targeted++;
      highestTarget = Math.max(highestTarget, target);
    }
  }

  /** Number of requests. A request with children is one (spec 01 §4.1). */
  public int size() {
    return size;
  }

  /**
   * The request at an index.
   *
   * @param index 0 .. {@code size() - 1}
   * @throws BerthException {@code ARGUMENT} if the index is outside
   */
  public Request get(int index) {
    Request request = index >= 0 && index < size ? requests[index] : null;
    if (request == null) {
      throw new BerthException(
          BerthException.Code.ARGUMENT, "index " + index + " is outside a batch of " + size);
    }
    return request;
  }

  /** Prompt length in tokens of the request at an index that is inside the batch. */
  public int promptTokens(int index) {
    return promptTokens[index];
  }

  /**
   * Target rank of the request at an index that is inside the batch, or {@link
   * SchedulingParams#NO_RANK}.
   */
  public int targetRank(int index) {
    return targetRanks[index];
  }

  /**
   * Whether the request at an index that is inside the batch accepts another rank than its target.
   */
  public Relax relax(int index) {
    return get(index).scheduling().relax();
  }

  /** What routers may know of the request at an index that is inside the batch. */
  public RouteKey route(int index) {
    RouteKey route = routes[index];
    return route == null ? RouteKey.NONE : route;
  }

  /** How many requests name a target rank. */
  public int targeted() {
    return targeted;
  }

  /**
   * The highest target rank that any request names, {@link SchedulingParams#NO_RANK} if none does.
   */
  public int highestTarget() {
    return highestTarget;
  }

  /** Forgets all requests, keeps the memory. */
  public void clear() {
    Arrays.fill(requests, 0, size, null);
    Arrays.fill(routes, 0, size, null);
    size = 0;
    targeted = 0;
    highestTarget = SchedulingParams.NO_RANK;
  }
}
