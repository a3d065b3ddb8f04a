// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.kv.KvConfig;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvSizes;

/** What a rank's KV cache is made of. How many rows and sequences it has follows from the plan. */
public sealed interface KvSetup {
  /** Pages that are only counted, without a limit. */
  KvSetup UNLIMITED = new Counted(-1);

  /**
   * Pages are only counted: no tables, no tokens, no reuse. For rehearsals of a fleet from lengths
   * alone.
   *
   * @param pages of a rank; -1: not limited
   */
  record Counted(long pages) implements KvSetup {
    public Counted {
      if (pages < -1) {
        throw new IllegalArgumentException("pages must be >= 0, or -1 for no limit: " + pages);
      }
    }
  }

  /**
   * A cache with pages, block tables and tokens. A request that comes without its prompt's tokens
   * shares nothing.
   *
   * @param layout where buffers lie
   * @param sizes pages of each pool group on each level
   * @param indexBlocks blocks that can be found again, 0 (nothing is reused) to 2^28
   * @param partialReuse whether a part of a block may be reused, by copy
   * @param paused what becomes of the pages of a request that gives way
   * @param sharing whether a context waits for a block that another one is computing
   * @param memory whether the pages have memory
   * @param eventRingLog2 unread events kept, as a power of two, 4 to 24; 0: no events
   * @param offloadMinPriority below it a block is dropped where it could move a level down, 0 to
   *     101
   * @param scopes pairs of adapter and salt that have blocks at a time, 1 to 2^20
   */
  record Paged(
      KvLayout layout,
      KvSizes sizes,
      int indexBlocks,
      KvConfig.Partial partialReuse,
      Paused paused,
      Sharing sharing,
      KvConfig.Memory memory,
      int eventRingLog2,
      int offloadMinPriority,
      int scopes)
      implements KvSetup {

    /** With an index of that many blocks. */
    public Paged withIndex(int blocks, KvConfig.Partial partial) {
      return new Paged(
          layout,
          sizes,
          blocks,
          partial,
          paused,
          sharing,
          memory,
          eventRingLog2,
          offloadMinPriority,
          scopes);
    }

    /** With that treatment of requests that give way. */
    public Paged withPaused(Paused treatment) {
      return new Paged(
          layout,
          sizes,
          indexBlocks,
          partialReuse,
          treatment,
          sharing,
          memory,
          eventRingLog2,
          offloadMinPriority,
          scopes);
    }

    /** With or without waiting for who computes the same. */
    public Paged withSharing(Sharing rule) {
      return new Paged(
          layout,
          sizes,
          indexBlocks,
          partialReuse,
          paused,
          rule,
          memory,
          eventRingLog2,
          offloadMinPriority,
          scopes);
    }

    /** With memory or without. */
    public Paged withMemory(KvConfig.Memory pages) {
      return new Paged(
          layout,
          sizes,
          indexBlocks,
          partialReuse,
          paused,
          sharing,
          pages,
          eventRingLog2,
          offloadMinPriority,
          scopes);
    }

    /** With a ring of 2^log2 events. */
    public Paged withEvents(int log2) {
      return new Paged(
          layout,
          sizes,
          indexBlocks,
          partialReuse,
          paused,
          sharing,
          memory,
          log2,
          offloadMinPriority,
          scopes);
    }
  }

  /** What becomes of the pages of a request that gives way; the order is {@code berth_pause}'s. */
  enum Paused {
    /** Blocks that can be found stay until their room is needed; the rest is computed again. */
    RECOMPUTE,
    /** All that was computed can be found, the block begun too where parts of blocks are reused. */
    SUSPEND
  }

  /** Whether a context waits while another one computes the block that it lacks next. */
  enum Sharing {
    /** Both compute it. */
    EACH_COMPUTES,
    /** It waits, and finds it. */
    WAITS
  }

  /** Pages that are only counted. */
  static KvSetup counted(long pages) {
    return new Counted(pages);
  }

  /**
   * A cache in which every device and host page can be found again, whole blocks only, without
   * memory and events; who gives way is suspended.
   */
  static Paged paged(KvLayout layout, KvSizes sizes) {
    long blocks = 0;
    for (long[] level : sizes.pages()) {
      for (long pages : level) {
        blocks += pages;
      }
    }
    return new Paged(
        layout,
        sizes,
        (int) Math.min(blocks, 1 << 28),
        KvConfig.Partial.OFF,
        Paused.SUSPEND,
        Sharing.WAITS,
        KvConfig.Memory.NONE,
        0,
        30,
        16);
  }
}
