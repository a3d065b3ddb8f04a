// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeKv;

/**
 * Identities of blocks as other systems name them in events and routers (spec 03 §8.1, §8.2). Made
 * when somebody asks; nothing is found by them here.
 */
public enum KvHash {
  /** 64 bits, mixed token by token. */
  V1_BLOCK_KEY(1, 8),
  /**
   * SHA-256 of the parent's digest and the tokens; a scope's first parent is the digest of the
   * scope.
   */
  V2_SHA256(2, 32),
  /** The first eight bytes of {@link #V2_SHA256}. */
  V2_SHA256_64(3, 8);

  private final int code;
  private final int bytes;

  KvHash(int code, int bytes) {
    this.code = code;
    this.bytes = bytes;
  }

  /** Bytes of an identity. */
  public int bytes() {
    return bytes;
  }

  /**
   * A chain of identities.
   *
   * @param ids one after another, {@link KvHash#bytes} each
   * @param last 32 bytes, with which {@link #chain} goes on
   */
  public record Chain(byte[] ids, byte[] last) {}

  /**
   * Identities of the blocks of tokens from the scope's root on; the last block may be short.
   *
   * @throws BerthException ARGUMENT for a block of less than a token
   */
  public Chain chain(KvScope scope, int[] tokens, int tokensPerBlock) {
    return make(scope, new byte[0], tokens, tokensPerBlock);
  }

  /**
   * The same after a chain that was made before.
   *
   * @param last of that chain
   */
  public Chain chain(KvScope scope, byte[] last, int[] tokens, int tokensPerBlock) {
    if (last.length != 32) {
      throw new BerthException(Code.ARGUMENT, "a chain goes on from 32 bytes, not " + last.length);
    }
    return make(scope, last, tokens, tokensPerBlock);
  }

  private Chain make(KvScope scope, byte[] parent, int[] tokens, int tokensPerBlock) {
    if (tokensPerBlock < 1) {
      throw new BerthException(Code.ARGUMENT, tokensPerBlock + " tokens a block");
    }
    byte[] last = new byte[32];
    byte[] ids =
        NativeKv.hash(
            code,
            bytes,
            scope.lora().orElse(0),
            scope.salt().orElse(0),
            scope.present(),
            parent,
            tokens,
            tokensPerBlock,
            last);
    return new Chain(ids, last);
  }
}
