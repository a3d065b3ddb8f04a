// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import dev.berth.plan.KvModel;
import dev.berth.plan.KvType;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * A model's shape as a user names it, {@code layers=61,latent=576,dtype=fp8} or {@code
 * layers=32,kv-heads=8,head-dim=128}.
 *
 * @param layers attention layers
 * @param row what one token keeps in one layer
 * @param type value type; empty if the configuration's own holds
 */
public record ModelShape(int layers, KvModel.Row row, Optional<KvType> type) {
  private static final int MAX = 100_000;

  /**
   * Reads the text.
   *
   * @throws IllegalArgumentException with one sentence about the first thing that is wrong
   */
  public static ModelShape parse(String text) {
    var parts = parts(text);
    int layers = number(parts, "layers");
    var latent = parts.containsKey("latent");
    if (latent == (parts.containsKey("kv-heads") || parts.containsKey("head-dim"))) {
      throw new IllegalArgumentException("needs either latent=N, or kv-heads=N and head-dim=N");
    }
    KvModel.Row row =
        latent
            ? new KvModel.Row.Latent(number(parts, "latent"))
            : new KvModel.Row.Heads(number(parts, "kv-heads"), number(parts, "head-dim"));
    var type = Optional.ofNullable(parts.remove("dtype")).map(ModelShape::type);
    if (!parts.isEmpty()) {
      throw new IllegalArgumentException(
          "does not know '" + parts.keySet().iterator().next() + "'");
    }
    return new ModelShape(layers, row, type);
  }

  private static Map<String, String> parts(String text) {
    var parts = new HashMap<String, String>();
    for (String part : text.split(",", -1)) {
      int at = part.indexOf('=');
      if (at < 1) {
        throw new IllegalArgumentException(
            "needs name=value parts separated by commas, found '" + part + "'");
      }
      var name = part.substring(0, at).strip().toLowerCase(Locale.ROOT).replace('_', '-');
      if (parts.put(name, part.substring(at + 1).strip()) != null) {
        throw new IllegalArgumentException("names '" + name + "' twice");
      }
    }
    return parts;
  }

  private static int number(Map<String, String> parts, String name) {
    var value = parts.remove(name);
    if (value == null) {
      throw new IllegalArgumentException("needs " + name + "=N");
    }
    try {
      int number = Integer.parseInt(value);
      if (number >= 1 && number <= MAX) {
        return number;
      }
    } catch (NumberFormatException e) {
      // told below
    }
    throw new IllegalArgumentException(
        "takes an integer from 1 to " + MAX + " for " + name + ", found '" + value + "'");
  }

  private static KvType type(String name) {
    return KvType.byName(name)
        .orElseThrow(() ->
            new IllegalArgumentException(
                "takes fp8, fp16, bf16, fp32 or nvfp4 for dtype, found '" + name + "'"));
  }
}
