// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.plan.KvBudget.Inputs;
import dev.berth.plan.KvModel.Row.Heads;
import dev.berth.plan.KvModel.Row.Latent;
import java.math.BigDecimal;
import java.util.OptionalLong;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KvBudgetTest {
  private static final WorkerShape ONE_RANK = WorkerShape.builder(256).build();
  private static final KvModel KIMI = new KvModel(61, new Latent(576), KvType.FP8);

  /**
   * 97 657 pages of 32 tokens: free memory of the published run, as both of its pools imply
   * (evidence E5).
   */
  private static final long FREE = 97_657L * 32 * 35_136;

  private static Inputs kimi(String fraction, int block) {
    return new Inputs(
        FREE,
        new BigDecimal(fraction),
        KIMI.bytesPerToken(ONE_RANK),
        block,
        OptionalLong.empty(),
        0,
        9256,
        256,
        Reserve.NONE);
  }

  /** Evidence E5 and spec 06 BC-87, to the token. */
  @ParameterizedTest
  @CsvSource({
    "0.6,  1875008, 61.36 GiB, 202, 202, 54",
    "0.60, 1875008, 61.36 GiB, 202, 202, 54",
    "0.76, 2375008, 77.72 GiB, 256, 255, 1",
    "0.77, 2406240, 78.74 GiB, 259, 259, 0",
    "0.78, 2437504, 79.76 GiB, 263, 262, 0",
  })
  void thePublishedPoolsComeOutToTheToken(
      String fraction, long tokens, String pool, long byTokens, long byPages, long missing) {
    var budget = KvBudget.of(kimi(fraction, 32));
    assertThat(budget.tokens()).isEqualTo(tokens);
    assertThat(Bytes.text(budget.poolBytes())).isEqualTo(pool);
    assertThat(budget.pagesPerSequence()).isEqualTo(290);
    assertThat(budget.sequencesByTokens()).isEqualTo(byTokens);
    assertThat(budget.sequencesByPages()).isEqualTo(byPages);
    assertThat(budget.missing()).isEqualTo(missing);
    assertThat(budget.fits()).isEqualTo(missing == 0);
    assertThat(budget.neededTokens()).isEqualTo(2_369_536);
    assertThat(budget.leastFraction()).contains(new BigDecimal("0.7603"));
  }

  @Test
  void theVerdictCountsPagesWhereTokensSayYes() {
    var budget = KvBudget.of(kimi("0.76", 32));
    assertThat(budget.sequencesByTokens()).isGreaterThanOrEqualTo(256);
    assertThat(budget.complaints())
        .extracting(Reason::message)
        .containsExactly(
            "the KV pool of 74219 pages holds 255 full sequences of 9256 tokens (290 pages each),"
                + " 256 are meant to be resident: 1 would be paused; the least fraction that fits"
                + " is 0.7603");
  }

  /** Block size 64 gives the same four counts. */
  @ParameterizedTest
  @CsvSource({"0.6, 202", "0.76, 255", "0.77, 259", "0.78, 262"})
  void aLargerPageGivesTheSameCounts(String fraction, long byPages) {
    assertThat(KvBudget.of(kimi(fraction, 64)).sequencesByPages()).isEqualTo(byPages);
  }

  @Test
  void headroomIsWhatIsLeftBesideThePool() {
    assertThat(Bytes.text(KvBudget.of(kimi("0.6", 32)).headroomBytes())).isEqualTo("40.90 GiB");
    assertThat(Bytes.text(KvBudget.of(kimi("0.78", 32)).headroomBytes())).isEqualTo("22.50 GiB");
  }

  @Test
  void transientsAreComparedWithTheHeadroomPartByPart() {
    long gib = 1L << 30;
    var reserve = new Reserve(gib, 2 * gib, 19 * gib, gib);
    var in = kimi("0.78", 32);
    var asked =
        new Inputs(
            in.freeBytes(),
            in.fraction(),
            in.bytesPerToken(),
            in.tokensPerBlock(),
            in.tokenLimit(),
            in.reservedPages(),
            in.sequenceTokens(),
            in.sequences(),
            reserve);
    var budget = KvBudget.of(asked);
    assertThat(reserve.total()).isEqualTo(23 * gib);
    assertThat(budget.coversReserve()).isFalse();
    assertThat(budget.complaints())
        .extracting(Reason::message)
        .containsExactly(
            "22.50 GiB are left beside the KV pool, transients need 23.00 GiB (transfer buffers"
                + " 1.00 GiB, NCCL workspace 2.00 GiB, expert shuffling 19.00 GiB, fragmentation"
                + " 1.00 GiB); the greatest fraction that leaves them is 0.7750");
  }

  /** The least fraction fits and the next smaller one doesn't, whatever the numbers. */
  @Test
  void theLeastFractionIsExact() {
    long seed = Long.getLong("berth.seed", 20_260_902L);
    System.out.println("berth.seed=" + seed);
    var random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    var step = new BigDecimal("0.0001");
    int found = 0;
    for (int i = 0; i < 20_000; i++) {
      var in =
          new Inputs(
              random.nextLong(1, 1L << random.nextInt(20, 41)),
              BigDecimal.ONE,
              random.nextLong(1, 1L << random.nextInt(1, 18)),
              random.nextInt(1, 129),
              OptionalLong.empty(),
              random.nextInt(0, 3),
              random.nextInt(1, 20_000),
              random.nextInt(1, 600),
              Reserve.NONE);
      var least = KvBudget.of(in).leastFraction();
      assertThat(least.isPresent()).isEqualTo(KvBudget.of(in).fits());
      if (least.isPresent()) {
        found++;
        assertThat(KvBudget.of(with(in, least.get())).fits()).as("%s", in).isTrue();
        var below = least.get().subtract(step);
        assertThat(below.signum() < 0 || !KvBudget.of(with(in, below)).fits())
            .as("%s", in)
            .isTrue();
      }
    }
    assertThat(found).isBetween(500, 19_500);
  }

  private static Inputs with(Inputs in, BigDecimal fraction) {
    return new Inputs(
        in.freeBytes(),
        fraction,
        in.bytesPerToken(),
        in.tokensPerBlock(),
        in.tokenLimit(),
        in.reservedPages(),
        in.sequenceTokens(),
        in.sequences(),
        in.reserve());
  }

  private static KvBudget pages(long pages, int reserved, int block, int sequence, int sequences) {
    return KvBudget.of(
        new Inputs(
            pages * block,
            BigDecimal.ONE,
            1,
            block,
            OptionalLong.empty(),
            reserved,
            sequence,
            sequences,
            Reserve.NONE));
  }

  /** Spec 06 BC-18: reserved pages can't be given out. */
  @Test
  void onlyServablePagesCount() {
    assertThat(pages(69, 6, 16, 1024, 1).fits()).isFalse();
    assertThat(pages(69, 6, 16, 1008, 1).fits()).isTrue();
    assertThat(pages(64, 1, 16, 1024, 1).fits()).isFalse();
    assertThat(pages(65, 1, 16, 1024, 1).fits()).isTrue();
    assertThat(pages(2, 5, 16, 1, 1).servablePages()).isZero();
  }

  /** Spec 06 BC-87: a pool of 1000 tokens under sequences of 2048. */
  @Test
  void aPoolBelowOneSequenceHoldsNone() {
    var budget = pages(1000, 0, 1, 2048, 1);
    assertThat(budget.sequencesByPages()).isZero();
    assertThat(budget.leastFraction()).isEmpty();
    assertThat(budget.complaints())
        .extracting(Reason::message)
        .singleElement()
        .asString()
        .endsWith("no fraction fits");
  }

  @Test
  void aTokenLimitCapsThePoolWhateverTheMemory() {
    var in = kimi("0.78", 32);
    var limited =
        new Inputs(
            in.freeBytes(),
            in.fraction(),
            in.bytesPerToken(),
            32,
            OptionalLong.of(9300),
            0,
            9256,
            2,
            Reserve.NONE);
    assertThat(KvBudget.of(limited).pages()).isEqualTo(290);
    assertThat(KvBudget.of(limited).sequencesByPages()).isEqualTo(1);
    assertThat(KvBudget.of(limited).leastFraction()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    "FP8, 35136",
    "FP16, 70272",
    "BF16, 70272",
    "FP32, 140544",
    // 288 bytes of values and 36 of scales in each of 61 layers
    "NVFP4, 19764",
  })
  void bytesPerTokenFollowTheValueType(KvType type, long bytes) {
    assertThat(new KvModel(61, new Latent(576), type).bytesPerToken(ONE_RANK)).isEqualTo(bytes);
  }

  @Test
  void headsAreSharedByTensorParallelRanksAndLayersByStages() {
    var model = new KvModel(32, new Heads(8, 128), KvType.BF16);
    assertThat(model.bytesPerToken(WorkerShape.builder(1).build())).isEqualTo(131_072);
    assertThat(model.bytesPerToken(WorkerShape.builder(1).ranks(4).build())).isEqualTo(32_768);
    assertThat(model.bytesPerToken(WorkerShape.builder(1).ranks(16).build())).isEqualTo(16_384);
    assertThat(
            model.bytesPerToken(WorkerShape.builder(1).ranks(4).with(Trait.ATTENTION_DP).build()))
        .isEqualTo(131_072);
    assertThat(model.bytesPerToken(WorkerShape.builder(1).pipelineSize(3).build()))
        .isEqualTo(11 * 4096);
    assertThat(KIMI.bytesPerToken(WorkerShape.builder(1).ranks(8).build())).isEqualTo(35_136);
  }

  @ParameterizedTest
  @CsvSource({
    "fp8, FP8",
    "FP8_E4M3, FP8",
    "fp8_e5m2, FP8",
    "half, FP16",
    "float16, FP16",
    "bfloat16, BF16",
    "nvfp4, NVFP4",
  })
  void valueTypesHaveTheNamesOfEveryEngine(String name, KvType type) {
    assertThat(KvType.byName(name)).contains(type);
    assertThat(KvType.byName("auto")).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    "80GiB, 85899345920",
    "80 gib, 85899345920",
    "1.5KiB, 1536",
    "2GB, 2000000000",
    "12, 12",
    "0.5TiB, 549755813888",
    "102.26GiB, 109800838922",
  })
  void amountsOfMemoryAreExact(String text, long bytes) {
    assertThat(Bytes.parse(text)).hasValue(bytes);
  }

  @ParameterizedTest
  @CsvSource({"-1GiB", "GiB", "1..5GiB", "1 parsec", "99999999999TiB", "1e3", "NaN", "''"})
  void whatIsNoAmountOfMemoryIsEmpty(String text) {
    assertThat(Bytes.parse(text)).isEmpty();
  }

  @Test
  void numbersOutOfRangeAreMisuse() {
    assertThatThrownBy(() -> kimi("1.01", 32))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("1.01");
    assertThatThrownBy(() -> kimi("-0.1", 32)).isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> kimi("0.5", 0)).isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> new Latent(0)).isInstanceOf(BerthException.class);
    assertThatThrownBy(() -> new Reserve(-1, 0, 0, 0)).isInstanceOf(BerthException.class);
  }
}
