// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.net.URL;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.jspecify.annotations.Nullable;

/**
 * Finds, checks and loads libberth, once per class loader.
 *
 * <p>Where it looks: if the system property {@value #PATH_PROPERTY} or else the environment
 * variable {@value #PATH_VARIABLE} is set (to a file, or to a folder that holds the library or a
 * folder of the platform's name), there and nowhere else: who names a library gets that one or an
 * error. Otherwise the resource {@code META-INF/native/<os>-<arch>/} of the jar, then the folders
 * of {@code java.library.path}.
 *
 * <p>A library is asked for its ABI version and for the hash of the header it was built from before
 * it is loaded for good; one that doesn't fit these bindings is refused and leaves nothing behind.
 *
 * <p>A load that succeeded is final. One that failed is not remembered: each call tries again and
 * reports its own attempts, so a failed load never looks like a loaded library, and a corrected
 * setting takes effect without a restart.
 */
public final class NativeLibrary {
  /** System property: the library file, or a folder that holds it. */
  public static final String PATH_PROPERTY = "dev.berth.library.path";

  /** Environment variable of the same meaning; the property wins. */
  public static final String PATH_VARIABLE = "BERTH_LIBRARY_PATH";

  /** System property: folder in which the jar's library is unpacked; java.io.tmpdir if unset. */
  public static final String WORKDIR_PROPERTY = "dev.berth.library.workdir";

  /** What named the library that was loaded. */
  public enum Origin {
    PROPERTY("-D" + PATH_PROPERTY),
    ENVIRONMENT(PATH_VARIABLE),
    JAR("the jar"),
    LIBRARY_PATH("java.library.path");

    private final String title;

    Origin(String title) {
      this.title = title;
    }

    @Override
    public String toString() {
      return title;
    }
  }

  /**
   * The library in use.
   *
   * @param origin what named it
   * @param location its file, or the address of the resource it was unpacked from
   * @param abiVersion what berth_abi_version() says
   * @param buildId what berth_build_id() says: the first 64 bits of the SHA-256 of its header
   */
  public record Loaded(Origin origin, String location, int abiVersion, long buildId) {
    @Override
    public String toString() {
      return "libberth, ABI %d, header %s, from %s: %s"
          .formatted(abiVersion, HexFormat.of().toHexDigits(buildId), origin, location);
    }
  }

  private static volatile @Nullable Loaded loaded;

  private NativeLibrary() {}

  /**
   * Loads the library unless that has happened. Thread-safe.
   *
   * @throws BerthException UNAVAILABLE, with every attempt as a suppressed exception
   */
  public static void load() {
    describe();
  }

  /**
   * Loads the library unless that has happened, and tells which one it is. Thread-safe.
   *
   * @throws BerthException UNAVAILABLE, with every attempt as a suppressed exception
   */
  public static Loaded describe() {
    Loaded done = loaded;
    return done != null ? done : loadOnce();
  }

  private static synchronized Loaded loadOnce() {
    Loaded done = loaded;
    if (done != null) {
      return done;
    }
    Expected expected = Expected.read();
    List<Attempt> failed = new ArrayList<>();
    try {
      done = search(expected, failed);
    } catch (IllegalCallerException e) {
      throw new BerthException(Code.UNAVAILABLE, nativeAccessAdvice(), e);
    }
    loaded = done;
    return done;
  }

  private static Loaded search(Expected expected, List<Attempt> failed) {
    String property = System.getProperty(PATH_PROPERTY, "");
    String variable = System.getenv().getOrDefault(PATH_VARIABLE, "");
    List<Candidate> candidates;
    if (!property.isEmpty()) {
      candidates = named(Origin.PROPERTY, property);
    } else if (!variable.isEmpty()) {
      candidates = named(Origin.ENVIRONMENT, variable);
    } else {
      candidates = new ArrayList<>();
      candidates.add(new Resource());
      for (String folder : System.getProperty("java.library.path", "").split(File.pathSeparator)) {
        File file = new File(folder, FILE_NAME);
        if (!folder.isEmpty() && file.exists()) {
          candidates.add(new LibraryFile(Origin.LIBRARY_PATH, file.toPath()));
        }
      }
    }
    for (Candidate candidate : candidates) {
      try {
        return candidate.load(expected);
      } catch (Attempt e) {
        failed.add(e);
      }
    }
    throw unavailable(failed);
  }

  private static BerthException unavailable(List<Attempt> failed) {
    StringBuilder text = new StringBuilder("no libberth can be used");
    for (Attempt attempt : failed) {
      text.append(failed.size() == 1 ? ": " : "\n  ").append(attempt.getMessage());
    }
    BerthException e = new BerthException(Code.UNAVAILABLE, text.toString());
    failed.forEach(e::addSuppressed);
    return e;
  }

  private static String nativeAccessAdvice() {
    Module module = NativeLibrary.class.getModule();
    return "Berth calls native code, which this JVM forbids: start it with --enable-native-access="
        + (module.isNamed() ? module.getName() : "ALL-UNNAMED");
  }

  // ---- Where a library may lie -----------------------------------------------------------------

  private static final String FILE_NAME = System.mapLibraryName("berth");
  private static final String PLATFORM = platform();
  private static final String RESOURCE = "META-INF/native/" + PLATFORM + "/" + FILE_NAME;

  /** The folder name of this system, as the build writes it: linux-x86_64, linux-aarch_64. */
  private static String platform() {
    String os = System.getProperty("os.name", "").toLowerCase(Locale.ROOT);
    String arch = System.getProperty("os.arch", "").toLowerCase(Locale.ROOT);
    String osName = os.startsWith("mac") ? "osx" : os.startsWith("windows") ? "windows" : os;
    return osName
        + "-"
        + switch (arch) {
          case "amd64", "x86_64" -> "x86_64";
          case "aarch64", "arm64" -> "aarch_64";
          default -> arch;
        };
  }

  private sealed interface Candidate {
    Loaded load(Expected expected) throws Attempt;
  }

  private static List<Candidate> named(Origin origin, String setting) {
    Path path;
    try {
      path = Path.of(setting).toAbsolutePath();
    } catch (InvalidPathException e) {
      throw unavailable(List.of(new Attempt(origin, setting, "is no path", e)));
    }
    if (!Files.isDirectory(path)) {
      return List.of(new LibraryFile(origin, path));
    }
    return List.of(
        new LibraryFile(origin, path.resolve(FILE_NAME)),
        new LibraryFile(origin, path.resolve(PLATFORM).resolve(FILE_NAME)));
  }

  private record LibraryFile(Origin origin, Path file) implements Candidate {
    @Override
    public Loaded load(Expected expected) throws Attempt {
      return open(origin, file.toAbsolutePath(), file.toString(), expected);
    }
  }

  private record Resource() implements Candidate {
    @Override
    public Loaded load(Expected expected) throws Attempt {
      URL url = onlyResource();
      Path file = unpack(url);
      try {
        return open(Origin.JAR, file, url.toString(), expected);
      } finally {
        delete(file); // the mapping outlives the name
      }
    }

    /** Two different libraries on one class path are a deployment error, not a choice to make. */
    private static URL onlyResource() throws Attempt {
      try {
        List<URL> urls = new ArrayList<>();
        NativeLibrary.class
            .getClassLoader()
            .getResources(RESOURCE)
            .asIterator()
            .forEachRemaining(urls::add);
        if (urls.isEmpty()) {
          throw new Attempt(
              Origin.JAR,
              RESOURCE,
              "is not on the class path or module path: no library for this platform");
        }
        byte[] first = urls.size() == 1 ? new byte[0] : bytes(urls.getFirst());
        for (URL other : urls.subList(1, urls.size())) {
          if (!Arrays.equals(first, bytes(other))) {
            throw new Attempt(
                Origin.JAR,
                urls.getFirst().toString(),
                "differs from a second libberth at " + other + ": remove one");
          }
        }
        return urls.getFirst();
      } catch (IOException e) {
        throw new Attempt(Origin.JAR, RESOURCE, "cannot be read", e);
      }
    }

    private static byte[] bytes(URL url) throws IOException {
      try (InputStream in = url.openStream()) {
        return in.readAllBytes();
      }
    }

    private static Path unpack(URL url) throws Attempt {
      String setting = System.getProperty(WORKDIR_PROPERTY, "");
      String workdir = setting.isEmpty() ? System.getProperty("java.io.tmpdir", "") : setting;
      try {
        Path file =
            Files.createTempFile(Path.of(workdir).toAbsolutePath(), "libberth-", "-" + FILE_NAME);
        try (InputStream in = url.openStream()) {
          Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
          delete(file);
          throw e;
        }
        return file;
      } catch (IOException | InvalidPathException e) {
        throw new Attempt(
            Origin.JAR,
            url.toString(),
            "cannot be unpacked in the folder %s (%s): choose another with -D%s=<folder>"
                .formatted(workdir, e, WORKDIR_PROPERTY),
            e);
      }
    }

    private static void delete(Path file) {
      try {
        Files.delete(file);
      } catch (IOException e) {
        file.toFile().deleteOnExit();
      }
    }
  }

  // ---- Opening one -----------------------------------------------------------------------------

  private static Loaded open(Origin origin, Path file, String location, Expected expected)
      throws Attempt {
    checkWhole(origin, file, location);
    Loaded candidate = shakeHands(origin, file, location);
    if (candidate.abiVersion() != expected.abiVersion()) {
      throw new Attempt(
          origin,
          location,
          "speaks ABI version %d, these bindings speak %d: use the library of this release"
              .formatted(candidate.abiVersion(), expected.abiVersion()));
    }
    if (candidate.buildId() != expected.buildId()) {
      throw new Attempt(
          origin,
          location,
          "was built from another berth.h (hash %s, the bindings' is %s): build both from one source"
              .formatted(hex(candidate.buildId()), hex(expected.buildId())));
    }
    try {
      System.load(file.toString());
    } catch (UnsatisfiedLinkError e) {
      throw new Attempt(origin, location, "cannot be loaded", e);
    }
    return candidate;
  }

  /** Asks a library who it is without loading it for good. */
  private static Loaded shakeHands(Origin origin, Path file, String location) throws Attempt {
    try (Arena arena = Arena.ofConfined()) {
      SymbolLookup symbols = SymbolLookup.libraryLookup(file, arena);
      MethodHandle version =
          function(symbols, "berth_abi_version", ValueLayout.JAVA_INT, origin, location);
      MethodHandle build =
          function(symbols, "berth_build_id", ValueLayout.JAVA_LONG, origin, location);
      return new Loaded(origin, location, (int) version.invokeExact(), (long) build.invokeExact());
    } catch (IllegalArgumentException e) {
      throw notOpened(origin, file, location, e);
    } catch (Attempt | RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new Attempt(origin, location, "cannot be asked for its version", e);
    }
  }

  private static MethodHandle function(
      SymbolLookup symbols, String name, MemoryLayout result, Origin origin, String location)
      throws Attempt {
    MemorySegment address =
        symbols
            .find(name)
            .orElseThrow(
                () -> new Attempt(origin, location, "is no libberth: it has no function " + name));
    return Linker.nativeLinker().downcallHandle(address, FunctionDescriptor.of(result));
  }

  /** The reason that the system's linker has: a lookup hides it, System.load tells it. */
  private static Attempt notOpened(
      Origin origin, Path file, String location, IllegalArgumentException lookup) {
    String reason = "cannot be opened";
    Throwable cause = lookup;
    try {
      System.load(file.toString());
    } catch (UnsatisfiedLinkError e) {
      cause = e;
      String text = String.valueOf(e.getMessage());
      reason +=
          " ("
              + text.substring(text.startsWith(file + ": ") ? file.toString().length() + 2 : 0)
              + ")";
    }
    if (MountOptions.of(file).contains("noexec")) {
      reason +=
          ": the folder %s is on a file system mounted noexec, choose another with -D%s=<folder>"
              .formatted(file.getParent(), origin == Origin.JAR ? WORKDIR_PROPERTY : PATH_PROPERTY);
    }
    return new Attempt(origin, location, reason, cause);
  }

  /**
   * Refuses what the system's linker would answer with a signal instead of an error: an ELF file
   * whose end is missing (its section table lies at the end).
   */
  private static void checkWhole(Origin origin, Path file, String location) throws Attempt {
    if (!Files.isRegularFile(file)) {
      throw new Attempt(origin, location, Files.exists(file) ? "is no file" : "does not exist");
    }
    ByteBuffer head = ByteBuffer.allocate(64).order(ByteOrder.nativeOrder());
    long size;
    try (FileChannel channel = FileChannel.open(file)) {
      size = channel.size();
      while (head.hasRemaining() && channel.read(head) >= 0) {}
    } catch (IOException e) {
      throw new Attempt(origin, location, "cannot be read", e);
    }
    boolean elf64 = head.position() == 64 && head.getInt(0) == ELF_MAGIC && head.get(4) == 2;
    if (elf64) {
      long end =
          head.getLong(40)
              + (long) Short.toUnsignedInt(head.getShort(58))
                  * Short.toUnsignedInt(head.getShort(60));
      if (Long.compareUnsigned(end, size) > 0) {
        throw new Attempt(
            origin,
            location,
            "is incomplete: %d bytes of %s".formatted(size, Long.toUnsignedString(end)));
      }
    }
  }

  private static final int ELF_MAGIC =
      ByteBuffer.wrap(new byte[] {0x7f, 'E', 'L', 'F'}).order(ByteOrder.nativeOrder()).getInt();

  private static String hex(long value) {
    return HexFormat.of().toHexDigits(value);
  }

  /**
   * What the bindings were made from, as bindings/LOCK has it. Not asked of the bindings: they
   * can't be initialised where native access is forbidden, and that is to be explained.
   */
  private record Expected(int abiVersion, long buildId) {
    static Expected read() {
      Properties lock = new Properties();
      try (InputStream in = NativeLibrary.class.getResourceAsStream("LOCK")) {
        if (in == null) {
          throw new BerthException(
              Code.UNAVAILABLE, "this build of Berth lacks its file LOCK: build it with Maven");
        }
        lock.load(in);
        String hash = lock.getProperty("header_sha256", "");
        return new Expected(
            Integer.parseInt(lock.getProperty("abi_version", "")),
            Long.parseUnsignedLong(hash, 0, 16, 16));
      } catch (IOException | IndexOutOfBoundsException | NumberFormatException e) {
        throw new BerthException(
            Code.UNAVAILABLE, "the file LOCK of this build of Berth is damaged", e);
      }
    }
  }

  /** One library that was tried and why it isn't used. */
  private static final class Attempt extends Exception {
    private static final long serialVersionUID = 1L;

    Attempt(Origin origin, String location, String why) {
      super(origin + ": " + location + " " + why);
    }

    Attempt(Origin origin, String location, String why, Throwable cause) {
      super(origin + ": " + location + " " + why, cause);
    }
  }
}
