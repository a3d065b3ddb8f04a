// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.replay.Trace;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The request traces that come with Berth, and those in files. Their NOTICE names sources and
 * licences.
 */
public final class ShippedTraces {
  private static final ShippedFiles FILES = new ShippedFiles("/dev/berth/traces/", "trace");
  private static final Map<String, String> FILE_BY_NAME = fileByName();

  private ShippedTraces() {}

  private static Map<String, String> fileByName() {
    var files = new LinkedHashMap<String, String>();
    files.put("azure-conv", "azure/AzureLLMInferenceTrace_conv.csv");
    files.put("mooncake-1000", "mooncake/mooncake_trace_1000.jsonl");
    return Collections.unmodifiableMap(files);
  }

  /** Names of the shipped traces, in order. */
  public static List<String> names() {
    return List.copyOf(FILE_BY_NAME.keySet());
  }

  /**
   * A file by its path, or a shipped trace by its name.
   *
   * @throws ConfigException if there is neither, or the file is malformed
   */
  public static Trace load(String nameOrFile) {
    return FILES.load(
        nameOrFile,
        TraceReader::read,
        ShippedTraces::shipped,
        "shipped traces: " + String.join(", ", names()));
  }

  private static Optional<Trace> shipped(String name) {
    return Optional.ofNullable(FILE_BY_NAME.get(name)).map(file -> read(name, file));
  }

  private static Trace read(String name, String file) {
    try (InputStream in = FILES.open(file)) {
      return TraceReader.read(name, in);
    } catch (IOException e) {
      throw new UncheckedIOException(file, e);
    }
  }
}
