// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.ConfigNode.Unread;
import dev.berth.config.DeploymentPlan;
import dev.berth.config.Finding;
import dev.berth.config.Finding.Severity;
import dev.berth.config.KvSettings.FractionOf;
import dev.berth.config.LoadPlan;
import dev.berth.config.ServingPlan;
import dev.berth.config.WorkerPlan;
import dev.berth.engine.EnginePool;
import dev.berth.plan.Bytes;
import dev.berth.plan.KvBudget;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.SeatPlan;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.Collectors;

/** A plan for a terminal. */
final class PlanText {
  private static final int LABEL = 12;

  private final List<String> lines = new ArrayList<>();

  private PlanText() {}

  static String of(ServingPlan plan) {
    var text = new PlanText();
    text.file(plan);
    plan.deployments()
        .forEach(deployment -> text.deployment(deployment, plan.deployments().size()));
    text.findings(plan.findings());
    text.pools();
    text.verdict(plan);
    return String.join(System.lineSeparator(), text.lines);
  }

  private void file(ServingPlan plan) {
    var config = plan.config();
    lines.add(
        config.source()
            + ": "
            + config.engine().title()
            + config.model().map(model -> ", " + model).orElse(""));
    if (!config.ignored().isEmpty()) {
      row("ignored", "without effect on the plan: " + ignored(config.ignored()));
    }
  }

  /** Every ignored key once, with all its lines. */
  private static String ignored(List<Unread> keys) {
    var lines = new LinkedHashMap<String, List<String>>();
    for (Unread key : keys) {
      var name = key.path().substring(key.path().lastIndexOf('.') + 1);
      lines.computeIfAbsent(name, absent -> new ArrayList<>()).add(Integer.toString(key.line()));
    }
    return lines.entrySet().stream()
        .map(entry ->
            entry.getKey()
                + (entry.getValue().size() == 1 ? " (line " : " (lines ")
                + String.join(", ", entry.getValue())
                + ")")
        .collect(Collectors.joining(", "));
  }

  private void deployment(DeploymentPlan plan, int of) {
    if (of > 1) {
      lines.add("");
      lines.add("== " + plan.deployment().name());
    }
    plan.workers().forEach(this::worker);
    lines.add("");
    lines.add("load");
    plan.loads().forEach(this::load);
    findings(plan.findings());
  }

  private void worker(WorkerPlan worker) {
    var shape = worker.shape();
    lines.add("");
    lines.add(
        worker.worker().name()
            + ": "
            + Words.lower(worker.worker().role())
            + ", "
            + Words.count(worker.worker().servers(), "server")
            + ", "
            + Words.count(shape.ranks(), "rank")
            + (shape.attentionDp() ? " with attention DP" : "")
            + (shape.pipelineSize() > 1 ? ", " + shape.pipelineSize() + " pipeline stages" : "")
            + (shape.disaggregated() ? ", transfers by " + shape.transferBackend().orElse("") : "")
            + ", overlap "
            + (shape.overlap() == worker.worker().overlap().effective()
                ? worker.worker().overlap().toString()
                : (shape.overlap() ? "on" : "off") + " (assumed)"));
    switch (worker.outcome()) {
      case PlanOutcome.Planned(var plan) -> seats(plan, worker.publishedCap());
      case PlanOutcome.Refused(var reasons) ->
          row("refused", "no plan, see below (" + reasons.size() + ")");
    }
    row("headroom", worker.headroom().toString());
    if (worker.worker().role().generates()) {
      row(
          "step",
          worker.stepTokens()
              + " tokens for a full batch of "
              + shape.maxBatchSize()
              + " x (1 + "
              + shape.draftTokens()
              + "), max_num_tokens "
              + (shape.maxNumTokens() == 0 ? "unset" : shape.maxNumTokens()));
    }
    worker.kv().ifPresentOrElse(this::kv, () -> noKv(worker));
  }

  private void noKv(WorkerPlan worker) {
    var kv = worker.worker().kv();
    row(
        "kv pool",
        kv.fraction()
                .map(fraction ->
                    fraction.toPlainString()
                        + (kv.fractionOf() == FractionOf.FREE_MEMORY
                            ? " of free memory"
                            : " of all memory, with the weights"))
                .orElse("fraction not given")
            + "; what fits isn't known without --model and --free-memory");
  }

  private void seats(SeatPlan plan, long cap) {
    row(
        "seats",
        plan.seats().count()
            + " a rank; leases "
            + plan.leases().count()
            + " + "
            + plan.reservedLeases()
            + " reserved; batch positions "
            + plan.batchPositions().count()
            + (plan.stateRows() > 0 ? "; state rows " + plan.stateRows() : "")
            + " ("
            + Words.lower(plan.policy())
            + (plan.leases().count() == plan.seats().count()
                ? ""
                : ", surplus = "
                    + plan.transferAllowance()
                    + " for transfers + "
                    + plan.overlapAllowance()
                    + " for overlap")
            + ")");
    row(
        "admits",
        Words.count(plan.admissionCap(), "request")
            + " a rank, "
            + plan.fleetCapacity()
            + " a server"
            + (cap == plan.fleetCapacity() ? "" : " (published cap " + cap + ")")
            + "; retiring requests "
            + (plan.excludesRetiring() ? "excluded" : "charged"));
  }

  private void kv(KvBudget kv) {
    row(
        "kv pool",
        Bytes.text(kv.poolBytes())
            + " of "
            + Bytes.text(kv.inputs().freeBytes())
            + " free at "
            + kv.inputs().fraction().toPlainString()
            + ": "
            + kv.tokens()
            + " tokens of "
            + kv.inputs().bytesPerToken()
            + " bytes, "
            + kv.pages()
            + " pages of "
            + kv.inputs().tokensPerBlock());
    row(
        "kv fits",
        kv.sequencesByPages()
            + " sequences of "
            + kv.inputs().sequenceTokens()
            + " tokens by whole pages ("
            + kv.sequencesByTokens()
            + " by tokens), needed "
            + kv.inputs().sequences()
            + "; least fraction "
            + kv.leastFraction().map(fraction -> fraction.toPlainString()).orElse("none"));
    row(
        "kv beside",
        Bytes.text(kv.headroomBytes())
            + " for transients, "
            + Bytes.text(kv.inputs().reserve().total())
            + " asked for ("
            + kv.inputs().reserve()
            + ")");
  }

  private void load(LoadPlan plan) {
    var load = plan.load();
    row(
        "lengths",
        known(load.inputTokens())
            + " tokens in, "
            + known(load.outputTokens())
            + " out, "
            + known(load.concurrency())
            + " clients");
    row(
        "class",
        plan.configClass().title()
            + (plan.configClass() == plan.classIfOverlapped()
                ? ""
                : " (with overlap on: " + plan.classIfOverlapped() + ")")
            + (plan.batchByTokens().isPresent()
                ? "; a step carries " + Words.count(plan.batchByTokens().getAsInt(), "whole prompt")
                : ""));
    if (plan.capacity().isPresent()) {
      row(
          "capacity",
          plan.capacity().getAsLong()
              + " generations"
              + (plan.overflow().isPresent() ? ", overflow " + plan.overflow().getAsLong() : ""));
    }
  }

  private void findings(List<Finding> findings) {
    if (findings.isEmpty()) {
      return;
    }
    lines.add("");
    for (Finding finding : findings) {
      row(Words.lower(finding.severity()), finding + " [" + finding.rule() + "]");
    }
  }

  private void pools() {
    lines.add("");
    row(
        "at start",
        ReplayReport.pools(
            EnginePool.titles(EnginePool::bounded), EnginePool.titles(pool -> !pool.bounded())));
  }

  private void verdict(ServingPlan plan) {
    var all = plan.allFindings();
    long refused = all.stream().filter(finding -> finding.severity() == Severity.REFUSED).count();
    long warnings = all.stream().filter(finding -> finding.severity() == Severity.WARNING).count();
    lines.add("");
    lines.add(
        refused > 0
            ? "refused: " + Words.count(refused, "reason")
            : warnings > 0 ? "works, with " + Words.count(warnings, "warning") : "works");
  }

  private void row(String label, String text) {
    lines.add("  " + label + " ".repeat(Math.max(1, LABEL - label.length())) + text);
  }

  private static String known(OptionalInt value) {
    return value.isPresent() ? Integer.toString(value.getAsInt()) : "unknown";
  }
}
