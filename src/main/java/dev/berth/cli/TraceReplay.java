// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.FleetSetup;
import dev.berth.replay.TraceResult;

/**
 * A trace replay that is over, with what a report says beside its result.
 *
 * @param config name of the configuration
 * @param setup the servers
 * @param arrivals how requests arrived
 * @param speedup how much faster than the trace
 * @param concurrency most requests in the system, 0 unless arrivals are closed
 * @param result what became of it
 * @param wallSeconds how long it took
 */
record TraceReplay(
    String config,
    FleetSetup setup,
    ArrivalKind arrivals,
    double speedup,
    int concurrency,
    TraceResult result,
    double wallSeconds) {
  /** How requests arrive. */
  enum ArrivalKind {
    /** At the trace's times. */
    TRACE,
    /** As soon as a request before ended. */
    CLOSED
  }
}
