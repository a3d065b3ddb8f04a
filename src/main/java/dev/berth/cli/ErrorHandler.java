// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.BerthException;
import picocli.CommandLine;
import picocli.CommandLine.IExecutionExceptionHandler;
import picocli.CommandLine.IParameterExceptionHandler;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.UnmatchedArgumentException;

/**
 * How every command reports trouble: one line on standard error, never a stack trace unless {@code
 * --verbose} asks for it. Bad input exits 2, a fault of the product itself 70.
 */
final class ErrorHandler implements IExecutionExceptionHandler, IParameterExceptionHandler {
  /** Exit status of bad input and of a refused configuration. */
  static final int BAD_INPUT = 2;

  /** Exit status of a fault in the product. */
  static final int FAULT = 70;

  private final Main main;

  ErrorHandler(Main main) {
    this.main = main;
  }

  @Override
  public int handleExecutionException(
      Exception exception, CommandLine command, ParseResult parsed) {
    var err = command.getErr();
    boolean expected = isBadInput(exception);
    err.println(
        expected
            ? "berth: " + exception.getMessage()
            : "berth: internal error: "
                + exception
                + (main.verbose() ? "" : " (--verbose shows where)"));
    if (main.verbose()) {
      exception.printStackTrace(err);
    }
    return expected ? BAD_INPUT : FAULT;
  }

  @Override
  public int handleParseException(ParameterException exception, String[] args) {
    var command = exception.getCommandLine();
    var err = command.getErr();
    err.println("berth: " + exception.getMessage());
    UnmatchedArgumentException.printSuggestions(exception, err);
    err.println("Try '" + command.getCommandSpec().qualifiedName() + " --help'.");
    if (main.verbose()) {
      exception.printStackTrace(err);
    }
    return BAD_INPUT;
  }

  private static boolean isBadInput(Exception exception) {
    return exception instanceof BerthException berth
        && switch (berth.code()) {
          case INTERNAL, DIVERGED -> false;
          case ARGUMENT,
              ALREADY,
              NOT_FOUND,
              STALE,
              CLOSED,
              STATE,
              MEMORY,
              UNAVAILABLE,
              CONFIGURATION ->
              true;
        };
  }
}
