// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvCache;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvLevel;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvTables;
import dev.berth.kv.KvUsage;
import dev.berth.kv.KvView;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;

/**
 * Attention's side of a {@link KvCache}: keys and values are read where the published tables of a
 * batch say, and nowhere else; written where its slot mapping says. A page index is turned into an
 * address as a kernel does it, from the layout's strides; bounds are those of the pools.
 */
public final class PagedDevice {
  /** Which form of the tables attention reads. */
  public enum Form {
    BLOCK_TABLE,
    COMPRESSED,
    /** Of each buffer, for writing too. */
    BUFFERS
  }

  private record Layer(
      int keyBuffer,
      int valueBuffer,
      KvLayout.Place key,
      KvLayout.Place value,
      KvLayout.View view,
      int state) {}

  private final KvLayout layout;
  private final List<Layer> layers = new ArrayList<>();
  private final MemorySegment[][] slots; // [pool][slot]
  private final int badValue;

  /** A table row or block read as another: what a broken table would do. */
  public IntUnaryOperator rowLens = IntUnaryOperator.identity();

  public IntUnaryOperator blockLens = IntUnaryOperator.identity();

  /** Where a slot of a pool lies. */
  private interface Pages {
    MemorySegment page(KvLevel level, int pool, int slot);
  }

  /** The device of a cache with memory, whose layers have the same numbers as the model's. */
  public PagedDevice(KvCache cache) {
    this(cache.layout(), cache.config().badValue(), cache.usage(), cache::page);
  }

  /** The device of an engine's cache. */
  public PagedDevice(KvView cache) {
    this(cache.layout(), cache.config().badValue(), cache.usage(), cache::page);
  }

  private PagedDevice(KvLayout layout, int badValue, KvUsage usage, Pages pages) {
    this.layout = layout;
    this.badValue = badValue;
    slots = new MemorySegment[layout.pools()][];
    for (int pool = 0; pool < slots.length; pool++) {
      long n = usage.pages(KvLevel.DEVICE, layout.pool(pool).group()).total();
      slots[pool] = new MemorySegment[(int) n];
      for (int slot = 0; slot < n; slot++) {
        slots[pool][slot] = pages.page(KvLevel.DEVICE, pool, slot);
      }
    }
    for (int layer = 0; ; layer++) {
      int key = find(layer, KvBuffer.KEY);
      if (key < 0) {
        break;
      }
      int value = find(layer, KvBuffer.VALUE);
      KvLayout.Place place = layout.place(key);
      layers.add(
          new Layer(
              key,
              Math.max(key, value),
              place,
              layout.place(value < 0 ? key : value),
              layout.view(place.view()),
              states(place.lifeCycle())));
    }
  }

  /** Buffers of a model: keys and values of its attention layers, the states of the others. */
  public static List<KvBuffer> buffers(List<KvReach> reaches, int tokensPerBlock) {
    List<KvBuffer> buffers = new ArrayList<>();
    long bytes = (long) TinyTransformer.WIDTH * Double.BYTES;
    for (int layer = 0; layer < reaches.size(); layer++) {
      KvReach reach = reaches.get(layer);
      if (reach instanceof KvReach.State) {
        buffers.add(KvBuffer.of(layer, KvBuffer.KEY, bytes, reach));
      } else {
        buffers.add(KvBuffer.of(layer, KvBuffer.KEY, bytes * tokensPerBlock, reach));
        buffers.add(KvBuffer.of(layer, KvBuffer.VALUE, bytes * tokensPerBlock, reach));
      }
    }
    return buffers;
  }

  private int find(int layer, int role) {
    for (int i = 0; i < layout.buffers().size(); i++) {
      KvBuffer buffer = layout.buffers().get(i);
      if (buffer.layer() == layer && buffer.role() == role) {
        return i;
      }
    }
    return -1;
  }

  /** States before a life cycle: its place among the state slots. */
  private int states(int lifeCycle) {
    int n = 0;
    for (int l = 0; l < lifeCycle; l++) {
      n += layout.lifeCycle(l).reach() instanceof KvReach.State ? 1 : 0;
    }
    return n;
  }

  /**
   * One sequence of a batch, as its tables show it.
   *
   * @param row of the batch
   * @param shared the row of the sequence's first beam: where a beam has no page, that one's is
   *     read
   * @param query place of the row's first token among the batch's
   * @param first position of that token
   */
  public TinyTransformer.Cache view(
      KvTables tables, Form form, int row, int shared, int query, int first) {
    return view(tables, tables, form, row, shared, query, first);
  }

  /** The same, but what is read is where other tables say: stale ones, as a broken device would. */
  public TinyTransformer.Cache view(
      KvTables read, KvTables written, Form form, int row, int shared, int query, int first) {
    return new View(read, written, form, rowLens.applyAsInt(row), shared, query, first);
  }

  private final class View implements TinyTransformer.Cache {
    private final KvTables tables;
    private final KvTables written;
    private final Form form;
    private final int row;
    private final int shared;
    private final int query;
    private final int first;

    View(KvTables tables, KvTables written, Form form, int row, int shared, int query, int first) {
      this.tables = tables;
      this.written = written;
      this.form = form;
      this.row = row;
      this.shared = shared;
      this.query = query;
      this.first = first;
    }

    @Override
    public double[] key(int layer, int position) {
      Layer l = layers.get(layer);
      return read(l, page(l, position, false), position);
    }

    @Override
    public double[] value(int layer, int position) {
      Layer l = layers.get(layer);
      return read(l, page(l, position, true), position);
    }

    private int page(Layer l, int position, boolean value) {
      int block = blockLens.applyAsInt(position / layout.tokensPerBlock());
      int page = entry(l, row, block, value);
      if (page == badValue) {
        page = entry(l, shared, block, value);
      }
      assertThat(page).as("the page of position %d", position).isNotEqualTo(badValue);
      return page;
    }

    private int entry(Layer l, int from, int block, boolean value) {
      int view = l.key.view();
      if (form == Form.BUFFERS) {
        return tables.bufferPage(value ? l.valueBuffer : l.keyBuffer, from, block);
      }
      if (form == Form.BLOCK_TABLE) {
        return value ? tables.valuePage(view, from, block) : tables.keyPage(view, from, block);
      }
      long indptr = (long) view * (tables.rows() + 1);
      int begin = tables.indptr().getAtIndex(JAVA_INT, indptr + from);
      int end = tables.indptr().getAtIndex(JAVA_INT, indptr + from + 1);
      assertThat(block).isLessThan(end - begin);
      long width = tables.indices().byteSize() / Integer.BYTES / layout.views();
      int page = tables.indices().getAtIndex(JAVA_INT, view * width + begin + block);
      return value && page != badValue ? page + l.view.valueOffset() : page;
    }

    /** Strides from the pool's base, as a kernel counts them. */
    private double[] read(Layer l, int page, int position) {
      long token = (long) TinyTransformer.WIDTH * Double.BYTES;
      long base = form == Form.BUFFERS ? 0 : (long) l.key.ordinal() * l.key.expansion();
      long at = (page + base) * l.key.stride() + position % layout.tokensPerBlock() * token;
      long slotBytes = layout.pool(l.view.pool()).slotBytes();
      double[] out = new double[TinyTransformer.WIDTH];
      MemorySegment.copy(
          slots[l.view.pool()][(int) (at / slotBytes)],
          JAVA_DOUBLE,
          at % slotBytes,
          out,
          0,
          out.length);
      return out;
    }

    /** Where the slot mapping says. */
    @Override
    public void put(int layer, int position, double[] key, double[] value) {
      Layer l = layers.get(layer);
      if (form == Form.BUFFERS) {
        write(l, l.keyBuffer, position, key);
        write(l, l.valueBuffer, position, value);
        return;
      }
      long width = written.slotMapping().byteSize() / Long.BYTES / layout.lifeCycles();
      long slot =
          written
              .slotMapping()
              .getAtIndex(JAVA_LONG, l.key.lifeCycle() * width + query + position - first);
      assertThat(slot).as("the slot of position %d", position).isNotNegative();
      long token = (long) TinyTransformer.WIDTH * Double.BYTES;
      MemorySegment to = slots[l.view.pool()][(int) (slot / layout.tokensPerBlock())];
      long offset = slot % layout.tokensPerBlock() * token;
      MemorySegment.copy(key, 0, to, JAVA_DOUBLE, l.key.offset() + offset, key.length);
      MemorySegment.copy(value, 0, to, JAVA_DOUBLE, l.value.offset() + offset, value.length);
    }

    private void write(Layer l, int buffer, int position, double[] values) {
      int page = written.bufferPage(buffer, row, position / layout.tokensPerBlock());
      assertThat(page).as("the page of position %d", position).isNotEqualTo(badValue);
      long token = (long) TinyTransformer.WIDTH * Double.BYTES;
      long at = page * l.key.stride() + position % layout.tokensPerBlock() * token;
      long slotBytes = layout.pool(l.view.pool()).slotBytes();
      MemorySegment.copy(
          values,
          0,
          slots[l.view.pool()][(int) (at / slotBytes)],
          JAVA_DOUBLE,
          at % slotBytes,
          values.length);
    }

    private MemorySegment stateSlot(Layer l) {
      long width = tables.stateSlots().byteSize() / Integer.BYTES / states(layout.lifeCycles());
      int slot = tables.stateSlots().getAtIndex(JAVA_INT, l.state * width + row);
      return slots[l.view.pool()][slot];
    }

    @Override
    public double[] state(int layer) {
      Layer l = layers.get(layer);
      double[] state = new double[TinyTransformer.WIDTH];
      MemorySegment.copy(
          stateSlot(l), JAVA_DOUBLE, l.key.offset(), state, 0, TinyTransformer.WIDTH);
      return state;
    }

    @Override
    public void putState(int layer, double[] state) {
      Layer l = layers.get(layer);
      MemorySegment.copy(state, 0, stateSlot(l), JAVA_DOUBLE, l.key.offset(), state.length);
    }
  }
}
