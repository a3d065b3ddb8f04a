// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.BerthException;
import java.nio.file.InvalidPathException;
import picocli.CommandLine;
import picocli.CommandLine.IExecutionExceptionHandler;
import picocli.CommandLine.IExecutionStrategy;
import picocli.CommandLine.IParameterExceptionHandler;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.RunLast;
import picocli.CommandLine.UnmatchedArgumentException;

/**
 * How every command reports trouble: one line on standard error, never a stack trace unless {@code
 * --verbose} asks for it. Bad input exits 2, a fault of the product itself 70.
 */
final class ErrorHandler
    implements IExecutionStrategy, IExecutionExceptionHandler, IParameterExceptionHandler {
  /** Exit status of bad input and of a refused configuration. */
  static final int BAD_INPUT = 2;

  /** Exit status of a command whose output could not be written. */
  static final int OUTPUT_LOST = 74;

  /** Exit status of a fault in the product. */
  static final int FAULT = 70;

  private final Main main;

  ErrorHandler(Main main) {
    this.main = main;
  }

  /** Runs the command; what isn't an exception, such as a heap that is too small, is told here. */
  @Override
  public int execute(ParseResult parsed) {
    try {
      return new RunLast().execute(parsed);
    } catch (Error error) {
      return tell(error, parsed.commandSpec().commandLine());
    }
  }

  @Override
  public int handleExecutionException(
      Exception exception, CommandLine command, ParseResult parsed) {
    return tell(exception, command);
  }

  private int tell(Throwable trouble, CommandLine command) {
    var err = command.getErr();
    String message =
        switch (trouble) {
          case BerthException e when isBadInput(e) -> String.valueOf(e.getMessage());
          case InvalidPathException e ->
              "'%s' is no file name here: %s (a locale with UTF-8, such as LC_ALL=C.UTF-8, allows all)"
                  .formatted(e.getInput(), e.getReason());
          case OutOfMemoryError e ->
              "this needs more memory than the Java heap has (%s); BERTH_JAVA_OPTS=-Xmx8g gives 8 GiB"
                  .formatted(e.getMessage());
          default -> "";
        };
    boolean expected = !message.isEmpty();
    err.println(
        expected
            ? "berth: " + message
            : "berth: internal error: "
                + trouble
                + (main.verbose() ? "" : " (--verbose shows where)"));
    if (main.verbose()) {
      trouble.printStackTrace(err);
    }
    err.flush();
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

  private static boolean isBadInput(BerthException exception) {
    return switch (exception.code()) {
      case INTERNAL, DIVERGED, STALLED, POLICY -> false;
      case ARGUMENT, ALREADY, NOT_FOUND, STALE, CLOSED, STATE, MEMORY, UNAVAILABLE, CONFIGURATION ->
          true;
    };
  }
}
