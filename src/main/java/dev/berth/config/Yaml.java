// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Optional;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.composer.Composer;
import org.snakeyaml.engine.v2.events.CollectionEndEvent;
import org.snakeyaml.engine.v2.events.CollectionStartEvent;
import org.snakeyaml.engine.v2.events.DocumentStartEvent;
import org.snakeyaml.engine.v2.events.Event;
import org.snakeyaml.engine.v2.exceptions.Mark;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.ReaderException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.parser.ParserImpl;
import org.snakeyaml.engine.v2.scanner.StreamReader;

/**
 * Text to a composed node tree within fixed limits. JSON is read as the subset of YAML that it is.
 */
final class Yaml {
  /** Largest file, in bytes and in code points. */
  static final int MAX_SIZE = 4 << 20;

  /** Deepest nesting of mappings and sequences. */
  static final int MAX_DEPTH = 64;

  private Yaml() {}

  static String readText(Path file) {
    var source = file.toString();
    byte[] bytes = InputFile.read(file, in -> in.readNBytes(MAX_SIZE + 1));
    if (bytes.length > MAX_SIZE) {
      throw new ConfigException(
          source, 0, "", "is larger than " + MAX_SIZE + " bytes, the most allowed");
    }
    return decode(source, bytes);
  }

  private static String decode(String source, byte[] bytes) {
    var decoder =
        StandardCharsets.UTF_8
            .newDecoder()
            .onMalformedInput(CodingErrorAction.REPORT)
            .onUnmappableCharacter(CodingErrorAction.REPORT);
    var in = ByteBuffer.wrap(bytes);
    try {
      var text = decoder.decode(in).toString();
      return text.startsWith("\uFEFF") ? text.substring(1) : text;
    } catch (CharacterCodingException e) {
      throw new ConfigException(
          source, lineAtByte(bytes, in.position()), "", "found bytes that are not UTF-8 text");
    }
  }

  private static int lineAtByte(byte[] bytes, int end) {
    int line = 1;
    for (int i = 0; i < end; i++) {
      if (bytes[i] == '\n') {
        line++;
      }
    }
    return line;
  }

  static Node compose(String source, String text) {
    var settings =
        LoadSettings.builder()
            .setLabel(source)
            .setCodePointLimit(MAX_SIZE)
            .setMaxAliasesForCollections(Integer.MAX_VALUE)
            .setAllowDuplicateKeys(true)
            .setAllowNonScalarKeys(true)
            .build();
    try {
      checkShape(source, text, settings);
      return new Composer(settings, parser(text, settings))
          .getSingleNode()
          .orElseThrow(() -> new ConfigException(source, 1, "", "is empty; a document is needed"));
    } catch (ReaderException e) {
      throw new ConfigException(
          source,
          lineAt(text, e.getPosition()),
          "",
          "found the character U+%04X, which a YAML file may not hold".formatted(e.getCodePoint()));
    } catch (MarkedYamlEngineException e) {
      var mark = Optional.ofNullable(e.getProblemMark()).flatMap(m -> m);
      throw new ConfigException(
          source, mark.map(Yaml::line).orElse(1), "", malformed(text, mark, e));
    } catch (YamlEngineException e) {
      throw new ConfigException(
          source, 1, "", "malformed YAML: " + oneLine(String.valueOf(e.getMessage())));
    }
  }

  private static ParserImpl parser(String text, LoadSettings settings) {
    return new ParserImpl(settings, new StreamReader(settings, text));
  }

  static int line(Mark mark) {
    return mark.getLine() + 1;
  }

  /**
   * Walks the events without recursion, so that depth is refused before anything recurses over it.
   */
  private static void checkShape(String source, String text, LoadSettings settings) {
    int depth = 0;
    int documents = 0;
    var events = parser(text, settings);
    while (events.hasNext()) {
      var event = events.next();
      if (event instanceof DocumentStartEvent && ++documents == 2) {
        throw new ConfigException(
            source, lineOf(event), "", "a second document starts here; one per file is allowed");
      }
      if (event instanceof CollectionStartEvent && ++depth > MAX_DEPTH) {
        throw new ConfigException(
            source,
            lineOf(event),
            "",
            "is nested deeper than " + MAX_DEPTH + " levels, the most allowed");
      }
      if (event instanceof CollectionEndEvent) {
        depth--;
      }
    }
  }

  private static int lineOf(Event event) {
    return event.getStartMark().map(Yaml::line).orElse(1);
  }

  private static int lineAt(String text, int codePoint) {
    int line = 1;
    int end = Math.min(codePoint, text.length());
    for (int i = 0; i < end; i++) {
      if (text.charAt(i) == '\n') {
        line++;
      }
    }
    return line;
  }

  private static String malformed(String text, Optional<Mark> mark, MarkedYamlEngineException e) {
    var tab = mark.filter(m -> m.getIndex() < text.length() && text.charAt(m.getIndex()) == '\t');
    if (tab.isPresent()) {
      return "malformed YAML: found a tab in the indentation; only spaces are allowed";
    }
    return "malformed YAML: " + oneLine(String.valueOf(e.getProblem()));
  }

  private static String oneLine(String text) {
    return text.strip().replaceAll("\\s*\\R\\s*", " ");
  }
}
