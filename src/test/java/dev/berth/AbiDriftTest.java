// SPDX-License-Identifier: Apache-2.0
package dev.berth;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.ffi.BerthNative;
import dev.berth.internal.NativeLibrary;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.AddressLayout;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.GroupLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.SequenceLayout;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The bindings, the header and the library are one ABI. The header's side comes from a probe that
 * the compiler made of it, the bindings' side from reflection; both are sets of lines, and equal.
 */
class AbiDriftTest {
  private static final Path CLASSES = TestFiles.codeOf(BerthNative.class);

  @Test
  void theBindingsDescribeTheHeader() {
    assertThat(bindings()).containsExactlyElementsOf(probe("abi_probe"));
  }

  /**
   * The comparison above is worth something: each of these headers differs from ours in one place.
   */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "field_type=field berth_row seat 40 J",
        "field_name=field berth_row chair 40 I",
        "field_length=field berth_iteration deferred 92 [12]I",
        "field_extra=field berth_row stool 44 I",
        "parameter=function berth_slots_find (AAJAA)I",
        "result=function berth_abi_version ()J",
        "constant=constant BERTH_E_STALE 15",
        "function_missing=function berth_core_finish (A)I"
      })
  void oneChangeInTheHeaderIsDrift(String mutant) {
    String name = mutant.substring(0, mutant.indexOf('='));
    String line = mutant.substring(mutant.indexOf('=') + 1);
    assertThat(probe("abi_probe_" + name)).isNotEqualTo(bindings()).contains(line);
    assertThat(bindings()).doesNotContain(line);
  }

  /**
   * The probe's list of names is made by a pattern; this is what says that the pattern misses none.
   */
  @Test
  void everyNameOfTheHeaderIsProbed() {
    String header = header().replaceAll("(?s)/\\*.*?\\*/", "");
    String probed = String.join("\n", probe("abi_probe"));
    SortedSet<String> missing =
        Pattern.compile("\\b(?:berth|BERTH)_\\w+")
            .matcher(header)
            .results()
            .map(match -> match.group())
            .filter(name -> !Pattern.compile("\\b" + name + "\\b").matcher(probed).find())
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(missing)
        .as("names of berth.h that are neither function, struct nor constant")
        .allMatch(name ->
            name.equals("BERTH_API")
                || name.equals("BERTH_BERTH_H")
                || header.contains("enum " + name + " {")
                || Pattern.compile("typedef struct (berth_\\w+) \\*" + name + ";")
                    .matcher(header)
                    .find()
                || header.contains("typedef struct " + name + " *"));
  }

  @Test
  void everyStructIsTiledByItsFields() {
    for (String line : probe("abi_probe")) {
      String[] words = line.split(" ");
      if (words[0].equals("struct")) {
        long end = 0;
        for (String field : probe("abi_probe")) {
          String[] f = field.split(" ");
          if (f[0].equals("field") && f[1].equals(words[1])) {
            end = Math.max(end, Long.parseLong(f[3]) + size(f[4]));
          }
        }
        assertThat(Long.parseLong(words[2]) - end)
            .as("bytes after the last field of %s", words[1])
            .isBetween(0L, 7L);
      }
    }
  }

  @Test
  void theLockNamesTheHeaderAndTheArguments() throws IOException {
    Properties lock = new Properties();
    try (InputStream in = Files.newInputStream(TestFiles.root().resolve("bindings/LOCK"))) {
      lock.load(in);
    }
    assertThat(lock.getProperty("header_sha256"))
        .as("regenerate the bindings, see bindings/README.md")
        .isEqualTo(sha256(header()));
    assertThat(lock.getProperty("args_sha256"))
        .isEqualTo(sha256(TestFiles.text("bindings/jextract.args")));
    assertThat(lock.getProperty("abi_version"))
        .isEqualTo(Integer.toString(BerthNative.BERTH_ABI_VERSION()));
  }

  @Test
  void theArgumentsAskForEveryNameOfTheHeader() {
    SortedSet<String> asked =
        TestFiles.text("bindings/jextract.args")
            .lines()
            .filter(line -> line.startsWith("--include-"))
            .map(line -> line.substring("--include-".length()))
            .collect(Collectors.toCollection(TreeSet::new));
    SortedSet<String> declared =
        probe("abi_probe").stream()
            .filter(line -> !line.startsWith("field "))
            .map(line -> line.split(" ")[0] + " " + line.split(" ")[1])
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(asked).containsExactlyElementsOf(declared);
  }

  @Test
  void theLibraryExportsWhatTheHeaderDeclaresAndNothingElse() throws IOException {
    SortedSet<String> declared = functions();
    SortedSet<String> listed =
        Pattern.compile("\\bberth_\\w+(?=;)")
            .matcher(TestFiles.text("cmake/berth.exports"))
            .results()
            .map(match -> match.group())
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(listed).as("cmake/berth.exports").containsExactlyElementsOf(declared);

    Path packaged = onlyLibrary(CLASSES.resolve("META-INF/native"));
    TestFiles.Result nm = TestFiles.run("nm", "-D", "--defined-only", packaged.toString());
    assertThat(nm.exit()).as(nm.out()).isZero();
    SortedSet<String> exported =
        nm.out()
            .lines()
            .map(line -> line.substring(line.lastIndexOf(' ') + 1))
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(exported).as("nm -D of the library in the jar").containsExactlyElementsOf(declared);
  }

  @Test
  void everyFunctionOfTheBindingsResolves() throws ReflectiveOperationException {
    NativeLibrary.load();
    SortedSet<String> unresolved = new TreeSet<>();
    for (String function : functions()) {
      try {
        MemorySegment address =
            (MemorySegment) BerthNative.class.getMethod(function + "$address").invoke(null);
        assertThat(address.address()).isNotZero();
      } catch (InvocationTargetException e) {
        unresolved.add(function);
      }
    }
    assertThat(unresolved).isEmpty();
  }

  // ---- the header's side -----------------------------------------------------------------------

  private static String header() {
    return TestFiles.text("native/include/berth/berth.h");
  }

  private static SortedSet<String> probe(String name) {
    TestFiles.Result result = TestFiles.run(TestFiles.nativeBuild().resolve(name).toString());
    assertThat(result.exit()).isZero();
    SortedSet<String> lines = result.out().lines().collect(Collectors.toCollection(TreeSet::new));
    assertThat(lines).as("facts that %s prints", name).hasSizeGreaterThan(100);
    return lines;
  }

  private static SortedSet<String> functions() {
    return probe("abi_probe").stream()
        .filter(line -> line.startsWith("function "))
        .map(line -> line.split(" ")[1])
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** Bytes of a type of the probe. */
  private static long size(String type) {
    if (type.startsWith("[")) {
      int end = type.indexOf(']');
      return Long.parseLong(type.substring(1, end)) * size(type.substring(end + 1));
    }
    return switch (type) {
      case "B", "Z" -> 1;
      case "S" -> 2;
      case "I", "F" -> 4;
      default -> 8;
    };
  }

  // ---- the bindings' side ----------------------------------------------------------------------

  /** Descriptors are initialised together with their symbols, so the library must be there. */
  private static SortedSet<String> bindings() {
    NativeLibrary.load();
    SortedSet<String> lines = new TreeSet<>();
    try {
      for (Method method : BerthNative.class.getDeclaredMethods()) {
        String name = method.getName();
        if (!Modifier.isPublic(method.getModifiers()) || method.getParameterCount() > 0) {
          continue;
        }
        if (name.endsWith("$descriptor")) {
          lines.add(
              "function %s %s".formatted(name.substring(0, name.indexOf('$')), signature(method)));
        } else if (name.startsWith("BERTH_")) {
          lines.add("constant %s %d".formatted(name, ((Number) method.invoke(null)).longValue()));
        }
      }
      for (String struct : structs()) {
        GroupLayout layout =
            (GroupLayout)
                Class.forName(BerthNative.class.getPackageName() + "." + struct)
                    .getMethod("layout")
                    .invoke(null);
        lines.add("struct %s %d %d".formatted(struct, layout.byteSize(), layout.byteAlignment()));
        for (MemoryLayout member : layout.memberLayouts()) {
          if (!(member instanceof PaddingLayout)) {
            String name = member.name().orElseThrow();
            lines.add(
                "field %s %s %d %s"
                    .formatted(
                        struct,
                        name,
                        layout.byteOffset(PathElement.groupElement(name)),
                        type(member)));
          }
        }
      }
    } catch (ReflectiveOperationException | IOException e) {
      throw new AssertionError(e);
    }
    return lines;
  }

  private static String signature(Method descriptorMethod) throws IllegalAccessException {
    try {
      FunctionDescriptor descriptor = (FunctionDescriptor) descriptorMethod.invoke(null);
      return "(%s)%s"
          .formatted(
              descriptor.argumentLayouts().stream()
                  .map(AbiDriftTest::type)
                  .collect(Collectors.joining()),
              descriptor.returnLayout().map(AbiDriftTest::type).orElse("V"));
    } catch (InvocationTargetException e) {
      return "is not in the library";
    }
  }

  /** Every class of the bindings that is a struct, whether the header knows it or not. */
  private static List<String> structs() throws IOException {
    try (Stream<Path> files = Files.list(CLASSES.resolve("dev/berth/ffi"))) {
      return files
          .map(file -> file.getFileName().toString().replace(".class", ""))
          .filter(name ->
              !name.contains("$") && !name.equals("BerthNative") && !name.equals("BerthSymbols"))
          .toList();
    }
  }

  private static String type(MemoryLayout layout) {
    return switch (layout) {
      case AddressLayout a -> "A";
      case SequenceLayout s -> "[" + s.elementCount() + "]" + type(s.elementLayout());
      case ValueLayout v -> v.carrier().descriptorString();
      default -> "?" + layout;
    };
  }

  // ----------------------------------------------------------------------------------------------

  private static Path onlyLibrary(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      List<Path> libraries =
          files.filter(file -> file.getFileName().toString().startsWith("libberth.")).toList();
      assertThat(libraries).hasSize(1);
      return libraries.getFirst();
    }
  }

  private static String sha256(String text) {
    try {
      return HexFormat.of()
          .formatHex(
              MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError(e);
    }
  }
}
