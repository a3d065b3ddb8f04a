// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.regex.Pattern;

/** Tells the known forms of serving configurations apart and reads what they share. */
final class ServingForms {
  /** Most servers, GPUs or clients that a file may name. */
  static final int MAX_COUNT = 1 << 20;

  private static final Pattern SEPARATORS = Pattern.compile("[\\s,x]+");

  private ServingForms() {}

  private enum Form {
    TRTLLM_DISAGGREGATED("worker_config"),
    TRTLLM_LIST("server_configs"),
    VLLM("vllm_config"),
    SGLANG("sglang_config"),
    TRTLLM_FLAT("max_batch_size"),
    VLLM_FLAT("max-num-seqs"),
    SGLANG_FLAT("max-running-requests");

    private final String mark;

    Form(String mark) {
      this.mark = mark;
    }
  }

  static ServingConfig read(ConfigNode root) {
    var form = form(root);
    var engine =
        switch (form) {
          case TRTLLM_DISAGGREGATED, TRTLLM_LIST, TRTLLM_FLAT -> Engine.TRTLLM;
          case VLLM, VLLM_FLAT -> Engine.VLLM;
          case SGLANG, SGLANG_FLAT -> Engine.SGLANG;
        };
    var model = root.findChild("metadata").flatMap(ServingForms::model);
    var deployments =
        switch (form) {
          case TRTLLM_DISAGGREGATED ->
              List.of(split(root, root.child("worker_config"), "ctx", "gen", new TrtllmReader()));
          case TRTLLM_LIST -> list(root);
          case VLLM ->
              List.of(
                  split(root, root.child("vllm_config"), "prefill", "decode", new VllmReader()));
          case SGLANG ->
              List.of(
                  split(
                      root, root.child("sglang_config"), "prefill", "decode", new SglangReader()));
          case TRTLLM_FLAT -> List.of(flat(root, new TrtllmReader()));
          case VLLM_FLAT -> List.of(flat(root, new VllmReader()));
          case SGLANG_FLAT -> List.of(flat(root, new SglangReader()));
        };
    return new ServingConfig(root.source(), engine, model, deployments, root.unread());
  }

  /** The form whose mark the file carries; the first four may not be mixed. */
  private static Form form(ConfigNode root) {
    root.keys();
    var nested = new ArrayList<Form>();
    for (Form form : Form.values()) {
      if (form.compareTo(Form.SGLANG) <= 0 && root.has(form.mark)) {
        nested.add(form);
      }
    }
    if (nested.size() > 1) {
      throw root.error(
          nested.get(1).mark,
          "stands beside " + nested.getFirst().mark + "; one engine per file is allowed");
    }
    if (nested.size() == 1) {
      return nested.getFirst();
    }
    for (Form form : Form.values()) {
      if (form.compareTo(Form.SGLANG) > 0
          && (root.has(form.mark) || root.has(form.mark.replace('-', '_')))) {
        return form;
      }
    }
    throw root.error(
        "no serving configuration is recognised; allowed: worker_config, server_configs,"
            + " vllm_config or sglang_config, or a server's own keys with max_batch_size"
            + " (TensorRT-LLM), max-num-seqs (vLLM) or max-running-requests (SGLang)");
  }

  private static Optional<String> model(ConfigNode metadata) {
    var name = metadata.findString("model");
    metadata.skip();
    return name;
  }

  /** One engine's way to read a worker. */
  interface Reader {
    WorkerConfig read(ConfigNode node, String name, Role role, int servers, OptionalInt gpus);
  }

  private static Deployment split(
      ConfigNode root, ConfigNode workers, String context, String generation, Reader reader) {
    var hardware = root.findChild("hardware");
    var found = new ArrayList<WorkerConfig>();
    workers
        .findChild(context)
        .ifPresent(node ->
            found.add(
                reader.read(
                    node,
                    context,
                    Role.CONTEXT,
                    count(hardware, "num_ctx_servers", "prefill_workers").orElse(1),
                    count(hardware, "gpus_per_prefill"))));
    workers
        .findChild(generation)
        .ifPresent(node ->
            found.add(
                reader.read(
                    node,
                    generation,
                    Role.GENERATION,
                    count(hardware, "num_gen_servers", "decode_workers").orElse(1),
                    count(hardware, "gpus_per_decode"))));
    workers
        .findChild("aggregated")
        .ifPresent(node ->
            found.add(
                reader.read(
                    node,
                    "aggregated",
                    Role.AGGREGATED,
                    count(hardware, "agg_workers").orElse(1),
                    count(hardware, "gpus_per_agg"))));
    if (found.isEmpty()) {
      throw workers.error(
          "holds no worker; allowed: " + context + ", " + generation + " or aggregated");
    }
    if (found.size() > 1 && workers.has("aggregated")) {
      throw workers.error("aggregated", "stands beside a split worker; allowed: either form alone");
    }
    var benchmark = root.findChild("benchmark");
    return new Deployment(
        root.source(),
        found,
        benchmark.map(ServingForms::workloads).orElse(List.of()),
        benchmark.flatMap(node -> node.findString("mode")).filter("gen_only"::equals).isPresent());
  }

  private static Deployment flat(ConfigNode root, Reader reader) {
    var benchmark = root.findChild("benchmark");
    return new Deployment(
        root.source(),
        List.of(reader.read(root, "server", Role.AGGREGATED, 1, OptionalInt.empty())),
        benchmark.map(ServingForms::workloads).orElse(List.of()),
        false);
  }

  private static List<Deployment> list(ConfigNode root) {
    var servers = root.list("server_configs");
    if (servers.isEmpty()) {
      throw root.error("server_configs", "found an empty list; at least one server is needed");
    }
    var deployments = new ArrayList<Deployment>();
    for (ConfigNode server : servers) {
      var name = server.optString("name", "server[" + deployments.size() + "]");
      var clients = server.optList("client_configs").stream().map(ServingForms::client).toList();
      var worker = new TrtllmReader().read(server, name, Role.AGGREGATED, 1, OptionalInt.empty());
      deployments.add(new Deployment(name, List.of(worker), clients, false));
    }
    return deployments;
  }

  private static OptionalInt count(Optional<ConfigNode> hardware, String... spellings) {
    return hardware
        .flatMap(node -> Keys.any(node, spellings))
        .map(node -> OptionalInt.of(node.asInt(1, MAX_COUNT)))
        .orElse(OptionalInt.empty());
  }

  private static Workload client(ConfigNode node) {
    return new Workload(
        tokens(node, "isl"), tokens(node, "osl"), node.findInt("concurrency", 1, MAX_COUNT));
  }

  private static List<Workload> workloads(ConfigNode benchmark) {
    var input = tokens(benchmark, "input_length", "isl");
    var output = tokens(benchmark, "output_length", "osl");
    var concurrencies = Keys.any(benchmark, "concurrency_list", "concurrencies", "concurrency");
    if (concurrencies.isEmpty()) {
      return List.of(new Workload(input, output, OptionalInt.empty()));
    }
    var node = concurrencies.get();
    var loads = new ArrayList<Workload>();
    if (node.kind() == ConfigNode.Kind.SEQUENCE) {
      node.items()
          .forEach(item ->
              loads.add(new Workload(input, output, OptionalInt.of(item.asInt(1, MAX_COUNT)))));
    } else {
      for (String word : SEPARATORS.split(node.asString().strip())) {
        loads.add(new Workload(input, output, OptionalInt.of(concurrency(node, word))));
      }
    }
    return loads;
  }

  private static int concurrency(ConfigNode node, String word) {
    try {
      int value = Integer.parseInt(word);
      if (value >= 1 && value <= MAX_COUNT) {
        return value;
      }
    } catch (NumberFormatException e) {
      // told below
    }
    throw node.error(
        "found " + word + "; allowed: integers from 1 to " + MAX_COUNT + ", separated by spaces");
  }

  /** Half of the range of int, so that prompt and output together cannot overflow. */
  private static OptionalInt tokens(ConfigNode node, String... spellings) {
    return Keys.any(node, spellings)
        .map(value -> OptionalInt.of(value.asInt(1, Integer.MAX_VALUE / 2)))
        .orElse(OptionalInt.empty());
  }
}
