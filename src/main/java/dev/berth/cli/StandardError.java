// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.io.Console;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What standard error is connected to. */
final class StandardError {
  private static final Path LINK = Path.of("/proc/self/fd/2");

  private StandardError() {}

  /**
   * True if somebody looks at it. The JDK's console tells about standard input and output only, so
   * the descriptor itself is asked where the system shows it.
   */
  static boolean isTerminal() {
    try {
      if (Files.isSymbolicLink(LINK)) {
        return isTerminal(Files.readSymbolicLink(LINK).toString());
      }
    } catch (IOException e) {
      return false;
    }
    Console console = System.console();
    return console != null && console.isTerminal();
  }

  /** True if a descriptor that links there is a terminal. */
  static boolean isTerminal(String target) {
    return target.startsWith("/dev/pts/")
        || target.startsWith("/dev/tty")
        || target.equals("/dev/console");
  }
}
