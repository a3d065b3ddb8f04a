// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import java.util.List;
import java.util.OptionalInt;

/**
 * One kind of worker of a deployment.
 *
 * @param name its name in the file
 * @param role what it does with requests
 * @param servers how many of it there are, 1 or more
 * @param shape what sizes depend on, with overlap as it really runs
 * @param overlap what the file says about overlap
 * @param kv KV cache settings
 * @param transceiverBufferTokens staging buffer of the KV transceiver in tokens; empty if the file
 *     names none
 * @param chunkedPrefill whether a prompt may be run in chunks
 * @param capacityPolicy who is let in and how KV pages are promised
 * @param scheduler the design of an iteration
 * @param attentionDp attention-DP settings
 * @param contextWait how long contexts wait for each other without attention DP
 * @param gpus devices of one server by the file's hardware block; empty if it names none
 * @param gpusNeeded devices of one server by its parallel sizes
 * @param line 1-based line of the worker in the file
 * @param batchSize what sets its largest batch
 * @param notes how values were read where that isn't obvious
 */
public record WorkerConfig(
    String name,
    Role role,
    int servers,
    WorkerShape shape,
    OverlapSetting overlap,
    KvSettings kv,
    OptionalInt transceiverBufferTokens,
    boolean chunkedPrefill,
    CapacityRule capacityPolicy,
    SchedulerKind scheduler,
    AdpSettings attentionDp,
    ContextWait contextWait,
    OptionalInt gpus,
    int gpusNeeded,
    int line,
    Key batchSize,
    List<Finding> notes) {
  /**
   * Where a value stands in the file.
   *
   * @param path its keys from the top, with dots
   * @param line 1-based
   */
  public record Key(String path, int line) {
    static Key of(ConfigNode value) {
      return new Key(value.path(), value.line());
    }
  }

  /** Which overlap setting to plan with. */
  public enum AssumedOverlap {
    ON,
    OFF,
    /** As the file says. */
    FILE
  }

  public WorkerConfig {
    notes = List.copyOf(notes);
  }

  /** The shape with overlap as assumed. */
  public WorkerShape shape(AssumedOverlap assumed) {
    return switch (assumed) {
      case FILE -> shape;
      case ON -> shape.toBuilder().with(Trait.OVERLAP).build();
      case OFF -> shape.toBuilder().without(Trait.OVERLAP).build();
    };
  }
}
