// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.berth.TestFiles;
import dev.berth.TestFiles.Result;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each load happens in a JVM of its own: a library that a JVM has loaded stays loaded. */
class NativeLibraryTest {
  private static final Path CLASSES = codeSource(NativeLibrary.class);
  private static final Path TEST_CLASSES = codeSource(LoadProbe.class);
  private static final String FLAG = "--enable-native-access=ALL-UNNAMED";

  @TempDir Path folder;

  @Test
  void theLibraryOfTheJarIsLoadedAndNamed() {
    Result result = probe("load", "load");
    assertThat(result.exit()).isZero();
    assertThat(result.out().lines().filter(line -> line.startsWith("LOADED ")).distinct())
        .singleElement()
        .asString()
        .contains(
            "ABI 1", "from the jar: file:", CLASSES.toUri().getRawPath() + "META-INF/native/");
    assertThat(result.out()).contains("STATUS probe: stale handle (status 5)");
  }

  @Test
  void loadingPrintsNothing() {
    assertThat(probe("load").out().lines())
        .allMatch(line -> line.startsWith("LOADED ") || line.startsWith("STATUS "));
  }

  @Test
  void theUnpackedFileIsGoneOnceItIsLoaded() {
    Result result =
        probe(
            List.of("-D" + NativeLibrary.WORKDIR_PROPERTY + "=" + folder),
            "load",
            "list:" + folder);
    assertThat(result.out()).contains("LOADED ", "FILES []");
  }

  @Test
  void theUnpackedFileIsGoneAfterAFailureToo() throws IOException {
    Path classes = classesWithLibrary(fake("version"));
    Result result =
        java(
            Map.of(),
            List.of("-D" + NativeLibrary.WORKDIR_PROPERTY + "=" + folder, FLAG),
            classes,
            "load",
            "list:" + folder);
    assertThat(result.out()).contains("FAILED ");
    assertThat(result.out().lines().filter(line -> line.startsWith("FILES ")).toList().toString())
        .doesNotContain("libberth-");
  }

  @Test
  void eightThreadsLoadItOnce() {
    assertThat(probe("threads").out()).isEqualToIgnoringNewLines("DISTINCT 1");
  }

  // ---- who is asked first ----------------------------------------------------------------------

  @Test
  void thePropertyNamesAFile() throws IOException {
    Path file = Files.copy(library(), folder.resolve("some name.so"));
    assertThat(probe(named(file), "load").out()).contains("from -Ddev.berth.library.path: " + file);
  }

  @Test
  void thePropertyNamesAFolder() throws IOException {
    Files.copy(library(), folder.resolve(library().getFileName()));
    assertThat(probe(named(folder), "load").out())
        .contains("LOADED ", "from -Ddev.berth.library.path: " + folder);
  }

  @Test
  void thePropertyNamesAFolderOfPlatforms() {
    Path natives = CLASSES.resolve("META-INF/native");
    assertThat(probe(named(natives), "load").out())
        .contains("LOADED ", "from -Ddev.berth.library.path: " + library());
  }

  @Test
  void aRelativePathIsAgainstTheWorkingFolder() {
    Path relative = Path.of("").toAbsolutePath().relativize(library());
    assertThat(probe(named(relative), "load").out()).contains("LOADED ", library().toString());
  }

  @Test
  void theEnvironmentVariableDoesTheSameAndThePropertyWins() throws IOException {
    Map<String, String> environment = Map.of(NativeLibrary.PATH_VARIABLE, library().toString());
    assertThat(java(environment, List.of(FLAG), CLASSES, "load").out())
        .contains("from BERTH_LIBRARY_PATH: " + library());

    Path file = Files.copy(library(), folder.resolve("other.so"));
    List<String> options = new ArrayList<>(named(file));
    options.add(FLAG);
    assertThat(java(environment, options, CLASSES, "load").out())
        .contains("from -Ddev.berth.library.path: " + file);
  }

  @Test
  void aNamedLibraryThatIsNotThereIsNotReplacedByTheJars() {
    Result result = probe(named(folder.resolve("nothing.so")), "load");
    assertThat(result.out())
        .contains("FAILED UNAVAILABLE", "nothing.so does not exist")
        .doesNotContain("LOADED");
    assertThat(attempts(result)).hasSize(1);
  }

  @Test
  void everyFileThatWasTriedIsSuppressedInTheException() {
    Result result = probe(named(folder), "load");
    assertThat(attempts(result))
        .hasSize(2)
        .allMatch(line -> line.contains(folder.toString()))
        .allMatch(line -> line.endsWith("does not exist"));
  }

  @Test
  void javaLibraryPathIsTheLastResort() throws IOException {
    Path bare = classesWithLibrary(null);
    List<String> good =
        List.of("-Djava.library.path=" + folder + File.pathSeparator + library().getParent(), FLAG);
    assertThat(java(Map.of(), good, bare, "load").out())
        .contains("from java.library.path: " + library());

    List<String> bad = List.of("-Djava.library.path=" + fake("version").getParent(), FLAG);
    Result result = java(Map.of(), bad, bare, "load");
    assertThat(attempts(result)).hasSize(2);
    assertThat(attempts(result).getFirst())
        .contains("the jar: META-INF/native/", "no library for this platform");
    assertThat(attempts(result).getLast())
        .contains("java.library.path: ", "speaks ABI version 999");
  }

  @Test
  void aFailedLoadNeverLooksLoadedAndTheNextCallTriesAgain() {
    Result result =
        probe(named(folder), "load", "load", "clear:" + NativeLibrary.PATH_PROPERTY, "load");
    assertThat(result.out().lines().map(line -> line.split(" ")[0]))
        .filteredOn(word -> !word.isEmpty())
        .containsExactly(
            "FAILED", "ATTEMPT", "ATTEMPT", "FAILED", "ATTEMPT", "ATTEMPT", "LOADED", "STATUS");
  }

  // ---- what is refused -------------------------------------------------------------------------

  @Test
  void aLibraryOfAnotherAbiVersionIsRefusedWithBothVersions() {
    assertThat(probe(named(fake("version")), "load").out())
        .contains("FAILED UNAVAILABLE", "speaks ABI version 999, these bindings speak 1");
  }

  @Test
  void aLibraryOfAnotherHeaderIsRefusedWithBothHashes() {
    String ours =
        TestFiles.text("bindings/LOCK")
            .lines()
            .filter(line -> line.startsWith("header_sha256="))
            .findFirst()
            .orElseThrow();
    assertThat(probe(named(fake("header")), "load").out())
        .contains(
            "FAILED UNAVAILABLE",
            "hash 0123456789abcdef, the bindings' is " + ours.split("=")[1].substring(0, 16));
  }

  @Test
  void aRefusedLibraryLeavesNothingBehind() {
    Result result =
        probe(named(fake("header")), "load", "clear:" + NativeLibrary.PATH_PROPERTY, "load");
    assertThat(result.out()).contains("FAILED ", "LOADED ", "from the jar: ");
  }

  @Test
  void anyOtherLibraryIsRefused() {
    assertThat(probe(named(fake("stranger")), "load").out())
        .contains("FAILED UNAVAILABLE", "is no libberth: it has no function berth_abi_version");
  }

  @Test
  void aFileThatIsNoLibraryIsRefusedWithTheLinkersReason() throws IOException {
    Path file = Files.writeString(folder.resolve("libberth.so"), "x".repeat(5000));
    assertThat(probe(named(file), "load").out())
        .contains("FAILED UNAVAILABLE", "cannot be opened (", "invalid ELF header");
    Path empty = Files.writeString(folder.resolve("empty.so"), "");
    assertThat(probe(named(empty), "load").out())
        .contains("FAILED UNAVAILABLE", "cannot be opened (", "file too short");
  }

  /**
   * The system's linker answers a library whose end is missing with SIGBUS; that must not be
   * reached.
   */
  @Test
  void aTruncatedLibraryIsRefused() throws IOException {
    byte[] whole = Files.readAllBytes(library());
    for (int kept : new int[] {64, 4096, whole.length / 2, whole.length - 1}) {
      Path file = Files.write(folder.resolve("cut-" + kept + ".so"), Arrays.copyOf(whole, kept));
      Result result = probe(named(file), "load");
      assertThat(result.exit()).as("%d of %d bytes", kept, whole.length).isZero();
      assertThat(result.out())
          .contains("FAILED UNAVAILABLE", "is incomplete: " + kept + " bytes of " + whole.length);
    }
  }

  @Test
  void twoDifferentLibrariesOnTheClassPathAreRefused() throws IOException {
    Path other = classesWithLibrary(fake("header"));
    Result result =
        java(Map.of(), List.of(FLAG), Path.of(CLASSES + File.pathSeparator + other), "load");
    assertThat(result.out())
        .contains(
            "FAILED UNAVAILABLE",
            "differs from a second libberth at file:",
            other.toUri().getRawPath());
  }

  @Test
  void twoCopiesOfTheSameLibraryAreOne() throws IOException {
    Path other = classesWithLibrary(library());
    assertThat(
            java(Map.of(), List.of(FLAG), Path.of(CLASSES + File.pathSeparator + other), "load")
                .out())
        .contains("LOADED ");
  }

  @Test
  void aBuildWithoutItsLockTrustsNoLibrary() throws IOException {
    Path lock = folder.resolve("dev/berth/internal/LOCK");
    Files.createDirectories(lock.getParent());
    Files.writeString(lock, "header_sha256=770\n");
    Result result =
        java(Map.of(), List.of(FLAG), Path.of(folder + File.pathSeparator + CLASSES), "load");
    assertThat(result.out())
        .contains("FAILED UNAVAILABLE the file LOCK of this build of Berth is damaged");
  }

  // ---- what is explained -----------------------------------------------------------------------

  @Test
  void withoutNativeAccessTheExactFlagIsNamed() {
    Result result =
        java(Map.of(), List.of("--illegal-native-access=deny"), CLASSES, "load", "load");
    assertThat(result.out().lines())
        .hasSize(2)
        .allMatch(line ->
            line.equals(
                "FAILED UNAVAILABLE Berth calls native code, which this JVM forbids: start it with "
                    + FLAG));
  }

  @Test
  void aFolderThatForbidsExecutionIsNamed() {
    List<String> unshare =
        new ArrayList<>(
            List.of(
                "unshare",
                System.getProperty("user.name").equals("root") ? "-m" : "-rm",
                "sh",
                "-c"));
    unshare.add("mount -t tmpfs -o noexec,size=16m tmpfs \"$0\" && exec \"$@\"");
    unshare.add(folder.toString());
    List<String> trial = new ArrayList<>(unshare);
    trial.add("true");
    Result possible = run(trial);
    assumeTrue(
        possible.exit() == 0, "mounting a file system is not allowed here: " + possible.out());

    List<String> command = new ArrayList<>(unshare);
    command.addAll(
        List.of(
            TestFiles.jdkTool("java"),
            FLAG,
            "-D" + NativeLibrary.WORKDIR_PROPERTY + "=" + folder,
            "-cp",
            CLASSES + File.pathSeparator + TEST_CLASSES,
            LoadProbe.class.getName(),
            "load"));
    assertThat(run(command).out())
        .contains("FAILED UNAVAILABLE")
        .contains(
            "the folder "
                + folder
                + " is on a file system mounted noexec, choose another with -Ddev.berth.library.workdir=<folder>");
  }

  @Test
  void aWorkFolderThatIsNotThereIsNamed() {
    Path missing = folder.resolve("missing");
    assertThat(probe(List.of("-D" + NativeLibrary.WORKDIR_PROPERTY + "=" + missing), "load").out())
        .contains(
            "FAILED UNAVAILABLE",
            "cannot be unpacked in the folder " + missing,
            "choose another with -Ddev.berth.library.workdir=");
  }

  // ----------------------------------------------------------------------------------------------

  private static Path codeSource(Class<?> type) {
    return TestFiles.codeOf(type);
  }

  private static Path library() {
    try (Stream<Path> files = Files.walk(CLASSES.resolve("META-INF/native"))) {
      return files
          .filter(file -> file.getFileName().toString().equals(System.mapLibraryName("berth")))
          .findFirst()
          .orElseThrow();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static Path fake(String name) {
    return TestFiles.nativeBuild().resolve("fake").resolve(name).resolve("libberth.so");
  }

  private static List<String> named(Path library) {
    return List.of("-D" + NativeLibrary.PATH_PROPERTY + "=" + library);
  }

  /** A copy of the classes with another library in place of ours; null: none. */
  private Path classesWithLibrary(@Nullable Path library) throws IOException {
    Path copy = Files.createTempDirectory(folder, "classes");
    try (Stream<Path> files = Files.walk(CLASSES)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        Path name = CLASSES.relativize(file);
        if (name.startsWith("dev/berth/internal")
            || name.startsWith("dev/berth/ffi")
            || name.getNameCount() == 3) {
          Files.createDirectories(copy.resolve(name).getParent());
          Files.copy(file, copy.resolve(name));
        }
      }
    }
    if (library != null) {
      Path target = copy.resolve(CLASSES.relativize(library()));
      Files.createDirectories(target.getParent());
      Files.copy(library, target);
    }
    return copy;
  }

  private static List<String> attempts(Result result) {
    return result.out().lines().filter(line -> line.startsWith("ATTEMPT ")).toList();
  }

  private static Result probe(String... steps) {
    return probe(List.of(), steps);
  }

  private static Result probe(List<String> options, String... steps) {
    List<String> all = new ArrayList<>(options);
    all.add(FLAG);
    return java(Map.of(), all, CLASSES, steps);
  }

  private static Result java(
      Map<String, String> environment, List<String> options, Path classes, String... steps) {
    List<String> arguments = new ArrayList<>(options);
    arguments.addAll(
        List.of("-cp", classes + File.pathSeparator + TEST_CLASSES, LoadProbe.class.getName()));
    arguments.addAll(List.of(steps));
    return TestFiles.java(environment, arguments);
  }

  private static Result run(List<String> command) {
    return TestFiles.run(Map.of(), command);
  }
}
