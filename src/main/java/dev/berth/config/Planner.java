// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.config.WorkerConfig.AssumedOverlap;
import dev.berth.engine.EngineConfig;
import dev.berth.plan.Bytes;
import dev.berth.plan.Classifier;
import dev.berth.plan.ConfigClass;
import dev.berth.plan.HeadroomGate;
import dev.berth.plan.KvBudget;
import dev.berth.plan.KvModel;
import dev.berth.plan.KvType;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.WorkerShape;
import dev.berth.route.RankCap;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/** Plans deployments and applies the rules that public configurations obey. */
final class Planner {
  private final PlanOptions options;

  Planner(PlanOptions options) {
    this.options = options;
  }

  DeploymentPlan plan(Deployment deployment) {
    var loads = deployment.workloads().stream().map(options::apply).toList();
    var findings = new ArrayList<Finding>();
    var workers = new ArrayList<WorkerPlan>();
    for (WorkerConfig worker : deployment.workers()) {
      workers.add(plan(worker, deployment, loads.getFirst(), findings));
    }
    var plans = loads.stream().map(load -> plan(deployment, load)).toList();
    plans.forEach(load -> checkLoad(deployment, load, findings));
    var distinct = new ArrayList<>(findings.stream().distinct().toList());
    distinct.sort(Comparator.comparing(Finding::severity));
    return new DeploymentPlan(deployment, workers, plans, distinct);
  }

  private WorkerShape shape(WorkerConfig worker, AssumedOverlap overlap) {
    return worker.shape(overlap).toBuilder().with(options.traits()).build();
  }

  private WorkerPlan plan(
      WorkerConfig worker, Deployment deployment, Workload load, List<Finding> findings) {
    var shape = shape(worker, options.overlap());
    var policy = policy(worker, shape, findings);
    var outcome = SeatPlan.of(shape, policy);
    switch (outcome) {
      case PlanOutcome.Refused(var reasons) ->
          reasons.forEach(reason ->
              findings.add(Finding.refused(reason.rule(), worker.name(), reason.message())));
      case PlanOutcome.Planned(var plan) -> {
        plan.advice()
            .forEach(advice ->
                findings.add(Finding.warning(advice.rule(), worker.name(), advice.message())));
        EngineConfig.tooLarge(plan, RankCap.HARD)
            .ifPresent(reason ->
                findings.add(
                    Finding.refused("core-size", worker.name(), reason).at(worker.batchSize())));
      }
    }
    findings.addAll(worker.notes());
    var plan =
        new WorkerPlan(
            worker,
            shape,
            policy,
            outcome,
            HeadroomGate.of(shape),
            Classifier.publishedCap(shape),
            Classifier.stepTokens(shape),
            budget(worker, shape, outcome, load, findings));
    plan.kv().ifPresent(kv -> checkBudget(worker, deployment, load, kv, findings));
    checkWorker(plan, load, findings);
    return plan;
  }

  /**
   * Models whose rows end at B·pp force the split policy, unless the user insists (DESIGN.md
   * decision 4).
   */
  private SeatPolicy policy(WorkerConfig worker, WorkerShape shape, List<Finding> findings) {
    if (options.policy().isPresent()) {
      return options.policy().get();
    }
    if (!shape.hybrid() && !shape.mropeDelta()) {
      return SeatPolicy.UNIFIED;
    }
    findings.add(
        Finding.note(
            "split-forced",
            worker.name(),
            (shape.hybrid() ? "a hybrid (SSM) model" : "an MRoPE delta cache")
                + " forces the split seat policy: its rows end at B x pp"));
    return SeatPolicy.SPLIT;
  }

  private void checkWorker(WorkerPlan plan, Workload load, List<Finding> findings) {
    var worker = plan.worker();
    if (worker.role() != Role.AGGREGATED && !plan.shape().disaggregated()) {
      findings.add(
          Finding.refused(
              "no-transfer-engine",
              worker.name(),
              "no KV transfer engine is configured, so "
                  + (worker.role() == Role.CONTEXT
                      ? "its KV can never leave"
                      : "no KV can ever arrive")));
    }
    if (worker.gpus().isPresent() && worker.gpus().getAsInt() != worker.gpusNeeded()) {
      findings.add(
          Finding.warning(
              "gpus",
              worker.name(),
              "its parallel sizes need "
                  + worker.gpusNeeded()
                  + " GPUs a server, the hardware block gives "
                  + worker.gpus().getAsInt()));
    }
    checkLengths(plan, load, findings);
    checkStep(plan, findings);
    checkTransceiver(worker, load, findings);
    checkFraction(worker, findings);
    checkTokenLimit(plan, load, findings);
    noteOverlap(worker, findings);
  }

  /** Spec 06 BC-46 and BC-78. */
  private static void checkLengths(WorkerPlan plan, Workload load, List<Finding> findings) {
    var worker = plan.worker();
    var shape = plan.shape();
    int budget = shape.maxNumTokens();
    if (worker.role().runsPrompts() && budget > 0 && load.inputTokens().isPresent()) {
      int prompt = load.inputTokens().getAsInt();
      if (!worker.chunkedPrefill() && prompt > budget) {
        findings.add(
            Finding.refused(
                "prompt-budget",
                worker.name(),
                "a prompt of "
                    + prompt
                    + " tokens never fits into a step of "
                    + budget
                    + " while chunked prefill is off"));
      }
    }
    if (worker.role().runsPrompts()
        && worker.chunkedPrefill()
        && budget > 0
        && budget < shape.tokensPerBlock()) {
      findings.add(
          Finding.warning(
              "chunk-unit",
              worker.name(),
              "a step of "
                  + budget
                  + " tokens is below one page of "
                  + shape.tokensPerBlock()
                  + ": a chunk that is cut at page ends would be empty"));
    }
    var needed = worker.role().generates() ? load.sequenceTokens() : load.inputTokens();
    if (shape.maxSeqLen() > 0 && needed.isPresent() && needed.getAsInt() > shape.maxSeqLen()) {
      findings.add(
          Finding.refused(
              "sequence-length",
              worker.name(),
              "the load's sequences of "
                  + needed.getAsInt()
                  + " tokens pass the longest one allowed, "
                  + shape.maxSeqLen()));
    }
  }

  /**
   * Regularity 1: a step holds a full batch of generations; any smaller value silently caps the
   * rank.
   */
  private static void checkStep(WorkerPlan plan, List<Finding> findings) {
    var worker = plan.worker();
    var shape = plan.shape();
    if (!worker.role().generates() || shape.maxNumTokens() == 0) {
      return;
    }
    boolean told = plan.plan().filter(seats -> !seats.advice().isEmpty()).isPresent();
    if (shape.maxNumTokens() < plan.stepTokens() && !told && plan.plan().isPresent()) {
      findings.add(
          Finding.warning(
              "step-budget",
              worker.name(),
              "a full batch takes "
                  + plan.stepTokens()
                  + " tokens a step, max_num_tokens is "
                  + shape.maxNumTokens()
                  + ": a batch never passes "
                  + shape.maxNumTokens() / shape.tokensPerGeneration()
                  + " of "
                  + shape.maxBatchSize()));
    }
    if (worker.role() == Role.GENERATION && shape.maxNumTokens() > plan.stepTokens()) {
      findings.add(
          Finding.note(
              "step-surplus",
              worker.name(),
              "a full batch takes "
                  + plan.stepTokens()
                  + " tokens a step; the other "
                  + (shape.maxNumTokens() - plan.stepTokens())
                  + " of max_num_tokens are inert"));
    }
  }

  /** Regularity 3. */
  private static void checkTransceiver(WorkerConfig worker, Workload load, List<Finding> findings) {
    if (worker.transceiverBufferTokens().isEmpty()) {
      return;
    }
    int buffer = worker.transceiverBufferTokens().getAsInt();
    if (buffer == 0) {
      findings.add(
          Finding.note(
              "transceiver-buffer", worker.name(), "max_tokens_in_buffer 0: no staging buffer"));
      return;
    }
    if (load.inputTokens().isEmpty()) {
      return;
    }
    int prompt = load.inputTokens().getAsInt();
    if (buffer < prompt) {
      findings.add(
          Finding.warning(
              "transceiver-buffer",
              worker.name(),
              "max_tokens_in_buffer " + buffer + " is below the prompt's " + prompt + " tokens"));
    } else if (buffer == prompt) {
      findings.add(
          Finding.note(
              "transceiver-buffer",
              worker.name(),
              "max_tokens_in_buffer " + buffer + " is the prompt's length exactly: no slack"));
    }
  }

  /** Regularity 4: the ranges in which public configurations lie. */
  private static void checkFraction(WorkerConfig worker, List<Finding> findings) {
    if (worker.kv().fraction().isEmpty()
        || worker.kv().fractionOf() != KvSettings.FractionOf.FREE_MEMORY
        || worker.role() == Role.AGGREGATED) {
      return;
    }
    boolean context = worker.role() == Role.CONTEXT;
    var least = new BigDecimal(context ? "0.3" : "0.6");
    var most = new BigDecimal(context ? "0.85" : "0.9");
    var fraction = worker.kv().fraction().get();
    if (fraction.compareTo(least) < 0 || fraction.compareTo(most) > 0) {
      findings.add(
          Finding.warning(
              "fraction-range",
              worker.name(),
              "free_gpu_memory_fraction "
                  + fraction.toPlainString()
                  + " is outside "
                  + least
                  + " to "
                  + most
                  + ", where public "
                  + (context ? "context" : "generation")
                  + " workers lie"));
    }
  }

  private static void checkTokenLimit(WorkerPlan plan, Workload load, List<Finding> findings) {
    var worker = plan.worker();
    var limit = worker.kv().tokenLimit();
    var tokens = sequenceTokens(worker, plan.shape(), load);
    if (limit.isEmpty() || tokens.isEmpty() || plan.kv().isPresent() || plan.plan().isEmpty()) {
      return;
    }
    int page = plan.shape().tokensPerBlock();
    long pages = Math.max(0, limit.getAsLong() / page - worker.kv().reservedPages());
    long fit = pages / Math.ceilDiv(tokens.getAsInt(), page);
    int cap = plan.plan().get().admissionCap();
    if (fit < cap) {
      var message =
          "the KV pool is limited to "
              + limit.getAsLong()
              + " tokens, which hold "
              + fit
              + " sequences of "
              + tokens.getAsInt()
              + "; a rank may admit "
              + cap;
      findings.add(
          fit == 0
              ? Finding.refused("kv-limit", worker.name(), message)
              : Finding.note("kv-limit", worker.name(), message));
    }
  }

  /** Regularity 6. */
  private void noteOverlap(WorkerConfig worker, List<Finding> findings) {
    if (options.overlap() != AssumedOverlap.FILE) {
      boolean assumed = options.overlap() == AssumedOverlap.ON;
      if (assumed != worker.overlap().effective()) {
        findings.add(
            Finding.note(
                "overlap-assumed",
                worker.name(),
                "planned with overlap "
                    + (assumed ? "on" : "off")
                    + "; the file says "
                    + worker.overlap()));
      }
    }
  }

  /**
   * The length that a worker's KV pool must hold: the longest allowed, or the load's; prompts only
   * on context workers.
   */
  private static OptionalInt sequenceTokens(WorkerConfig worker, WorkerShape shape, Workload load) {
    if (!worker.role().generates() && load.inputTokens().isPresent()) {
      return load.inputTokens();
    }
    if (shape.maxSeqLen() > 0) {
      return OptionalInt.of(shape.maxSeqLen());
    }
    return worker.role().generates() ? load.sequenceTokens() : load.inputTokens();
  }

  private Optional<KvBudget> budget(
      WorkerConfig worker,
      WorkerShape shape,
      PlanOutcome outcome,
      Workload load,
      List<Finding> findings) {
    if (options.model().isEmpty() && options.freeBytes().isEmpty()) {
      return Optional.empty();
    }
    var missing = new ArrayList<String>();
    var tokens = sequenceTokens(worker, shape, load);
    var type =
        options.model().flatMap(ModelShape::type).or(() -> KvType.byName(worker.kv().dtype()));
    var fraction = options.fraction().or(() -> fileFraction(worker));
    if (options.model().isEmpty()) {
      missing.add("the model's shape (--model)");
    } else if (type.isEmpty()) {
      missing.add(
          "the KV value type (dtype= in --model; the file says " + worker.kv().dtype() + ")");
    }
    if (options.freeBytes().isEmpty()) {
      missing.add("free memory (--free-memory)");
    }
    if (fraction.isEmpty()) {
      missing.add(
          worker.kv().fraction().isPresent()
              ? "a fraction of free memory (--fraction; the file's is of all memory)"
              : "a fraction (--fraction)");
    }
    if (tokens.isEmpty()) {
      missing.add("a sequence length (--isl and --osl)");
    }
    if (!missing.isEmpty()) {
      findings.add(
          Finding.note(
              "kv-unknown",
              worker.name(),
              "no KV budget, for want of " + String.join(", ", missing)));
      return Optional.empty();
    }
    if (!(outcome instanceof PlanOutcome.Planned(var plan))) {
      return Optional.empty();
    }
    var shapeOfModel = options.model().orElseThrow();
    var model = new KvModel(shapeOfModel.layers(), shapeOfModel.row(), type.orElseThrow());
    long bytesPerToken = model.bytesPerToken(shape);
    var reserve =
        options.reserve().transferBuffers() > 0 || worker.transceiverBufferTokens().isEmpty()
            ? options.reserve()
            : options
                .reserve()
                .withTransferBuffers(worker.transceiverBufferTokens().getAsInt() * bytesPerToken);
    return Optional.of(
        KvBudget.of(
            new KvBudget.Inputs(
                options.freeBytes().orElseThrow(),
                fraction.orElseThrow(),
                bytesPerToken,
                shape.tokensPerBlock(),
                worker.kv().tokenLimit(),
                worker.kv().reservedPages(),
                tokens.orElseThrow(),
                plan.admissionCap(),
                reserve)));
  }

  private static Optional<BigDecimal> fileFraction(WorkerConfig worker) {
    return worker.kv().fractionOf() == KvSettings.FractionOf.FREE_MEMORY
        ? worker.kv().fraction()
        : Optional.empty();
  }

  /**
   * A generation worker holds what has landed: what doesn't fit is paused for ever (evidence E5).
   * Elsewhere requests wait, unless not even one fits.
   */
  private static void checkBudget(
      WorkerConfig worker,
      Deployment deployment,
      Workload load,
      KvBudget kv,
      List<Finding> findings) {
    boolean holds =
        worker.role() == Role.GENERATION
            && (deployment.benchmarkFill() || load.inputTokens().isPresent());
    kv.complaints()
        .forEach(reason -> {
          boolean fatal =
              holds || !reason.rule().equals("kv-sequences") || kv.sequencesByPages() == 0;
          findings.add(
              fatal
                  ? Finding.refused(reason.rule(), worker.name(), reason.message())
                  : Finding.warning(reason.rule(), worker.name(), reason.message()));
        });
    if (kv.fits() && kv.coversReserve()) {
      findings.add(
          Finding.note(
              "kv-fits",
              worker.name(),
              kv.sequencesByPages()
                  + " full sequences fit, needed "
                  + kv.inputs().sequences()
                  + "; "
                  + Bytes.text(kv.headroomBytes())
                  + " are left beside the pool"));
    }
  }

  private LoadPlan plan(Deployment deployment, Workload load) {
    var prompts = deployment.prompts();
    var capacity =
        deployment
            .generations()
            .map(worker ->
                OptionalLong.of(
                    worker.servers() * Classifier.publishedCap(shape(worker, options.overlap()))))
            .orElse(OptionalLong.empty());
    var overflow =
        capacity.isPresent() && load.concurrency().isPresent()
            ? OptionalLong.of(Math.max(0, load.concurrency().getAsInt() - capacity.getAsLong()))
            : OptionalLong.empty();
    return new LoadPlan(
        load,
        prompts
            .map(worker -> classify(worker, load, options.overlap()))
            .orElse(ConfigClass.UNKNOWN),
        prompts
            .map(worker -> classify(worker, load, AssumedOverlap.ON))
            .orElse(ConfigClass.UNKNOWN),
        prompts
            .map(worker ->
                Classifier.batchByTokens(shape(worker, options.overlap()), load.inputTokens()))
            .orElse(OptionalInt.empty()),
        capacity,
        overflow);
  }

  private ConfigClass classify(WorkerConfig worker, Workload load, AssumedOverlap overlap) {
    return Classifier.classify(shape(worker, overlap), load.concurrency(), load.inputTokens());
  }

  private void checkLoad(Deployment deployment, LoadPlan plan, List<Finding> findings) {
    deployment.prompts().ifPresent(worker -> noteClass(worker, plan, findings));
    noteSlack(deployment, plan, findings);
  }

  private void noteClass(WorkerConfig worker, LoadPlan plan, List<Finding> findings) {
    var shape = shape(worker, options.overlap());
    var gate = HeadroomGate.of(shape);
    switch (plan.configClass()) {
      case MOVABLE -> {
        if (!gate.open()) {
          findings.add(
              Finding.note(
                  "movable-gate-closed",
                  worker.name(),
                  "movable by the published predicate, though the headroom gate is "
                      + gate
                      + ": retiring requests stay charged"));
        }
      }
      case INERT_TOKEN_LIMITED ->
          findings.add(
              Finding.note(
                  "token-limited",
                  worker.name(),
                  "a step carries "
                      + plan.batchByTokens().orElse(0)
                      + " of "
                      + shape.maxBatchSize()
                      + " prompts: max_batch_size above that is inert, a full batch needs"
                      + " max_num_tokens >= "
                      + (long) shape.maxBatchSize() * plan.load().inputTokens().orElse(0)));
      case INERT_CONCURRENCY ->
          findings.add(
              Finding.warning(
                  "overlap-may-lose",
                  worker.name(),
                  "concurrency "
                      + plan.load().concurrency().orElse(0)
                      + " is within the cap "
                      + Classifier.publishedCap(shape)
                      + ": the window cannot refill, and overlap can lose here even with retiring"
                      + " requests excluded (upstream #19424)"));
      case GUARD ->
          findings.add(
              Finding.note(
                  "overlap-off",
                  worker.name(),
                  "overlap is off, so nothing retires; with overlap on the class would be "
                      + plan.classIfOverlapped()));
      case UNKNOWN ->
          findings.add(
              Finding.note(
                  "class-unknown",
                  worker.name(),
                  "not classified: "
                      + (plan.load().concurrency().isEmpty() ? "concurrency" : "prompt length")
                      + " isn't known (--"
                      + (plan.load().concurrency().isEmpty() ? "concurrency" : "isl")
                      + ")"));
    }
  }

  /** Regularity 2. */
  private static void noteSlack(Deployment deployment, LoadPlan plan, List<Finding> findings) {
    if (plan.overflow().isEmpty() || plan.capacity().isEmpty()) {
      return;
    }
    long capacity = plan.capacity().getAsLong();
    int concurrency = plan.load().concurrency().orElse(0);
    var worker = deployment.generations().map(WorkerConfig::name).orElse("");
    if (plan.overflow().getAsLong() > 0) {
      findings.add(
          Finding.note(
              "overflow",
              worker,
              plan.overflow().getAsLong()
                  + " of "
                  + concurrency
                  + " clients are beyond the capacity of "
                  + capacity
                  + " and wait in the queue"));
    } else if (concurrency == capacity) {
      findings.add(
          Finding.note(
              "no-slack",
              worker,
              "concurrency is the capacity of " + capacity + " exactly: no slack anywhere"));
    }
    if (deployment.benchmarkFill() && plan.fillTarget().isPresent()) {
      findings.add(
          Finding.note(
              "fill-target",
              worker,
              "generation starts once "
                  + plan.fillTarget().getAsLong()
                  + " requests are resident"));
    }
  }
}
