// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.replay.Trace;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The request traces that come with Berth, and those in files. Their NOTICE names sources and
 * licences.
 */
public final class ShippedTraces {
  private static final String FOLDER = "/dev/berth/traces/";
  private static final Map<String, String> FILES = files();

  private ShippedTraces() {}

  private static Map<String, String> files() {
    var files = new LinkedHashMap<String, String>();
    files.put("azure-conv", "azure/AzureLLMInferenceTrace_conv.csv");
    files.put("mooncake-1000", "mooncake/mooncake_trace_1000.jsonl");
    return Collections.unmodifiableMap(files);
  }

  /** Names of the shipped traces, in order. */
  public static List<String> names() {
    return List.copyOf(FILES.keySet());
  }

  /**
   * A shipped trace by its name, or a file by its path.
   *
   * @throws ConfigException if there is neither, or the file is malformed
   */
  public static Trace load(String nameOrFile) {
    String shipped = FILES.get(nameOrFile);
    if (shipped != null) {
      return read(nameOrFile, shipped);
    }
    Path file = Path.of(nameOrFile);
    if (Files.exists(file)) {
      return TraceReader.read(file);
    }
    throw new ConfigException(
        nameOrFile,
        0,
        "",
        "there is no such file, and no shipped trace of that name; shipped traces: "
            + String.join(", ", names()));
  }

  private static Trace read(String name, String file) {
    try (InputStream in =
        Objects.requireNonNull(ShippedTraces.class.getResourceAsStream(FOLDER + file), file)) {
      return TraceReader.read(name, in);
    } catch (IOException e) {
      throw new UncheckedIOException(file, e);
    }
  }
}
