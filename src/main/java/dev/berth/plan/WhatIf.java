// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;

/**
 * Departures from the rules that an experiment asks for by name (DESIGN.md decision 4). Never a
 * default, always listed in the plan's description.
 *
 * @param seats seats of one rank in place of the derived number, 1 or more
 * @param leases leases of one rank in place of the derived number, 1 or more
 * @param reserved reserved leases in place of the derived number, 0 or more
 * @param switches rules that are turned around
 */
public record WhatIf(
    OptionalInt seats, OptionalInt leases, OptionalInt reserved, Set<Switch> switches) {
  /** A rule that an experiment turns around. */
  public enum Switch {
    /** Ordinary requests may take the reserved leases, as in the engine that published E2. */
    RESERVED_SPENDABLE("ordinary requests may take the reserved leases"),
    /**
     * Seats and leases are (pp + 1)·B and retiring requests are excluded although pp is above 1.
     */
    HEADROOM_UNDER_PIPELINE(
        "seats and leases are (pp + 1) x B and retiring requests are not charged"),
    /** Retiring requests count against the admission budget whatever the gate says. */
    CHARGE_RETIRING("retiring requests are charged"),
    /** Engines start although the start-up validator refuses the sizes (spec 06 BC-02). */
    VALIDATOR_OVERRIDDEN("engines start whatever the start-up validator says");

    private final String text;

    Switch(String text) {
      this.text = text;
    }
  }

  /** No departure. */
  public static final WhatIf NONE =
      new WhatIf(OptionalInt.empty(), OptionalInt.empty(), OptionalInt.empty(), Set.of());

  public WhatIf {
    least("seats", seats, 1);
    least("leases", leases, 1);
    least("reserved", reserved, 0);
    switches =
        Collections.unmodifiableSet(
            switches.isEmpty() ? EnumSet.noneOf(Switch.class) : EnumSet.copyOf(switches));
  }

  public static Builder builder() {
    return new Builder();
  }

  public boolean has(Switch which) {
    return switches.contains(which);
  }

  /** One line for each departure, in a fixed order; none if there are none. */
  public List<String> describe() {
    var lines = new ArrayList<String>();
    seats.ifPresent(count -> lines.add("seats = " + count));
    leases.ifPresent(count -> lines.add("leases = " + count));
    reserved.ifPresent(count -> lines.add("reserved leases = " + count));
    switches.forEach(which -> lines.add(which.text));
    return List.copyOf(lines);
  }

  private static void least(String name, OptionalInt value, int min) {
    if (value.isPresent() && value.getAsInt() < min) {
      throw new BerthException(
          BerthException.Code.ARGUMENT,
          "what-if " + name + " must be >= " + min + ", got " + value.getAsInt());
    }
  }

  /** Collects departures. Not thread-safe. */
  public static final class Builder {
    private OptionalInt seats = OptionalInt.empty();
    private OptionalInt leases = OptionalInt.empty();
    private OptionalInt reserved = OptionalInt.empty();
    private final EnumSet<Switch> switches = EnumSet.noneOf(Switch.class);

    private Builder() {}

    public Builder seats(int count) {
      seats = OptionalInt.of(count);
      return this;
    }

    public Builder leases(int count) {
      leases = OptionalInt.of(count);
      return this;
    }

    public Builder reserved(int count) {
      reserved = OptionalInt.of(count);
      return this;
    }

    public Builder with(Switch... which) {
      Collections.addAll(switches, which);
      return this;
    }

    public WhatIf build() {
      return new WhatIf(seats, leases, reserved, switches);
    }
  }
}
