// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import java.util.OptionalLong;

/**
 * What makes two equal token runs different: nothing is ever reused across scopes.
 *
 * @param lora adapter; 0 is one, absence is none
 * @param salt of the tenant's cache
 */
public record KvScope(OptionalLong lora, OptionalLong salt) {
  /** No adapter, no salt. */
  public static final KvScope NONE = new KvScope(OptionalLong.empty(), OptionalLong.empty());

  /** That adapter, no salt. */
  public static KvScope lora(long adapter) {
    return new KvScope(OptionalLong.of(adapter), OptionalLong.empty());
  }

  /** That salt too. */
  public KvScope withSalt(long value) {
    return new KvScope(lora, OptionalLong.of(value));
  }

  /** Bit 0: an adapter, bit 1: a salt. */
  int present() {
    return (lora.isPresent() ? 1 : 0) | (salt.isPresent() ? 2 : 0);
  }

  static KvScope of(long lora, long salt, int present) {
    return new KvScope(
        (present & 1) != 0 ? OptionalLong.of(lora) : OptionalLong.empty(),
        (present & 2) != 0 ? OptionalLong.of(salt) : OptionalLong.empty());
  }
}
