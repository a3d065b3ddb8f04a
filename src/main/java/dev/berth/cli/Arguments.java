// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;

/** Checks of arguments that picocli doesn't make. */
final class Arguments {
  private Arguments() {}

  /** A whole number from 1 to max; empty if it wasn't given. */
  static OptionalInt positive(CommandSpec spec, String name, @Nullable Integer value, int max) {
    if (value == null) {
      return OptionalInt.empty();
    }
    if (value < 1 || value > max) {
      throw new ParameterException(
          spec.commandLine(), name + ": found " + value + "; allowed: an integer from 1 to " + max);
    }
    return OptionalInt.of(value);
  }
}
