// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.jr.ob.JSON;

class PlanCommandTest {
  private static final String KIMI =
      "kimi-k2-thinking-fp4_8k1k_ctx8_gen1_dep32_bs256_eplb416_mtp0_ccb-NIXL";
  private static final String GLM =
      "gb300_glm-5-fp4_8k1k_con1024_ctx1_dep2_gen1_dep8_eplb256_mtp1_ccb-NIXL";

  private record Result(int exit, String out, String err) {}

  private static Result run(String... args) {
    var out = new StringWriter();
    var err = new StringWriter();
    int exit =
        Main.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err)).execute(args);
    return new Result(exit, out.toString(), err.toString());
  }

  private static Path write(Path folder, String text) throws IOException {
    return Files.writeString(folder.resolve("c.yaml"), text);
  }

  @Test
  void aShippedConfigurationIsPlannedByName() {
    var result = run("plan", GLM, "--assume-overlap", "on");
    assertThat(result.exit()).isZero();
    assertThat(result.err()).isEmpty();
    assertThat(result.out())
        .contains(
            "ctx: context, 1 server, 2 ranks with attention DP, transfers by NIXL, overlap on"
                + " (assumed)")
        .contains("seats       4 a rank; leases 4 + 1 reserved; batch positions 2 (unified)")
        .contains("admits      2 requests a rank, 4 a server; retiring requests excluded")
        .contains("step        256 tokens for a full batch of 128 x (1 + 1), max_num_tokens 256")
        .contains("class       movable; a step carries 2 whole prompts")
        .contains("capacity    1024 generations, overflow 0")
        .contains(
            "at start    seat pool, lease map, padding lease pool, batch compared with the plan;"
                + " skipped, without a bound: KV pages")
        .contains("planned with overlap on; the file says off [overlap-assumed]")
        .endsWith("works" + System.lineSeparator());
  }

  @Test
  void asFiledTheSameWorkerIsAGuardWithAClosedGate() {
    var result = run("plan", GLM);
    assertThat(result.out())
        .contains("class       guard (with overlap on: movable)")
        .contains("headroom    closed: overlap is off");
  }

  /** Evidence E5. */
  @Test
  void anOversubscribedPoolIsRefusedWithTheLeastFractionThatFits() {
    var result = run("plan", KIMI, "--model", "layers=61,latent=576", "--free-memory", "102.26GiB");
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.out())
        .contains(
            "61.36 GiB of 102.26 GiB free at 0.6: 1875008 tokens of 35136 bytes, 58594 pages of 32")
        .contains(
            "202 sequences of 9256 tokens by whole pages (202 by tokens), needed 256; least"
                + " fraction 0.7603")
        .contains("54 would be paused; the least fraction that fits is 0.7603 [kv-sequences]")
        .endsWith("refused: 1 reason" + System.lineSeparator());
    var fixed =
        run(
            "plan",
            KIMI + ".fixed.yaml",
            "--model",
            "layers=61,latent=576",
            "--free-memory",
            "102.26GiB");
    assertThat(fixed.exit()).isZero();
    assertThat(fixed.out()).contains("262 sequences of 9256 tokens by whole pages (263 by tokens)");
  }

  @Test
  void aFractionOnTheCommandLineReplacesTheFiles() {
    String[] args = {
      "plan",
      KIMI,
      "--model",
      "layers=61,latent=576,dtype=fp8",
      "--free-memory",
      "102.26GiB",
      "--fraction",
      "0.7603"
    };
    assertThat(run(args).exit()).isZero();
    args[7] = "0.7602";
    assertThat(run(args).exit()).isEqualTo(2);
  }

  @Test
  void transientsThatDoNotFitAreRefused() {
    var result =
        run(
            "plan",
            KIMI + ".fixed",
            "--model",
            "layers=61,latent=576",
            "--free-memory",
            "102.26GiB",
            "--reserve",
            "nccl=4GiB,experts=20GiB");
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.out()).contains("expert shuffling 20.00 GiB").contains("[kv-reserve]");
  }

  /** A plan that works is one that a replay can make. */
  @Test
  void aWorkerThatNoCoreHasRoomForIsRefused(@TempDir Path folder) throws IOException {
    var file = write(folder, "max_batch_size: 524288\npipeline_parallel_size: 8\n").toString();
    var result = run("plan", file);
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.out())
        .contains(
            "server: a rank would hold up to ", " its core holds up to 1048576", "[core-size]")
        .endsWith("refused: 1 reason" + System.lineSeparator());
  }

  @Test
  void warningsFailOnlyWhenStrict(@TempDir Path folder) throws IOException {
    var file = write(folder, "max_batch_size: 64\nmax_num_tokens: 32\n").toString();
    assertThat(run("plan", file).exit()).isZero();
    assertThat(run("plan", file, "--strict").exit()).isEqualTo(1);
    assertThat(run("plan", file).out()).contains("[step-budget]").contains("works, with 1 warning");
  }

  @Test
  void anUnknownKeyFailsOnlyWhenStrict(@TempDir Path folder) throws IOException {
    var file = write(folder, "max_batch_size: 4\nenable_atention_dp: true\n").toString();
    assertThat(run("plan", file).exit()).isZero();
    var strict = run("plan", file, "--strict");
    assertThat(strict.exit()).isEqualTo(1);
    assertThat(strict.out())
        .contains(
            "line 2: TensorRT-LLM key enable_atention_dp is not known; did you mean"
                + " 'enable_attention_dp'?");
  }

  @Test
  void badInputIsOneLineAndExitTwo(@TempDir Path folder) throws IOException {
    var file = write(folder, "max_batch_size: 4\nkv_cache_config:\n  tokens_per_block: -32\n");
    var result = run("plan", file.toString());
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.out()).isEmpty();
    assertThat(result.err())
        .isEqualTo(
            "berth: "
                + file
                + ":3: kv_cache_config.tokens_per_block: found -32; allowed: an integer from 1 to"
                + " 65536"
                + System.lineSeparator());
  }

  @Test
  void verboseAddsTheStackTrace(@TempDir Path folder) throws IOException {
    var file = write(folder, "a: [1\n").toString();
    var quiet = run("plan", file);
    assertThat(quiet.exit()).isEqualTo(2);
    assertThat(quiet.err().lines()).hasSize(1);
    assertThat(quiet.err()).contains("malformed YAML");
    assertThat(run("plan", file, "--verbose").err()).contains("\tat dev.berth.config.");
    assertThat(run("--verbose", "plan", file).err()).contains("\tat dev.berth.config.");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "plan | a configuration is needed: a file, or a name of --list",
        "plan nowhere.yaml | nowhere.yaml: there is no such file, and no shipped configuration of"
            + " that name (berth plan --list names them)",
        "plan x --isl 0 | --isl: found 0; allowed: an integer from 1 to 1073741823",
        "plan x --isl ten | Invalid value for option '--isl': 'ten' is not an int",
        "plan x --fraction 2 | Invalid value for option '--fraction': found '2'; allowed: a number"
            + " from 0 to 1",
        "plan x --fraction 1e999999999 | Invalid value for option '--fraction': found"
            + " '1e999999999'; allowed: a number from 0 to 1",
        "plan x --free-memory lots | Invalid value for option '--free-memory': found 'lots';"
            + " allowed: an amount of memory such as 80GiB or 85.9GB",
        "plan x --model layers=61 | Invalid value for option '--model': needs either latent=N, or"
            + " kv-heads=N and head-dim=N",
        "plan x --model layers=0,latent=5 | Invalid value for option '--model': takes an integer"
            + " from 1 to 100000 for layers, found '0'",
        "plan x --model layers=1,latent=5,heads=3 | Invalid value for option '--model': does not"
            + " know 'heads'",
        "plan x --model layers=1,latent=5,dtype=int3 | Invalid value for option '--model': takes"
            + " fp8, fp16, bf16, fp32 or nvfp4 for dtype, found 'int3'",
        "plan x --policy mixed | Invalid value for option '--policy': expected one of [UNIFIED,"
            + " SPLIT] (case-insensitive) but was 'mixed'",
        "plan x --trait fast | Invalid value for option '--trait'"
            + " (hybrid|mrope-delta|confidence-scheduling): found 'fast'; allowed: hybrid,"
            + " mrope-delta, confidence-scheduling",
        "plan x y | Unmatched argument at index 2: 'y'",
        "pan | Unmatched argument at index 0: 'pan'",
      })
  void badArgumentsAreOneLineAndExitTwo(String line, String message) {
    var result = run(line.split(" "));
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.out()).isEmpty();
    assertThat(result.err()).startsWith("berth: " + message).doesNotContain("\tat ");
  }

  @Test
  void anUnknownPartOfTheReserveIsNamed() {
    var result = run("plan", GLM, "--reserve", "lunch=1GiB");
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err())
        .startsWith(
            "berth: --reserve: found 'lunch'; allowed: transfer, nccl, experts, fragmentation");
  }

  @Test
  void memoryBeyondEveryMachineIsBadInput() {
    var result =
        run("plan", KIMI, "--model", "layers=61,latent=576", "--free-memory", "4000000TiB");
    assertThat(result.exit()).isEqualTo(2);
    assertThat(result.err()).startsWith("berth: free memory must be from 0 to 1125899906842624");
  }

  @Test
  void jsonHoldsTheSameNumbers() throws IOException {
    var result = run("plan", GLM, "--json", "--assume-overlap", "ON");
    assertThat(result.exit()).isZero();
    Map<String, Object> root = JSON.std.mapFrom(result.out());
    assertThat(root).containsEntry("engine", "TensorRT-LLM").containsEntry("verdict", "note");
    assertThat(String.valueOf(root.get("deployments")))
        .contains("seats=4")
        .contains("published_cap=4")
        .contains("class=movable")
        .contains("capacity=1024")
        .contains("overflow=0");
  }

  @Test
  void theShippedConfigurationsAreListed() {
    var result = run("plan", "--list");
    assertThat(result.exit()).isZero();
    assertThat(result.out().lines()).hasSize(30).contains(GLM, KIMI);
  }

  @Test
  void helpNamesTheExitStatus() {
    var result = run("plan", "--help");
    assertThat(result.exit()).isZero();
    assertThat(result.out())
        .contains("Exit status: 0 fine, 1 warnings (only with --strict), 2 refused or bad input.");
  }
}
