// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import java.util.List;

/**
 * What became of a trace.
 *
 * @param trace what was sent
 * @param stages what each stage did
 * @param requests requests meant to be sent
 * @param done those that got all their tokens
 * @param times from the first arrival to the last token, by tag
 */
public record TraceResult(
    Trace trace, List<StageResult> stages, int requests, long done, RequestTimes times) {
  public TraceResult {
    stages = List.copyOf(stages);
  }

  /** Requests refused by any stage. */
  public long refused() {
    return stages.stream().mapToLong(stage -> stage.totals().refused()).sum();
  }

  /** Requests neither done nor refused. */
  public long unaccounted() {
    return requests - done - refused();
  }

  /** The worst ending of a stage. */
  public RunResult.Ending ending() {
    for (StageResult stage : stages) {
      if (stage.ending() != RunResult.Ending.DONE) {
        return stage.ending();
      }
    }
    return RunResult.Ending.DONE;
  }

  /** True if the run came to its end and every request was done or refused by name. */
  public boolean complete() {
    return ending() == RunResult.Ending.DONE && unaccounted() == 0;
  }

  /** Virtual time from the first arrival to the last token, µs. */
  public double micros() {
    return stages.stream().mapToDouble(StageResult::micros).max().orElse(0);
  }

  /** Output tokens of all requests that are done, a second of virtual time. */
  public double outputTokensPerSecond() {
    return micros() == 0 ? 0 : outputTokens() * 1e6 / micros();
  }

  /** Output tokens of all requests that ended, the first ones included. */
  public long outputTokens() {
    return times.outputTokens();
  }

  /** Requests done a second of virtual time. */
  public double requestsPerSecond() {
    return micros() == 0 ? 0 : done * 1e6 / micros();
  }
}
