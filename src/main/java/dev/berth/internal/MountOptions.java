// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;

/**
 * The mount options of the file system that a file lies on; for explanations, never for decisions.
 */
public final class MountOptions {
  private static final Path MOUNTS = Path.of("/proc/self/mounts");

  private MountOptions() {}

  /** The options, as in {@code mount -o}; empty where the system doesn't tell. */
  public static Set<String> of(Path file) {
    try {
      return of(file.toAbsolutePath(), Files.readAllLines(MOUNTS, StandardCharsets.UTF_8));
    } catch (IOException e) {
      return Set.of();
    }
  }

  /**
   * The options of the mount with the longest folder that holds the file, the last one of equals.
   *
   * @param mounts lines of the form "device folder type options 0 0", blanks in folders as \040
   */
  static Set<String> of(Path file, List<String> mounts) {
    Set<String> options = Set.of();
    int longest = -1;
    for (String line : mounts) {
      String[] fields = line.split(" ", -1);
      if (fields.length < 4) {
        continue;
      }
      String name = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
      Path folder;
      try {
        folder = Path.of(name);
      } catch (InvalidPathException e) {
        continue; // a name that this JVM's file encoding can't write
      }
      if (file.startsWith(folder) && folder.getNameCount() >= longest) {
        longest = folder.getNameCount();
        options = Set.copyOf(List.of(fields[3].split(",")));
      }
    }
    return options;
  }
}
