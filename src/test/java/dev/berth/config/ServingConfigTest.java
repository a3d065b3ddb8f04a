// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.berth.capacity.CapacityRule;
import dev.berth.capacity.SchedulerKind;
import dev.berth.config.Finding.Severity;
import dev.berth.plan.ConfigClass;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ServingConfigTest {
  private static ServingConfig parse(String... lines) {
    return ServingConfig.parse("x.yaml", String.join("\n", lines) + "\n");
  }

  private static WorkerConfig worker(String... lines) {
    return parse(lines).deployments().getFirst().workers().getFirst();
  }

  private static List<Finding> findings(String... lines) {
    return ServingPlan.of(parse(lines), PlanOptions.NONE).allFindings();
  }

  private static List<String> rules(Severity severity, String... lines) {
    return findings(lines).stream()
        .filter(finding -> finding.severity() == severity)
        .map(Finding::rule)
        .toList();
  }

  /** One clear message each: file, line, field, what was found, what is allowed. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "max_batch_size: -1 | x.yaml:1: max_batch_size: found -1; allowed: an integer from 1 to"
            + " 1048576",
        "max_batch_size: 0 | x.yaml:1: max_batch_size: found 0; allowed: an integer from 1 to"
            + " 1048576",
        "max_batch_size: 4294967297 | x.yaml:1: max_batch_size: found 4294967297; allowed: an"
            + " integer from 1 to 1048576",
        "max_batch_size: four | x.yaml:1: max_batch_size: found four; allowed: an integer from 1 to"
            + " 1048576",
        "max_batch_size: 4\\n"
            + "max_num_tokens: 1e4 | x.yaml:2: max_num_tokens: found 1e4; allowed: an integer from"
            + " 1 to 2147483647",
        "max_batch_size: 4\\n"
            + "tensor_parallel_size: 0 | x.yaml:2: tensor_parallel_size: found 0; allowed: an"
            + " integer from 1 to 65536",
        "max_batch_size: 4\\n"
            + "enable_attention_dp: yes | x.yaml:2: enable_attention_dp: found yes; allowed: true"
            + " or false",
        "max_batch_size: 4\\n"
            + "kv_cache_config: [] | x.yaml:2: kv_cache_config: found a list; allowed: a mapping",
        "max_batch_size: 4\\n"
            + "kv_cache_config:\\n"
            + "  free_gpu_memory_fraction: 1.5 | x.yaml:3:"
            + " kv_cache_config.free_gpu_memory_fraction: found 1.5; allowed: a number from 0 to 1",
        "max_batch_size: 4\\n"
            + "kv_cache_config:\\n"
            + "  free_gpu_memory_fraction: .nan | x.yaml:3:"
            + " kv_cache_config.free_gpu_memory_fraction: found .nan; allowed: a number from 0 to"
            + " 1",
        "max_batch_size: 4\\n"
            + "kv_cache_config:\\n"
            + "  tokens_per_block: | x.yaml:3: kv_cache_config.tokens_per_block: found nothing"
            + " after the colon; a value is needed, or the key removed",
        "max_batch_size: 4\\n"
            + "speculative_config:\\n"
            + "  num_nextn_predict_layers: 1\\n"
            + "  max_draft_len: 3 | x.yaml:3: speculative_config.num_nextn_predict_layers: found 1,"
            + " but speculative_config.max_draft_len on line 4 says 3; remove one",
        "max_batch_size: 4\\n"
            + "speculative_config:\\n"
            + "  decoding_type: MTP | x.yaml:3: speculative_config: has no draft length;"
            + " max_draft_len (or num_nextn_predict_layers) is needed",
        "max_batch_size: 4\\n"
            + "kv_cache_free_gpu_memory_fraction: 0.8\\n"
            + "kv_cache_config:\\n"
            + "  free_gpu_memory_fraction: 0.9 | x.yaml:2: kv_cache_free_gpu_memory_fraction: found"
            + " 0.8, but kv_cache_config.free_gpu_memory_fraction says 0.9; remove one",
        "max_batch_size: 4\\n"
            + "scheduler_config:\\n"
            + "  capacity_scheduler_policy: BEST | x.yaml:3:"
            + " scheduler_config.capacity_scheduler_policy: found BEST; allowed: one of"
            + " guaranteed-no-evict, max-utilization, static-batch",
        "max_batch_size: 4\\n"
            + "max_batch_size: 5 | x.yaml:2: max_batch_size: the key stands here a second time"
            + " (first on line 1)",
        "worker_config:\\n"
            + "  gen:\\n"
            + "    max_num_tokens: 4 | x.yaml:3: worker_config.gen.max_batch_size: is missing; it"
            + " is needed here",
        "worker_config:\\n"
            + "  gen:\\n"
            + "    max_batchsize: 4 | x.yaml:3: worker_config.gen.max_batch_size: is missing; it is"
            + " needed here; found 'max_batchsize', which looks like it",
        "worker_config: {} | x.yaml:1: worker_config: holds no worker; allowed: ctx, gen or"
            + " aggregated",
        "worker_config: {gen: {max_batch_size: 1}}\\n"
            + "vllm_config: {} | x.yaml:2: vllm_config: stands beside worker_config; one engine per"
            + " file is allowed",
        "server_configs: [] | x.yaml:1: server_configs: found an empty list; at least one server is"
            + " needed",
        "worker_config:\\n"
            + "  gen: {max_batch_size: 1}\\n"
            + "benchmark: {concurrency_list: '16 many'} | x.yaml:3: benchmark.concurrency_list:"
            + " found many; allowed: integers from 1 to 1048576, separated by spaces",
        "worker_config:\\n"
            + "  gen: {max_batch_size: 1}\\n"
            + "benchmark: {input_length: -5} | x.yaml:3: benchmark.input_length: found -5; allowed:"
            + " an integer from 1 to 1073741823",
        "worker_config:\\n"
            + "  gen: {max_batch_size: 1}\\n"
            + "hardware: {num_gen_servers: 0} | x.yaml:3: hardware.num_gen_servers: found 0;"
            + " allowed: an integer from 1 to 1048576",
        "max-num-seqs: 4\\n"
            + "speculative-config: '{broken' | x.yaml:2: speculative-config: found text that is no"
            + " JSON; allowed: a mapping, or JSON text of one",
        "max-num-seqs: 4\\n"
            + "speculative-config: '[1]' | x.yaml:2: speculative-config: found text that is no JSON"
            + " mapping; allowed: a mapping, or JSON text of one",
        "max-num-seqs: 4\\n"
            + "async-scheduling: true\\n"
            + "no-async-scheduling: true | x.yaml:3: no-async-scheduling: found true, but"
            + " async-scheduling says the same; remove one",
        "max-num-seqs: 4\\n"
            + "max_num_seqs: 5 | x.yaml:2: max_num_seqs: found 5, but max-num-seqs on line 1 says"
            + " 4; remove one",
        "max-running-requests: 4\\n"
            + "tp-size: 8\\n"
            + "dp-size: 8\\n"
            + "enable-dp-attention: true | x.yaml:1: max-running-requests: found 4; allowed: from"
            + " 8, one for each of the 8 ranks, to 8388608",
        "max-running-requests: 64\\n"
            + "tp-size: 8\\n"
            + "dp-size: 3\\n"
            + "enable-dp-attention: true | x.yaml:3: dp-size: found 3; allowed under attention DP:"
            + " a divisor of the tensor-parallel size 8",
        "max-running-requests: 64\\n"
            + "tp-size: 8\\n"
            + "tp: 4 | x.yaml:3: tp: found 4, but tp-size on line 2 says 8; remove one",
        "max-running-requests: 64\\n"
            + "chunked-prefill-size: 4096\\n"
            + "max-prefill-tokens: 2048 | x.yaml:2: chunked-prefill-size: found a chunk of 4096"
            + " tokens a rank; allowed: at most max-prefill-tokens 2048",
        "max-running-requests: 64\\n"
            + "chunked-prefill-size: 0 | x.yaml:2: chunked-prefill-size: found 0; allowed: -1 for"
            + " off, or at least one token for each of 1 ranks",
        "max-running-requests: 64\\n"
            + "speculative-algorithm: EAGLE | x.yaml:2: speculative-algorithm: stands without a"
            + " draft length; speculative-num-steps or speculative-num-draft-tokens is needed",
        "max-running-requests: 64\\n"
            + "disaggregation-mode: both | x.yaml:2: disaggregation-mode: found both; allowed: one"
            + " of null, prefill, decode",
      })
  void badInputIsOneClearMessage(String text, String message) {
    var error =
        catchThrowableOfType(
            ConfigException.class, () -> ServingConfig.parse("x.yaml", text.replace("\\n", "\n")));
    assertThat(error).hasMessage(message);
  }

  @Test
  void aFileThatIsNoServingConfigurationSaysWhatWouldBe() {
    var error = catchThrowableOfType(ConfigException.class, () -> parse("name: x"));
    assertThat(error.getMessage())
        .startsWith("x.yaml:1: no serving configuration is recognised; allowed: worker_config, ")
        .contains(
            "max_batch_size (TensorRT-LLM), max-num-seqs (vLLM) or max-running-requests (SGLang)");
  }

  @Test
  void bothSpellingsOfTheDraftLengthAreReadAndMayAgree() {
    assertThat(
            worker("max_batch_size: 4", "speculative_config: {max_draft_len: 3}")
                .shape()
                .draftTokens())
        .isEqualTo(3);
    assertThat(
            worker("max_batch_size: 4", "speculative_config: {num_nextn_predict_layers: 2}")
                .shape()
                .draftTokens())
        .isEqualTo(2);
    assertThat(
            worker(
                    "max_batch_size: 4",
                    "speculative_config: {num_nextn_predict_layers: 2, max_draft_len: 2}")
                .shape()
                .draftTokens())
        .isEqualTo(2);
  }

  @Test
  void overlapIsOnUnlessSwitchedOffOrForcedOff() {
    assertThat(worker("max_batch_size: 4").overlap()).isEqualTo(OverlapSetting.DEFAULT_ON);
    assertThat(worker("max_batch_size: 4", "disable_overlap_scheduler: false").overlap())
        .isEqualTo(OverlapSetting.ON);
    assertThat(worker("max_batch_size: 4", "disable_overlap_scheduler: true").overlap())
        .isEqualTo(OverlapSetting.OFF);
    var twoModels =
        worker(
            "max_batch_size: 4", "speculative_config: {max_draft_len: 3, eagle3_one_model: false}");
    assertThat(twoModels.overlap()).isEqualTo(OverlapSetting.FORCED_OFF);
    assertThat(twoModels.shape().overlap()).isFalse();
  }

  @Test
  void theFlatFormsOfTheOtherEnginesAreRead() {
    var vllm = worker("max-num-seqs: 64", "data-parallel-size: 4", "no-async-scheduling: true");
    assertThat(vllm.role()).isEqualTo(Role.AGGREGATED);
    assertThat(vllm.shape().attentionDp()).isTrue();
    assertThat(vllm.overlap()).isEqualTo(OverlapSetting.OFF);
    assertThat(vllm.chunkedPrefill()).isTrue();
    assertThat(vllm.kv().reservedPages()).isEqualTo(1);
    var speculative =
        worker("max-num-seqs: 64", "speculative-config: '{\"num_speculative_tokens\": 3}'");
    assertThat(speculative.shape().draftTokens()).isEqualTo(3);
    var sglang = worker("max-running-requests: 64", "tp-size: 8", "dp-size: 4");
    assertThat(sglang.shape().attentionDp()).isFalse();
    assertThat(sglang.servers()).isEqualTo(4);
    assertThat(sglang.shape().maxBatchSize()).isEqualTo(64);
  }

  @Test
  void sglangCorrectsTheDraftCountOfASingleCandidateAndSaysSo() {
    var worker =
        worker(
            "max-running-requests: 64",
            "speculative-algorithm: EAGLE",
            "speculative-num-steps: 3",
            "speculative-num-draft-tokens: 8");
    assertThat(worker.shape().draftTokens()).isEqualTo(3);
    assertThat(worker.notes()).extracting(Finding::rule).containsExactly("sglang-draft");
    var tree =
        worker(
            "max-running-requests: 64",
            "speculative-algorithm: EAGLE",
            "speculative-num-steps: 3",
            "speculative-eagle-topk: 4",
            "speculative-num-draft-tokens: 8");
    assertThat(tree.shape().draftTokens()).isEqualTo(7);
  }

  @Test
  void keysWithoutEffectAreListedAndUnknownOnesAreWarnings() {
    var config = parse("max_batch_size: 4", "stream_interval: 10", "enable_atention_dp: true");
    assertThat(config.ignored())
        .extracting(ConfigNode.Unread::path)
        .containsExactly("stream_interval", "enable_atention_dp");
    assertThat(config.unknown()).extracting(ConfigNode.Unread::line).containsExactly(3);
    assertThat(ServingPlan.of(config, PlanOptions.NONE).findings())
        .containsExactly(
            Finding.warning(
                "unknown-key",
                "",
                "line 3: TensorRT-LLM key enable_atention_dp is not known; did you mean"
                    + " 'enable_attention_dp'?"));
  }

  @Test
  void severalConcurrenciesAreSeveralLoads() {
    var deployment =
        parse(
                "worker_config:",
                "  gen: {max_batch_size: 8, cache_transceiver_config: {backend: UCX}}",
                "benchmark: {input_length: 10, output_length: 5, concurrency_list: '4 8, 16x32'}")
            .deployments()
            .getFirst();
    assertThat(deployment.workloads())
        .extracting(load -> load.concurrency().orElseThrow())
        .containsExactly(4, 8, 16, 32);
    assertThat(deployment.workloads().getFirst().sequenceTokens()).hasValue(15);
  }

  @Test
  void splitWorkersWithoutATransferEngineCannotWork() {
    assertThat(
            rules(
                Severity.REFUSED,
                "worker_config: {ctx: {max_batch_size: 4}, gen: {max_batch_size: 4}}"))
        .containsExactly("no-transfer-engine", "no-transfer-engine");
    assertThat(
            rules(
                Severity.REFUSED,
                "worker_config: {gen: {max_batch_size: 4, cache_transceiver_config: {backend:"
                    + " none}}}"))
        .containsExactly("no-transfer-engine");
  }

  /** Spec 06 BC-46. */
  @Test
  void aPromptLongerThanAStepNeedsChunking() {
    String[] off = {"max_batch_size: 4", "max_num_tokens: 2048", "benchmark: {isl: 2049, osl: 10}"};
    assertThat(rules(Severity.REFUSED, off)).containsExactly("prompt-budget");
    assertThat(
            rules(
                Severity.REFUSED,
                "max_batch_size: 4",
                "max_num_tokens: 2048",
                "enable_chunked_prefill: true",
                "benchmark: {isl: 2049, osl: 10}"))
        .isEmpty();
    assertThat(
            rules(
                Severity.REFUSED,
                "max_batch_size: 4",
                "max_num_tokens: 2048",
                "benchmark: {isl: 2048, osl: 10}"))
        .isEmpty();
  }

  @Test
  void sequencesLongerThanTheLongestAllowedCannotWork() {
    assertThat(
            rules(
                Severity.REFUSED,
                "max_batch_size: 4",
                "max_seq_len: 100",
                "benchmark: {isl: 90, osl: 11}"))
        .containsExactly("sequence-length");
    assertThat(
            rules(
                Severity.REFUSED,
                "max_batch_size: 4",
                "max_seq_len: 101",
                "benchmark: {isl: 90, osl: 11}"))
        .isEmpty();
  }

  /** Spec 06 BC-12 and regularity 1: told once, by whichever rule sees it. */
  @Test
  void aStepThatHoldsNoFullBatchIsAWarning() {
    assertThat(
            rules(
                Severity.WARNING,
                "max_batch_size: 64",
                "max_num_tokens: 128",
                "speculative_config: {max_draft_len: 3}"))
        .containsExactly("step-budget");
    assertThat(
            rules(
                Severity.WARNING,
                "max_batch_size: 64",
                "max_num_tokens: 128",
                "tensor_parallel_size: 4",
                "enable_attention_dp: true",
                "speculative_config: {max_draft_len: 3}"))
        .containsExactly("token-cap");
    assertThat(
            rules(
                Severity.REFUSED,
                "max_batch_size: 64",
                "max_num_tokens: 3",
                "speculative_config: {max_draft_len: 3}"))
        .containsExactly("step-tokens");
  }

  @ParameterizedTest
  @CsvSource({"100, WARNING", "128, NOTE", "0, NOTE"})
  void theStagingBufferHoldsAPrompt(int buffer, Severity severity) {
    assertThat(
            findings(
                "worker_config:",
                "  ctx:",
                "    max_batch_size: 4",
                "    cache_transceiver_config: {backend: UCX, max_tokens_in_buffer: "
                    + buffer
                    + "}",
                "benchmark: {isl: 128, osl: 10, concurrency_list: 100}"))
        .filteredOn(finding -> finding.rule().equals("transceiver-buffer"))
        .extracting(Finding::severity)
        .containsExactly(severity);
  }

  @ParameterizedTest
  @CsvSource({
    "ctx, 0.29, 1",
    "ctx, 0.3, 0",
    "ctx, 0.85, 0",
    "ctx, 0.86, 1",
    "gen, 0.59, 1",
    "gen, 0.6, 0",
    "gen, 0.9, 0",
    "gen, 0.91, 1"
  })
  void fractionsOutsideThePublicRangesAreWarnings(String role, String fraction, int warnings) {
    assertThat(
            rules(
                Severity.WARNING,
                "worker_config:",
                "  " + role + ":",
                "    max_batch_size: 4",
                "    cache_transceiver_config: {backend: UCX}",
                "    kv_cache_config: {free_gpu_memory_fraction: " + fraction + "}"))
        .hasSize(warnings);
  }

  @Test
  void fewClientsUnderOverlapAreAWarning() {
    String[] file = {
      "max_batch_size: 4",
      "tensor_parallel_size: 2",
      "enable_attention_dp: true",
      "benchmark: {isl: 8, osl: 8, concurrency: 8}"
    };
    assertThat(rules(Severity.WARNING, file)).containsExactly("overlap-may-lose");
    file[3] = "benchmark: {isl: 8, osl: 8, concurrency: 9}";
    assertThat(rules(Severity.WARNING, file)).isEmpty();
  }

  /** Spec 06 BC-40: the fill target is what fits and what clients send. */
  @ParameterizedTest
  @CsvSource({"100, 64", "40, 40"})
  void theFillTargetIsNeverMoreThanClientsSend(int concurrency, long target) {
    var plan =
        ServingPlan.of(
            parse(
                "worker_config:",
                "  gen: {max_batch_size: 16, tensor_parallel_size: 4, enable_attention_dp: true,"
                    + " cache_transceiver_config: {backend: UCX}}",
                "benchmark: {mode: gen_only, concurrency_list: " + concurrency + "}"),
            PlanOptions.NONE);
    assertThat(plan.deployments().getFirst().loads().getFirst().fillTarget()).hasValue(target);
    assertThat(plan.allFindings()).extracting(Finding::rule).contains("fill-target");
  }

  @Test
  void parallelSizesThatNeedOtherHardwareAreAWarning() {
    assertThat(
            rules(
                Severity.WARNING,
                "worker_config:",
                "  gen: {max_batch_size: 4, tensor_parallel_size: 8, cache_transceiver_config:"
                    + " {backend: UCX}}",
                "hardware: {gpus_per_decode: 4}"))
        .containsExactly("gpus");
  }

  @Test
  void anInertThresholdIsAWarning() {
    assertThat(
            rules(
                Severity.WARNING,
                "max-num-seqs: 4",
                "max-num-batched-tokens: 8192",
                "long-prefill-token-threshold: 16384"))
        .containsExactly("inert-threshold");
  }

  @Test
  void aModelWhoseRowsEndAtBTimesPpForcesSplitAndUnifiedIsRefused() {
    var config = parse("max_batch_size: 4");
    var none = PlanOptions.NONE;
    var hybrid = options(Optional.empty(), Set.of(Trait.HYBRID));
    var plan = ServingPlan.of(config, hybrid);
    assertThat(plan.deployments().getFirst().workers().getFirst().policy())
        .isEqualTo(SeatPolicy.SPLIT);
    assertThat(plan.allFindings()).extracting(Finding::rule).contains("split-forced");
    var insisted =
        ServingPlan.of(config, options(Optional.of(SeatPolicy.UNIFIED), Set.of(Trait.MROPE_DELTA)));
    assertThat(insisted.worst()).contains(Severity.REFUSED);
    assertThat(ServingPlan.of(config, none).deployments().getFirst().workers().getFirst().policy())
        .isEqualTo(SeatPolicy.UNIFIED);
  }

  private static PlanOptions options(Optional<SeatPolicy> policy, Set<Trait> traits) {
    var none = PlanOptions.NONE;
    return new PlanOptions(
        none.overlap(),
        policy,
        traits,
        none.model(),
        none.freeBytes(),
        none.fraction(),
        none.reserve(),
        OptionalInt.of(16),
        OptionalInt.of(16),
        OptionalInt.of(99));
  }

  @Test
  void whatTheUserGivesStandsInPlaceOfTheFile() {
    var plan =
        ServingPlan.of(
            parse(
                "max_batch_size: 4",
                "max_num_tokens: 64",
                "benchmark: {isl: 8, osl: 8, concurrency: 2}"),
            options(Optional.empty(), Set.of()));
    var load = plan.deployments().getFirst().loads().getFirst();
    assertThat(load.load())
        .isEqualTo(new Workload(OptionalInt.of(16), OptionalInt.of(16), OptionalInt.of(99)));
    assertThat(load.configClass()).isEqualTo(ConfigClass.MOVABLE);
  }

  @Test
  void theSecondCacheManagerBringsTheOneLoopAndItsPolicy() {
    var two = worker("max_batch_size: 4");
    assertThat(two.scheduler()).isEqualTo(SchedulerKind.TWO_STAGE);
    assertThat(two.capacityPolicy()).isEqualTo(CapacityRule.GUARANTEED_NO_EVICT);
    var one = worker("max_batch_size: 4", "kv_cache_config: {use_kv_cache_manager_v2: true}");
    assertThat(one.scheduler()).isEqualTo(SchedulerKind.ONE_LOOP);
    assertThat(one.capacityPolicy()).isEqualTo(CapacityRule.MAX_UTILIZATION);
    assertThat(one.notes()).isEmpty();
    var replaced =
        worker(
            "max_batch_size: 4",
            "kv_cache_config: {use_kv_cache_manager_v2: true}",
            "scheduler_config: {capacity_scheduler_policy: STATIC_BATCH}");
    assertThat(replaced.capacityPolicy()).isEqualTo(CapacityRule.MAX_UTILIZATION);
    assertThat(replaced.notes())
        .singleElement()
        .satisfies(note -> {
          assertThat(note.severity()).isEqualTo(Severity.WARNING);
          assertThat(note.message()).contains("STATIC_BATCH", "MAX_UTILIZATION");
        });
  }
}
