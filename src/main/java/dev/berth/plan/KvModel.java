// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;

/**
 * The part of a model's shape that the size of its KV cache depends on.
 *
 * @param layers attention layers, 1 to 100 000
 * @param row what one token keeps in one layer
 * @param type value type
 */
public record KvModel(int layers, Row row, KvType type) {
  private static final int MAX = 100_000;

  /** What one token keeps in one layer. */
  public sealed interface Row {
    /**
     * A latent vector shared by keys and values (MLA); every rank keeps all of it.
     *
     * @param values its length, 1 to 100 000
     */
    record Latent(int values) implements Row {
      public Latent {
        range("latent", values);
      }
    }

    /**
     * Keys and values by head; tensor-parallel ranks share the heads, attention-DP ranks keep all.
     *
     * @param kvHeads heads, 1 to 100 000
     * @param headDim values of one head, 1 to 100 000
     */
    record Heads(int kvHeads, int headDim) implements Row {
      public Heads {
        range("kv heads", kvHeads);
        range("head dim", headDim);
      }
    }
  }

  public KvModel {
    range("layers", layers);
  }

  /** Bytes of one token on one rank of a worker: its stage's layers and its share of the heads. */
  public long bytesPerToken(WorkerShape shape) {
    long onStage = Math.ceilDiv(layers, shape.pipelineSize());
    return switch (row) {
      case Row.Latent(int values) -> onStage * type.bytes(values);
      case Row.Heads(int kvHeads, int headDim) -> {
        long heads = shape.attentionDp() ? kvHeads : Math.ceilDiv(kvHeads, shape.ranks());
        yield 2 * onStage * type.bytes(heads * headDim);
      }
    };
  }

  private static void range(String name, int value) {
    if (value < 1 || value > MAX) {
      throw new BerthException(
          BerthException.Code.ARGUMENT, name + " must be from 1 to " + MAX + ", got " + value);
    }
  }
}
