// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;

/**
 * How a {@link WaitingQueue} orders.
 *
 * @param policy the order of service
 * @param patience iterations, 0 or more, that {@link WaitingQueue.Policy#DEADLINE} lets a request
 *     wait that has no deadline, or has missed it, before nothing new passes it
 */
public record QueueRules(WaitingQueue.Policy policy, long patience) {
  /** Patience where none is asked for, in iterations. */
  public static final long DEFAULT_PATIENCE = 1000;

  /** By arrival. */
  public static final QueueRules FCFS = of(WaitingQueue.Policy.FCFS);

  public QueueRules {
    if (patience < 0) {
      throw new BerthException(Code.ARGUMENT, "patience must be >= 0, got " + patience);
    }
  }

  /** A policy with {@link #DEFAULT_PATIENCE}. */
  public static QueueRules of(WaitingQueue.Policy policy) {
    return new QueueRules(policy, DEFAULT_PATIENCE);
  }
}
