// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeCore;
import dev.berth.internal.NativeKv;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * A KV cache whose sequences are somebody else's, an engine's: usage, events, pages and block
 * tables to be read. For its owner's thread; closed with its owner (CLOSED).
 */
public final class KvView {
  private final NativeKv kv;
  private final KvLayout layout;
  private final KvConfig config;

  private KvView(NativeKv kv, KvLayout layout, KvConfig config) {
    this.kv = kv;
    this.layout = layout;
    this.config = config;
  }

  /**
   * What such a cache is made of, for owners of this module.
   *
   * @throws BerthException CONFIGURATION for a disk level with memory: an engine starts a sequence
   *     in one step and has nobody to wait for pages on their way
   */
  @SuppressWarnings("exports")
  public static NativeCore.Cache parts(KvLayout layout, KvConfig config, KvSizes sizes) {
    long onDisk = Arrays.stream(sizes.pages()[KvLevel.DISK.ordinal()]).sum();
    if (config.memory() != KvConfig.Memory.NONE && onDisk > 0) {
      throw new BerthException(
          Code.CONFIGURATION, onDisk + " pages on the disk level of an engine's cache: none is");
    }
    return new NativeCore.Cache.Paged(
        config.raw(layout.tokensPerBlock()), layout.raw(), sizes.flat());
  }

  /** For owners of this module. */
  @SuppressWarnings("exports")
  public static KvView of(NativeKv kv, KvLayout layout, KvConfig config) {
    return new KvView(kv, layout, config);
  }

  /** Tables for batches of that shape. */
  public KvTables newTables(KvTables.Shape shape) {
    return KvTables.create(kv, config.maxBlocks(), shape);
  }

  /**
   * Fills the tables of the batch that the owner is about to run, a row a batch position: between
   * the launch of a batch and the answer to it. A padding row has no pages.
   *
   * @return OK; CAPACITY if something doesn't fit; STATE if no batch was launched or pages are only
   *     counted. Nothing was written then
   */
  public KvStatus prepare(KvTables tables, KvTables.Padding padding) {
    KvStatus status =
        KvStatus.of(kv.prepareLaunched(tables.batch(), padding == KvTables.Padding.CLEARED));
    if (status == KvStatus.OK) {
      tables.prepared();
    }
    return status;
  }

  /**
   * How many tokens of each prompt a sequence opened now would find. Changes nothing.
   *
   * @return {@code int[prompts]}
   * @throws BerthException ARGUMENT for an empty prompt or more tokens than the arena holds
   */
  public int[] probe(KvScope scope, int[]... prompts) {
    int room = config.tokenArena();
    try (Arena arena = Arena.ofConfined()) {
      int n = prompts.length;
      MemorySegment offsets = arena.allocate(JAVA_LONG, n + 1L);
      MemorySegment matched = arena.allocate(JAVA_INT, Math.max(1, n));
      long at = 0;
      for (int i = 0; i < n; i++) {
        if (prompts[i].length == 0 || prompts[i].length > room - at) {
          throw new BerthException(
              Code.ARGUMENT,
              "prompt %d of %d tokens after %d: 1 or more, in an arena of %d"
                  .formatted(i, prompts[i].length, at, room));
        }
        write(prompts[i], at);
        at += prompts[i].length;
        offsets.setAtIndex(JAVA_LONG, i + 1L, at);
      }
      KvStatus status =
          KvStatus.of(
              kv.probe(
                  scope.lora().orElse(0),
                  scope.salt().orElse(0),
                  scope.present(),
                  offsets,
                  n,
                  matched));
      if (status != KvStatus.OK) {
        throw KvCache.misuse(status, "probe of " + n + " prompts");
      }
      return matched.asSlice(0, (long) n * Integer.BYTES).toArray(JAVA_INT);
    }
  }

  private void write(int[] tokens, long at) {
    try {
      MemorySegment.copy(tokens, 0, kv.tokens(), JAVA_INT, at * Integer.BYTES, tokens.length);
    } catch (IllegalStateException e) {
      throw new BerthException(Code.CLOSED, "this KV cache is closed", e);
    }
  }

  /** The bytes of a slot; empty if the cache has no memory, and for those in a file. */
  public MemorySegment page(KvLevel level, int pool, int slot) {
    return kv.page(level.ordinal(), pool, slot);
  }

  /**
   * The bytes of all slots of a device pool, {@code byte[slots][slotBytes]}; empty if the cache has
   * no memory.
   */
  public MemorySegment pool(int pool) {
    long slots = usage().pages(KvLevel.DEVICE, layout.pool(pool).group()).total();
    return kv.pool(KvLevel.DEVICE.ordinal(), pool, slots);
  }

  /** The cache in numbers. */
  public KvUsage usage() {
    return KvUsage.of(kv.describe());
  }

  /**
   * The consumer's end of the events.
   *
   * @throws BerthException STATE if the cache was made without
   */
  public KvEvents events() {
    if (config.eventRingLog2() == 0) {
      throw new BerthException(Code.STATE, "this KV cache was made without events");
    }
    return new KvEvents(kv);
  }

  /** The index as it is now. For the cache's thread. */
  public KvEvents.Snapshot snapshot() {
    return KvEvents.snapshot(kv, layout.tokensPerBlock());
  }

  /**
   * Examines every invariant; takes time in all pages. Once one is broken the cache can only be
   * read.
   *
   * @throws BerthException INTERNAL with the number of the one that doesn't hold
   */
  public void check() {
    int broken = kv.check();
    if (broken != 0) {
      throw new BerthException(Code.INTERNAL, "invariant " + broken + " of a KV cache is broken");
    }
  }

  /** Where buffers lie. */
  public KvLayout layout() {
    return layout;
  }

  /** What it was made with. */
  public KvConfig config() {
    return config;
  }
}
