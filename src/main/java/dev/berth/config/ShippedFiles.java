// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;

/**
 * One kind of files that come with the product, beside those of the user. What a user names is
 * looked up here and nowhere else: a file that exists is read, whatever it is called; only where
 * there is none, a shipped one of that name.
 */
final class ShippedFiles {
  private final String folder;
  private final String kind;

  /**
   * @param folder of the resources, absolute, with a slash at its end
   * @param kind what messages call one of them
   */
  ShippedFiles(String folder, String kind) {
    this.folder = folder;
    this.kind = kind;
  }

  /**
   * The user's file, or the shipped one.
   *
   * @param own reads a file
   * @param shipped what a name stands for, empty if for nothing
   * @param names how to find out which there are, for the message
   * @throws ConfigException if there is neither
   */
  <T> T load(
      String nameOrFile,
      Function<Path, T> own,
      Function<String, Optional<T>> shipped,
      String names) {
    var file = Path.of(nameOrFile);
    if (Files.exists(file) && !Files.isDirectory(file)) {
      return own.apply(file);
    }
    Optional<T> found = shipped.apply(nameOrFile);
    if (found.isPresent()) {
      return found.get();
    }
    if (Files.isDirectory(file)) {
      return own.apply(file); // which says that it is a folder
    }
    throw new ConfigException(
        nameOrFile,
        0,
        "",
        "there is no such file, and no shipped " + kind + " of that name (" + names + ")");
  }

  /** Bytes of a shipped file; the caller closes them. */
  InputStream open(String file) {
    return Objects.requireNonNull(
        ShippedFiles.class.getResourceAsStream(folder + file), folder + file);
  }

  /** Text of a shipped file. */
  String text(String file) {
    try (InputStream in = open(file)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(folder + file, e);
    }
  }
}
