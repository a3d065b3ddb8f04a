// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.replay.Trace;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.ObjectReadContext;
import tools.jackson.core.json.JsonFactory;

/**
 * Mooncake traces: a JSON object a line with {@code timestamp} (ms), {@code input_length}, {@code
 * output_length} (tokens) and {@code hash_ids}, one id for each block of {@value #BLOCK} prompt
 * tokens. Other fields are passed over.
 */
final class MooncakeLines implements TraceReader.Lines {
  /** Tokens of a prefix block. */
  static final int BLOCK = 512;

  private static final String TIME = "timestamp";
  private static final String PROMPT = "input_length";
  private static final String OUTPUT = "output_length";
  private static final String BLOCKS = "hash_ids";
  static final long TICKS_A_MILLI = 1000L * Trace.TICKS_PER_MICRO;
  private static final double LATEST_MILLIS = 1e14;

  /**
   * Ids from here on aren't remembered, and the trace's hit rate isn't known then: a bit set of 16
   * MiB.
   */
  private static final int MOST_IDS = 1 << 27;

  private final String source;
  private final Trace.Builder builder;
  private final JsonFactory json = new JsonFactory();
  private final BitSet seen = new BitSet();
  private boolean countable = true;
  private long ids;
  private long leadingHits;

  private int number;
  private long ticks;
  private int prompt;
  private int output;
  private int blocks;
  private int[] blockIds = new int[256];

  MooncakeLines(String source, Trace.Builder builder) {
    this.source = source;
    this.builder = builder;
  }

  @Override
  public void line(byte[] bytes, int length, int lineNumber) {
    number = lineNumber;
    ticks = -1;
    prompt = -1;
    output = -1;
    blocks = -1;
    try (JsonParser parser = json.createParser(ObjectReadContext.empty(), bytes, 0, length)) {
      object(parser);
    } catch (JacksonException e) {
      throw new ConfigException(
          source,
          number,
          "",
          "is no complete JSON object: %s, in '%s'"
              .formatted(reason(e), TraceReader.excerpt(bytes, length)));
    }
    require(TIME, ticks);
    require(PROMPT, prompt);
    require(OUTPUT, output);
    require(BLOCKS, blocks);
    int wanted = Math.ceilDiv(prompt, BLOCK);
    if (blocks != wanted) {
      throw error(
          BLOCKS,
          "found %d ids; a prompt of %d tokens has %d blocks of %d"
              .formatted(blocks, prompt, wanted, BLOCK));
    }
    TraceReader.add(builder, source, number, ticks, TIME, prompt, output, OUTPUT);
    if (countable) {
      builder.prompt(blockIds, blocks);
    }
  }

  private void require(String field, long value) {
    if (value < 0) {
      throw error(field, "is missing");
    }
  }

  private void object(JsonParser parser) {
    if (parser.nextToken() != JsonToken.START_OBJECT) {
      throw error("", "is no JSON object");
    }
    while (parser.nextToken() != JsonToken.END_OBJECT) {
      String field = parser.currentName();
      JsonToken value = parser.nextToken();
      switch (field) {
        case TIME -> ticks = time(parser, value, once(field, ticks));
        case PROMPT -> prompt = length(parser, value, once(field, prompt));
        case OUTPUT -> output = length(parser, value, once(field, output));
        case BLOCKS -> blocks = blocks(parser, value, once(field, blocks));
        default -> parser.skipChildren();
      }
    }
    if (parser.nextToken() != null) {
      throw error("", "has more behind its JSON object");
    }
  }

  private String once(String field, long value) {
    if (value >= 0) {
      throw error(field, "stands twice");
    }
    return field;
  }

  private long time(JsonParser parser, JsonToken token, String field) {
    double millis = token.isNumeric() ? parser.getDoubleValue() : -1;
    if (!(millis >= 0 && millis <= LATEST_MILLIS)) {
      throw error(
          field, "found %s; allowed: milliseconds from 0 to 1e14".formatted(shown(parser, token)));
    }
    return token == JsonToken.VALUE_NUMBER_INT
        ? parser.getLongValue() * TICKS_A_MILLI
        : Math.round(millis * TICKS_A_MILLI);
  }

  private int length(JsonParser parser, JsonToken token, String field) {
    double tokens = token == JsonToken.VALUE_NUMBER_INT ? parser.getDoubleValue() : 0;
    if (!(tokens >= 1 && tokens <= Integer.MAX_VALUE)) {
      throw error(
          field,
          "found %s; allowed: an integer from 1 to %d"
              .formatted(shown(parser, token), Integer.MAX_VALUE));
    }
    return (int) tokens;
  }

  private int blocks(JsonParser parser, JsonToken token, String field) {
    if (token != JsonToken.START_ARRAY) {
      throw error(field, "found %s; allowed: a list of block ids".formatted(shown(parser, token)));
    }
    int count = 0;
    boolean leading = true;
    JsonToken item;
    while ((item = parser.nextToken()) != JsonToken.END_ARRAY) {
      if (item != JsonToken.VALUE_NUMBER_INT) {
        throw error(field, "found %s; allowed: block ids".formatted(shown(parser, item)));
      }
      count++;
      double id = parser.getDoubleValue();
      if (id < 0 || id >= MOST_IDS) {
        countable = false;
        continue;
      }
      if (count > blockIds.length) {
        blockIds = Arrays.copyOf(blockIds, 2 * blockIds.length);
      }
      blockIds[count - 1] = (int) id;
      leading &= seen.get((int) id);
      leadingHits += leading ? 1 : 0;
      seen.set((int) id);
    }
    ids += count;
    return count;
  }

  private static String shown(JsonParser parser, JsonToken token) {
    return switch (token) {
      case START_OBJECT -> "an object";
      case START_ARRAY -> "a list";
      default -> {
        String text = parser.getString();
        yield "'" + (text.length() > 40 ? text.substring(0, 40) + "…" : text) + "'";
      }
    };
  }

  private ConfigException error(String field, String problem) {
    return new ConfigException(source, number, field, problem);
  }

  @Override
  public Optional<Trace.PrefixBlocks> end() {
    return countable
        ? Optional.of(new Trace.PrefixBlocks(BLOCK, ids, leadingHits, seen.cardinality()))
        : Optional.empty();
  }

  /** What the parser says, without where: the line is named already. */
  private static String reason(JacksonException e) {
    String first = String.valueOf(e.getOriginalMessage()).lines().findFirst().orElse("malformed");
    int where = first.indexOf(" (start marker");
    return where < 0 ? first : first.substring(0, where);
  }
}
