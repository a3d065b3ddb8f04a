// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.BerthException;
import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.Chunking;
import dev.berth.capacity.SchedulerKind;
import dev.berth.engine.BalanceGate;
import dev.berth.engine.BatchWait;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EncoderWait;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.EngineConfig.RetiringTokens;
import dev.berth.engine.FillGate;
import dev.berth.engine.FillRules;
import dev.berth.engine.KvSetup;
import dev.berth.engine.RetiringMark;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.ConfigClass;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.PolicySet;
import dev.berth.plan.Reason;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.StartupValidator;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.replay.Arm;
import dev.berth.replay.ArmResult;
import dev.berth.replay.Check;
import dev.berth.replay.Comparison;
import dev.berth.replay.CostModel;
import dev.berth.replay.Expectation;
import dev.berth.replay.Load;
import dev.berth.replay.RequestTimes;
import dev.berth.replay.Scenario;
import dev.berth.request.QueueRules;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;
import dev.berth.request.WaitingQueue;
import dev.berth.route.ConversationRouter;
import dev.berth.route.KvAwareRouter;
import dev.berth.route.PlacementView;
import dev.berth.route.RankCap;
import dev.berth.route.RouterChoice;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Reads scenario files. The keys are described in {@code docs/scenarios.md}; an unknown one is an
 * error that names its line.
 */
public final class ScenarioReader {
  private static final int MAX = Integer.MAX_VALUE;
  private static final int SCHEMA = 1;

  private ScenarioReader() {}

  /**
   * Reads a scenario.
   *
   * @param name what the scenario is called where the file doesn't say
   * @throws ConfigException with file, line and field
   */
  public static Scenario read(String name, ConfigNode root) {
    int schema = root.requireInt("scenario", 1, MAX);
    if (schema != SCHEMA) {
      throw root.error(
          "scenario", "found version " + schema + ", this Berth reads version " + SCHEMA);
    }
    String title = root.requireString("title");
    Optional<String> source = root.findString("source");
    List<String> notes = root.optList("notes").stream().map(ConfigNode::asString).toList();
    ConfigNode worker = root.child("worker");
    Load load = load(root.child("load"));
    CostModel cost = root.findChild("cost").map(ScenarioReader::cost).orElse(CostModel.fitted(1));
    double transfer = root.optDouble("transfer_us", 0, 0, 1e12);
    List<Arm> arms = arms(root.child("arms"), worker, load);
    Set<String> names = arms.stream().map(Arm::name).collect(Collectors.toSet());
    List<Comparison> comparisons =
        root.optList("compare").stream().map(node -> comparison(node, names)).toList();
    Optional<Scenario.ExpectedClass> expectedClass =
        root.findChild("class").map(node -> expectedClass(node, names));
    root.finish();
    return new Scenario(
        name, title, source, notes, load, cost, transfer, arms, comparisons, expectedClass);
  }

  // ------------------------------------------------------------------------------ load and cost

  private static Load load(ConfigNode node) {
    List<Integer> waves = node.optList("waves").stream().map(w -> w.asInt(0, MAX)).toList();
    var groups = new ArrayList<Load.Group>();
    if (node.has("groups")) {
      node.list("groups").forEach(g -> groups.add(group(g, "count", node)));
    } else {
      groups.add(group(node, "requests", node));
    }
    int rounds = node.optInt("rounds", 1, 1, MAX);
    long once = groups.stream().mapToLong(Load.Group::count).sum();
    long total = once > MAX ? once : rounds * once;
    int most = RequestTimes.mostRequests();
    if (total > most) {
      throw node.error(
          node.has("groups") ? "groups" : "requests",
          "found %d requests in all; allowed: up to %d with this Java heap (BERTH_JAVA_OPTS=-Xmx8g gives 8 GiB)"
              .formatted(total, most));
    }
    List<Load.Group> sent =
        Collections.nCopies(rounds, groups).stream().flatMap(List::stream).toList();
    return new Load(sent, node.optInt("concurrency", (int) total, 1, MAX), waves);
  }

  private static Load.Group group(ConfigNode node, String count, ConfigNode defaults) {
    SchedulingParams scheduling =
        node.find("target_rank")
            .map(rank ->
                SchedulingParams.target(rank.asInt(0, MAX), node.optEnum("relax", Relax.RELAXED)))
            .orElse(SchedulingParams.NONE);
    return new Load.Group(
        node.requireInt(count, 1, MAX),
        either(node, defaults, "input_tokens").asInt(1, MAX),
        either(node, defaults, "output_tokens").asInt(1, MAX),
        scheduling,
        node.optDouble("priority", Request.DEFAULT_PRIORITY, -1e18, 1e18),
        new ServiceTerms(
            node.optLong("tenant", 0, Long.MIN_VALUE, Long.MAX_VALUE),
            node.optInt("weight", 1, 1, ServiceTerms.MAX_WEIGHT),
            node.optLong("deadline", ServiceTerms.NO_DEADLINE, 0, MAX)),
        node.optInt("encoder_tokens", 0, 1, MAX));
  }

  private static ConfigNode either(ConfigNode first, ConfigNode second, String key) {
    return first.has(key) ? first.require(key) : second.require(key);
  }

  private static CostModel cost(ConfigNode node) {
    double alpha = node.requireDouble("alpha_us_per_token", 0, 1e9);
    double beta =
        node.optDouble("beta_us_per_token", alpha * CostModel.FITTED_BETA_OVER_ALPHA, 0, 1e9);
    double fixed = node.optDouble("fixed_us", 0, 0, 1e9);
    double encoder = node.optDouble("encoder_us_per_token", 0, 0, 1e9);
    try {
      return new CostModel(alpha, beta, fixed, encoder);
    } catch (IllegalArgumentException e) {
      throw node.error(String.valueOf(e.getMessage()));
    }
  }

  // ------------------------------------------------------------------------------ arms

  private static List<Arm> arms(ConfigNode node, ConfigNode base, Load load) {
    var arms = new ArrayList<Arm>();
    var names = new HashSet<String>();
    for (Map.Entry<String, ConfigNode> entry : node.entries().entrySet()) {
      ConfigNode arm = entry.getValue();
      Layers layers = new Layers(arm.findChild("worker"), base);
      Optional<String> sameAs = arm.findString("same_as");
      if (sameAs.isPresent() && !names.contains(sameAs.get())) {
        throw arm.error("same_as", "found '" + sameAs.get() + "', which is no arm before this one");
      }
      names.add(entry.getKey());
      arms.add(arm(entry.getKey(), arm, layers, load, sameAs));
    }
    Scenario.twins(arms)
        .ifPresent(twins -> {
          throw node.require(twins.second().name()).error(twins.message());
        });
    if (arms.isEmpty()) {
      throw node.error("found no arm; at least one is needed");
    }
    return arms;
  }

  private static Arm arm(
      String name, ConfigNode arm, Layers layers, Load load, Optional<String> sameAs) {
    EngineConfig engine = engine(arm, layers, load);
    String title = arm.requireString("title");
    List<Expectation> expect =
        arm.findChild("expect").map(ScenarioReader::expectations).orElse(List.of());
    Map<Check, Long> mustFail =
        arm.findChild("must_fail").map(ScenarioReader::mustFail).orElse(Map.of());
    try {
      return new Arm(name, title, engine, expect, mustFail, sameAs);
    } catch (BerthException e) {
      throw size(layers, arm.findChild("what_if")).error(String.valueOf(e.getMessage()));
    }
  }

  /** An arm's worker keys over the scenario's. */
  private record Layers(Optional<ConfigNode> arm, ConfigNode base) {
    Optional<ConfigNode> find(String key) {
      Optional<ConfigNode> own = arm.flatMap(a -> a.find(key));
      Optional<ConfigNode> common = base.find(key);
      return own.isPresent() ? own : common;
    }

    ConfigNode require(String key) {
      return find(key).orElseGet(() -> base.require(key));
    }

    int optInt(String key, int otherwise, int min, int max) {
      return find(key).map(n -> n.asInt(min, max)).orElse(otherwise);
    }

    boolean optSwitch(String key, boolean otherwise) {
      return find(key).map(ConfigNode::asSwitch).orElse(otherwise);
    }
  }

  private static PolicySet policies(Layers layers) {
    return layers
        .find("policies")
        .map(node ->
            PolicySet.byId(node.asString())
                .orElseThrow(() ->
                    node.error(
                        "found '"
                            + node.asString()
                            + "'; allowed: "
                            + Arrays.toString(PolicySet.values()))))
        .orElse(PolicySet.DEFAULT);
  }

  private static EngineConfig engine(ConfigNode arm, Layers layers, Load load) {
    WorkerRole role = layers.require("role").asEnum(WorkerRole.class);
    WorkerShape shape = shape(layers);
    requireTargets(arm, shape, load);
    if (role == WorkerRole.GENERATION && !shape.disaggregated()) {
      throw arm.error("a generation worker receives KV: it needs the worker's key 'transfer'");
    }
    SeatPolicy seatPolicy =
        layers.find("seats").map(n -> n.asEnum(SeatPolicy.class)).orElse(SeatPolicy.UNIFIED);
    SeatPlan plan =
        switch (SeatPlan.of(shape, seatPolicy)) {
          case PlanOutcome.Planned(var planned) -> planned;
          case PlanOutcome.Refused(var reasons) ->
              throw arm.error(
                  "this worker can't work: "
                      + reasons.stream().map(Reason::message).collect(Collectors.joining("; ")));
        };
    Optional<ConfigNode> whatIf = arm.findChild("what_if");
    plan = plan.withWhatIf(whatIf(arm));
    requireAgreement(arm, plan);
    var engine = EngineConfig.builder(plan, role);
    layers.find("gate").ifPresent(node -> engine.gate(gate(node, load)));
    layers.find("fill").ifPresent(node -> engine.fill(fill(node, policies(layers))));
    try {
      whatIf.ifPresent(w -> {
        engine.rangeEnd(w.optInt("range_end", EngineConfig.RANGE_END, 11, 20));
        w.findEnum("retiring_mark", RetiringMark.class).ifPresent(engine::mark);
        w.findEnum("retiring_tokens", RetiringTokens.class).ifPresent(engine::retiringTokens);
        w.findEnum("router_cap", RankCap.class).ifPresent(engine::cap);
      });
      if (layers.optSwitch("chunked_context", false)) {
        engine.chunkedContext(Chunking.FIRST_COME_FIRST_SERVED);
      }
      layers
          .find("kv_pages")
          .map(n -> n.asLong(1, Long.MAX_VALUE / 2))
          .ifPresent(pages -> engine.kv(KvSetup.counted(pages)));
      layers.find("scheduler").map(n -> n.asEnum(SchedulerKind.class)).ifPresent(engine::scheduler);
      layers.find("capacity").map(n -> n.asEnum(CapacityRule.class)).ifPresent(engine::capacity);
      engine.hold(hold(layers, plan));
      layers.find("encoder_wait").map(ScenarioReader::encoderWait).ifPresent(engine::encoderWait);
      return engine.queue(queue(layers)).policies(policies(layers)).router(router(layers)).build();
    } catch (ConfigException e) {
      throw e;
    } catch (IllegalArgumentException e) {
      throw arm.error(String.valueOf(e.getMessage()));
    } catch (BerthException e) {
      throw size(layers, whatIf).error(String.valueOf(e.getMessage()));
    }
  }

  /** What makes a worker large: the sizes that an experiment asks for, or else the batch. */
  private static ConfigNode size(Layers layers, Optional<ConfigNode> whatIf) {
    return Stream.of("leases", "seats", "reserved")
        .flatMap(key -> whatIf.flatMap(node -> node.find(key)).stream())
        .findFirst()
        .orElseGet(() -> layers.require("max_batch_size"));
  }

  /** The sizes must agree with each other before any pool is made from them. */
  private static void requireAgreement(ConfigNode arm, SeatPlan plan) {
    StartupValidator.Verdict verdict = StartupValidator.check(plan, List.of());
    if (!verdict.agrees() && !plan.whatIf().has(WhatIf.Switch.VALIDATOR_OVERRIDDEN)) {
      throw arm.error(
          verdict.disagreements().stream()
                  .map(StartupValidator.Disagreement::message)
                  .collect(Collectors.joining("; "))
              + " (override_validator: true runs it all the same)");
    }
  }

  /** Names of the routers, as scenarios spell them. */
  private enum RouterName {
    DEFAULT,
    KV_AWARE,
    CONVERSATION
  }

  private static RouterChoice router(Layers layers) {
    PlacementView view =
        layers
            .find("placement")
            .map(n -> n.asEnum(PlacementView.class))
            .orElse(PlacementView.ADMISSION);
    RouterName name =
        layers.find("router").map(n -> n.asEnum(RouterName.class)).orElse(RouterName.DEFAULT);
    return switch (name) {
      case DEFAULT -> new RouterChoice.Default(view);
      case KV_AWARE -> new RouterChoice.KvAware(KvAwareRouter.Options.DEFAULTS.with(view));
      case CONVERSATION ->
          new RouterChoice.Conversation(ConversationRouter.Options.DEFAULTS.with(view));
    };
  }

  private static ContextHold hold(Layers layers, SeatPlan plan) {
    Optional<ConfigNode> balance = layers.find("balance");
    Optional<ConfigNode> wait = layers.find("batch_wait");
    if (balance.isPresent() && wait.isPresent()) {
      throw wait.get()
          .error("goes without 'balance': ranks of one kind wait for each other or for tokens");
    }
    return balance
        .map(node -> balance(node, plan))
        .or(() -> wait.map(ScenarioReader::batchWait))
        .orElse(ContextHold.NEVER);
  }

  private static ContextHold balance(ConfigNode node, SeatPlan plan) {
    int positions = plan.batchPositions().count();
    BalanceGate.Rules defaults = BalanceGate.Rules.DEFAULT;
    int timeout = node.optInt("timeout_iters", defaults.timeoutIterations(), 0, MAX);
    return new ContextHold.Balanced(
        new BalanceGate.Rules(
            timeout,
            node.optInt("batching_wait_iters", defaults.batchingWaitIterations(), 0, MAX),
            node.optInt("min_generation_requests", 0, 0, positions),
            node.optInt("low_occupancy_timeout_iters", 0, 0, timeout)));
  }

  private static ContextHold batchWait(ConfigNode node) {
    return new ContextHold.Batched(waitRules(node));
  }

  private static EncoderWait encoderWait(ConfigNode node) {
    return new EncoderWait(waitRules(node), node.requireInt("max_tokens", 1, MAX));
  }

  private static BatchWait.Rules waitRules(ConfigNode node) {
    return new BatchWait.Rules(
        node.requireInt("iterations", 0, MAX), node.requireDouble("token_ratio", 0, 1));
  }

  private static QueueRules queue(Layers layers) {
    WaitingQueue.Policy policy =
        layers
            .find("queue")
            .map(n -> n.asEnum(WaitingQueue.Policy.class))
            .orElse(WaitingQueue.Policy.FCFS);
    Optional<ConfigNode> patience = layers.find("patience");
    if (patience.isPresent() && policy != WaitingQueue.Policy.DEADLINE) {
      throw patience.get().error("is for 'queue: deadline' only");
    }
    return patience
        .map(n -> new QueueRules(policy, n.asLong(0, MAX)))
        .orElse(QueueRules.of(policy));
  }

  /** Without attention DP a wish for a rank means nothing. */
  private static void requireTargets(ConfigNode arm, WorkerShape shape, Load load) {
    if (!shape.attentionDp()) {
      return;
    }
    for (Load.Group group : load.groups()) {
      int target = group.scheduling().targetRank();
      if (target >= shape.ranks()) {
        throw arm.error(
            "the load asks for target_rank %d; this arm's ranks are 0 to %d"
                .formatted(target, shape.ranks() - 1));
      }
    }
  }

  private static WorkerShape shape(Layers layers) {
    var shape =
        WorkerShape.builder(layers.require("max_batch_size").asInt(1, WorkerShape.MAX_BATCH_SIZE))
            .ranks(layers.optInt("ranks", 1, 1, WorkerShape.MAX_RANKS))
            .pipelineSize(layers.optInt("pipeline", 1, 1, WorkerShape.MAX_PIPELINE_SIZE))
            .beamWidth(layers.optInt("beam_width", 1, 1, WorkerShape.MAX_BEAM_WIDTH))
            .maxNumTokens(layers.optInt("max_num_tokens", 0, 1, MAX))
            .draftTokens(layers.optInt("draft_tokens", 0, 0, WorkerShape.MAX_DRAFT_TOKENS))
            .maxSeqLen(layers.optInt("max_seq_len", 0, 1, MAX))
            .tokensPerBlock(
                layers.optInt(
                    "tokens_per_block",
                    WorkerShape.DEFAULT_TOKENS_PER_BLOCK,
                    1,
                    WorkerShape.MAX_TOKENS_PER_BLOCK));
    layers.find("transfer").map(ConfigNode::asString).ifPresent(shape::transferBackend);
    if (layers.optSwitch("attention_dp", false)) {
      shape.with(Trait.ATTENTION_DP);
    }
    if (layers.optSwitch("overlap", true)) {
      shape.with(Trait.OVERLAP);
    }
    if (layers.optSwitch("hybrid", false)) {
      shape.with(Trait.HYBRID);
    }
    if (layers.optSwitch("mrope_delta", false)) {
      shape.with(Trait.MROPE_DELTA);
    }
    return shape.build();
  }

  private static FillGate gate(ConfigNode node, Load load) {
    FillGate.Kind kind = node.asEnum(FillGate.Kind.class);
    return kind == FillGate.Kind.NONE ? FillGate.NONE : new FillGate(kind, load.requests());
  }

  private static FillRules fill(ConfigNode node, PolicySet policies) {
    FillRules defaults = FillRules.of(policies);
    return new FillRules(
        node.optEnum("ramp", defaults.ramp()),
        node.optEnum("fail_fast", defaults.failFast()),
        (long) (node.optDouble("stall_seconds", defaults.stallMicros() / 1e6, 0, 1e9) * 1e6));
  }

  private static WhatIf whatIf(ConfigNode arm) {
    var whatIf = WhatIf.builder();
    arm.findChild("what_if").ifPresent(node -> whatIf(node, whatIf));
    if (arm.optBoolean("override_validator", false)) {
      whatIf.with(WhatIf.Switch.VALIDATOR_OVERRIDDEN);
    }
    return whatIf.build();
  }

  private static void whatIf(ConfigNode node, WhatIf.Builder whatIf) {
    node.findInt("seats", 1, EngineConfig.MOST_ROWS).ifPresent(whatIf::seats);
    node.findInt("leases", 1, EngineConfig.MOST_ROWS).ifPresent(whatIf::leases);
    node.findInt("reserved", 0, EngineConfig.MOST_ROWS).ifPresent(whatIf::reserved);
    if (node.optBoolean("charge_retiring", false)) {
      whatIf.with(WhatIf.Switch.CHARGE_RETIRING);
    }
    if (node.optBoolean("reserved_spendable", false)) {
      whatIf.with(WhatIf.Switch.RESERVED_SPENDABLE);
    }
    if (node.optBoolean("headroom_under_pipeline", false)) {
      whatIf.with(WhatIf.Switch.HEADROOM_UNDER_PIPELINE);
    }
  }

  // ------------------------------------------------------------------------------ what must come
  // out

  private static List<Expectation> expectations(ConfigNode node) {
    var all = new ArrayList<Expectation>();
    for (Map.Entry<String, ConfigNode> entry : node.entries().entrySet()) {
      String name = entry.getKey();
      if (ArmResult.HISTOGRAMS.contains(name)) {
        entry
            .getValue()
            .entries()
            .forEach((value, count) -> all.add(expectation(name + "[" + value + "]", count)));
      } else if (ArmResult.isNumber(name)) {
        all.add(expectation(name, entry.getValue()));
      } else {
        throw node.error(
            name,
            "is nothing that is measured; allowed: "
                + String.join(", ", ArmResult.HISTOGRAMS)
                + ", "
                + String.join(", ", ArmResult.NUMBERS)
                + ", deferrals.<reason>");
      }
    }
    return all;
  }

  private static Expectation expectation(String metric, ConfigNode node) {
    if (node.kind() != ConfigNode.Kind.MAPPING) {
      return new Expectation(
          metric, node.asDouble(-1e18, 1e18), 0, OptionalDouble.empty(), Optional.empty());
    }
    Optional<ConfigNode> published = node.find("published");
    double within = node.optDouble("within", 0, 0, 1e18);
    Optional<String> why = node.findString("why");
    if (within > 0 && why.isEmpty()) {
      throw node.error("within", "a bound needs a reason; add the key 'why'");
    }
    return new Expectation(
        metric,
        node.requireDouble("value", -1e18, 1e18),
        within,
        published
            .map(p -> OptionalDouble.of(p.asDouble(-1e18, 1e18)))
            .orElse(OptionalDouble.empty()),
        why);
  }

  private static Map<Check, Long> mustFail(ConfigNode node) {
    var failures = new EnumMap<Check, Long>(Check.class);
    for (Map.Entry<String, ConfigNode> entry : node.entries().entrySet()) {
      Check check =
          Arrays.stream(Check.values())
              .filter(c -> c.id().equals(entry.getKey()))
              .findFirst()
              .orElseThrow(() ->
                  node.error(
                      entry.getKey(),
                      "is no check; allowed: "
                          + Arrays.stream(Check.values())
                              .map(Check::id)
                              .collect(Collectors.joining(", "))));
      failures.put(check, entry.getValue().asLong(1, Long.MAX_VALUE));
    }
    return failures;
  }

  private static Comparison comparison(ConfigNode node, Set<String> arms) {
    String base = armName(node, "to", arms);
    String other = armName(node, "of", arms);
    String kind = node.requireString("kind");
    return switch (kind) {
      case "throughput" ->
          new Comparison.Throughput(
              base,
              other,
              node.requireDouble("percent", -100, 1e6),
              node.requireDouble("within", 0, 1e6));
      case "same-forwards" -> new Comparison.SameForwards(base, other);
      case "same-decisions" -> new Comparison.SameDecisions(base, other);
      case "same-metric" -> {
        String metric = node.requireString("metric");
        int bracket = metric.indexOf('[');
        if (!ArmResult.isNumber(metric)
            && (bracket < 0 || !ArmResult.HISTOGRAMS.contains(metric.substring(0, bracket)))) {
          throw node.error("metric", "'" + metric + "' is nothing that is measured");
        }
        double within = node.optDouble("within", 0, 0, 1e18);
        String why = within > 0 ? node.requireString("why") : "";
        yield new Comparison.SameMetric(base, other, metric, within, why);
      }
      default ->
          throw node.error(
              "kind",
              "found '"
                  + kind
                  + "'; allowed: throughput, same-forwards, same-decisions, same-metric");
    };
  }

  private static Scenario.ExpectedClass expectedClass(ConfigNode node, Set<String> arms) {
    String title = node.requireString("is");
    ConfigClass is =
        Arrays.stream(ConfigClass.values())
            .filter(c -> c.title().equals(title))
            .findFirst()
            .orElseThrow(() ->
                node.error(
                    "is",
                    "found '" + title + "'; allowed: " + Arrays.toString(ConfigClass.values())));
    return new Scenario.ExpectedClass(armName(node, "arm", arms), is);
  }

  private static String armName(ConfigNode node, String key, Set<String> arms) {
    String name = node.requireString(key);
    if (!arms.contains(name)) {
      throw node.error(key, "found '" + name + "'; allowed: " + String.join(", ", arms));
    }
    return name;
  }
}
