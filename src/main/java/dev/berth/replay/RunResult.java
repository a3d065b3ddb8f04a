// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EndKind;
import dev.berth.engine.EngineConfig;
import dev.berth.plan.StartupValidator;

/**
 * How a run ended and what it added up to.
 *
 * @param config what ran
 * @param startUp what the start-up validator said of the plan and the pools of the first rank
 * @param ending why it stopped
 * @param detail who waits for what, or who diverged; empty if all is done
 * @param requests requests of the load
 * @param sent requests that arrived
 * @param totals sums over ranks and iterations
 * @param iterations steps of the fleet
 * @param forwards launched forwards and their tokens
 * @param micros virtual time
 * @param resident requests still on ranks
 * @param generating those of them whose KV is here
 * @param init those of them whose KV wasn't asked for
 * @param leaked seats, leases and pages that no request holds
 * @param waiting requests still in the queue
 * @param fetched requests that were admitted
 * @param gateOpen whether the fill gate is open
 * @param decisions hash over all decisions of all ranks
 * @param times of every request
 */
public record RunResult(
    EngineConfig config,
    StartupValidator.Verdict startUp,
    Ending ending,
    String detail,
    int requests,
    int sent,
    RunTotals totals,
    long iterations,
    CostModel.ForwardTotals forwards,
    double micros,
    long resident,
    long generating,
    long init,
    long leaked,
    long waiting,
    long fetched,
    boolean gateOpen,
    int decisions,
    RequestTimes times) {
  /** Why a run stopped. */
  public enum Ending {
    /** Nothing lives, nothing waits, nothing will arrive. */
    DONE,
    /** Something lives or waits, and nothing can happen any more. */
    STALLED,
    /** Ranks or stages made different decisions. */
    DIVERGED,
    /** Somebody asked for it. */
    INTERRUPTED
  }

  /** Requests done. */
  public long done() {
    return totals.ended(EndKind.FINISHED);
  }

  /** Requests neither ended nor refused. */
  public long unaccounted() {
    return totals.unaccounted(requests);
  }

  /** Prompt and output tokens computed for requests a second of virtual time. */
  public double tokensPerSecond() {
    return micros == 0 ? 0 : forwards.totalTokens() * 1e6 / micros;
  }
}
