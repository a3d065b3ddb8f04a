// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Memory that is needed beside weights and KV pool, in bytes, each 0 or more.
 *
 * @param transferBuffers staging of KV transfers
 * @param ncclWorkspace workspaces of collectives
 * @param expertShuffling rearranging of experts (EPLB)
 * @param fragmentation lost between allocations
 */
public record Reserve(
    long transferBuffers, long ncclWorkspace, long expertShuffling, long fragmentation) {
  /** Nothing is asked for. */
  public static final Reserve NONE = new Reserve(0, 0, 0, 0);

  private static final long MAX = 1L << 50;

  /**
   * One part with its name.
   *
   * @param bytes 0 or more
   */
  public record Part(String name, long bytes) {}

  public Reserve {
    range("transfer buffers", transferBuffers);
    range("NCCL workspace", ncclWorkspace);
    range("expert shuffling", expertShuffling);
    range("fragmentation", fragmentation);
  }

  /** The parts in a fixed order. */
  public List<Part> parts() {
    return List.of(
        new Part("transfer buffers", transferBuffers),
        new Part("NCCL workspace", ncclWorkspace),
        new Part("expert shuffling", expertShuffling),
        new Part("fragmentation", fragmentation));
  }

  /** All parts in bytes. */
  public long total() {
    return parts().stream().mapToLong(Part::bytes).sum();
  }

  /** The same with other transfer buffers. */
  public Reserve withTransferBuffers(long bytes) {
    return new Reserve(bytes, ncclWorkspace, expertShuffling, fragmentation);
  }

  @Override
  public String toString() {
    return parts().stream()
        .map(part -> part.name() + " " + Bytes.text(part.bytes()))
        .collect(Collectors.joining(", "));
  }

  private static void range(String name, long bytes) {
    if (bytes < 0 || bytes > MAX) {
      throw new BerthException(
          BerthException.Code.ARGUMENT,
          name + " must be from 0 to " + MAX + " bytes, got " + bytes);
    }
  }
}
