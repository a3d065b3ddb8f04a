// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.request.WaitReason;

/**
 * What became of an offered request. Exhaustion is never here: a request that has to wait is
 * Queued.
 */
public sealed interface Outcome {
  /** It waits for admission. */
  record Queued() implements Outcome {}

  /**
   * It can never run here, whatever else ends.
   *
   * @param reason what stands in the way
   * @param required what it would take, in the reason's unit (tokens or pages)
   * @param available what there is
   */
  record Refused(WaitReason reason, long required, long available) implements Outcome {}

  /** A request of this id is waiting. Ids of live requests are the caller's to keep distinct. */
  record Duplicate() implements Outcome {}

  /** Its deadline was over before it came; under {@code WaitingQueue.Policy.DEADLINE} only. */
  record Expired() implements Outcome {}

  /** The one Queued. */
  Outcome QUEUED = new Queued();

  /** The one Duplicate. */
  Outcome DUPLICATE = new Duplicate();

  /** The one Expired. */
  Outcome EXPIRED = new Expired();
}
