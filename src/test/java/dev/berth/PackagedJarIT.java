// SPDX-License-Identifier: Apache-2.0
package dev.berth;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.TestFiles.Result;
import java.io.File;
import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.jar.JarFile;
import java.util.zip.ZipEntry;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The jars as they are shipped: as a module, on the class path, as a command. */
class PackagedJarIT {
  private static final Path JAR = Path.of(System.getProperty("berth.test.jar"));
  private static final Path CLI_JAR = Path.of(System.getProperty("berth.test.cli.jar"));
  private static final String EXPORT = "--add-exports=dev.berth/dev.berth.internal=consumer";

  @TempDir Path folder;

  /** A program of somebody else's, in a module of its own, with nothing but the jar beside it. */
  private Result consumer(String... options) throws IOException {
    Path sources = Files.createDirectories(folder.resolve("src/consumer"));
    Path classes = folder.resolve("classes");
    Files.writeString(
        folder.resolve("src/module-info.java"), "module consumer { requires dev.berth; }");
    Files.writeString(
        sources.resolve("Main.java"),
        """
        package consumer;
        public class Main {
          public static void main(String[] args) {
            System.out.println(new dev.berth.id.Seat(3));
            try {
              System.out.println(dev.berth.internal.NativeLibrary.describe());
            } catch (dev.berth.BerthException e) {
              System.out.println(e.code() + " " + e.getMessage());
            }
          }
        }
        """);
    Result javac =
        TestFiles.run(
            TestFiles.jdkTool("javac"),
            "-d",
            classes.toString(),
            "-p",
            JAR.toString(),
            EXPORT,
            folder.resolve("src/module-info.java").toString(),
            sources.resolve("Main.java").toString());
    assertThat(javac.exit()).as(javac.out()).isZero();
    List<String> arguments = new ArrayList<>(List.of(options));
    arguments.addAll(
        List.of("-p", JAR + File.pathSeparator + classes, EXPORT, "-m", "consumer/consumer.Main"));
    return TestFiles.java(Map.of(), arguments);
  }

  @Test
  void aModuleLoadsTheLibraryFromTheJarWithoutAWarning() throws IOException {
    Result result = consumer("--enable-native-access=dev.berth", "-Djava.io.tmpdir=" + folder);
    assertThat(result.exit()).as(result.out()).isZero();
    assertThat(result.out().lines()).hasSize(2);
    assertThat(result.out())
        .contains(
            "Seat[index=3]",
            "from the jar: jar:file:",
            JAR.toUri().getRawPath() + "!/META-INF/native/");
  }

  @Test
  void aModuleWithoutNativeAccessIsToldItsName() throws IOException {
    assertThat(consumer("--illegal-native-access=deny").out())
        .contains(
            "UNAVAILABLE Berth calls native code",
            "start it with --enable-native-access=dev.berth\n");
  }

  @Test
  void theDescriptorExportsTheApiAndRequiresNothingButTheJdk() {
    ModuleDescriptor descriptor = ModuleFinder.of(JAR).find("dev.berth").orElseThrow().descriptor();
    assertThat(descriptor.isAutomatic()).isFalse();
    assertThat(descriptor.requires())
        .filteredOn(
            required -> !required.modifiers().contains(ModuleDescriptor.Requires.Modifier.STATIC))
        .allMatch(
            required -> required.name().startsWith("java.") || required.name().startsWith("jdk."));
    assertThat(descriptor.exports())
        .extracting(ModuleDescriptor.Exports::source)
        .contains("dev.berth", "dev.berth.id")
        .doesNotContain("dev.berth.ffi", "dev.berth.internal");
  }

  @Test
  void theLibraryInTheJarNeedsOnlyTheSystemAndIsStripped() throws IOException {
    Path library = folder.resolve("libberth.so");
    try (JarFile jar = new JarFile(JAR.toFile())) {
      List<String> libraries =
          jar.stream()
              .map(ZipEntry::getName)
              .filter(name -> name.endsWith(System.mapLibraryName("berth")))
              .toList();
      assertThat(libraries).hasSize(1);
      Files.copy(jar.getInputStream(jar.getEntry(libraries.getFirst())), library);
    }
    Result readelf =
        TestFiles.run(Map.of("LC_ALL", "C"), List.of("readelf", "-d", "-S", library.toString()));
    assertThat(readelf.exit()).as(readelf.out()).isZero();
    assertThat(readelf.out().lines().filter(line -> line.contains("(NEEDED)")))
        .isNotEmpty()
        .allMatch(line -> line.matches(".*\\[(libc\\.so|libm\\.so|ld-linux).*"));
    assertThat(readelf.out()).doesNotContain(".symtab").doesNotContain(".debug_info");
  }

  @Test
  void theCommandsJarIsNoModuleAndMayCallNativeCode() throws IOException {
    try (JarFile jar = new JarFile(CLI_JAR.toFile())) {
      assertThat(jar.stream().map(ZipEntry::getName))
          .noneMatch(name -> name.endsWith("module-info.class"));
      assertThat(jar.getManifest().getMainAttributes().getValue("Enable-Native-Access"))
          .isEqualTo("ALL-UNNAMED");
    }
    Result result =
        TestFiles.java(
            Map.of(),
            List.of("--illegal-native-access=deny", "-jar", CLI_JAR.toString(), "--help"));
    assertThat(result.exit()).as(result.out()).isZero();
    assertThat(result.out()).startsWith("Usage: berth");
    assertThat(TestFiles.java(Map.of(), List.of("-jar", CLI_JAR.toString(), "--version")).out())
        .matches("berth \\d+\\.\\d+\\.\\d+(-SNAPSHOT)?\\n");
    String list = "'%s' -jar '%s' replay --list".formatted(TestFiles.jdkTool("java"), CLI_JAR);
    Result full = TestFiles.run(Map.of(), List.of("sh", "-c", list + " > /dev/full"));
    assertThat(full.exit()).as(full.out()).isEqualTo(74);
    assertThat(full.out()).startsWith("berth: the output could not be written to its end: ");
    Result head = TestFiles.run(Map.of(), List.of("sh", "-c", list + " | head -n 1"));
    assertThat(head.out().lines()).hasSize(1);
    Result unknownName =
        TestFiles.java(
            Map.of("LC_ALL", "C"), List.of("-jar", CLI_JAR.toString(), "replay", "\u00fc.yaml"));
    assertThat(unknownName.exit()).as(unknownName.out()).isEqualTo(2);
    assertThat(unknownName.out()).doesNotContain("internal error").doesNotContain("\tat ");
  }
}
