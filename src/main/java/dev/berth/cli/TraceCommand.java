// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.config.ShippedTraces;
import dev.berth.config.TraceWriter;
import dev.berth.replay.Trace;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code berth trace}: what is in a request trace, the same in another format, a part of it. */
@Command(
    name = "trace",
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    subcommands = {
      TraceCommand.Inspect.class,
      TraceCommand.Convert.class,
      TraceCommand.Sample.class
    },
    description = {
      "Look into a request trace, write it in another format, or take a part of it. Formats:"
          + " docs/traces.md."
    },
    footer = {"", "Exit status: 0 done, 2 bad input."})
final class TraceCommand implements Callable<Integer> {
  @SuppressWarnings("NullAway.Init") // set by picocli
  @Spec
  private CommandSpec spec;

  @Override
  public Integer call() {
    spec.commandLine().usage(spec.commandLine().getOut());
    return 0;
  }

  /** {@code berth trace inspect}. */
  @Command(
      name = "inspect",
      mixinStandardHelpOptions = true,
      versionProvider = Main.Version.class,
      description = "Say what a trace holds: requests, rate, lengths, shared prefixes.",
      footer = {
        "",
        "Example: berth trace inspect azure-conv",
        "",
        "Exit status: 0 done, 2 bad input."
      })
  static final class Inspect implements Callable<Integer> {
    @SuppressWarnings("NullAway.Init") // set by picocli
    @Spec
    private CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // set by picocli
    @Parameters(paramLabel = "trace", description = "A file, or the name of a shipped trace.")
    private String trace;

    @Option(names = "--json", description = "Print JSON (docs/json.md).")
    private boolean json;

    @Override
    public Integer call() {
      TraceSummary summary = TraceSummary.of(ShippedTraces.load(trace));
      var out = spec.commandLine().getOut();
      out.println(json ? summary.json().text() : summary.text());
      out.flush();
      return 0;
    }
  }

  /** {@code berth trace convert}. */
  @Command(
      name = "convert",
      mixinStandardHelpOptions = true,
      versionProvider = Main.Version.class,
      sortOptions = false,
      description = "Write a trace in another format; what that can't say is told.",
      footer = {
        "",
        "Example: berth trace convert azure-conv --to mooncake --out conv.jsonl",
        "",
        "Exit status: 0 done, 2 bad input."
      })
  static final class Convert implements Callable<Integer> {
    @SuppressWarnings("NullAway.Init") // set by picocli
    @Spec
    private CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // set by picocli
    @Parameters(paramLabel = "trace", description = "A file, or the name of a shipped trace.")
    private String trace;

    @SuppressWarnings("NullAway.Init") // set by picocli
    @Option(
        names = "--to",
        required = true,
        paramLabel = "format",
        description = "mooncake or azure.")
    private Trace.Format to;

    @Option(
        names = "--out",
        paramLabel = "file",
        description = "File to write (default: standard output).")
    private @Nullable String file;

    @Override
    public Integer call() {
      Trace from = ShippedTraces.load(trace);
      write(spec, from, to, file, index -> true);
      return 0;
    }
  }

  /** {@code berth trace sample}. */
  @Command(
      name = "sample",
      mixinStandardHelpOptions = true,
      versionProvider = Main.Version.class,
      sortOptions = false,
      description = {
        "Write a part of a trace, in its order and format: a span of time, so many requests drawn"
            + " from it, or both."
      },
      footer = {
        "",
        "Example: berth trace sample azure-conv --from 600 --to 1200 --requests 500 --out part.csv",
        "",
        "Exit status: 0 done, 2 bad input."
      })
  static final class Sample implements Callable<Integer> {
    @SuppressWarnings("NullAway.Init") // set by picocli
    @Spec
    private CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // set by picocli
    @Parameters(paramLabel = "trace", description = "A file, or the name of a shipped trace.")
    private String trace;

    @Option(
        names = "--requests",
        paramLabel = "n",
        description = "Requests to draw, each as likely as any other (default: all).")
    private @Nullable Integer requests;

    @Option(
        names = "--from",
        paramLabel = "s",
        description = "Leave out what arrives sooner, seconds after the first (default 0).")
    private double from;

    @Option(
        names = "--to",
        paramLabel = "s",
        description = "Leave out what arrives then or later (default: nothing).")
    private double to = Double.POSITIVE_INFINITY;

    @Option(names = "--seed", paramLabel = "s", description = "Of the draw (default 1).")
    private long seed = 1;

    @Option(
        names = "--out",
        paramLabel = "file",
        description = "File to write (default: standard output).")
    private @Nullable String file;

    @Override
    public Integer call() {
      if (!(from >= 0 && to > from)) {
        throw new ParameterException(
            spec.commandLine(),
            "--from, --to: found %s and %s; allowed: 0 or more seconds, the second later"
                .formatted(from, to));
      }
      Trace whole = ShippedTraces.load(trace);
      int inside = 0;
      for (int i = 0; i < whole.requests(); i++) {
        inside += inside(whole, i) ? 1 : 0;
      }
      if (inside == 0) {
        throw new ParameterException(
            spec.commandLine(),
            "--from, --to: no request arrives in that time; the last one after %.3f s"
                .formatted(whole.spanMicros() / 1e6));
      }
      int wanted = Arguments.positive(spec, "--requests", requests, inside).orElse(inside);
      var draw = new Draw(wanted, inside, new SplittableRandom(seed));
      write(spec, whole, whole.format(), file, i -> inside(whole, i) && draw.next());
      return 0;
    }

    private boolean inside(Trace whole, int index) {
      double seconds = whole.arrivalMicros(index) / 1e6;
      return seconds >= from && seconds < to;
    }
  }

  /** Draws so many of so many, one after the other: every choice of them is as likely. */
  private static final class Draw {
    private final SplittableRandom random;
    private int wanted;
    private int left;

    Draw(int wanted, int of, SplittableRandom random) {
      this.wanted = wanted;
      this.left = of;
      this.random = random;
    }

    boolean next() {
      boolean taken = random.nextInt(left) < wanted;
      left--;
      wanted -= taken ? 1 : 0;
      return taken;
    }
  }

  private static void write(
      CommandSpec spec,
      Trace trace,
      Trace.Format format,
      @Nullable String file,
      IntPredicate which) {
    var err = spec.commandLine().getErr();
    TraceWriter.loss(trace, format).ifPresent(loss -> err.println("berth: " + loss));
    err.flush();
    if (file == null) {
      var out = spec.commandLine().getOut();
      try {
        write(trace, format, out, which);
      } catch (IOException e) {
        throw LogFiles.unusable("the output", "can't be written", e);
      }
      out.flush();
      return;
    }
    try (BufferedWriter out = Files.newBufferedWriter(Path.of(file), StandardCharsets.UTF_8)) {
      int written = write(trace, format, out, which);
      spec.commandLine()
          .getOut()
          .println("%s: %s, %s".formatted(file, Words.count(written, "request"), format.title()));
    } catch (IOException e) {
      throw LogFiles.unusable(file, "can't be written", e);
    }
    spec.commandLine().getOut().flush();
  }

  private static int write(Trace trace, Trace.Format format, Appendable out, IntPredicate which)
      throws IOException {
    var writer = new TraceWriter(trace, format, out);
    int written = 0;
    for (int i = 0; i < trace.requests(); i++) {
      if (which.test(i)) {
        writer.request(i);
        written++;
      }
    }
    return written;
  }
}
