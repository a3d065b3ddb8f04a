// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeCore;
import dev.berth.internal.NativeTable;
import dev.berth.internal.NativeTable.Access;
import dev.berth.internal.NativeTable.Rows;
import java.util.Optional;

/**
 * A policy of the user's in an engine: it reads the engine's table, what it selects is checked
 * here, and the native core takes in as many as there are seats, leases, pages, places and tokens
 * for.
 */
public final class EngineSelection {
  private final CapacityPolicy policy;
  private final NativeTable memory;
  private final SchedulingTable table;
  private final Selection selection;

  private EngineSelection(CapacityPolicy policy, NativeCore core, CapacityRules rules) {
    this.policy = policy;
    this.memory = core.table(Access.WRITE);
    this.table = SchedulingTable.of(core.table(Access.READ));
    this.selection = new Selection(memory, rules, Rows.FITTING);
  }

  /**
   * For engines.
   *
   * @param rangeEnd state behind the last schedulable one
   */
  @SuppressWarnings("exports")
  public static EngineSelection of(CapacityPolicy policy, NativeCore core, int rangeEnd) {
    var rules =
        CapacityRules.of(CapacityRule.MAX_REQUESTS, Integer.MAX_VALUE)
            .withRange(CapacityRules.CONTEXT_INIT, rangeEnd);
    return new EngineSelection(policy, core, rules);
  }

  /**
   * Lets the policy decide and takes in whom it selected; nobody if it fails.
   *
   * @return POLICY with its cause, if it failed or selected who can't be
   */
  @SuppressWarnings("exports")
  public Optional<BerthException> run(NativeCore core) {
    Optional<BerthException> failed = Optional.empty();
    try {
      CapacityScheduler.select(table, policy, selection);
      core.select(memory);
    } catch (RuntimeException | Error e) {
      failed =
          Optional.of(
              new BerthException(
                  Code.POLICY, "the capacity policy " + policy + " failed: " + e.getMessage(), e));
      selection.begin();
      selection.close();
      core.select(memory);
    }
    return failed;
  }
}
