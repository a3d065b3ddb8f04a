// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.DeploymentPlan;
import dev.berth.config.Finding;
import dev.berth.config.LoadPlan;
import dev.berth.config.ServingPlan;
import dev.berth.config.WorkerPlan;
import dev.berth.engine.EnginePool;
import dev.berth.plan.KvBudget;
import dev.berth.plan.Reserve;
import dev.berth.plan.SeatPlan;
import java.math.BigDecimal;
import java.util.List;
import java.util.Locale;

/** A plan as JSON; amounts of memory in bytes, lengths in tokens. */
final class PlanJson {
  private PlanJson() {}

  static Json of(ServingPlan plan) {
    return new Json()
        .put("file", plan.config().source())
        .put("engine", plan.config().engine().title())
        .put("model", plan.config().model())
        .put("verdict", plan.worst().map(Words::lower).orElse("fine"))
        .put(
            "deployments",
            plan.deployments().stream().map(PlanJson::deployment).map(Json::fields).toList())
        .put("findings", findings(plan.findings()))
        .put(
            "pools",
            ReplayJson.pools(
                EnginePool.titles(EnginePool::bounded), EnginePool.titles(pool -> !pool.bounded())))
        .put(
            "ignored_keys",
            plan.config().ignored().stream()
                .map(key -> new Json().put("key", key.path()).put("line", key.line()).fields())
                .toList());
  }

  private static Json deployment(DeploymentPlan plan) {
    return new Json()
        .put("name", plan.deployment().name())
        .put("workers", plan.workers().stream().map(PlanJson::worker).map(Json::fields).toList())
        .put("loads", plan.loads().stream().map(PlanJson::load).map(Json::fields).toList())
        .put("findings", findings(plan.findings()));
  }

  private static Json worker(WorkerPlan worker) {
    var shape = worker.shape();
    return new Json()
        .put("name", worker.worker().name())
        .put("role", Words.lower(worker.worker().role()))
        .put("servers", worker.worker().servers())
        .put("max_batch_size", shape.maxBatchSize())
        .put("pipeline_size", shape.pipelineSize())
        .put("ranks", shape.ranks())
        .put("attention_dp", shape.attentionDp())
        .put("overlap", shape.overlap())
        .put("disaggregated", shape.disaggregated())
        .put("draft_tokens", shape.draftTokens())
        .put("max_num_tokens", shape.maxNumTokens())
        .put("step_tokens", worker.stepTokens())
        .put("published_cap", worker.publishedCap())
        .put("headroom", worker.headroom().open())
        .put("headroom_closed_by", worker.headroom().reasons())
        .put("seat_policy", Words.lower(worker.policy()))
        .put("plan", worker.plan().map(PlanJson::seats))
        .put("kv", worker.kv().map(PlanJson::kv));
  }

  private static Json seats(SeatPlan plan) {
    return new Json()
        .put("seats", plan.seats().count())
        .put("leases", plan.leases().count())
        .put("reserved_leases", plan.reservedLeases())
        .put("index_capacity", plan.indexCapacity())
        .put("batch_positions", plan.batchPositions().count())
        .put("transfer_allowance", plan.transferAllowance())
        .put("overlap_allowance", plan.overlapAllowance())
        .put("state_rows", plan.stateRows())
        .put("admission_cap", plan.admissionCap())
        .put("fleet_capacity", plan.fleetCapacity())
        .put("resident_requests", plan.residentRequests())
        .put("excludes_retiring", plan.excludesRetiring());
  }

  private static Json kv(KvBudget kv) {
    return new Json()
        .put("free_bytes", kv.inputs().freeBytes())
        .put("fraction", kv.inputs().fraction())
        .put("bytes_per_token", kv.inputs().bytesPerToken())
        .put("tokens_per_block", kv.inputs().tokensPerBlock())
        .put("pool_bytes", kv.poolBytes())
        .put("pages", kv.pages())
        .put("tokens", kv.tokens())
        .put("sequence_tokens", kv.inputs().sequenceTokens())
        .put("sequences_needed", kv.inputs().sequences())
        .put("sequences_by_tokens", kv.sequencesByTokens())
        .put("sequences_by_pages", kv.sequencesByPages())
        .put("missing", kv.missing())
        .put("least_fraction", kv.leastFraction().map(BigDecimal::toPlainString))
        .put("headroom_bytes", kv.headroomBytes())
        .put("reserve_bytes", reserve(kv.inputs().reserve()));
  }

  private static Json reserve(Reserve reserve) {
    var parts = new Json();
    reserve
        .parts()
        .forEach(part ->
            parts.put(part.name().toLowerCase(Locale.ROOT).replace(' ', '_'), part.bytes()));
    return parts.put("total", reserve.total());
  }

  private static Json load(LoadPlan load) {
    return new Json()
        .put("input_tokens", load.load().inputTokens())
        .put("output_tokens", load.load().outputTokens())
        .put("concurrency", load.load().concurrency())
        .put("class", load.configClass().title())
        .put("class_with_overlap", load.classIfOverlapped().title())
        .put("batch_by_tokens", load.batchByTokens())
        .put("capacity", load.capacity())
        .put("overflow", load.overflow());
  }

  private static List<?> findings(List<Finding> findings) {
    return findings.stream()
        .map(finding ->
            new Json()
                .put("severity", Words.lower(finding.severity()))
                .put("rule", finding.rule())
                .put("worker", finding.worker())
                .put("message", finding.message())
                .fields())
        .toList();
  }
}
