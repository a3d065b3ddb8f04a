// SPDX-License-Identifier: Apache-2.0
package dev.berth.plan;

import dev.berth.BerthException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * What a KV pool holds, in exact integers (evidence E5, spec 06 BC-18 and BC-87). The verdict
 * counts whole pages, never tokens: a sequence's last page is its own.
 */
public final class KvBudget {
  /** Digits after the point of the least fraction. */
  public static final int FRACTION_DIGITS = 4;

  private final Inputs in;
  private final long poolBytes;
  private final long pages;

  /**
   * What the budget is made from.
   *
   * @param freeBytes memory of one rank that is free once the weights are loaded, 0 to 2^50 bytes
   * @param fraction share of it for the KV pool, 0 to 1
   * @param bytesPerToken bytes of one token on one rank, 1 to 2^30
   * @param tokensPerBlock tokens of one page, 1 or more
   * @param tokenLimit most tokens of the pool whatever the memory; empty if unlimited
   * @param reservedPages pages that are never handed out, 0 or more
   * @param sequenceTokens length of one full sequence in tokens, 1 or more
   * @param sequences sequences that are meant to be resident at once, 1 or more
   * @param reserve memory needed beside the pool
   */
  public record Inputs(
      long freeBytes,
      BigDecimal fraction,
      long bytesPerToken,
      int tokensPerBlock,
      OptionalLong tokenLimit,
      int reservedPages,
      int sequenceTokens,
      int sequences,
      Reserve reserve) {
    public Inputs {
      range("free memory", freeBytes, 0, 1L << 50);
      range("bytes per token", bytesPerToken, 1, 1L << 30);
      range("tokens per block", tokensPerBlock, 1, WorkerShape.MAX_TOKENS_PER_BLOCK);
      range("reserved pages", reservedPages, 0, Integer.MAX_VALUE);
      range("sequence length", sequenceTokens, 1, Integer.MAX_VALUE);
      range("sequences", sequences, 1, Integer.MAX_VALUE);
      if (fraction.signum() < 0 || fraction.compareTo(BigDecimal.ONE) > 0) {
        throw new BerthException(
            BerthException.Code.ARGUMENT,
            "fraction must be from 0 to 1, got " + fraction.toPlainString());
      }
    }

    private static void range(String name, long value, long min, long max) {
      if (value < min || value > max) {
        throw new BerthException(
            BerthException.Code.ARGUMENT,
            name + " must be from " + min + " to " + max + ", got " + value);
      }
    }
  }

  private KvBudget(Inputs in, long poolBytes, long pages) {
    this.in = in;
    this.poolBytes = poolBytes;
    this.pages = pages;
  }

  /** The budget: ⌊free · fraction⌋ bytes, cut into whole pages. */
  public static KvBudget of(Inputs in) {
    long share =
        in.fraction
            .multiply(BigDecimal.valueOf(in.freeBytes))
            .setScale(0, RoundingMode.FLOOR)
            .longValueExact();
    long byMemory = share / pageBytes(in);
    long pages =
        in.tokenLimit.isPresent()
            ? Math.min(byMemory, in.tokenLimit.getAsLong() / in.tokensPerBlock)
            : byMemory;
    return new KvBudget(in, pages * pageBytes(in), pages);
  }

  private static long pageBytes(Inputs in) {
    return in.bytesPerToken * in.tokensPerBlock;
  }

  public Inputs inputs() {
    return in;
  }

  /** Bytes of one page. */
  public long pageBytes() {
    return pageBytes(in);
  }

  /** Bytes of the pool: its whole pages. */
  public long poolBytes() {
    return poolBytes;
  }

  /** Whole pages of the pool, reserved ones included. */
  public long pages() {
    return pages;
  }

  /** Pages that can be handed out: all but the reserved ones (spec 06 BC-18). */
  public long servablePages() {
    return Math.max(0, pages - in.reservedPages);
  }

  /** Tokens of the whole pool. */
  public long tokens() {
    return pages * in.tokensPerBlock;
  }

  /** Pages of one full sequence. */
  public long pagesPerSequence() {
    return Math.ceilDiv(in.sequenceTokens, in.tokensPerBlock);
  }

  /** Full sequences by dividing tokens: an upper bound that ignores page ends. */
  public long sequencesByTokens() {
    return tokens() / in.sequenceTokens;
  }

  /** Full sequences by whole servable pages: what really fits. */
  public long sequencesByPages() {
    return servablePages() / pagesPerSequence();
  }

  /** Tokens of all sequences that are meant to be resident. */
  public long neededTokens() {
    return (long) in.sequences * in.sequenceTokens;
  }

  /** Sequences that are meant to be resident and don't fit; 0 if all do. */
  public long missing() {
    return Math.max(0, in.sequences - sequencesByPages());
  }

  /** Memory beside the pool: free memory less the pool. */
  public long headroomBytes() {
    return in.freeBytes - poolBytes;
  }

  /** Whether every sequence that is meant to be resident fits. */
  public boolean fits() {
    return missing() == 0;
  }

  /** Whether the memory beside the pool covers the reserve. */
  public boolean coversReserve() {
    return headroomBytes() >= in.reserve.total();
  }

  /**
   * The least fraction of four digits with which every sequence fits; empty if none does. Exact:
   * needed bytes over free bytes, rounded up, since ⌊free · f⌋ ≥ needed just if f ≥ needed / free
   * for whole bytes.
   */
  public Optional<BigDecimal> leastFraction() {
    var needed =
        BigInteger.valueOf(in.sequences)
            .multiply(BigInteger.valueOf(pagesPerSequence()))
            .add(BigInteger.valueOf(in.reservedPages));
    if (in.tokenLimit.isPresent()
        && needed.compareTo(BigInteger.valueOf(in.tokenLimit.getAsLong() / in.tokensPerBlock))
            > 0) {
      return Optional.empty();
    }
    var bytes = new BigDecimal(needed.multiply(BigInteger.valueOf(pageBytes())));
    if (bytes.compareTo(BigDecimal.valueOf(in.freeBytes)) > 0) {
      return Optional.empty();
    }
    return Optional.of(
        bytes.divide(BigDecimal.valueOf(in.freeBytes), FRACTION_DIGITS, RoundingMode.CEILING));
  }

  /** The largest fraction of four digits that leaves room for the reserve; empty if none does. */
  public Optional<BigDecimal> greatestFraction() {
    long room = in.freeBytes - in.reserve.total();
    if (room < 0 || in.freeBytes == 0) {
      return Optional.empty();
    }
    return Optional.of(
        BigDecimal.valueOf(room)
            .divide(BigDecimal.valueOf(in.freeBytes), FRACTION_DIGITS, RoundingMode.FLOOR));
  }

  /** Everything that is wrong with the budget, none if all fits. */
  public List<Reason> complaints() {
    var reasons = new ArrayList<Reason>();
    if (!fits()) {
      reasons.add(
          new Reason(
              "kv-sequences",
              "the KV pool of "
                  + pages
                  + " pages holds "
                  + sequencesByPages()
                  + " full sequences of "
                  + in.sequenceTokens
                  + " tokens ("
                  + pagesPerSequence()
                  + " pages each), "
                  + in.sequences
                  + " are meant to be resident: "
                  + missing()
                  + " would be paused; "
                  + leastFraction()
                      .map(
                          fraction -> "the least fraction that fits is " + fraction.toPlainString())
                      .orElse("no fraction fits")));
    }
    if (!coversReserve()) {
      reasons.add(
          new Reason(
              "kv-reserve",
              Bytes.text(headroomBytes())
                  + " are left beside the KV pool, transients need "
                  + Bytes.text(in.reserve.total())
                  + " ("
                  + in.reserve
                  + "); "
                  + greatestFraction()
                      .map(fraction ->
                          "the greatest fraction that leaves them is " + fraction.toPlainString())
                      .orElse("no fraction leaves them")));
    }
    return List.copyOf(reasons);
  }
}
