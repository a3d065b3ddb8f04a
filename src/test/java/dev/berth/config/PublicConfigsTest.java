// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.capacity.CapacityRule;
import dev.berth.config.Finding.Severity;
import dev.berth.config.WorkerConfig.AssumedOverlap;
import dev.berth.plan.ConfigClass;
import dev.berth.plan.SeatPolicy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvFileSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Every public configuration that is shipped, against numbers that were worked out by hand. */
class PublicConfigsTest {
  private static ServingConfig shipped(String name) {
    return ShippedConfigs.read(name).orElseThrow();
  }

  private static DeploymentPlan plan(String name, AssumedOverlap overlap) {
    return ServingPlan.of(shipped(name), PlanOptions.NONE.withOverlap(overlap))
        .deployments()
        .getFirst();
  }

  static List<String> names() {
    return ShippedConfigs.names();
  }

  @Test
  void thirtyConfigurationsAreShippedEachWithItsNotice() throws IOException {
    var folder =
        Path.of(
            System.getProperty("berth.test.basedir", "."), "src/main/resources/dev/berth/configs");
    var notice = Files.readString(folder.resolve("NOTICE.md"));
    try (var files = Files.list(folder)) {
      assertThat(
              files
                  .map(file -> file.getFileName().toString())
                  .filter(file -> file.endsWith(".yaml")))
          .hasSize(30)
          .containsExactlyInAnyOrderElementsOf(
              names().stream().map(name -> name + ".yaml").toList())
          .allMatch(file -> notice.contains("`" + file + "`"));
    }
  }

  @ParameterizedTest
  @MethodSource("names")
  void everyOneIsReadWithoutAnUnknownKey(String name) {
    var config = shipped(name);
    assertThat(config.unknown()).isEmpty();
    assertThat(config.model().isPresent() || config.engine() == Engine.TRTLLM).isTrue();
    assertThat(config.deployments()).isNotEmpty();
    for (Deployment deployment : config.deployments()) {
      assertThat(deployment.prompts()).isPresent();
      assertThat(deployment.generations()).isPresent();
    }
  }

  @ParameterizedTest
  @MethodSource("names")
  void noneIsRefusedWithoutAMemoryBudget(String name) {
    assertThat(ServingPlan.of(shipped(name), PlanOptions.NONE).allFindings())
        .extracting(Finding::severity)
        .doesNotContain(Severity.REFUSED);
  }

  @ParameterizedTest
  @CsvFileSource(resources = "/configs/derived.csv", numLinesToSkip = 1)
  void derivedNumbersComeOut(
      String name,
      long contextCap,
      String batchByTokens,
      int maxBatch,
      long capacity,
      String concurrency,
      String overflow,
      int draft,
      long stepTokens,
      int maxNumTokens,
      String overlapInFile,
      String configClass) {
    var plan = plan(name, AssumedOverlap.ON);
    var load = plan.loads().getFirst();
    var context = plan.prompts().orElseThrow();
    var generation = plan.generations().orElseThrow();
    assertThat(context.publishedCap()).as("context cap").isEqualTo(contextCap);
    assertThat(load.batchByTokens()).as("batch by tokens").isEqualTo(integer(batchByTokens));
    assertThat(context.shape().maxBatchSize()).as("max batch").isEqualTo(maxBatch);
    assertThat(load.capacity()).as("capacity").hasValue(capacity);
    assertThat(load.load().concurrency()).as("concurrency").isEqualTo(integer(concurrency));
    assertThat(load.overflow())
        .as("overflow")
        .isEqualTo(
            integer(concurrency).isEmpty()
                ? OptionalLong.empty()
                : OptionalLong.of(Long.parseLong(overflow)));
    assertThat(generation.shape().draftTokens()).as("draft").isEqualTo(draft);
    assertThat(generation.stepTokens()).as("step tokens").isEqualTo(stepTokens);
    assertThat(generation.shape().maxNumTokens()).as("max tokens").isEqualTo(maxNumTokens);
    assertThat(context.worker().overlap().effective())
        .as("overlap")
        .isEqualTo(overlapInFile.equals("on"));
    assertThat(load.configClass().title()).as("class").isEqualTo(configClass);
  }

  private static OptionalInt integer(String text) {
    return text.equals("-") ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(text));
  }

  /** As filed, a worker with overlap off is a guard whatever else it is. */
  @ParameterizedTest
  @CsvFileSource(resources = "/configs/derived.csv", numLinesToSkip = 1)
  void overlapOffInTheFileIsAGuard(
      String name,
      long contextCap,
      String batchByTokens,
      int maxBatch,
      long capacity,
      String concurrency,
      String overflow,
      int draft,
      long stepTokens,
      int maxNumTokens,
      String overlapInFile,
      String configClass) {
    var asFiled = plan(name, AssumedOverlap.FILE).loads().getFirst();
    assertThat(asFiled.configClass().title())
        .isEqualTo(overlapInFile.equals("on") ? configClass : "guard");
    assertThat(asFiled.classIfOverlapped().title()).isEqualTo(configClass);
  }

  /** Regularity 1: a step holds a full batch exactly in 19 of 22 rows, and never less. */
  @Test
  void stepsHoldAFullBatch() {
    var plans =
        names().stream()
            .map(name -> plan(name, AssumedOverlap.FILE))
            .filter(plan -> plan.worker(Role.GENERATION).isPresent())
            .map(plan -> plan.worker(Role.GENERATION).orElseThrow())
            .filter(
                worker -> worker.worker().kv().fractionOf() == KvSettings.FractionOf.FREE_MEMORY)
            .toList();
    assertThat(plans).hasSize(22);
    assertThat(plans)
        .filteredOn(worker -> worker.shape().maxNumTokens() == worker.stepTokens())
        .hasSize(19);
    assertThat(plans).allMatch(worker -> worker.shape().maxNumTokens() >= worker.stepTokens());
  }

  /** Regularity 2: concurrency is the capacity exactly in 12 rows. */
  @Test
  void twelveConfigurationsHaveNoSlack() {
    assertThat(names())
        .filteredOn(name ->
            shipped(name).engine() == Engine.TRTLLM
                && plan(name, AssumedOverlap.FILE).findings().stream()
                    .anyMatch(finding -> finding.rule().equals("no-slack")))
        .hasSize(12);
  }

  @Test
  void theLongPromptCaseIsMovableAndItsGateIsClosed() {
    var plan =
        plan(
            "gb300_deepseek-r1-fp4_128k8k_con256_ctx1_pp4_gen1_dep8_eplb0_mtp1_ccb-NIXL",
            AssumedOverlap.ON);
    assertThat(plan.loads().getFirst().configClass()).isEqualTo(ConfigClass.MOVABLE);
    assertThat(plan.findings())
        .extracting(Finding::toString)
        .contains(
            "ctx: movable by the published predicate, though the headroom gate is closed: attention"
                + " DP is off; pipeline size is above 1: retiring requests stay charged");
  }

  @Test
  void theHybridModelIsPlannedWithSplitSeats() {
    var plan =
        plan(
            "gb300_nemotron-ultra-v3-fp4_50k2k_con178_ctx5_dep4_gen1_dep4_eplb0_mtp6_ccb-NIXL",
            AssumedOverlap.ON);
    var context = plan.worker(Role.CONTEXT).orElseThrow().plan().orElseThrow();
    assertThat(context.policy()).isEqualTo(SeatPolicy.SPLIT);
    assertThat(context.seats().count()).isEqualTo(8);
    assertThat(context.leases().count()).isEqualTo(16);
    assertThat(context.stateRows()).isEqualTo(8);
    assertThat(context.excludesRetiring()).isFalse();
  }

  @Test
  void anEngineThatCountsForTheWholeWorkerIsDividedByItsRanks() {
    var sglang =
        shipped("inferencex_sglang_deepseek-v4_8k1k_gb300-15p1d-dep4-dep12-c12000")
            .deployments()
            .getFirst();
    var decode = sglang.worker(Role.GENERATION).orElseThrow();
    assertThat(decode.shape().maxBatchSize()).isEqualTo(1536);
    assertThat(decode.shape().ranks()).isEqualTo(12);
    var prefill = sglang.worker(Role.CONTEXT).orElseThrow();
    assertThat(prefill.servers()).isEqualTo(15);
    assertThat(prefill.shape().maxBatchSize()).isEqualTo(128);
    assertThat(prefill.shape().maxNumTokens()).isEqualTo(8192);
    assertThat(prefill.chunkedPrefill()).isTrue();
  }

  @Test
  void anEngineThatCountsForOneRankIsTakenAsItStands() {
    var vllm =
        shipped("inferencex_vllm_deepseek-v4_8k1k_gb300-4p1d-dep4-dep8-c4096")
            .deployments()
            .getFirst();
    var decode = vllm.worker(Role.GENERATION).orElseThrow();
    assertThat(decode.shape().maxBatchSize()).isEqualTo(512);
    assertThat(decode.shape().ranks()).isEqualTo(8);
    assertThat(decode.shape().disaggregated()).isTrue();
    assertThat(decode.shape().tokensPerBlock()).isEqualTo(256);
    var prefill = vllm.worker(Role.CONTEXT).orElseThrow();
    assertThat(prefill.servers()).isEqualTo(4);
    assertThat(prefill.overlap()).isEqualTo(OverlapSetting.OFF);
    assertThat(prefill.shape().maxNumTokens()).isEqualTo(16_384);
  }

  @Test
  void speculativeStepsVerifyOneTokenMoreThanTheyDraft() {
    var sglang = shipped("inferencex_sglang_dsr1_8k1k_b200_3p1d_mtp2").deployments().getFirst();
    assertThat(sglang.worker(Role.GENERATION).orElseThrow().shape().draftTokens()).isEqualTo(2);
    assertThat(sglang.worker(Role.CONTEXT).orElseThrow().kv().tokenLimit()).hasValue(32_768);
  }

  @Test
  void aListOfServersIsAListOfDeployments() {
    var config = shipped("trtllm_perf-sanity_aggregated_glm5_fp4_grace_blackwell");
    assertThat(config.deployments())
        .extracting(Deployment::name)
        .containsExactly("glm5_fp4_tep4_mtp3_1k1k", "glm5_fp4_dep4_mtp1_1k1k");
    var dep = config.deployment("glm5_fp4_dep4_mtp1_1k1k").orElseThrow();
    assertThat(dep.workloads())
        .containsExactly(
            new Workload(OptionalInt.of(1024), OptionalInt.of(1024), OptionalInt.of(2)));
    var worker = dep.worker(Role.AGGREGATED).orElseThrow();
    assertThat(worker.shape().draftTokens()).isEqualTo(1);
    assertThat(worker.attentionDp().enableBalance()).isTrue();
    assertThat(worker.attentionDp().timeoutIters()).isEqualTo(60);
    assertThat(worker.attentionDp().batchingWaitIters()).isZero();
  }

  @Test
  void theFlatFractionOfAnAggregatedServerIsTheNestedOne() {
    var worker =
        shipped("trtllm_curated_deepseek-r1-throughput")
            .deployments()
            .getFirst()
            .workers()
            .getFirst();
    assertThat(worker.role()).isEqualTo(Role.AGGREGATED);
    assertThat(worker.kv().fraction().orElseThrow()).isEqualByComparingTo("0.8");
    assertThat(worker.overlap()).isEqualTo(OverlapSetting.DEFAULT_ON);
    assertThat(worker.shape().disaggregated()).isFalse();
  }

  @Test
  void settingsThatReplayNeedAreKept() {
    var agentic =
        shipped("inferencex_trtllm_deepseek-v4_agentic_5p1d-dep8-dep16-c2626-b96-mtp")
            .deployments()
            .getFirst();
    var context = agentic.worker(Role.CONTEXT).orElseThrow();
    assertThat(context.capacityPolicy()).isEqualTo(CapacityRule.MAX_UTILIZATION);
    assertThat(context.attentionDp().conversationAffinity()).isTrue();
    assertThat(context.chunkedPrefill()).isTrue();
    assertThat(context.kv().hostCacheBytes()).isEqualTo(193_273_528_320L);
    assertThat(context.transceiverBufferTokens()).isEmpty();
  }
}
