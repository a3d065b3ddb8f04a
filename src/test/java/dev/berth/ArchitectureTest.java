// SPDX-License-Identifier: Apache-2.0
package dev.berth;

import static com.tngtech.archunit.base.DescribedPredicate.describe;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.AccessTarget;
import com.tngtech.archunit.core.domain.Dependency;
import com.tngtech.archunit.core.domain.JavaAccess;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import com.tngtech.archunit.lang.syntax.elements.GivenClassesConjunction;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The house: who may import whom, and what decisions may not touch. Each rule is also run against
 * {@code dev.berth.fixture}, a little house in which each is broken, so that none passes for want
 * of anything to look at.
 */
class ArchitectureTest {
  /** Packages from the ground up; a package may import those of a smaller number, and itself. */
  private static final Map<String, Integer> FLOORS =
      Map.ofEntries(
          Map.entry("id", 0),
          Map.entry("plan", 1),
          Map.entry("request", 2),
          Map.entry("route", 3),
          Map.entry("capacity", 3),
          Map.entry("kv", 3),
          Map.entry("exchange", 3),
          Map.entry("transfer", 3),
          Map.entry("engine", 4),
          Map.entry("metrics", 5),
          Map.entry("replay", 6),
          Map.entry("simulate", 6),
          Map.entry("config", 7),
          Map.entry("cli", 8));

  /** Beside the stairs: the bindings and what is allowed to call them. */
  private static final Set<String> CELLAR = Set.of("internal", "ffi");

  /** What rests on native code, and the command that describes the library. */
  private static final Set<String> NATIVE_BACKED =
      Set.of("request", "capacity", "kv", "exchange", "transfer", "engine", "cli");

  private static final Set<String> DECISIONS =
      Set.of("plan", "request", "route", "capacity", "kv", "engine");

  /**
   * What stands around the decisions for those who serve: hands requests in and tokens out, waits
   * and wakes. Decides nothing.
   */
  private static final Set<String> SHELL =
      Set.of("Engine", "EngineLoop", "Inbox", "RequestHandle", "TokenPublisher", "TokenStream");

  /** The only one of them that reads a clock. */
  private static final String CLOCK_READER = "EngineLoop";

  private static final JavaClasses PRODUCT =
      new ClassFileImporter()
          .withImportOption(new ImportOption.DoNotIncludeTests())
          .importPackages("dev.berth");
  private static final JavaClasses FIXTURE =
      new ClassFileImporter().importPackages("dev.berth.fixture");

  private enum Rule {
    IMPORTS_POINT_DOWNWARD {
      @Override
      ArchRule in(String house) {
        return classes().should(only("import what lies below", house, ArchitectureTest::mayImport));
      }
    },
    ONLY_INTERNAL_AND_THE_REQUEST_TABLE_TOUCH_THE_BINDINGS {
      @Override
      ArchRule in(String house) {
        return noClasses()
            .that(
                describe(
                    "aren't in internal or ffi, nor the RequestTable",
                    type -> {
                      String room = room(house, type);
                      boolean table =
                          room.equals("request")
                              && outermost(type).getSimpleName().equals("RequestTable");
                      return !CELLAR.contains(room) && !table;
                    }))
            .should()
            .dependOnClassesThat()
            .resideInAPackage(house + ".ffi..");
      }
    },
    PLAN_IS_PURE_JAVA {
      @Override
      ArchRule in(String house) {
        return noClasses()
            .that(resideInAnyPackage(house + ".id..", house + ".plan.."))
            .should()
            .dependOnClassesThat(
                resideInAnyPackage("java.lang.foreign..", house + ".internal..", house + ".ffi.."));
      }
    },
    /**
     * They may read gathered values where the exchange has them, and do nothing else with memory.
     */
    ROUTERS_CALL_NO_NATIVE_CODE {
      @Override
      ArchRule in(String house) {
        return noClasses()
            .that(resideInAnyPackage(house + ".route.."))
            .should()
            .dependOnClassesThat(resideInAnyPackage(house + ".internal..", house + ".ffi.."))
            .orShould()
            .dependOnClassesThat()
            .haveFullyQualifiedName("java.lang.foreign.Arena")
            .orShould()
            .dependOnClassesThat()
            .haveFullyQualifiedName("java.lang.foreign.Linker")
            .orShould()
            .dependOnClassesThat()
            .haveFullyQualifiedName("java.lang.foreign.SymbolLookup")
            .orShould(
                accessTo(
                    "unbounded memory",
                    Map.of("java.lang.foreign.MemorySegment", Set.of("reinterpret", "ofAddress"))));
      }
    },
    /** It isn't there unless it is asked for: one class knows it, and is loaded by name. */
    ONE_CLASS_TOUCHES_THE_INCUBATING_MODULE {
      @Override
      ArchRule in(String house) {
        return noClasses()
            .that(
                describe(
                    "aren't the vector kernels",
                    type ->
                        !outermost(type).getName().equals(house + ".route.kernel.VectorKernels")))
            .should()
            .dependOnClassesThat()
            .resideInAPackage("jdk.incubator..")
            .orShould()
            .dependOnClassesThat()
            .haveFullyQualifiedName(house + ".route.kernel.VectorKernels");
      }
    },
    OPTIONAL_LIBRARIES_STAY_ON_TOP {
      @Override
      ArchRule in(String house) {
        return noClasses()
            .that(not(resideInAnyPackage(house + ".cli..", house + ".config..")))
            .should()
            .dependOnClassesThat(
                resideInAnyPackage("picocli..", "org.snakeyaml..", "tools.jackson.."));
      }
    },
    ONLY_THE_COMMAND_PRINTS {
      @Override
      ArchRule in(String house) {
        return noClasses()
            .that(not(resideInAnyPackage(house + ".cli..", house + ".ffi..")))
            .should(
                accessTo(
                    "the standard streams", Map.of("java.lang.System", Set.of("out", "err", "in"))))
            .orShould(
                accessTo("stack traces", Map.of("java.lang.Throwable", Set.of("printStackTrace"))));
      }
    },
    DECISIONS_READ_NO_CLOCK {
      @Override
      ArchRule in(String house) {
        return decisions(house, Set.of(CLOCK_READER))
            .should(
                accessTo(
                    "a clock",
                    Map.of(
                        "java.lang.System", Set.of("nanoTime", "currentTimeMillis"),
                        "java.time.Instant", Set.of("now"),
                        "java.time.LocalDateTime", Set.of("now"),
                        "java.time.ZonedDateTime", Set.of("now"),
                        "java.time.Clock",
                            Set.of("systemUTC", "systemDefaultZone", "system", "tick"),
                        "java.lang.Thread", Set.of("sleep"))));
      }
    },
    DECISIONS_ARE_NOT_LEFT_TO_CHANCE {
      @Override
      ArchRule in(String house) {
        return decisions(house, Set.of())
            .should(
                accessTo(
                    "unseeded randomness",
                    Map.of(
                        "java.lang.Math", Set.of("random"),
                        "java.util.concurrent.ThreadLocalRandom", Set.of("current"),
                        "java.util.UUID", Set.of("randomUUID"),
                        "java.util.Collections", Set.of("shuffle"),
                        "java.util.random.RandomGenerator", Set.of("getDefault"),
                        "java.lang.System", Set.of("identityHashCode"))))
            .orShould(unseededRandom());
      }
    },
    DECISIONS_OWN_NO_THREADS {
      @Override
      ArchRule in(String house) {
        return decisions(house, SHELL)
            .should()
            .dependOnClassesThat(
                describe(
                    "start threads",
                    type ->
                        type.isAssignableTo("java.util.concurrent.Executor")
                            || type.isAssignableTo(Thread.class)
                            || type.getName().equals("java.util.concurrent.CompletableFuture")));
      }
    };

    abstract ArchRule in(String house);
  }

  @ParameterizedTest
  @EnumSource
  void theHouseKeepsTheRule(Rule rule) {
    rule.in("dev.berth").allowEmptyShould(false).check(PRODUCT);
  }

  @ParameterizedTest
  @EnumSource
  void aHouseThatBreaksTheRuleIsNoticed(Rule rule) {
    assertThat(rule.in("dev.berth.fixture").evaluate(FIXTURE).getFailureReport().getDetails())
        .as(rule.in("dev.berth.fixture").getDescription())
        .isNotEmpty()
        .anyMatch(line ->
            line.toLowerCase(Locale.ROOT)
                .contains("breaks" + rule.name().replace("_", "").toLowerCase(Locale.ROOT)));
  }

  @Test
  void everyPackageHasItsFloor() {
    for (JavaClass type : PRODUCT) {
      String room = room("dev.berth", type);
      assertThat(room.isEmpty() || FLOORS.containsKey(room) || CELLAR.contains(room))
          .as("%s: a package that the house doesn't know", type)
          .isTrue();
    }
  }

  /** docs/architecture.md: one page, whose map is this house and no other. */
  @Test
  void theMapShowsEveryPackageAndNamesThoseThatHoldNothing() throws IOException {
    String page =
        Files.readString(
            Path.of(System.getProperty("berth.test.basedir", "."), "docs", "architecture.md"));
    assertThat(page.lines().count()).isLessThan(100);
    String map = page.split("```", 3)[1];
    Set<String> shown = words(Pattern.compile("[a-z]+"), map);
    Set<String> rooms = new TreeSet<>(FLOORS.keySet());
    rooms.addAll(CELLAR);
    assertThat(shown).containsAll(rooms);
    var furnished = new TreeSet<String>();
    PRODUCT.forEach(type -> furnished.add(room("dev.berth", type)));
    rooms.removeAll(furnished);
    String empty =
        page.lines().filter(line -> line.contains(" nothing yet")).collect(Collectors.joining());
    Set<String> named = words(Pattern.compile("(?<=`)[a-z]+(?=`)"), empty.split("nothing yet")[0]);
    assertThat(named).isEqualTo(rooms);
  }

  private static Set<String> words(Pattern word, String text) {
    return word.matcher(text)
        .results()
        .map(MatchResult::group)
        .collect(Collectors.toCollection(TreeSet::new));
  }

  // ---- names that code may not know ------------------------------------------------------------

  private static final List<String> NAMELESS =
      List.of(
          "engine",
          "replay",
          "simulate",
          "exchange",
          "transfer",
          "capacity",
          "kv",
          "request",
          "route");

  /**
   * A rule that holds for one model or one scenario is no rule: these packages know none by name.
   */
  @Test
  void theEngineAndTheSimulatorKnowNoScenarioModelOrVector() throws IOException {
    Pattern names = names();
    List<String> found = new ArrayList<>();
    for (String room : NAMELESS) {
      found.addAll(
          mentions(names, TestFiles.root().resolve("src/main/java/dev/berth").resolve(room)));
    }
    found.addAll(mentions(names, TestFiles.root().resolve("native/core")));
    assertThat(found).as("names of scenarios, models or vectors in code").isEmpty();
  }

  @Test
  void aNameInCodeIsNoticed() throws IOException {
    for (String line :
        List.of(
            "if (name.equals(\"deepseek-r1-ctx-dep4\")) {",
            "int glm5Cap = 3;",
            "// as Kimi K2 needs")) {
      assertThat(names().matcher(line).find()).as(line).isTrue();
    }
    assertThat(names().matcher("int contexts = model.layers();").find()).isFalse();
  }

  /**
   * Models by family; scenarios and vectors by the names of the files that are shipped or tested.
   */
  private static Pattern names() throws IOException {
    List<String> names =
        new ArrayList<>(
            List.of(
                "deep-?seek",
                "\\bglm",
                "\\bkimi",
                "\\bqwen",
                "gpt-?oss",
                "nemotron",
                "\\bllama",
                "mixtral",
                "\\bdsr1"));
    for (String folder : List.of("src/main/resources", "src/test/resources")) {
      Path path = TestFiles.root().resolve(folder);
      if (Files.isDirectory(path)) {
        try (Stream<Path> files = Files.walk(path)) {
          files
              .filter(file ->
                  file.toString().contains("scenario") || file.toString().contains("golden"))
              .map(file -> file.getFileName().toString())
              .filter(file -> file.matches(".*\\.(ya?ml|jsonl)"))
              .map(file -> file.replaceFirst("\\.[a-z]+$", ""))
              .filter(name -> name.matches(".*[-_0-9].*"))
              .map(Pattern::quote)
              .forEach(names::add);
        }
      }
    }
    return Pattern.compile(String.join("|", names), Pattern.CASE_INSENSITIVE);
  }

  /** A policy of the header may share its name with the vectors that hold it. */
  private static final String HEADER_CONSTANT = "\\bBERTH_[A-Z0-9_]+";

  private static List<String> mentions(Pattern names, Path folder) throws IOException {
    List<String> found = new ArrayList<>();
    if (Files.isDirectory(folder)) {
      try (Stream<Path> files = Files.walk(folder)) {
        for (Path file : files.filter(Files::isRegularFile).toList()) {
          Files.readString(file)
              .lines()
              .filter(line -> names.matcher(line.replaceAll(HEADER_CONSTANT, "")).find())
              .map(line -> file.getFileName() + ": " + line.strip())
              .forEach(found::add);
        }
      }
    }
    return found;
  }

  // ---- the vocabulary of the rules -------------------------------------------------------------

  /**
   * First package below the house: "engine" of dev.berth.engine.jfr; empty for the house itself.
   */
  private static String room(String house, JavaClass type) {
    String name = type.getPackageName();
    if (!name.startsWith(house + ".")) {
      return "";
    }
    String below = name.substring(house.length() + 1);
    return below.contains(".") ? below.substring(0, below.indexOf('.')) : below;
  }

  private static boolean mayImport(String from, String to) {
    if (to.isEmpty() || from.equals(to)) {
      return true; // what stands in the house's own package is everybody's
    }
    if (from.equals("internal")) {
      return to.equals("ffi");
    }
    if (to.equals("internal")) {
      return NATIVE_BACKED.contains(from);
    }
    if (to.equals("ffi")) {
      return from.equals("request"); // which class of it is another rule
    }
    return FLOORS.getOrDefault(to, Integer.MAX_VALUE) < FLOORS.getOrDefault(from, -1);
  }

  private static GivenClassesConjunction decisions(String house, Set<String> but) {
    return noClasses()
        .that(
            describe(
                "make decisions",
                type ->
                    DECISIONS.contains(room(house, type))
                        && !(type.getPackageName().equals(house + ".engine")
                            && but.contains(outermost(type).getSimpleName()))));
  }

  private static DescribedPredicate<JavaClass> not(DescribedPredicate<JavaClass> predicate) {
    return DescribedPredicate.not(predicate);
  }

  private static JavaClass outermost(JavaClass type) {
    return type.getEnclosingClass().map(ArchitectureTest::outermost).orElse(type);
  }

  private interface Edge {
    boolean allowed(String from, String to);
  }

  private static ArchCondition<JavaClass> only(String description, String house, Edge edge) {
    return new ArchCondition<>(description) {
      @Override
      public void check(JavaClass type, ConditionEvents events) {
        for (Dependency dependency : type.getDirectDependenciesFromSelf()) {
          JavaClass target = dependency.getTargetClass();
          if (target.getPackageName().equals(house)
              || target.getPackageName().startsWith(house + ".")) {
            events.add(
                new SimpleConditionEvent(
                    type,
                    edge.allowed(room(house, type), room(house, target)),
                    dependency.getDescription()));
          }
        }
      }
    };
  }

  /** Access to a field or method by owner and name. For noClasses(): an event means a breach. */
  private static ArchCondition<JavaClass> accessTo(
      String description, Map<String, Set<String>> members) {
    return new ArchCondition<>("access " + description) {
      @Override
      public void check(JavaClass type, ConditionEvents events) {
        for (JavaAccess<?> access : type.getAccessesFromSelf()) {
          AccessTarget target = access.getTarget();
          boolean hit =
              members.entrySet().stream()
                  .anyMatch(entry ->
                      entry.getValue().contains(target.getName())
                          && target.getOwner().isAssignableTo(entry.getKey()));
          events.add(new SimpleConditionEvent(type, hit, access.getDescription()));
        }
      }
    };
  }

  private static ArchCondition<JavaClass> unseededRandom() {
    return new ArchCondition<>("make a random generator without a seed") {
      @Override
      public void check(JavaClass type, ConditionEvents events) {
        type.getConstructorCallsFromSelf()
            .forEach(call ->
                events.add(
                    new SimpleConditionEvent(
                        type,
                        call.getTarget()
                                .getOwner()
                                .isAssignableTo("java.util.random.RandomGenerator")
                            && call.getTarget().getRawParameterTypes().isEmpty(),
                        call.getDescription())));
      }
    };
  }
}
