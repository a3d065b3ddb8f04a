// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/** Files that the user names: what keeps one from being read is told in one sentence. */
final class InputFile {
  private InputFile() {}

  /** Takes what a file holds. */
  interface Reader<T> {
    T read(InputStream in) throws IOException;
  }

  /**
   * Reads a file, which may be a pipe.
   *
   * @throws ConfigException naming the file, if it isn't there, is a folder or can't be read
   */
  static <T> T read(Path file, Reader<T> reader) {
    var source = file.toString();
    if (Files.isDirectory(file)) {
      throw new ConfigException(source, 0, "", "is a folder; a file is needed");
    }
    try (InputStream in = Files.newInputStream(file)) {
      return reader.read(in);
    } catch (NoSuchFileException e) {
      throw new ConfigException(source, 0, "", "there is no such file");
    } catch (AccessDeniedException e) {
      throw new ConfigException(source, 0, "", "may not be read (permission denied)");
    } catch (IOException e) {
      throw new ConfigException(source, 0, "", "cannot be read: " + e.getMessage());
    }
  }
}
