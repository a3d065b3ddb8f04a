// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.internal.NativeKv;

/**
 * What one layer keeps of a block of tokens.
 *
 * @param layer 0 to 65535
 * @param role 0 to 15: an even role is a key (or all there is), the odd one after it its value; 16
 *     + r are the scale factors of role r, which must stand where their data stands
 * @param bytes of one block, 1 to 2^40
 * @param tokens of a block of this buffer where they aren't the layout's, which they divide; 0
 * @param domain target, draft, cross: buffers of different domains are kept apart
 */
public record KvBuffer(int layer, int role, long bytes, KvReach reach, int tokens, int domain) {
  /** The role of keys. */
  public static final int KEY = 0;

  /** The role of values. */
  public static final int VALUE = 1;

  /** A buffer of the layout's block size in domain 0. */
  public static KvBuffer of(int layer, int role, long bytes, KvReach reach) {
    return new KvBuffer(layer, role, bytes, reach, 0, 0);
  }

  NativeKv.Buffer raw() {
    return switch (reach) {
      case KvReach.Full() -> new NativeKv.Buffer(bytes, layer, role, -1, 0, tokens, domain);
      case KvReach.State() -> new NativeKv.Buffer(bytes, layer, role, 0, 0, tokens, domain);
      // A window of less than a token can't be: the native side would read 0 as a state.
      case KvReach.Window(int window, int sinks) ->
          new NativeKv.Buffer(bytes, layer, role, window < 1 ? -2 : window, sinks, tokens, domain);
    };
  }
}
