// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.internal.NativeCore.PoolSizes;
import dev.berth.plan.KeyedBy;
import dev.berth.plan.RegisteredPool;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;

/** The pools that an engine makes and presents to the start-up validator. */
public enum EnginePool {
  SEATS("seat pool", KeyedBy.SEAT),
  LEASES("lease map", KeyedBy.LEASE),
  PADDING_LEASES("padding lease pool", KeyedBy.RESERVED_LEASE),
  BATCH("batch", KeyedBy.BATCH_POSITION),
  /** Only where pages are a cache's. */
  BLOCK_TABLES("block tables", KeyedBy.LEASE),
  /** Shared by all leases, each with as many as it needs: there is no row to bound. */
  PAGES("KV pages", KeyedBy.LEASE);

  private final String title;
  private final KeyedBy keyedBy;

  EnginePool(String title, KeyedBy keyedBy) {
    this.title = title;
    this.keyedBy = keyedBy;
  }

  /** What messages call it. */
  public String title() {
    return title;
  }

  /** Whether the validator can compare it; one without a bound is skipped. */
  public boolean bounded() {
    return this != PAGES;
  }

  /** What messages call those of an engine that counts its pages, as far as they are wanted. */
  public static List<String> titles(Predicate<EnginePool> wanted) {
    return Arrays.stream(values())
        .filter(pool -> pool != BLOCK_TABLES)
        .filter(wanted)
        .map(EnginePool::title)
        .toList();
  }

  /** Those that a core has, with their sizes. */
  static List<RegisteredPool> registered(PoolSizes sizes) {
    return Arrays.stream(values())
        .filter(pool -> pool != BLOCK_TABLES || sizes.tableRows() > 0)
        .map(pool -> pool.of(sizes))
        .toList();
  }

  private RegisteredPool of(PoolSizes sizes) {
    return switch (this) {
      case SEATS -> RegisteredPool.of(title, keyedBy, sizes.seats());
      case LEASES -> RegisteredPool.of(title, keyedBy, sizes.leases());
      case PADDING_LEASES -> RegisteredPool.of(title, keyedBy, sizes.reservedLeases());
      case BATCH -> RegisteredPool.of(title, keyedBy, sizes.batchPositions());
      case BLOCK_TABLES -> RegisteredPool.of(title, keyedBy, sizes.tableRows());
      case PAGES -> RegisteredPool.unbounded(title, keyedBy);
    };
  }
}
