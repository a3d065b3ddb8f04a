// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EndKind;
import java.util.List;

/**
 * What the servers of one stage did.
 *
 * @param stage what ran
 * @param ending why it stopped
 * @param servers what each server did, by number
 * @param occupancy how full its ranks were, by server
 * @param requests requests meant for the stage
 * @param sent those that arrived
 * @param totals sums over all servers, requests refused before they reached one included
 */
public record StageResult(
    ServerStage stage,
    RunResult.Ending ending,
    List<RunResult> servers,
    List<Occupancy> occupancy,
    int requests,
    int sent,
    RunTotals totals) {
  public StageResult {
    servers = List.copyOf(servers);
    occupancy = List.copyOf(occupancy);
  }

  static StageResult of(
      ServerStage stage,
      RunResult.Ending ending,
      List<RunResult> servers,
      List<Occupancy> occupancy,
      Arrivals source) {
    var totals = new RunTotals();
    servers.forEach(server -> totals.merge(server.totals()));
    return new StageResult(
        stage, ending, servers, occupancy, source.total(), source.sent(), totals);
  }

  /** Requests done. */
  public long done() {
    return totals.ended(EndKind.FINISHED);
  }

  /** Requests that neither ended nor were refused. */
  public long unaccounted() {
    return totals.unaccounted(requests);
  }

  /** Iterations of all servers. */
  public long iterations() {
    return servers.stream().mapToLong(RunResult::iterations).sum();
  }

  /** Forwards of all servers. */
  public long forwards() {
    return servers.stream().mapToLong(server -> server.forwards().forwards()).sum();
  }

  /** Prompt and output tokens computed, padding and drafts included. */
  public long computedTokens() {
    return servers.stream().mapToLong(server -> server.forwards().totalTokens()).sum();
  }

  /** Virtual time at which the last server stopped, µs. */
  public double micros() {
    return servers.stream().mapToDouble(RunResult::micros).max().orElse(0);
  }

  /** Computed tokens a second of virtual time. */
  public double tokensPerSecond() {
    return micros() == 0 ? 0 : computedTokens() * 1e6 / micros();
  }

  /** Which rank of which server waits for what; empty unless the stage stopped with work left. */
  public List<String> waits() {
    var waits = new java.util.ArrayList<String>();
    for (int server = 0; server < servers.size(); server++) {
      String detail = servers.get(server).detail();
      if (!detail.isEmpty()) {
        waits.add(stage.name() + " server " + server + ": " + detail);
      }
    }
    return waits;
  }
}
