// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Prompt;
import dev.berth.request.Request;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * The requests of a trace in order of arrival: times and lengths, no text. Immutable. Columns of
 * primitives in chunks, 16 bytes a request, and 4 a prefix block where the format has them.
 */
public final class Trace {
  /** How a trace file is written. */
  public enum Format {
    /** JSON lines with prefix blocks. */
    MOONCAKE("Mooncake JSONL"),
    /** Comma-separated with clock times. */
    AZURE("Azure CSV");

    private final String title;

    Format(String title) {
      this.title = title;
    }

    /** Name for people. */
    public String title() {
      return title;
    }
  }

  /**
   * What the trace says of shared prefixes.
   *
   * @param blockTokens prompt tokens a block, the last one of a prompt may be shorter
   * @param ids prefix blocks of all requests
   * @param leadingHits those at the head of a request that earlier requests had, all blocks before
   *     them included
   * @param distinct different blocks
   */
  public record PrefixBlocks(int blockTokens, long ids, long leadingHits, long distinct) {
    /** Share of blocks that a cache without end would have held, 0 to 1. */
    public double idealHitRate() {
      return ids == 0 ? 0 : (double) leadingHits / ids;
    }
  }

  /** Ticks of {@link Builder#add} in a microsecond. */
  public static final int TICKS_PER_MICRO = 10;

  private static final int CHUNK = 1 << 14;

  private final String name;
  private final Format format;
  private final Optional<PrefixBlocks> prefixes;
  private final List<long[]> arrivals;
  private final List<int[]> prompts;
  private final List<int[]> outputs;
  private final int[] blocks;
  private final int[] blockEnds;
  private final int distinctBlocks;
  private final int requests;
  private final Totals totals;

  private record Totals(
      long promptTokens,
      long outputTokens,
      int longestPrompt,
      int longestOutput,
      int shortestOutput) {}

  private Trace(Builder builder, Optional<PrefixBlocks> prefixes) {
    this.name = builder.name;
    this.format = builder.format;
    this.prefixes = prefixes;
    this.arrivals = builder.arrivals;
    this.prompts = builder.prompts;
    this.outputs = builder.outputs;
    this.blocks = prefixes.isPresent() ? builder.blocks : new int[0];
    this.blockEnds = prefixes.isPresent() ? builder.blockEnds : new int[0];
    this.distinctBlocks = builder.highestBlock + 1;
    this.requests = builder.requests;
    this.totals =
        new Totals(
            builder.promptTokens,
            builder.outputTokens,
            builder.longestPrompt,
            builder.longestOutput,
            builder.shortestOutput);
  }

  /** What the file is called. */
  public String name() {
    return name;
  }

  /** How it is written. */
  public Format format() {
    return format;
  }

  /** Number of requests, 1 or more. */
  public int requests() {
    return requests;
  }

  /** When a request arrives, µs after the first one; never before the request ahead of it. */
  public double arrivalMicros(int index) {
    return (double) ticks(index) / TICKS_PER_MICRO;
  }

  /** The same in units of 100 ns, as exact as the file tells it. */
  public long arrivalTicks(int index) {
    return ticks(index);
  }

  /**
   * Ids of the prefix blocks of a request's prompt, {@code int[⌈prompt / blockTokens⌉]}; empty
   * where nothing is known of them. The caller's to keep.
   */
  public int[] blocks(int index) {
    check(index);
    return prefixes.isEmpty()
        ? new int[0]
        : Arrays.copyOfRange(blocks, index == 0 ? 0 : blockEnds[index - 1], blockEnds[index]);
  }

  private long ticks(int index) {
    return arrivals.get(check(index) / CHUNK)[index % CHUNK];
  }

  /** Prompt length in tokens, 1 or more. */
  public int promptTokens(int index) {
    return prompts.get(check(index) / CHUNK)[index % CHUNK];
  }

  /** Output length in tokens, 1 or more; with the prompt at most {@link Integer#MAX_VALUE}. */
  public int outputTokens(int index) {
    return outputs.get(check(index) / CHUNK)[index % CHUNK];
  }

  private int check(int index) {
    return Objects.checkIndex(index, requests);
  }

  /**
   * Request {@code tag} of the trace, repeated without end. Where prefix blocks are known its
   * prompt is made of them; what is sent again shares nothing with the round before.
   */
  Request request(int tag) {
    int index = tag % requests;
    Request request = Request.of(tag, promptTokens(index), outputTokens(index)).withTag(tag);
    return prefixes.isPresent() ? request.withPrompt(prompt(index, tag / requests)) : request;
  }

  private Prompt prompt(int index, int round) {
    int[] its = blocks(index);
    for (int i = 0; i < its.length; i++) {
      its[i] = (int) ((its[i] + (long) round * distinctBlocks) % Integer.MAX_VALUE);
    }
    return Prompt.ofBlocks(its, prefixes.orElseThrow().blockTokens(), promptTokens(index));
  }

  /** Time from the first arrival to the last, µs. */
  public double spanMicros() {
    return arrivalMicros(requests - 1);
  }

  /** Mean prompt length in tokens. */
  public double meanPromptTokens() {
    return (double) totals.promptTokens / requests;
  }

  /** Mean output length in tokens. */
  public double meanOutputTokens() {
    return (double) totals.outputTokens / requests;
  }

  /** Longest prompt in tokens. */
  public int longestPrompt() {
    return totals.longestPrompt;
  }

  /** Longest output in tokens. */
  public int longestOutput() {
    return totals.longestOutput;
  }

  /** Shortest output in tokens. */
  public int shortestOutput() {
    return totals.shortestOutput;
  }

  /** What is known of shared prefixes; empty where the format tells nothing. */
  public Optional<PrefixBlocks> prefixes() {
    return prefixes;
  }

  /** Takes requests one by one. */
  public static final class Builder {
    private final String name;
    private final Format format;
    private final List<long[]> arrivals = new ArrayList<>();
    private final List<int[]> prompts = new ArrayList<>();
    private final List<int[]> outputs = new ArrayList<>();
    private int[] blocks = new int[0];
    private int[] blockEnds = new int[0];
    private int blockCount;
    private int highestBlock = -1;
    private int requests;
    private long firstTicks;
    private long lastTicks;
    private long promptTokens;
    private long outputTokens;
    private int longestPrompt;
    private int longestOutput;
    private int shortestOutput = Integer.MAX_VALUE;

    /** Nothing yet. */
    public Builder(String name, Format format) {
      this.name = name;
      this.format = format;
    }

    /** Requests so far. */
    public int requests() {
      return requests;
    }

    /** Clock of the last request in ticks; what the next one must not be before. */
    public long lastTicks() {
      return lastTicks;
    }

    /**
     * Appends a request.
     *
     * @param ticks arrival on any clock, in units of 100 ns, not before the last one
     * @param prompt tokens, 1 or more
     * @param output tokens, 1 or more
     * @throws IllegalArgumentException if one of these doesn't hold
     */
    public void add(long ticks, int prompt, int output) {
      if (prompt < 1 || output < 1 || output > Integer.MAX_VALUE - prompt) {
        throw new IllegalArgumentException("lengths " + prompt + " and " + output);
      }
      if (requests == 0) {
        firstTicks = ticks;
      } else if (ticks < lastTicks) {
        throw new IllegalArgumentException(ticks + " is before " + lastTicks);
      }
      int at = requests % CHUNK;
      if (at == 0) {
        arrivals.add(new long[CHUNK]);
        prompts.add(new int[CHUNK]);
        outputs.add(new int[CHUNK]);
      }
      arrivals.getLast()[at] = Math.subtractExact(ticks, firstTicks);
      prompts.getLast()[at] = prompt;
      outputs.getLast()[at] = output;
      lastTicks = ticks;
      promptTokens += prompt;
      outputTokens += output;
      longestPrompt = Math.max(longestPrompt, prompt);
      longestOutput = Math.max(longestOutput, output);
      shortestOutput = Math.min(shortestOutput, output);
      requests++;
    }

    /**
     * Says of what blocks the prompt of the request that was just added is made.
     *
     * @param ids the first {@code count} of them, 0 or more each
     */
    public void prompt(int[] ids, int count) {
      if (blockCount + count > blocks.length) {
        blocks = Arrays.copyOf(blocks, Math.max(Math.addExact(blockCount, count), 2 * blockCount));
      }
      if (requests > blockEnds.length) {
        blockEnds = Arrays.copyOf(blockEnds, Math.max(CHUNK, 2 * blockEnds.length));
      }
      System.arraycopy(ids, 0, blocks, blockCount, count);
      for (int i = 0; i < count; i++) {
        highestBlock = Math.max(highestBlock, ids[i]);
      }
      blockCount += count;
      blockEnds[requests - 1] = blockCount;
    }

    /**
     * The trace; the builder is of no use afterwards.
     *
     * @param prefixes what the format tells of them: then {@link #prompt} was called for each
     *     request
     * @throws IllegalStateException if there is no request
     */
    public Trace build(Optional<PrefixBlocks> prefixes) {
      if (requests == 0) {
        throw new IllegalStateException("a trace has a request at least");
      }
      return new Trace(this, prefixes);
    }
  }
}
