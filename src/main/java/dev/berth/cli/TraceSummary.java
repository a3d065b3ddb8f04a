// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.replay.Trace;
import java.util.Arrays;
import java.util.Locale;
import java.util.function.IntUnaryOperator;

/** What {@code berth trace inspect} says. */
record TraceSummary(Trace trace, Lengths prompts, Lengths outputs, int busiestSecond) {
  /**
   * Lengths in tokens; percentiles by rank, the smallest length that so many are not longer than.
   */
  record Lengths(double mean, int p50, int p90, int p99, int most) {
    private static Lengths of(int n, double mean, IntUnaryOperator length) {
      int[] sorted = new int[n];
      Arrays.setAll(sorted, length);
      Arrays.sort(sorted);
      return new Lengths(
          mean, at(sorted, 50), at(sorted, 90), at(sorted, 99), sorted[sorted.length - 1]);
    }

    private static int at(int[] sorted, int percent) {
      return sorted[(int) (Math.ceilDiv((long) sorted.length * percent, 100) - 1)];
    }

    private String text() {
      return String.format(
          Locale.ROOT,
          "mean %,.1f, p50 %,d, p90 %,d, p99 %,d, most %,d",
          mean,
          p50,
          p90,
          p99,
          most);
    }

    private Json json() {
      return new Json()
          .put("mean", mean)
          .put("p50", p50)
          .put("p90", p90)
          .put("p99", p99)
          .put("max", most);
    }
  }

  static TraceSummary of(Trace trace) {
    int n = trace.requests();
    int busiest = 0;
    int inThis = 0;
    long second = -1;
    for (int i = 0; i < n; i++) {
      long its = (long) (trace.arrivalMicros(i) / 1e6);
      inThis = its == second ? inThis + 1 : 1;
      second = its;
      busiest = Math.max(busiest, inThis);
    }
    return new TraceSummary(
        trace,
        Lengths.of(n, trace.meanPromptTokens(), trace::promptTokens),
        Lengths.of(n, trace.meanOutputTokens(), trace::outputTokens),
        busiest);
  }

  private double spanSeconds() {
    return trace.spanMicros() / 1e6;
  }

  String text() {
    var text = new StringBuilder();
    line(text, "trace", "%s, %s", trace.name(), trace.format().title());
    line(text, "requests", "%,d in %,.1f s, %s", trace.requests(), spanSeconds(), rate());
    line(text, "prompts", "%s tokens", prompts.text());
    line(text, "outputs", "%s tokens", outputs.text());
    line(
        text,
        "prefixes",
        "%s",
        trace
            .prefixes()
            .map(p ->
                String.format(
                    Locale.ROOT,
                    "%,d blocks of %d tokens, %,d different; a cache without end finds %.1f %%",
                    p.ids(),
                    p.blockTokens(),
                    p.distinct(),
                    100 * p.idealHitRate()))
            .orElse("not known"));
    return text.toString().stripTrailing();
  }

  private String rate() {
    String busiest = String.format(Locale.ROOT, "at most %,d in a second", busiestSecond);
    return spanSeconds() > 0
        ? String.format(
            Locale.ROOT, "%,.2f a second, %s", trace.requests() / spanSeconds(), busiest)
        : busiest;
  }

  private static void line(StringBuilder text, String label, String format, Object... values) {
    text.append(String.format(Locale.ROOT, "%-12s", label))
        .append(String.format(Locale.ROOT, format, values))
        .append(System.lineSeparator());
  }

  Json json() {
    var json =
        new Json()
            .put("schema", ReplayJson.SCHEMA)
            .put("kind", "trace-summary")
            .put("name", trace.name())
            .put("format", Words.lower(trace.format()))
            .put("requests", trace.requests())
            .put("span_seconds", spanSeconds())
            .put("most_in_a_second", busiestSecond)
            .put("prompt_tokens", prompts.json())
            .put("output_tokens", outputs.json());
    trace
        .prefixes()
        .ifPresent(p ->
            json.put(
                "prefixes",
                new Json()
                    .put("block_tokens", p.blockTokens())
                    .put("blocks", p.ids())
                    .put("distinct", p.distinct())
                    .put("ideal_hit_rate", p.idealHitRate())));
    return json;
  }
}
