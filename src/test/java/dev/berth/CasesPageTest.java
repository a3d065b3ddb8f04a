// SPDX-License-Identifier: Apache-2.0
package dev.berth;

import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaMethod;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;

/** docs/cases.md names every published bug once, and only tests that are there. */
class CasesPageTest {
  private static final Pattern ROW = Pattern.compile("\\| (BC-\\d\\d) \\| (.*) \\| (.*) ?\\|");
  private static final Pattern TEST = Pattern.compile("`(\\w+)#(\\w+)`");

  /** Cases without a test: the feature isn't there. */
  private static final Set<String> OPEN =
      Set.of(
          "BC-38", "BC-44", "BC-45", "BC-49", "BC-58", "BC-59", "BC-66", "BC-68", "BC-70", "BC-75",
          "BC-77", "BC-80", "BC-81");

  private static List<Matcher> rows() throws IOException {
    return Files.readAllLines(TestFiles.root().resolve(Path.of("docs", "cases.md"))).stream()
        .map(ROW::matcher)
        .filter(Matcher::matches)
        .toList();
  }

  @Test
  void everyCaseStandsThereOnce() throws IOException {
    assertThat(rows().stream().map(row -> row.group(1)))
        .containsExactlyElementsOf(
            IntStream.rangeClosed(1, 96).mapToObj("BC-%02d"::formatted).toList());
  }

  @Test
  void whatHasNoTestSaysWhy() throws IOException {
    var open = new TreeSet<String>();
    for (Matcher row : rows()) {
      if (!TEST.matcher(row.group(2)).find()) {
        open.add(row.group(1));
        assertThat(row.group(3).strip()).as(row.group(1)).isNotEmpty();
      }
    }
    assertThat(open).isEqualTo(new TreeSet<>(OPEN));
  }

  @Test
  void everyTestThatIsNamedIsThere() throws IOException {
    Set<String> there = tests();
    var missing = new TreeMap<String, String>();
    for (Matcher row : rows()) {
      Matcher test = TEST.matcher(row.group(2));
      while (test.find()) {
        String name = test.group(1) + "#" + test.group(2);
        if (!there.contains(name)) {
          missing.put(name, row.group(1));
        }
      }
    }
    assertThat(missing).isEmpty();
  }

  /** Methods that JUnit runs, by the outermost class. */
  private static Set<String> tests() {
    return new ClassFileImporter()
            .withImportOption(ImportOption.Predefined.ONLY_INCLUDE_TESTS)
            .importPackages("dev.berth")
            .stream()
            .flatMap(type -> type.getMethods().stream())
            .filter(method ->
                method.isAnnotatedWith(Test.class)
                    || method.isAnnotatedWith(ParameterizedTest.class))
            .map(CasesPageTest::name)
            .collect(Collectors.toCollection(HashSet::new));
  }

  private static String name(JavaMethod method) {
    JavaClass type = method.getOwner();
    while (type.getEnclosingClass().isPresent()) {
      type = type.getEnclosingClass().get();
    }
    return type.getSimpleName() + "#" + method.getName();
  }
}
