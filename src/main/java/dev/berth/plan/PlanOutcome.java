// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;
import java.util.List;
import java.util.stream.Collectors;

/** A plan, or every reason why there can be none. */
public sealed interface PlanOutcome {
  /** The shape can work. */
  record Planned(SeatPlan plan) implements PlanOutcome {}

  /**
   * The shape cannot work.
   *
   * @param reasons all of them, at least one
   */
  record Refused(List<Reason> reasons) implements PlanOutcome {
    public Refused {
      reasons = List.copyOf(reasons);
    }
  }

  /**
   * The plan.
   *
   * @throws BerthException with code CONFIGURATION and every reason if it was refused
   */
  default SeatPlan orThrow() {
    return switch (this) {
      case Planned(var plan) -> plan;
      case Refused(var reasons) ->
          throw new BerthException(
              BerthException.Code.CONFIGURATION,
              reasons.stream().map(Reason::message).collect(Collectors.joining("; ")));
    };
  }
}
