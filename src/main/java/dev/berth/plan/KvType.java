// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/** Value type of the KV cache. */
public enum KvType {
  FP8(Set.of("fp8", "fp8_e4m3", "fp8_e5m2", "int8")),
  FP16(Set.of("fp16", "float16", "half")),
  BF16(Set.of("bf16", "bfloat16")),
  FP32(Set.of("fp32", "float32", "float")),
  /** Four bits a value, and one byte of scale for 16 values. */
  NVFP4(Set.of("nvfp4"));

  private static final int VALUES_PER_SCALE = 16;

  private final Set<String> spellings;

  KvType(Set<String> spellings) {
    this.spellings = spellings;
  }

  /** The type by any engine's name. */
  public static Optional<KvType> byName(String name) {
    var wanted = name.toLowerCase(Locale.ROOT);
    return Arrays.stream(values()).filter(type -> type.spellings.contains(wanted)).findFirst();
  }

  /** Bytes of one row of values with its scales, partial ones rounded up. */
  public long bytes(long values) {
    return switch (this) {
      case FP8 -> values;
      case FP16, BF16 -> 2 * values;
      case FP32 -> 4 * values;
      case NVFP4 -> Math.ceilDiv(values, 2) + Math.ceilDiv(values, VALUES_PER_SCALE);
    };
  }
}
