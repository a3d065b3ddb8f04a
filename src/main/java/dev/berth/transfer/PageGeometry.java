// SPDX-License-Identifier: Apache-2.0
package dev.berth.transfer;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * What the pages of a pool are: two pools exchange pages only if all of it but the number of pages
 * is the same.
 *
 * @param pageBytes bytes of a page, 1 or more
 * @param pages pages of the pool, 1 or more
 * @param tokensPerPage tokens that a page holds, 1 or more
 * @param content what else must be the same: layers, heads, type, layout, model, share of a
 *     tensor-parallel group, in any text that both sides write alike
 */
public record PageGeometry(long pageBytes, int pages, int tokensPerPage, String content) {
  public PageGeometry {
    if (pageBytes < 1 || pages < 1 || tokensPerPage < 1) {
      throw new BerthException(
          Code.ARGUMENT,
          "%d pages of %d bytes and %d tokens: all 1 or more"
              .formatted(pages, pageBytes, tokensPerPage));
    }
  }

  /** Equal for pools that may exchange pages: 64 bits of a SHA-256. */
  public long fingerprint() {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(ByteBuffer.allocate(12).putLong(pageBytes).putInt(tokensPerPage).array());
      return ByteBuffer.wrap(digest.digest(content.getBytes(StandardCharsets.UTF_8))).getLong();
    } catch (NoSuchAlgorithmException e) {
      throw new BerthException(Code.INTERNAL, "every Java platform has SHA-256", e);
    }
  }
}
