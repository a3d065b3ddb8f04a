// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.id.Lease;
import dev.berth.plan.KeyedBy;
import dev.berth.plan.Leases;
import dev.berth.plan.RegisteredPool;
import java.util.List;

/**
 * The leases of one rank: which row of the page tables a request holds, from KV creation to KV
 * close, and the copy rows of a batch.
 */
public final class LeaseMap extends SlotPool<Lease> {
  private final Options options;

  private LeaseMap(Leases leases, Options options) {
    super("lease map", leases.count(), options.reserved(), options.quarantine());
    this.options = options;
  }

  /** Whether finished prefills may hold a lease while their pages are sent to another worker. */
  public enum Transfer {
    /** One worker does prefill and decode. */
    NONE,
    /** A transfer engine is configured: prefill and decode are disaggregated. */
    ENGINE
  }

  /** How beams map to rows of the page table. */
  public enum Beams {
    /** Beam j of a request reads row {@code lease * width + j}. */
    DISTINCT,
    /** Every beam of a request reads its row {@code lease * width}. */
    REPLICATED
  }

  /**
   * What a map is made with besides its size.
   *
   * @param reserved leases behind the plan's, for padding requests, 0 to 2^20
   * @param width W: rows of the page table a lease, 1 or more
   */
  public record Options(int reserved, int width, Quarantine quarantine, Transfer transfer) {
    /** No reserved lease, one row a lease, no quarantine, no transfer engine. */
    public static final Options DEFAULT = new Options(0, 1, Quarantine.OFF, Transfer.NONE);

    /** With that many reserved leases. */
    public Options withReserved(int leases) {
      return new Options(leases, width, quarantine, transfer);
    }

    /** With that many rows a lease. */
    public Options withWidth(int rows) {
      return new Options(reserved, rows, quarantine, transfer);
    }

    /** With that quarantine. */
    public Options withQuarantine(Quarantine mode) {
      return new Options(reserved, width, mode, transfer);
    }

    /** With or without a transfer engine. */
    public Options withTransfer(Transfer engine) {
      return new Options(reserved, width, quarantine, engine);
    }
  }

  /**
   * A map.
   *
   * @throws BerthException ARGUMENT beyond 2^20 leases, for a width below 1 or so large that a row
   *     number passes 2^31 - 1; MEMORY, UNAVAILABLE
   */
  public static LeaseMap create(Leases leases, Options options) {
    long rows = ((long) leases.count() + options.reserved()) * options.width();
    if (options.width() < 1 || rows > Integer.MAX_VALUE) {
      throw new BerthException(
          BerthException.Code.ARGUMENT,
          "a width of %d makes %d rows: 1 to %d are possible"
              .formatted(options.width(), rows, Integer.MAX_VALUE));
    }
    return new LeaseMap(leases, options);
  }

  /**
   * Writes the copy rows of the batch's handles (spec 03 §2.2): one for each of the first contexts,
   * beam for each of the others; in request order, beams innermost. The same handle may occur more
   * than once.
   *
   * @param contexts 0 to {@code batch.size()}
   * @param beam 1 or more; at most {@link #width()} unless replicated
   * @param rows receives them; belongs to the caller
   * @return how many: contexts + beam * (n - contexts)
   * @throws BerthException ARGUMENT for a shape outside that, for more handles than leases or rows
   *     that don't fit; STALE, NOT_FOUND for a handle that isn't live. Nothing was written then.
   */
  public int rows(SlotBatch batch, int contexts, int beam, Beams beams, CopyRows rows) {
    int count =
        slots()
            .rows(
                batch.handles(),
                batch.size(),
                contexts,
                beam,
                options.width(),
                beams == Beams.REPLICATED,
                rows.segment(),
                rows.capacity());
    rows.size(count);
    return count;
  }

  /** W: rows of the page table a lease. */
  public int width() {
    return options.width();
  }

  @Override
  public List<RegisteredPool> registered() {
    SlotUsage usage = usage();
    return List.of(
        RegisteredPool.of("lease map", KeyedBy.LEASE, usage.capacity()),
        RegisteredPool.of("padding lease pool", KeyedBy.RESERVED_LEASE, usage.reserved()));
  }

  @Override
  Lease slot(int index) {
    return new Lease(index);
  }

  @Override
  String message(SlotUsage usage) {
    String text = "no free lease: " + usage.describe();
    return switch (options.transfer()) {
      case NONE -> text;
      case ENGINE ->
          text
              + "; with disaggregated prefill, requests whose pages are still being sent hold leases too";
    };
  }
}
