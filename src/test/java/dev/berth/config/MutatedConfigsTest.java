// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.config.WorkerConfig.AssumedOverlap;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Damaged files end in a plan or in a {@link ConfigException} with a place, in nothing else. */
class MutatedConfigsTest {
  private static final String[] PIECES = {
    "-1",
    "0",
    "99999999999999999999",
    ".nan",
    "1e309",
    "''",
    "null",
    "~",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "&a ",
    "*a",
    "<<: *a",
    "\t",
    "\n",
    "%YAML 1.2\n",
    "---\n",
    "...\n",
    "!!int ",
    "|",
    ">",
    "\"",
    "'",
    "#",
    "?",
    "\u0000",
    "\uD800",
    "😀",
    "\u2028",
    "true",
    "2147483647"
  };

  @Test
  void damagedFilesAreRefusedWithAPlace() throws IOException {
    damage(4_000);
  }

  @Test
  @Tag("deep")
  void damagedFilesAreRefusedWithAPlaceForLong() throws IOException {
    damage(200_000);
  }

  private static void damage(int rounds) throws IOException {
    long seed = Long.getLong("berth.seed", 20_260_903L);
    System.out.println("berth.seed=" + seed);
    var random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    var texts = texts();
    int planned = 0;
    int refused = 0;
    for (int i = 0; i < rounds; i++) {
      var text = damaged(texts.get(random.nextInt(texts.size())), random);
      try {
        var config = ServingConfig.parse("x.yaml", text);
        ServingPlan.of(config, PlanOptions.NONE.withOverlap(AssumedOverlap.ON)).allFindings();
        planned++;
      } catch (ConfigException e) {
        refused++;
        assertThat(e.line()).as(e.getMessage()).isPositive();
        assertThat(e.getMessage()).startsWith("x.yaml:").doesNotContain("\n");
      } catch (RuntimeException | StackOverflowError e) {
        throw new AssertionError("round " + i + " of seed " + seed + ":\n" + text, e);
      }
    }
    assertThat(planned).isGreaterThan(rounds / 50);
    assertThat(refused).isGreaterThan(rounds / 50);
  }

  private static List<String> texts() throws IOException {
    var texts = new ArrayList<String>();
    for (String name : ShippedConfigs.names()) {
      try (var in =
          ShippedConfigs.class.getResourceAsStream("/dev/berth/configs/" + name + ".yaml")) {
        assertThat(in).isNotNull();
        texts.add(new String(in.readAllBytes(), StandardCharsets.UTF_8));
      }
    }
    return texts;
  }

  private static String damaged(String text, RandomGenerator random) {
    var damaged = new StringBuilder(text);
    int wounds = random.nextInt(1, 4);
    for (int i = 0; i < wounds; i++) {
      int at = random.nextInt(damaged.length());
      switch (random.nextInt(5)) {
        case 0 -> damaged.insert(at, PIECES[random.nextInt(PIECES.length)]);
        case 1 -> damaged.deleteCharAt(at);
        case 2 -> damaged.delete(at, Math.min(damaged.length(), at + random.nextInt(1, 60)));
        case 3 -> damaged.setCharAt(at, (char) random.nextInt(0x20, 0x7f));
        default -> replaceValue(damaged, at, PIECES[random.nextInt(PIECES.length)]);
      }
      if (damaged.isEmpty()) {
        return "x";
      }
    }
    return damaged.toString();
  }

  private static void replaceValue(StringBuilder text, int from, String piece) {
    int colon = text.indexOf(": ", from);
    int end = colon < 0 ? -1 : text.indexOf("\n", colon);
    if (end > 0) {
      text.replace(colon + 2, end, piece);
    }
  }
}
