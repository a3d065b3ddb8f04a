// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import dev.berth.BerthException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import tools.jackson.core.JacksonException;
import tools.jackson.jr.ob.JSON;

/** Maps and lists as JSON text with stable key order; absent values are left out. */
final class Json {
  private static final JSON WRITER =
      JSON.builder().enable(JSON.Feature.PRETTY_PRINT_OUTPUT).build();

  private final Map<String, Object> fields = new LinkedHashMap<>();

  Json put(String key, Object value) {
    switch (value) {
      case OptionalInt number -> number.ifPresent(present -> fields.put(key, present));
      case OptionalLong number -> number.ifPresent(present -> fields.put(key, present));
      case Optional<?> optional -> optional.ifPresent(present -> put(key, present));
      case Json nested -> fields.put(key, nested.fields);
      default -> fields.put(key, value);
    }
    return this;
  }

  Map<String, Object> fields() {
    return fields;
  }

  String text() {
    try {
      return WRITER.asString(fields);
    } catch (JacksonException e) {
      throw new BerthException(BerthException.Code.INTERNAL, "cannot write JSON", e);
    }
  }
}
