// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/**
 * The start-up check, two-sided: a pool that is larger than planned is as wrong as one that is
 * smaller (DESIGN.md decision 4; spec 01 §6.2). It finds all disagreements at once.
 */
public final class StartupValidator {
  private StartupValidator() {}

  /**
   * Two numbers that must be equal and aren't.
   *
   * @param pool the pool, or {@code plan} if the plan disagrees with itself
   * @param planned what it should be
   * @param found what it is
   * @param message one sentence with both
   */
  public record Disagreement(String pool, int planned, int found, String message) {}

  /**
   * What the check found.
   *
   * @param disagreements all of them, none if everything agrees
   * @param checked names of the pools that were compared
   * @param skipped names of the pools that publish no bound
   */
  public record Verdict(
      List<Disagreement> disagreements, List<String> checked, List<String> skipped) {
    public Verdict {
      disagreements = List.copyOf(disagreements);
      checked = List.copyOf(checked);
      skipped = List.copyOf(skipped);
    }

    public boolean agrees() {
      return disagreements.isEmpty();
    }

    /**
     * Does nothing if everything agrees.
     *
     * @throws BerthException with code CONFIGURATION and every disagreement
     */
    public void orThrow() {
      if (!agrees()) {
        throw new BerthException(
            BerthException.Code.CONFIGURATION,
            disagreements.stream().map(Disagreement::message).collect(Collectors.joining("; ")));
      }
    }
  }

  /** Compares the plan with itself and every pool with the plan. */
  public static Verdict check(SeatPlan plan, List<RegisteredPool> pools) {
    var disagreements = new ArrayList<Disagreement>();
    var checked = new ArrayList<String>();
    var skipped = new ArrayList<String>();
    checkSurplus(plan, disagreements);
    for (RegisteredPool pool : pools) {
      if (pool.bound().isEmpty()) {
        skipped.add(pool.name());
        continue;
      }
      checked.add(pool.name());
      int planned = pool.keyedBy().planned(plan);
      int found = pool.bound().getAsInt();
      if (planned != found) {
        disagreements.add(
            new Disagreement(
                pool.name(),
                planned,
                found,
                pool.name()
                    + " has "
                    + found
                    + " rows, but the plan has "
                    + planned
                    + " "
                    + pool.keyedBy().plural()));
      }
    }
    return new Verdict(disagreements, checked, skipped);
  }

  /** Leases are the seats and the declared allowances, neither more nor less. */
  private static void checkSurplus(SeatPlan plan, List<Disagreement> disagreements) {
    int seats = plan.seats().count();
    int leases = plan.leases().count();
    int declared = plan.transferAllowance() + plan.overlapAllowance();
    if (leases - seats == declared) {
      return;
    }
    var rule =
        switch (plan.policy()) {
          case UNIFIED -> "unified seats need as many leases as seats";
          case SPLIT ->
              "the surplus of leases must be the declared allowances, "
                  + plan.transferAllowance()
                  + " for transfers and "
                  + plan.overlapAllowance()
                  + " for overlap";
        };
    disagreements.add(
        new Disagreement(
            "plan",
            seats + declared,
            leases,
            "there are " + seats + " seats and " + leases + " leases: " + rule));
  }
}
