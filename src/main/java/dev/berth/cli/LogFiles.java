// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.log.Difference;
import dev.berth.engine.log.LogException;
import dev.berth.engine.log.LogReplay;
import dev.berth.engine.log.LogWriter;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import java.util.Objects;

/** Decision logs as files: {@code --write-log} and {@code --log}. */
final class LogFiles {
  private LogFiles() {}

  /**
   * A new log.
   *
   * @throws BerthException ARGUMENT if the file can't be written
   */
  static LogWriter create(String file, String label) {
    try {
      return new LogWriter(
          FileChannel.open(
              Path.of(file),
              StandardOpenOption.CREATE,
              StandardOpenOption.TRUNCATE_EXISTING,
              StandardOpenOption.WRITE),
          label);
    } catch (IOException e) {
      throw unusable(file, "can't be written", e);
    }
  }

  /**
   * Runs a log again.
   *
   * @throws BerthException ARGUMENT if the file can't be read or holds nothing that could be run
   */
  static LogReplay.Result replay(String file) {
    try (InputStream in = new BufferedInputStream(Files.newInputStream(Path.of(file)))) {
      return LogReplay.run(in);
    } catch (LogException e) {
      throw new BerthException(
          Code.ARGUMENT, file + ": " + printable(String.valueOf(e.getMessage())), e);
    } catch (IOException e) {
      throw unusable(file, "can't be read", e);
    } catch (UncheckedIOException e) {
      throw unusable(file, "can't be read", Objects.requireNonNull(e.getCause()));
    }
  }

  static BerthException unusable(String file, String problem, IOException cause) {
    String why =
        switch (cause) {
          case java.nio.file.NoSuchFileException ignored -> "there is no such file";
          case java.nio.file.AccessDeniedException ignored -> "access is denied";
          default -> String.valueOf(cause.getMessage());
        };
    return new BerthException(Code.ARGUMENT, "%s %s: %s".formatted(file, problem, why), cause);
  }

  /** 0 if every decision is the same, 1 if one differs, 2 if the log is damaged. */
  static int exitStatus(LogReplay.Result result) {
    if (result.difference().isPresent()) {
      return 1;
    }
    return result.damage().isPresent() ? ErrorHandler.BAD_INPUT : 0;
  }

  static void print(LogReplay.Result result, PrintWriter out) {
    out.printf(
        "log of %s: %s, %s%n",
        result.label().isEmpty() ? "a run" : printable(result.label()),
        count(result.config().ranks(), "rank"),
        count(result.config().stages(), "stage"));
    out.println(printable(result.config().plan().describe()));
    out.println();
    out.printf(
        "%s, %s run again%n",
        count(result.steps(), "iteration"), count(result.requests(), "request"));
    if (result.difference().isPresent()) {
      print(result.difference().get(), out);
    } else if (result.damage().isPresent()) {
      out.println("every decision up to there is the same; then the log can't be read:");
      out.println("  " + printable(String.valueOf(result.damage().get().getMessage())));
    } else {
      out.println(
          "every decision is the same"
              + (result.ending() == LogReplay.Ending.OPEN ? "; the log was not closed" : ""));
    }
  }

  private static void print(Difference difference, PrintWriter out) {
    out.println("the first decision that is not the logged one:");
    out.println("  iteration  " + difference.iteration());
    difference.stage().ifPresent(stage -> out.println("  stage      " + stage));
    difference.rank().ifPresent(rank -> out.println("  rank       " + rank));
    difference.request().ifPresent(id -> out.println("  request    " + id));
    out.println("  decision   " + name(difference.decision()));
    out.println("  logged     " + printable(difference.logged()));
    out.println("  came       " + printable(difference.came()));
  }

  private static String count(long n, String what) {
    return n + " " + what + (n == 1 ? "" : "s");
  }

  /** A file may hold anything; a terminal may not. */
  private static String printable(String text) {
    return text.replaceAll("\\p{Cntrl}", "?");
  }

  static Json json(LogReplay.Result result) {
    Json json =
        new Json()
            .put("schema", ReplayJson.SCHEMA)
            .put("kind", "log")
            .put("name", result.label())
            .put("ranks", result.config().ranks())
            .put("stages", result.config().stages())
            .put("iterations", result.steps())
            .put("requests", result.requests())
            .put("ending", result.ending().name().toLowerCase(Locale.ROOT))
            .put("same", result.same());
    result.difference().ifPresent(d -> json.put("difference", json(d).fields()));
    result
        .damage()
        .ifPresent(e ->
            json.put(
                "damage",
                new Json()
                    .put("kind", e.kind().name().toLowerCase(Locale.ROOT))
                    .put("offset", e.offset())
                    .put("text", String.valueOf(e.getMessage()))
                    .fields()));
    return json;
  }

  private static Json json(Difference difference) {
    Json json = new Json().put("iteration", difference.iteration());
    difference.stage().ifPresent(stage -> json.put("stage", stage));
    difference.rank().ifPresent(rank -> json.put("rank", rank));
    difference.request().ifPresent(id -> json.put("request", id));
    return json.put("decision", name(difference.decision()))
        .put("logged", difference.logged())
        .put("came", difference.came());
  }

  private static String name(Difference.Decision decision) {
    return decision.name().toLowerCase(Locale.ROOT);
  }
}
