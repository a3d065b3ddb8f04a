// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ClassifierTest {
  /**
   * Evidence E6: the fifteen context-only cases as they were run. Columns: B, attention-DP ranks (0
   * for none), pp, max_num_tokens, prompt, concurrency, overlap, then cap and class.
   */
  @ParameterizedTest(name = "{0}")
  @CsvSource({
    "deepseek-r1 128k8k con256 pp4,        1, 0, 4, 131104, 131072,  256, on,   1, MOVABLE",
    "deepseek-r1 con4096 dep4,             2, 4, 1,  16384,   8192, 4096, on,   8, MOVABLE",
    "glm-5 con1024 dep2,                   2, 2, 1,  16384,   8192, 1024, on,   4, MOVABLE",
    "glm-5 con512 dep2,                    2, 2, 1,  16384,   8192,  512, on,   4, MOVABLE",
    "glm-5 con1 dep2,                      2, 2, 1,  16384,   8192,    1, on,   4,"
        + " INERT_CONCURRENCY",
    "deepseek-v4-pro con180,               2, 4, 1,   8192,   7386,  180, on,   8,"
        + " INERT_TOKEN_LIMITED",
    "deepseek-v4-pro con666,               2, 4, 1,   8192,   7386,  666, on,   8,"
        + " INERT_TOKEN_LIMITED",
    "deepseek-v4-pro con4301,              2, 4, 1,   8192,   7392, 4301, on,   8,"
        + " INERT_TOKEN_LIMITED",
    "deepseek-v4-pro con8,                 2, 4, 1,   8192,   7386,    8, on,   8,"
        + " INERT_CONCURRENCY",
    "nemotron-ultra-v3 50k2k con12,        8, 4, 1,  50256,  50000,   12, off, 32, GUARD",
    "nemotron-ultra-v3 50k2k con178,       8, 4, 1,  50256,  50000,  178, off, 32, GUARD",
    "nemotron-ultra-v3 50k2k con1197,      8, 4, 1,  50256,  50000, 1197, off, 32, GUARD",
    "nemotron-ultra-v3 8k64k con1,         8, 4, 1,  65536,   8192,    1, off, 32, GUARD",
    "nemotron-ultra-v3 8k64k con64,        8, 4, 1,  65536,   8192,   64, off, 32, GUARD",
    "nemotron-ultra-v3 8k64k con9832,      8, 4, 1,  65536,   8192, 9832, off, 32, GUARD",
  })
  void thePublishedCasesHaveTheirClass(
      String name,
      int b,
      int adpRanks,
      int pp,
      int maxNumTokens,
      int prompt,
      int concurrency,
      String overlap,
      long cap,
      ConfigClass expected) {
    var shape = shape(b, adpRanks, overlap).pipelineSize(pp).maxNumTokens(maxNumTokens).build();
    assertThat(Classifier.publishedCap(shape)).isEqualTo(cap);
    assertThat(Classifier.classify(shape, OptionalInt.of(concurrency), OptionalInt.of(prompt)))
        .isEqualTo(expected);
  }

  private static WorkerShape.Builder shape(int b, int adpRanks, String overlap) {
    var builder = WorkerShape.builder(b);
    if (adpRanks > 0) {
      builder.ranks(adpRanks).with(Trait.ATTENTION_DP);
    }
    return overlap.equals("on") ? builder.with(Trait.OVERLAP) : builder;
  }

  @Test
  void guardWinsOverFewClientsAndThatOverFewTokens() {
    var both = shape(8, 4, "on").maxNumTokens(10).build();
    var few = OptionalInt.of(32);
    assertThat(Classifier.classify(both, few, OptionalInt.of(100)))
        .isEqualTo(ConfigClass.INERT_CONCURRENCY);
    assertThat(Classifier.classify(both, OptionalInt.of(33), OptionalInt.of(100)))
        .isEqualTo(ConfigClass.INERT_TOKEN_LIMITED);
    var off = both.toBuilder().without(Trait.OVERLAP).build();
    assertThat(Classifier.classify(off, few, OptionalInt.of(100))).isEqualTo(ConfigClass.GUARD);
  }

  @Test
  void whatIsNotKnownIsNotClassified() {
    var shape = shape(2, 4, "on").maxNumTokens(100).build();
    assertThat(Classifier.classify(shape, OptionalInt.empty(), OptionalInt.of(10)))
        .isEqualTo(ConfigClass.UNKNOWN);
    assertThat(Classifier.classify(shape, OptionalInt.of(9), OptionalInt.empty()))
        .isEqualTo(ConfigClass.UNKNOWN);
    assertThat(Classifier.batchByTokens(shape, OptionalInt.empty())).isEmpty();
  }

  @Test
  void theLargestNumbersDoNotWrap() {
    var shape =
        WorkerShape.builder(WorkerShape.MAX_BATCH_SIZE)
            .ranks(WorkerShape.MAX_RANKS)
            .draftTokens(1000)
            .maxNumTokens(Integer.MAX_VALUE)
            .with(Trait.ATTENTION_DP, Trait.OVERLAP)
            .build();
    assertThat(Classifier.publishedCap(shape)).isEqualTo(1L << 36);
    assertThat(Classifier.stepTokens(shape)).isEqualTo(1001L << 20);
    assertThat(Classifier.classify(shape, OptionalInt.of(Integer.MAX_VALUE), OptionalInt.of(8192)))
        .isEqualTo(ConfigClass.INERT_CONCURRENCY);
  }
}
