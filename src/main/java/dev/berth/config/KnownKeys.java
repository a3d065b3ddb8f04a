// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.Set;

/**
 * Keys that engines and benchmark drivers have and that do not matter for a plan. Anything else is
 * probably misspelt.
 */
final class KnownKeys {
  private static final Set<String> DRIVER =
      Set.of(
          "frontend",
          "gpu",
          "gpus_per_node",
          "hardware",
          "iterations",
          "metadata",
          "mode",
          "name",
          "req_rate");

  private static final Set<String> TRTLLM =
      Set.of(
          "agent_bounce_buffer_enable",
          "allreduce_strategy",
          "attn_backend",
          "avg_seq_len",
          "backend",
          "batch_wait_timeout_ms",
          "block_reuse_config",
          "context_chunking_policy",
          "cuda_graph_config",
          "decoding_type",
          "dynamic_batch_config",
          "event_buffer_max_size",
          "gpus_per_node",
          "guided_decoding_backend",
          "kv_cache_bounce_size_mb",
          "kv_transfer_sender_future_timeout_ms",
          "kv_transfer_timeout_ms",
          "load_format",
          "lora_config",
          "max_input_len",
          "model",
          "moe_cluster_parallel_size",
          "moe_config",
          "moe_expert_parallel_size",
          "moe_tensor_parallel_size",
          "nvfp4_gemm_config",
          "perf_metrics_max_requests",
          "pool_ratio",
          "print_iter_log",
          "quant_config",
          "return_perf_metrics",
          "secondary_offload_min_priority",
          "sparse_attention_config",
          "speculative_model",
          "speculative_model_dir",
          "stream_interval",
          "tokenizer",
          "torch_compile_config",
          "transceiver_runtime",
          "trust_remote_code",
          "use_relaxed_acceptance_for_thinking",
          "waiting_queue_policy");

  private static final Set<String> VLLM =
      Set.of(
          "all2all-backend",
          "api-server-count",
          "attention-backend",
          "attention-config",
          "compilation-config",
          "data-parallel-address",
          "data-parallel-backend",
          "data-parallel-hybrid-lb",
          "data-parallel-rpc-port",
          "data-parallel-size-local",
          "disable-log-requests",
          "dtype",
          "enable-eplb",
          "enable-expert-parallel",
          "enforce-eager",
          "eplb-config",
          "host",
          "hf-overrides",
          "kv-events-config",
          "load-format",
          "max-cudagraph-capture-size",
          "model",
          "port",
          "quantization",
          "scheduling-policy",
          "seed",
          "served-model-name",
          "tokenizer-mode",
          "trust-remote-code");

  private static final Set<String> SGLANG =
      Set.of(
          "attention-backend",
          "cuda-graph-bs",
          "cuda-graph-max-bs",
          "decode-attention-backend",
          "disable-cuda-graph",
          "disaggregation-bootstrap-port",
          "disaggregation-decode-polling-interval",
          "disaggregation-ib-device",
          "enable-dp-lm-head",
          "enable-hierarchical-cache",
          "enable-metrics",
          "ep-size",
          "eplb-algorithm",
          "expert-parallel-size",
          "fp4-gemm-backend",
          "hicache-ratio",
          "hicache-size",
          "hicache-write-policy",
          "host",
          "load-balance-method",
          "log-level",
          "max-queued-requests",
          "model-path",
          "moe-a2a-backend",
          "moe-dense-tp-size",
          "moe-runner-backend",
          "port",
          "prefill-attention-backend",
          "prefill-round-robin-balance",
          "quantization",
          "schedule-conservativeness",
          "schedule-policy",
          "scheduler-recv-interval",
          "served-model-name",
          "speculative-draft-model-path",
          "stream-interval",
          "swa-full-tokens-ratio",
          "trust-remote-code",
          "watchdog-timeout");

  private KnownKeys() {}

  /** Whether the last key of the path is one of the engine's or of a benchmark driver's. */
  static boolean has(Engine engine, String path) {
    var key = path.substring(path.lastIndexOf('.') + 1);
    if (DRIVER.contains(key)) {
      return true;
    }
    return switch (engine) {
      case TRTLLM -> TRTLLM.contains(key);
      case VLLM -> VLLM.contains(key.replace('_', '-'));
      case SGLANG -> SGLANG.contains(key.replace('_', '-'));
    };
  }
}
