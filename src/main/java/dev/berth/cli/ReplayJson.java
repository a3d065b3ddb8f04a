// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.plan.SeatPlan;
import dev.berth.plan.StartupValidator;
import dev.berth.replay.ArmResult;
import dev.berth.replay.Comparison;
import dev.berth.replay.Expectation;
import dev.berth.replay.Occupancy;
import dev.berth.replay.RequestTimes;
import dev.berth.replay.RunTotals;
import dev.berth.replay.ScenarioRun;
import dev.berth.replay.ServerStage;
import dev.berth.replay.StageResult;
import dev.berth.replay.Trace;
import dev.berth.replay.TraceResult;
import dev.berth.request.WaitReason;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Replays as JSON, described in {@code docs/json.md}: keys always in the same order, times in µs, a
 * figure that doesn't exist is left out.
 */
final class ReplayJson {
  /** Raised by every change that takes a key away or gives it another meaning. */
  static final int SCHEMA = 1;

  private ReplayJson() {}

  // ------------------------------------------------------------------------------ scenarios

  static Json of(ScenarioRun.Result result) {
    var scenario = result.scenario();
    return new Json()
        .put("schema", SCHEMA)
        .put("kind", "scenario")
        .put("name", scenario.name())
        .put("title", scenario.title())
        .put("source", scenario.source())
        .put("notes", scenario.notes())
        .put("as_expected", result.asExpected())
        .put("arms", result.arms().stream().map(ReplayJson::arm).map(Json::fields).toList())
        .put(
            "comparisons",
            result.comparisons().stream().map(ReplayJson::comparison).map(Json::fields).toList())
        .put("problems", result.problems());
  }

  private static Json arm(ArmResult result) {
    var numbers = new Json();
    result.numbers().forEach((name, value) -> number(numbers, name, value));
    var histograms = new Json();
    for (String name : ArmResult.HISTOGRAMS) {
      var histogram = new Json();
      result.histogram(name).sorted().forEach(histogram::put);
      histograms.put(name, histogram);
    }
    var json =
        new Json()
            .put("name", result.arm().name())
            .put("title", result.arm().title())
            .put("plan", plan(result.arm().engine().plan()))
            .put("description", result.arm().describe())
            .put("as_declared", result.asDeclared())
            .put("ending", Words.lower(result.run().ending()));
    if (!result.run().detail().isEmpty()) {
      json.put("detail", result.run().detail());
    }
    return json.put("numbers", numbers)
        .put("histograms", histograms)
        .put("refusals", result.run().totals().refusals())
        .put(
            "validator",
            result.run().startUp().disagreements().stream().map(d -> d.message()).toList())
        .put("pools", pools(result.run().startUp()))
        .put(
            "expectations",
            result.expectations().stream().map(ReplayJson::expectation).map(Json::fields).toList())
        .put("checks", result.checks().stream().map(ReplayJson::check).map(Json::fields).toList());
  }

  private static Json pools(StartupValidator.Verdict startUp) {
    return pools(startUp.checked(), startUp.skipped());
  }

  static Json pools(List<String> compared, List<String> skipped) {
    return new Json().put("compared", compared).put("skipped", skipped);
  }

  private static Json expectation(ArmResult.Met met) {
    Expectation e = met.expectation();
    var json = new Json().put("metric", e.metric()).put("met", met.met());
    met.measured().ifPresent(value -> number(json, "measured", value));
    number(json, "expected", e.value());
    number(json, "within", e.within());
    e.published().ifPresent(value -> number(json, "published", value));
    return json.put("why", e.why());
  }

  private static Json check(ArmResult.CheckOutcome outcome) {
    return new Json()
        .put("id", outcome.check().id())
        .put("status", Words.lower(outcome.status()))
        .put("violations", outcome.violations())
        .put("declared", outcome.declared())
        .put("unit", outcome.check().unit());
  }

  private static Json comparison(Comparison.Verdict verdict) {
    var json =
        new Json()
            .put("arm", verdict.comparison().other())
            .put("base", verdict.comparison().base())
            .put("met", verdict.met());
    verdict.measured().ifPresent(value -> number(json, "measured", value));
    return json.put("text", verdict.text());
  }

  // ------------------------------------------------------------------------------ traces

  static Json of(TraceReplay replay) {
    TraceResult result = replay.result();
    var json =
        new Json()
            .put("schema", SCHEMA)
            .put("kind", "trace")
            .put("config", replay.config())
            .put("deployment", replay.setup().deployment())
            .put("trace", trace(result.trace()))
            .put("arrivals", arrivals(replay))
            .put("warnings", replay.setup().warnings())
            .put("ending", Words.lower(result.ending()))
            .put("complete", result.complete());
    var waits = new ArrayList<String>();
    result.stages().forEach(stage -> waits.addAll(stage.waits()));
    json.put("waits", waits)
        .put(
            "requests",
            new Json()
                .put("total", result.requests())
                .put("done", result.done())
                .put("refused", result.refused())
                .put("unaccounted", result.unaccounted()));
    number(json, "virtual_us", result.micros());
    json.put("wall_ms", Math.round(replay.wallSeconds() * 1000));
    json.put("output_tokens", result.outputTokens());
    number(json, "output_tokens_per_second", result.outputTokensPerSecond());
    number(json, "requests_per_second", result.requestsPerSecond());
    json.put("ttft_us", percentiles(result.times().timeToFirstToken()));
    json.put("tpot_us", percentiles(result.times().timePerOutputToken()));
    json.put("end_to_end_us", percentiles(result.times().endToEnd()));
    return json.put(
        "stages", result.stages().stream().map(ReplayJson::stage).map(Json::fields).toList());
  }

  private static Json trace(Trace trace) {
    var json =
        new Json()
            .put("name", trace.name())
            .put("format", Words.lower(trace.format()))
            .put("requests", trace.requests());
    number(json, "span_us", trace.spanMicros());
    number(json, "mean_input", trace.meanPromptTokens());
    json.put("max_input", trace.longestPrompt());
    number(json, "mean_output", trace.meanOutputTokens());
    json.put("max_output", trace.longestOutput());
    trace.prefixes().ifPresent(prefixes -> number(json, "ideal_hit_rate", prefixes.idealHitRate()));
    return json;
  }

  private static Json arrivals(TraceReplay replay) {
    var json = new Json().put("kind", Words.lower(replay.arrivals()));
    switch (replay.arrivals()) {
      case TRACE -> number(json, "speedup", replay.speedup());
      case CLOSED -> json.put("concurrency", replay.concurrency());
    }
    return json;
  }

  private static Json stage(StageResult result) {
    ServerStage stage = result.stage();
    var engine = stage.engine();
    var json =
        new Json()
            .put("name", stage.name())
            .put("role", Words.lower(engine.role()))
            .put("servers", stage.servers())
            .put("ranks", engine.ranks())
            .put("loop", Words.lower(engine.loop()))
            .put("plan", plan(engine.plan()))
            .put("policies", engine.policies().id())
            .put("capacity", Words.lower(engine.capacity()))
            .put("scheduler", Words.lower(engine.scheduler()))
            .put("pools", pools(result.servers().getFirst().startUp()));
    if (engine.pages() >= 0) {
      json.put("kv_pages", engine.pages());
    }
    var cost = new Json();
    number(cost, "alpha_us_per_token", stage.cost().alphaMicros());
    number(cost, "beta_us_per_token", stage.cost().betaMicros());
    number(cost, "fixed_us", stage.cost().fixedMicros());
    json.put("cost", cost);
    RunTotals totals = result.totals();
    json.put("ending", Words.lower(result.ending()))
        .put(
            "requests",
            new Json()
                .put("total", result.requests())
                .put("sent", result.sent())
                .put("done", result.done())
                .put("refused", totals.refused())
                .put("unaccounted", result.unaccounted()))
        .put("refused", map(totals.refusedByReason()))
        .put("refusals", totals.refusals())
        .put("iterations", result.iterations())
        .put("forwards", result.forwards());
    number(json, "mean_batch", totals.meanBatch());
    json.put("computed_tokens", result.computedTokens());
    number(json, "tokens_per_second", result.tokensPerSecond());
    number(json, "virtual_us", result.micros());
    var deferrals = new Json();
    for (WaitReason reason : WaitReason.values()) {
      if (totals.deferrals(reason) > 0 && reason != WaitReason.NONE) {
        deferrals.put(Words.lower(reason), totals.deferrals(reason));
      }
    }
    if (totals.askedTokens() > 0) {
      json.put(
          "prefixes",
          new Json()
              .put("asked_tokens", totals.askedTokens())
              .put("reused_tokens", totals.foundTokens())
              .put("evicted_blocks", totals.evictedBlocks()));
    }
    return json.put("deferrals", deferrals)
        .put("paused", totals.paused())
        .put("occupancy", occupancy(result.occupancy()));
  }

  private static List<Map<String, Object>> occupancy(List<Occupancy> servers) {
    var rows = new ArrayList<Map<String, Object>>();
    for (int server = 0; server < servers.size(); server++) {
      Occupancy occupancy = servers.get(server);
      for (int rank = 0; rank < occupancy.ranks(); rank++) {
        var row = new Json().put("server", server).put("rank", rank);
        number(row, "occupancy", occupancy.occupancy(rank));
        number(row, "mean_batch", occupancy.meanBatch(rank));
        number(row, "mean_resident", occupancy.meanResident(rank));
        row.put("padded", occupancy.padded(rank)).put("forwards", occupancy.forwards());
        rows.add(row.fields());
      }
    }
    return rows;
  }

  private static Json percentiles(double[] ascending) {
    var json = new Json().put("count", ascending.length);
    for (int percent : TraceReport.PERCENTILES) {
      number(json, "p" + percent, RequestTimes.percentile(ascending, percent));
    }
    return json;
  }

  // ------------------------------------------------------------------------------ both

  private static Json plan(SeatPlan plan) {
    return new Json()
        .put("max_batch_size", plan.batchPositions().count())
        .put("seats", plan.seats().count())
        .put("leases", plan.leases().count())
        .put("reserved_leases", plan.reservedLeases())
        .put("policy", Words.lower(plan.policy()))
        .put("headroom", plan.headroom().open())
        .put("overlap", plan.shape().overlap())
        .put("admission_cap", plan.admissionCap())
        .put("fleet_capacity", plan.fleetCapacity());
  }

  private static Json map(Map<String, Long> counts) {
    var json = new Json();
    counts.forEach(json::put);
    return json;
  }

  private static void number(Json json, String key, double value) {
    if (value == Math.rint(value) && Math.abs(value) < 1e15) {
      json.put(key, (long) value);
    } else if (!Double.isNaN(value) && !Double.isInfinite(value)) {
      json.put(key, value);
    }
  }
}
