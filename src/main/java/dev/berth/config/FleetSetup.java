// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.Chunking;
import dev.berth.config.Finding.Severity;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.KvSetup;
import dev.berth.engine.WorkerRole;
import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.plan.SeatPlan;
import dev.berth.replay.CostModel;
import dev.berth.replay.ServerStage;
import dev.berth.replay.TransferModel;
import dev.berth.route.RouterChoice;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Collectors;

/**
 * The servers of a serving configuration, ready to replay a trace. Loads that the file names don't
 * enter: the trace is the load.
 *
 * @param deployment which of the file's deployments
 * @param stages one, or context servers and then generation servers
 * @param plans the plan of each stage's worker, in the same order
 * @param warnings what planning has to say, one sentence each
 * @param concurrency requests in flight that the file names; empty if it names none
 */
public record FleetSetup(
    String deployment,
    List<ServerStage> stages,
    List<WorkerPlan> plans,
    List<String> warnings,
    OptionalInt concurrency) {
  /** Most pages of a rank whose prefixes can be reused: their index has to fit in memory. */
  private static final long MOST_PAGES = 1 << 24;

  /** Most tokens of a block that can be reused, as {@code berth.h} has it. */
  private static final int MOST_BLOCK_TOKENS = 1024;

  /**
   * Whether the prompts of a trace share their KV. It takes a limit on KV pages, a longest sequence
   * and a worker that computes prompts.
   */
  public enum PrefixReuse {
    /** As the file says, where it can be. */
    FILE,
    /** Refused with every reason where it can't be. */
    ON,
    /** Nothing is shared: pages are only counted. */
    OFF
  }

  /** Which workers of a deployment take part. */
  public enum Workers {
    /** All that there are. */
    ALL,
    /** Context servers alone: every request ends with its first token. */
    CTX,
    /** Generation servers alone: every request arrives with its prompt computed elsewhere. */
    GEN
  }

  /**
   * What a user adds to the file.
   *
   * @param deployment its name; empty if the file has one only
   * @param workers which of its workers
   * @param plan assumptions, seat policy, memory
   * @param pages KV pages of a rank; empty to derive them
   * @param reuse whether prompts find what earlier ones left in the KV cache
   * @param contextServers context servers in place of the file's number
   * @param otherServers aggregated or generation servers in place of the file's number
   * @param cost time of a forward
   * @param transfer time of a KV transfer
   */
  public record Options(
      Optional<String> deployment,
      Workers workers,
      PlanOptions plan,
      OptionalLong pages,
      PrefixReuse reuse,
      OptionalInt contextServers,
      OptionalInt otherServers,
      CostModel cost,
      TransferModel transfer) {
    /** The same with another wish about prefixes. */
    public Options with(PrefixReuse other) {
      return new Options(
          deployment, workers, plan, pages, other, contextServers, otherServers, cost, transfer);
    }
  }

  public FleetSetup {
    stages = List.copyOf(stages);
    plans = List.copyOf(plans);
    warnings = List.copyOf(warnings);
  }

  /**
   * The servers of a configuration.
   *
   * @throws ConfigException if there is no such deployment or worker, or a worker can't work; with
   *     every reason
   */
  public static FleetSetup of(ServingConfig config, Options options) {
    Deployment deployment = deployment(config, options.deployment());
    List<WorkerConfig> workers = workers(config, deployment, options.workers());
    var unloaded = new Deployment(deployment.name(), workers, List.of(), false);
    DeploymentPlan planned =
        ServingPlan.of(
                new ServingConfig(
                    config.source(),
                    config.engine(),
                    config.model(),
                    List.of(unloaded),
                    config.ignored()),
                options.plan())
            .deployments()
            .getFirst();
    List<Finding> refused = findings(planned, Severity.REFUSED);
    if (!refused.isEmpty()) {
      WorkerConfig.Key place = place(planned, refused.getFirst());
      throw new ConfigException(
          config.source(),
          place.line(),
          place.path(),
          "can't work: "
              + refused.stream().map(Finding::toString).collect(Collectors.joining("; ")));
    }
    if (options.pages().isEmpty() && options.plan().freeBytes().isPresent()) {
      requireBudgets(config, planned);
    }
    var stages = new ArrayList<ServerStage>();
    for (WorkerPlan worker : planned.workers()) {
      stages.add(stage(config, worker, options));
    }
    return new FleetSetup(
        deployment.name(),
        stages,
        planned.workers(),
        warnings(planned, options),
        deployment.workloads().getFirst().concurrency());
  }

  /** Memory was given, so pages must follow from it. */
  private static void requireBudgets(ServingConfig config, DeploymentPlan planned) {
    planned.findings().stream()
        .filter(finding -> finding.rule().equals("kv-unknown"))
        .findFirst()
        .ifPresent(finding -> {
          throw new ConfigException(
              config.source(), place(planned, finding).line(), finding.worker(), finding.message());
        });
  }

  /**
   * Where a finding is to be seen to: its key, or else the worker that it is about; the first one
   * if it is about all.
   */
  private static WorkerConfig.Key place(DeploymentPlan planned, Finding finding) {
    return finding
        .key()
        .orElseGet(() ->
            new WorkerConfig.Key(
                planned.deployment().name(),
                planned.workers().stream()
                    .map(WorkerPlan::worker)
                    .filter(worker -> worker.name().equals(finding.worker()))
                    .findFirst()
                    .orElseGet(() -> planned.workers().getFirst().worker())
                    .line()));
  }

  private static Deployment deployment(ServingConfig config, Optional<String> name) {
    List<Deployment> all = config.deployments();
    if (name.isEmpty() && all.size() == 1) {
      return all.getFirst();
    }
    return name.flatMap(config::deployment)
        .orElseThrow(() ->
            new ConfigException(
                config.source(),
                0,
                "",
                (name.isEmpty()
                        ? "holds several deployments"
                        : "holds no deployment '" + name.get() + "'")
                    + "; name one with --deployment: "
                    + all.stream().map(Deployment::name).collect(Collectors.joining(", "))));
  }

  /** In the order in which a request meets them. */
  private static List<WorkerConfig> workers(
      ServingConfig config, Deployment deployment, Workers which) {
    List<Role> wanted =
        switch (which) {
          case ALL -> List.of(Role.AGGREGATED, Role.CONTEXT, Role.GENERATION);
          case CTX -> List.of(Role.CONTEXT);
          case GEN -> List.of(Role.GENERATION);
        };
    List<WorkerConfig> workers =
        wanted.stream().map(deployment::worker).flatMap(Optional::stream).toList();
    if (workers.isEmpty()) {
      throw new ConfigException(
          config.source(),
          deployment.workers().getFirst().line(),
          deployment.name(),
          "has no "
              + (which == Workers.CTX ? "context" : "generation")
              + " worker; it has: "
              + deployment.workers().stream()
                  .map(worker -> worker.role().name().toLowerCase(Locale.ROOT))
                  .collect(Collectors.joining(", ")));
    }
    return workers;
  }

  /** Settings that this worker can't follow. */
  private static void warnOfWaits(WorkerConfig worker, List<String> warnings) {
    if (worker.contextWait().active() && worker.shape().attentionDp()) {
      warnings.add(
          worker.name()
              + ": batch_wait_* is for workers without attention DP; here contexts don't wait for tokens");
    } else if (worker.contextWait().active() && worker.shape().maxNumTokens() == 0) {
      warnings.add(
          worker.name()
              + ": batch_wait_* is a share of max_num_tokens, which the file doesn't name:"
              + " contexts don't wait");
    }
  }

  /** What planning says, and where a replay departs from the file. */
  private static List<String> warnings(DeploymentPlan planned, Options options) {
    var warnings = new ArrayList<String>();
    findings(planned, Severity.WARNING).forEach(finding -> warnings.add(finding.toString()));
    for (WorkerPlan worker : planned.workers()) {
      warnOfWaits(worker.worker(), warnings);
      if (worker
          .plan()
          .filter(plan -> router(worker.worker(), plan) instanceof RouterChoice.KvAware)
          .isPresent()) {
        warnings.add(
            worker.worker().name()
                + ": the file routes by what caches hold; a replay doesn't ask them, so the load"
                + " decides");
      }
      if (worker.plan().isPresent() && wantsReuse(worker.worker(), options)) {
        withoutReuse(worker, options)
            .forEach(reason ->
                warnings.add(worker.worker().name() + ": prefixes aren't reused: " + reason));
      }
    }
    return warnings;
  }

  private static List<Finding> findings(DeploymentPlan plan, Severity severity) {
    return plan.findings().stream().filter(finding -> finding.severity() == severity).toList();
  }

  private static ServerStage stage(ServingConfig file, WorkerPlan worker, Options options) {
    WorkerConfig config = worker.worker();
    OptionalInt servers =
        config.role() == Role.CONTEXT ? options.contextServers() : options.otherServers();
    try {
      return new ServerStage(
          config.name(),
          engine(worker, options),
          servers.orElse(config.servers()),
          options.cost(),
          options.transfer());
    } catch (BerthException e) {
      WorkerConfig.Key size = config.batchSize();
      throw new ConfigException(
          file.source(), size.line(), size.path(), String.valueOf(e.getMessage()));
    }
  }

  private static EngineConfig engine(WorkerPlan worker, Options options) {
    SeatPlan plan = worker.plan().orElseThrow();
    WorkerConfig config = worker.worker();
    WorkerRole role =
        switch (config.role()) {
          case AGGREGATED -> WorkerRole.AGGREGATED;
          case CONTEXT -> WorkerRole.CONTEXT;
          case GENERATION -> WorkerRole.GENERATION;
        };
    return EngineConfig.builder(plan, role)
        .chunkedContext(config.chunkedPrefill() ? Chunking.FIRST_COME_FIRST_SERVED : Chunking.NONE)
        .kv(kv(worker, options))
        .capacity(config.capacityPolicy())
        .scheduler(config.scheduler())
        .router(router(config, plan))
        .hold(hold(config, plan))
        .build();
  }

  private static KvSetup kv(WorkerPlan worker, Options options) {
    long pages = pages(worker, options);
    if (!wantsReuse(worker.worker(), options)) {
      return KvSetup.counted(pages);
    }
    List<String> reasons = withoutReuse(worker, options);
    if (reasons.isEmpty()) {
      // Of the pages only the numbers count: one buffer stands for all layers.
      int tokensPerBlock = worker.shape().tokensPerBlock();
      var layout =
          KvLayout.plan(tokensPerBlock, List.of(KvBuffer.of(0, KvBuffer.KEY, 16, KvReach.FULL)));
      return KvSetup.paged(layout, KvSizes.device(pages));
    }
    if (options.reuse() == PrefixReuse.ON) {
      throw new BerthException(
          Code.CONFIGURATION, "prefixes can't be reused: " + String.join("; ", reasons));
    }
    return KvSetup.counted(pages);
  }

  private static boolean wantsReuse(WorkerConfig worker, Options options) {
    return worker.role() != Role.GENERATION
        && switch (options.reuse()) {
          case ON -> true;
          case FILE -> worker.kv().reuse();
          case OFF -> false;
        };
  }

  /** Why a worker that would share KV can't. */
  private static List<String> withoutReuse(WorkerPlan worker, Options options) {
    var reasons = new ArrayList<String>();
    long pages = pages(worker, options);
    if (pages < 1 || pages > MOST_PAGES) {
      reasons.add(
          pages < 0
              ? "KV pages aren't limited (kv-pages, or free memory with the model's shape)"
              : "%d KV pages a rank, 1 to %d are possible".formatted(pages, MOST_PAGES));
    }
    if (worker.shape().maxSeqLen() < 1) {
      reasons.add("the file names no longest sequence");
    }
    if (worker.shape().tokensPerBlock() > MOST_BLOCK_TOKENS) {
      reasons.add(
          "%d tokens a block, %d are possible"
              .formatted(worker.shape().tokensPerBlock(), MOST_BLOCK_TOKENS));
    }
    return reasons;
  }

  /** Without attention DP there is nothing to choose. */
  private static RouterChoice router(WorkerConfig config, SeatPlan plan) {
    return plan.shape().attentionDp()
        ? config.attentionDp().router(config.kv().reuse())
        : RouterChoice.DEFAULT;
  }

  /** Ranks wait for each other, a single one for its tokens; never both (spec 01 §9). */
  private static ContextHold hold(WorkerConfig config, SeatPlan plan) {
    int tokens = plan.shape().maxNumTokens();
    if (plan.shape().attentionDp()) {
      return config.attentionDp().hold();
    }
    return config.contextWait().active() && tokens > 0
        ? new ContextHold.Batched(config.contextWait().rules())
        : ContextHold.NEVER;
  }

  /** As told; else by memory; else by the file's own limit; else as many as are wanted. */
  private static long pages(WorkerPlan worker, Options options) {
    if (options.pages().isPresent()) {
      return options.pages().getAsLong();
    }
    if (worker.kv().isPresent()) {
      return worker.kv().get().servablePages();
    }
    KvSettings kv = worker.worker().kv();
    return kv.tokenLimit().isPresent()
        ? Math.max(
            0, kv.tokenLimit().getAsLong() / worker.shape().tokensPerBlock() - kv.reservedPages())
        : -1;
  }
}
