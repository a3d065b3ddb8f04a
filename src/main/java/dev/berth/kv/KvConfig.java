// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.internal.NativeKv;
import dev.berth.plan.Leases;

/**
 * What a {@link KvCache} is made with, besides its layout and pages.
 *
 * @param leases rows of the block tables, from the plan
 * @param reserved rows behind them, for padding requests
 * @param beams widest beam: rows a lease, 1 to 64
 * @param maxBlocks blocks of a sequence, a multiple of 4; with its tokens below 2^30
 * @param sequences open at a time, suspended ones included; 1 to 2^20
 * @param pins lookups pinned at a time, 0 to 2^20
 * @param scopes pairs of adapter and salt that have blocks at a time, 1 to 2^20
 * @param tenants 1 to 64
 * @param indexBlocks blocks that the prefix index can hold, 0 (nothing is reused) to 2^28
 * @param partialReuse whether a part of a block may be reused, by copy
 * @param defaultPriority of blocks without a retention range, 0 to 100
 * @param offloadMinPriority below it a block is dropped where it could move a level down, 0 to 101
 * @param maxUtilisation share of a group's pages, in 1/65536, beyond which a resume is refused
 * @param eventRingLog2 unread events kept, as a power of two, 4 to 24; 0: no events
 * @param memory whether the pages have memory or are only counted
 * @param timing when copies and tables happen
 * @param staging batches under way at a time, in emulation; 1 to 64
 * @param badValue what a table says where there is no page
 * @param tokenArena tokens that one batch of operations may name, 1 to 2^28
 * @param hashKey of the index's hashes; no result depends on it
 */
public record KvConfig(
    Leases leases,
    int reserved,
    int beams,
    int maxBlocks,
    int sequences,
    int pins,
    int scopes,
    int tenants,
    int indexBlocks,
    Partial partialReuse,
    int defaultPriority,
    int offloadMinPriority,
    int maxUtilisation,
    int eventRingLog2,
    Memory memory,
    Timing timing,
    int staging,
    int badValue,
    int tokenArena,
    long hashKey) {

  /** Whether a part of a block may be reused. */
  public enum Partial {
    /** Whole blocks only. */
    OFF,
    /** By copy into a page of one's own. */
    COPY
  }

  /** Whether pages have memory. */
  public enum Memory {
    /** They are only counted. */
    NONE,
    /** Of this process. */
    HOST
  }

  /** When copies and tables happen. */
  public enum Timing {
    /** When the call returns. */
    SYNCHRONOUS,
    /** In {@link KvCache#run}, from snapshots: a device without a device. */
    EMULATION
  }

  /**
   * As many sequences as leases and half again for suspended ones, one tenant, no events, no
   * memory; all device pages may be in the index.
   */
  public static KvConfig of(Leases leases, int maxBlocks, int indexBlocks) {
    return new KvConfig(
        leases,
        0,
        1,
        maxBlocks,
        leases.count() + Math.max(1, leases.count() / 2),
        leases.count(),
        Math.max(16, leases.count()),
        1,
        indexBlocks,
        Partial.OFF,
        35,
        30,
        65536,
        0,
        Memory.NONE,
        Timing.SYNCHRONOUS,
        3,
        -1,
        1 << 20,
        0x5bd1e9955bd1e995L);
  }

  /** With that many reserved rows. */
  public KvConfig withReserved(int rows) {
    return new KvConfig(
        leases,
        rows,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With beams up to that width. */
  public KvConfig withBeams(int width) {
    return new KvConfig(
        leases,
        reserved,
        width,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With that many sequences and pins. */
  public KvConfig withSequences(int open, int pinned) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        open,
        pinned,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With that many scopes and tenants. */
  public KvConfig withScopes(int scopeCount, int tenantCount) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopeCount,
        tenantCount,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With or without partial reuse. */
  public KvConfig withPartialReuse(Partial partial) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partial,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With those priorities. */
  public KvConfig withPriorities(int byDefault, int offloadMin) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        byDefault,
        offloadMin,
        maxUtilisation,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With that limit on resuming, in 1/65536. */
  public KvConfig withMaxUtilisation(int share) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        share,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With a ring of 2^log2 events. */
  public KvConfig withEvents(int log2) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        log2,
        memory,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With memory or without. */
  public KvConfig withMemory(Memory pages) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        pages,
        timing,
        staging,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With that timing and, in emulation, that many batches under way. */
  public KvConfig withTiming(Timing when, int batches) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory,
        when,
        batches,
        badValue,
        tokenArena,
        hashKey);
  }

  /** With an arena of that many tokens. */
  public KvConfig withTokenArena(int tokens) {
    return new KvConfig(
        leases,
        reserved,
        beams,
        maxBlocks,
        sequences,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory,
        timing,
        staging,
        badValue,
        tokens,
        hashKey);
  }

  NativeKv.Config raw(int tokensPerBlock) {
    long rows = ((long) leases.count() + reserved) * beams;
    return new NativeKv.Config(
        tokensPerBlock,
        maxBlocks,
        sequences,
        (int) Math.min(Math.max(rows, -1), Integer.MAX_VALUE),
        beams,
        pins,
        scopes,
        tenants,
        indexBlocks,
        partialReuse == Partial.COPY,
        defaultPriority,
        offloadMinPriority,
        maxUtilisation,
        eventRingLog2,
        memory == Memory.HOST,
        timing == Timing.EMULATION,
        staging,
        badValue,
        tokenArena,
        hashKey,
        hashKey * 0x9e3779b97f4a7c15L);
  }
}
