// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

/**
 * Virtual time of a KV transfer, from the generation worker's request to the last byte: {@code base
 * + perToken · prompt tokens}. Transfers don't slow each other down.
 *
 * @param baseMicros µs a transfer, 0 to 1e12
 * @param tokenMicros µs a prompt token, 0 to 1e12
 */
public record TransferModel(double baseMicros, double tokenMicros) {
  public TransferModel {
    if (!(baseMicros >= 0 && baseMicros <= 1e12 && tokenMicros >= 0 && tokenMicros <= 1e12)) {
      throw new IllegalArgumentException(
          "transfer times must be from 0 to 1e12 µs, got " + baseMicros + " and " + tokenMicros);
    }
  }

  /** The same time whatever is transferred. */
  public static TransferModel fixed(double micros) {
    return new TransferModel(micros, 0);
  }

  /** Virtual time of one transfer in µs. */
  public double micros(int promptTokens) {
    return baseMicros + tokenMicros * promptTokens;
  }
}
