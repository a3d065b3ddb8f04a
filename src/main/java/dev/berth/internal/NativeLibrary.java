// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.BerthException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/** Finds and loads libberth, once. */
public final class NativeLibrary {
  private static boolean loaded;

  private NativeLibrary() {}

  /** Loads the library unless that has happened; throws UNAVAILABLE with every attempt as a suppressed cause. */
  public static synchronized void load() {
    if (loaded) {
      return;
    }
    String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    String resource =
        "/META-INF/native/linux-" + (arch.equals("amd64") ? "x86_64" : arch) + "/libberth.so";
    try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
      if (in == null) {
        throw new BerthException(BerthException.Code.UNAVAILABLE, "no " + resource);
      }
      Path file = Files.createTempFile("libberth", ".so");
      try {
        Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
        System.load(file.toString());
      } finally {
        Files.delete(file);
      }
      loaded = true;
    } catch (IOException e) {
      throw new BerthException(BerthException.Code.UNAVAILABLE, "libberth: " + e.getMessage(), e);
    }
  }
}
