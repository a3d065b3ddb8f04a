// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeKv;
import java.util.List;

/**
 * Where buffers lie (spec 03 §4.1). Buffers of one life cycle and one size stand side by side in a
 * slot; life cycles whose slots have the same sizes share a pool group, where one slot number names
 * one slot in each pool. A kernel's page index is {@code slot * scale + ordinal * expansion}; every
 * product is held against 2^31 - 1.
 */
public final class KvLayout {
  private final int tokensPerBlock;
  private final List<KvBuffer> buffers;
  private final NativeKv.Layout layout;

  private KvLayout(int tokensPerBlock, List<KvBuffer> buffers, NativeKv.Layout layout) {
    this.tokensPerBlock = tokensPerBlock;
    this.buffers = buffers;
    this.layout = layout;
  }

  /**
   * Where a buffer lies.
   *
   * @param view the block table that names its pages
   * @param ordinal among the buffers of its slot
   * @param expansion pages of the buffer a block
   * @param stride bytes from one page index to the next
   * @param offset bytes from the slot's start
   */
  public record Place(
      int lifeCycle, int view, int ordinal, int expansion, long stride, long offset) {}

  /**
   * What a block table is made for: one pool of one life cycle.
   *
   * @param scale page index = slot * scale + layer offset
   * @param valueOffset of a value's page index from its key's; 0: no values in this pool
   */
  public record View(int lifeCycle, int pool, int scale, int valueOffset) {}

  /**
   * One range of slots of one size.
   *
   * @param index in its group
   */
  public record Pool(int group, int index, long slotBytes) {}

  /** Layers that share rules of allocation. */
  public record LifeCycle(KvReach reach, int domain, int group) {}

  /**
   * Plans.
   *
   * @param tokensPerBlock 1 to 1024
   * @throws BerthException CONFIGURATION naming the buffer that can't be
   */
  public static KvLayout plan(int tokensPerBlock, List<KvBuffer> buffers) {
    List<KvBuffer> copy = List.copyOf(buffers);
    NativeKv.Layout layout = NativeKv.plan(raw(copy), tokensPerBlock);
    if (layout.badBuffer() >= 0) {
      throw new BerthException(
          Code.CONFIGURATION,
          "buffer %d can't be: %s, with %d tokens a block"
              .formatted(layout.badBuffer(), copy.get(layout.badBuffer()), tokensPerBlock));
    }
    if (layout.badBuffer() == -1) {
      throw new BerthException(
          Code.CONFIGURATION,
          "%d buffers, %d tokens a block: 1 to 65536 buffers and 1 to 1024 tokens are possible"
              .formatted(copy.size(), tokensPerBlock));
    }
    return new KvLayout(tokensPerBlock, copy, layout);
  }

  /** Tokens a block. */
  public int tokensPerBlock() {
    return tokensPerBlock;
  }

  /** The buffers it was made from. */
  public List<KvBuffer> buffers() {
    return buffers;
  }

  /** Where buffer i lies. */
  public Place place(int i) {
    NativeKv.Place p = layout.places()[i];
    return new Place(p.lifeCycle(), p.view(), p.ordinal(), p.expansion(), p.stride(), p.offset());
  }

  /** Number of block tables. */
  public int views() {
    return layout.views().length;
  }

  /** Block table i. */
  public View view(int i) {
    NativeKv.View v = layout.views()[i];
    return new View(v.lifeCycle(), v.pool(), v.scale(), v.valueOffset());
  }

  /** Number of pools. */
  public int pools() {
    return layout.pools().length;
  }

  /** Pool i. */
  public Pool pool(int i) {
    NativeKv.Pool p = layout.pools()[i];
    return new Pool(p.group(), p.index(), p.slotBytes());
  }

  /** Number of life cycles, at most 16. */
  public int lifeCycles() {
    return layout.lifeCycles().length;
  }

  /** Life cycle i. */
  public LifeCycle lifeCycle(int i) {
    NativeKv.LifeCycle l = layout.lifeCycles()[i];
    KvReach reach =
        switch (l.window()) {
          case -1 -> KvReach.FULL;
          case 0 -> KvReach.STATE;
          default -> new KvReach.Window(l.window(), l.sinks());
        };
    return new LifeCycle(reach, l.domain(), l.group());
  }

  /** Number of pool groups. */
  public int groups() {
    return layout.maxSlots().length;
  }

  /** Most slots of a group: no page index passes 2^31 - 1. */
  public long maxSlots(int group) {
    return layout.maxSlots()[group];
  }

  /** Bytes of one slot in all pools of a group. */
  public long slotBytes(int group) {
    long bytes = 0;
    for (NativeKv.Pool pool : layout.pools()) {
      bytes += pool.group() == group ? pool.slotBytes() : 0;
    }
    return bytes;
  }

  NativeKv.Buffer[] raw() {
    return raw(buffers);
  }

  private static NativeKv.Buffer[] raw(List<KvBuffer> buffers) {
    return buffers.stream().map(KvBuffer::raw).toArray(NativeKv.Buffer[]::new);
  }
}
