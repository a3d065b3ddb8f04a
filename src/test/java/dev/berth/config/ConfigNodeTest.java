// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.berth.BerthException;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ConfigNodeTest {
  private enum Colour {
    DARK_RED,
    BLUE
  }

  private static ConfigNode parse(String text) {
    return ConfigNode.parse("x.yaml", text);
  }

  private static String failure(Runnable read) {
    return String.valueOf(catchThrowableOfType(ConfigException.class, read::run).getMessage());
  }

  @Test
  void readsEveryKindOfValueFromYaml() {
    var root =
        parse(
            """
            a: 1
            b: {c: 2.5, d: [x, 'y', 3]}
            e: true
            f: dark-red
            g: 9223372036854775807
            h: off
            """);
    assertThat(root.requireInt("a", 0, 10)).isEqualTo(1);
    assertThat(root.child("b").requireDouble("c", 0, 10)).isEqualTo(2.5);
    assertThat(root.child("b").findDecimal("c", BigDecimal.ZERO, BigDecimal.TEN))
        .contains(new BigDecimal("2.5"));
    assertThat(root.child("b").list("d"))
        .extracting(ConfigNode::asString)
        .containsExactly("x", "y", "3");
    assertThat(root.requireBoolean("e")).isTrue();
    assertThat(root.requireEnum("f", Colour.class)).isEqualTo(Colour.DARK_RED);
    assertThat(root.requireLong("g", 0, Long.MAX_VALUE)).isEqualTo(Long.MAX_VALUE);
    assertThat(root.requireSwitch("h")).isFalse();
    assertThat(root.optInt("z", 7, 0, 1)).isEqualTo(7);
    assertThat(root.findInt("z", 0, 1)).isEmpty();
    assertThat(root.optList("z")).isEmpty();
    root.finish();
  }

  @Test
  void readsJsonAsTheSubsetOfYamlThatItIs() {
    var root = parse("{\"a\": 1, \"b\": [true, null], \"c\": {\"d\": \"t\"}}");
    assertThat(root.requireInt("a", 0, 1)).isEqualTo(1);
    assertThat(root.list("b"))
        .extracting(ConfigNode::kind)
        .containsExactly(ConfigNode.Kind.SCALAR, ConfigNode.Kind.NULL);
    assertThat(root.child("c").requireString("d")).isEqualTo("t");
  }

  @Test
  void knowsLineAndDottedPathOfEveryValue() {
    var root = parse("a:\n  b:\n    - 1\n    - c: oops\n");
    var node = root.child("a").list("b").get(1).require("c");
    assertThat(node.line()).isEqualTo(4);
    assertThat(node.path()).isEqualTo("a.b[1].c");
    assertThat(failure(() -> node.asInt(1, 5)))
        .isEqualTo("x.yaml:4: a.b[1].c: found oops; allowed: an integer from 1 to 5");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "-1 | found -1; allowed: an integer from 0 to 100",
        "101 | found 101; allowed: an integer from 0 to 100",
        "99999999999999999999 | found 99999999999999999999; allowed: an integer from 0 to 100",
        "1.0 | found 1.0; allowed: an integer from 0 to 100",
        "1e1 | found 1e1; allowed: an integer from 0 to 100",
        ".nan | found .nan; allowed: an integer from 0 to 100",
        "'5' | found the text '5'; allowed: an integer from 0 to 100",
        "[5] | found a list; allowed: an integer from 0 to 100",
        "{b: 5} | found a mapping; allowed: an integer from 0 to 100",
        "null | found null; a value is needed",
        "`` | found nothing after the colon; a value is needed, or the key removed",
      })
  void refusesWhatIsNoIntegerInRange(String value, String problem) {
    var root = parse("a: " + value + "\n");
    assertThat(failure(() -> root.requireInt("a", 0, 100))).isEqualTo("x.yaml:1: a: " + problem);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {".nan", ".inf", "-.inf", "NaN", "1e999", "-0.1", "1.1", "0x1", "'0.5'", "text"})
  void refusesWhatIsNoFiniteNumberInRange(String value) {
    var root = parse("a: " + value + "\n");
    assertThat(failure(() -> root.requireDouble("a", 0, 1)))
        .startsWith("x.yaml:1: a: found ")
        .endsWith("; allowed: a finite number from 0 to 1");
  }

  @ParameterizedTest
  @ValueSource(strings = {"on", "yes", "1", "'true'", "tRUE"})
  void takesOnlyTrueAndFalseForABoolean(String value) {
    var root = parse("a: " + value + "\n");
    assertThat(failure(() -> root.requireBoolean("a"))).endsWith("; allowed: true or false");
  }

  @Test
  void namesTheConstantsOfAnEnum() {
    var root = parse("a: green\nb: Dark_Red\n");
    assertThat(failure(() -> root.requireEnum("a", Colour.class)))
        .isEqualTo("x.yaml:1: a: found green; allowed: one of dark-red, blue");
    assertThat(root.requireEnum("b", Colour.class)).isEqualTo(Colour.DARK_RED);
  }

  @Test
  void anExplicitNullIsAbsenceAndSilenceIsNot() {
    var root = parse("a: null\nb: ~\nc:\n");
    assertThat(root.optInt("a", 3, 0, 9)).isEqualTo(3);
    assertThat(root.findString("b")).isEmpty();
    assertThat(failure(() -> root.findString("c")))
        .startsWith("x.yaml:3: c: found nothing after the colon");
  }

  @Test
  void aMissingKeyIsNamedTogetherWithWhatLooksLikeIt() {
    var root = parse("max_batchsize: 4\n");
    assertThat(failure(() -> root.requireInt("max_batch_size", 1, 9)))
        .isEqualTo(
            "x.yaml:1: max_batch_size: is missing; it is needed here; found 'max_batchsize', which"
                + " looks like it");
  }

  @Test
  void anUnreadKeyIsAnErrorThatNamesItsLineAndTheNearestKnownKey() {
    var root = parse("arms:\n- name: a\n  speling: 1\n- name: b\n");
    root.list("arms")
        .forEach(arm -> {
          arm.requireString("name");
          arm.optInt("spelling", 0, 0, 9);
        });
    assertThat(failure(root::finish))
        .isEqualTo("x.yaml:3: arms[0].speling: unknown key; did you mean 'spelling'?");
  }

  @Test
  void unreadKeysAreListedWithoutTheirChildrenAndSkippedOnesAreNot() {
    var root = parse("a: {b: 1, c: 2}\nd: 1\ne: {f: {g: 1}}\nh: {i: 1}\n");
    root.child("a").requireInt("b", 0, 9);
    root.require("h").skip();
    assertThat(root.unread()).extracting(ConfigNode.Unread::path).containsExactly("a.c", "d", "e");
    assertThat(root.unread()).extracting(ConfigNode.Unread::line).containsExactly(1, 2, 3);
    assertThat(failure(root::finish)).contains("unknown key").endsWith("(and 2 more)");
  }

  @Test
  void resolvesAliasesAndMergeKeysAndExplicitKeysWin() {
    var root =
        parse(
            """
            base: &base {a: 1, b: 2}
            more: &more {c: 3, a: 9}
            use:
              <<: [*base, *more]
              b: 5
            same: *base
            """);
    var use = root.child("use");
    assertThat(use.requireInt("a", 0, 9)).isEqualTo(1);
    assertThat(use.requireInt("b", 0, 9)).isEqualTo(5);
    assertThat(use.requireInt("c", 0, 9)).isEqualTo(3);
    assertThat(root.child("same").require("a").path()).isEqualTo("same.a");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "a: 1\\na: 2\\n | x.yaml:2: a: the key stands here a second time (first on line 1)",
        "b:\\n"
            + "  a: 1\\n"
            + "  c: 1\\n"
            + "  a: 2\\n"
            + " | x.yaml:4: b.a: the key stands here a second time (first on line 2)",
        "{\"a\": 1, \"a\": 2} | x.yaml:1: a: the key stands here a second time (first on line 1)",
        "a: &x [*x]\\n | x.yaml:1: a[0]: an alias refers to a value that contains it",
        "a: &x\\n  <<: *x\\n | x.yaml:1: a: an alias refers to a value that contains it",
        "a:\\n"
            + "  <<: 3\\n"
            + " | x.yaml:2: a: << takes the alias of a mapping, or a list of such; found something"
            + " else",
        "? [a]\\n: 1\\n | x.yaml:1: found a list or mapping as a key; allowed: text",
        "a: 1\\n---\\nb: 2\\n | x.yaml:2: a second document starts here; one per file is allowed",
        "`` | x.yaml:1: is empty; a document is needed",
        "# only a comment\\n | x.yaml:1: is empty; a document is needed",
      })
  void refusesDocumentsThatAreNotOneTree(String text, String message) {
    assertThat(failure(() -> parse(text.replace("\\n", "\n")))).isEqualTo(message);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "a: [1, 2\\nb: 3\\n | 2",
        "a: 1\\n b: 2\\n | 2",
        "a:\\n\\tb: 1\\n | 2",
        "a: 'open\\n | 2",
        "a: *nowhere\\n | 1",
        "a: 1\\n- 2\\n | 2",
        "a: {b: 1\\n | 2",
        "%YAML 9.9\\n--- 1\\n | 1",
        "a: @at\\n | 1",
      })
  void namesTheLineOfMalformedYaml(String text, int line) {
    assertThatThrownBy(() -> parse(text.replace("\\n", "\n").replace("\\t", "\t")))
        .isInstanceOf(ConfigException.class)
        .hasMessageStartingWith("x.yaml:" + line + ": malformed YAML: ")
        .satisfies(e -> assertThat(e.getMessage()).doesNotContain("\n"))
        .satisfies(e ->
            assertThat(((BerthException) e).code()).isEqualTo(BerthException.Code.CONFIGURATION));
  }

  @Test
  void saysWhenATabIsTheTrouble() {
    assertThat(failure(() -> parse("a:\n\tb: 1\n"))).contains("tab");
  }

  @Test
  void refusesAnAliasBombQuickly() {
    var bomb = new StringBuilder("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
      bomb.append("a%d: &a%d [%s]\n".formatted(i, i, ("*a" + (i - 1) + ", ").repeat(9)));
    }
    Assertions.assertTimeoutPreemptively(
        Duration.ofSeconds(20),
        () ->
            assertThat(failure(() -> parse(bomb.toString())))
                .contains("expands to more than 200000 values"));
  }

  @Test
  void refusesABombOfMergeKeysQuickly() {
    var bomb = new StringBuilder("a0: &a0 {}\n");
    for (int i = 1; i < 30; i++) {
      bomb.append("a%d: &a%d {<<: [*a%d, *a%d]}\n".formatted(i, i, i - 1, i - 1));
    }
    Assertions.assertTimeoutPreemptively(
        Duration.ofSeconds(20),
        () ->
            assertThat(failure(() -> parse(bomb.toString())))
                .contains("expands to more than 200000 values"));
  }

  @ParameterizedTest
  @ValueSource(ints = {65, 100_000})
  void refusesDeepNesting(int depth) {
    assertThat(failure(() -> parse("[".repeat(depth) + "]".repeat(depth))))
        .isEqualTo("x.yaml:1: is nested deeper than 64 levels, the most allowed");
  }

  @Test
  void sixtyFourLevelsAreAllowed() {
    assertThat(parse("[".repeat(64) + "]".repeat(64)).kind()).isEqualTo(ConfigNode.Kind.SEQUENCE);
  }

  @Test
  void tellsTheTroubleWithAFile(@TempDir Path folder) throws IOException {
    assertThat(failure(() -> ConfigNode.read(folder.resolve("no.yaml"))))
        .endsWith("no.yaml: there is no such file");
    assertThat(failure(() -> ConfigNode.read(folder))).endsWith(": is a folder; a file is needed");
    var bad =
        Files.write(folder.resolve("bad.yaml"), new byte[] {'a', ':', '\n', (byte) 0xff, '\n'});
    assertThat(failure(() -> ConfigNode.read(bad)))
        .endsWith("bad.yaml:2: found bytes that are not UTF-8 text");
    var nul = Files.writeString(folder.resolve("nul.yaml"), "a: 1\nb: \u0000\n");
    assertThat(failure(() -> ConfigNode.read(nul)))
        .endsWith("nul.yaml:2: found the character U+0000, which a YAML file may not hold");
    var large = Files.write(folder.resolve("large.yaml"), new byte[(4 << 20) + 1]);
    assertThat(failure(() -> ConfigNode.read(large)))
        .endsWith("is larger than 4194304 bytes, the most allowed");
  }

  @Test
  void aByteOrderMarkAndWindowsLineEndsAreFine(@TempDir Path folder) throws IOException {
    var file =
        Files.write(
            folder.resolve("w.yaml"), "\uFEFFa: 1\r\nb: x\r\n".getBytes(StandardCharsets.UTF_8));
    var root = ConfigNode.read(file);
    assertThat(root.requireInt("a", 0, 9)).isEqualTo(1);
    assertThat(failure(() -> root.requireInt("b", 0, 9))).contains(":2: b: found x;");
  }

  @Test
  void aLongValueIsShownCut() {
    var digits = IntStream.range(0, 5000).mapToObj(i -> "9").collect(Collectors.joining());
    assertThat(failure(() -> parse("a: " + digits).requireInt("a", 0, 1)).length()).isLessThan(200);
  }

  @Test
  void aRootThatIsNoMappingIsNamed() {
    assertThat(failure(() -> parse("- 1\n").requireInt("a", 0, 1)))
        .isEqualTo("x.yaml:1: found a list; allowed: a mapping");
    assertThat(failure(() -> parse("null").find("a")))
        .isEqualTo("x.yaml:1: found null; allowed: a mapping");
  }
}
