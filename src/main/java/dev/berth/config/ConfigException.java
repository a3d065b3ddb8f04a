// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.BerthException;

/**
 * A file that cannot be used as it stands: {@code file:line: field: what was found, what is
 * allowed}. One exception names one place.
 */
public final class ConfigException extends BerthException {
  private static final long serialVersionUID = 1L;

  private final String source;
  private final int line;
  private final String field;

  /**
   * @param source the file's name as the reader was given it
   * @param line 1-based; 0 if the trouble has no line (a file that cannot be opened)
   * @param field dotted path of the value, empty if the trouble is not about one value
   * @param problem what was found and what is allowed, one sentence
   */
  public ConfigException(String source, int line, String field, String problem) {
    super(Code.CONFIGURATION, message(source, line, field, problem));
    this.source = source;
    this.line = line;
    this.field = field;
  }

  /** The file's name as the reader was given it. */
  public String source() {
    return source;
  }

  /** 1-based line; 0 if there is none. */
  public int line() {
    return line;
  }

  /** Dotted path of the value; empty if the trouble is not about one value. */
  public String field() {
    return field;
  }

  private static String message(String source, int line, String field, String problem) {
    var text = new StringBuilder(source);
    if (line > 0) {
      text.append(':').append(line);
    }
    text.append(": ");
    if (!field.isEmpty()) {
      text.append(field).append(": ");
    }
    return text.append(problem).toString();
  }
}
