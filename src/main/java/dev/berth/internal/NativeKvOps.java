// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import dev.berth.ffi.BerthNative;
import dev.berth.ffi.berth_kv_event;
import dev.berth.ffi.berth_kv_op;
import java.lang.foreign.MemorySegment;

/** The fields of a {@code berth_kv_op} and a {@code berth_kv_event}. */
public final class NativeKvOps {
  public static final int OPEN = BerthNative.BERTH_KV_OPEN();
  public static final int RESUME = BerthNative.BERTH_KV_RESUME();
  public static final int SUSPEND = BerthNative.BERTH_KV_SUSPEND();
  public static final int RESIZE = BerthNative.BERTH_KV_RESIZE();
  public static final int COMMIT = BerthNative.BERTH_KV_COMMIT();
  public static final int STOP = BerthNative.BERTH_KV_STOP();
  public static final int CLOSE = BerthNative.BERTH_KV_CLOSE();
  public static final int WIDEN = BerthNative.BERTH_KV_WIDEN();
  public static final int RETAIN = BerthNative.BERTH_KV_RETAIN();
  public static final int LOOKUP = BerthNative.BERTH_KV_LOOKUP();
  public static final int UNPIN = BerthNative.BERTH_KV_UNPIN();
  public static final int PLAN_DROP = BerthNative.BERTH_KV_PLAN_DROP();
  public static final int DROP = BerthNative.BERTH_KV_DROP();
  public static final int PREFETCH = BerthNative.BERTH_KV_PREFETCH();

  public static final int END = BerthNative.BERTH_KV_END();
  public static final int PIN = BerthNative.BERTH_KV_PIN();
  public static final int NO_REUSE = BerthNative.BERTH_KV_NO_REUSE();
  public static final int NO_COMMIT = BerthNative.BERTH_KV_NO_COMMIT();
  public static final int NO_REBASE = BerthNative.BERTH_KV_NO_REBASE();
  public static final int MIN_SNAPSHOT = BerthNative.BERTH_KV_MIN_SNAPSHOT();
  public static final int SCRATCH = BerthNative.BERTH_KV_SCRATCH();
  public static final int LORA = BerthNative.BERTH_KV_LORA();

  private NativeKvOps() {}

  /** An operation without tokens, all outputs clear. */
  public static void fill(
      MemorySegment op, int kind, long handle, int a, int b, int c, long time, int flags) {
    op.fill((byte) 0);
    berth_kv_op.kind(op, kind);
    berth_kv_op.handle(op, handle);
    berth_kv_op.a(op, a);
    berth_kv_op.b(op, b);
    berth_kv_op.c(op, c);
    berth_kv_op.time(op, time);
    berth_kv_op.flags(op, flags);
  }

  /** The tokens of an operation and whose they are. */
  public static void tokens(
      MemorySegment op, long offset, int count, long lora, long salt, int tenant) {
    berth_kv_op.token_offset(op, offset);
    berth_kv_op.token_count(op, count);
    berth_kv_op.lora(op, lora);
    berth_kv_op.salt(op, salt);
    berth_kv_op.tenant(op, tenant);
  }

  public static int status(MemorySegment op) {
    return berth_kv_op.status(op);
  }

  public static long handle(MemorySegment op) {
    return berth_kv_op.handle(op);
  }

  public static int matched(MemorySegment op) {
    return berth_kv_op.matched(op);
  }

  public static int partial(MemorySegment op) {
    return berth_kv_op.partial(op);
  }

  public static int group(MemorySegment op) {
    return berth_kv_op.group(op);
  }

  public static int deficit(MemorySegment op) {
    return berth_kv_op.deficit(op);
  }

  public static long ticket(MemorySegment op) {
    return berth_kv_op.ticket(op);
  }

  /** An event's fields: sequence, block, parent, lora, salt. */
  public static long[] longs(MemorySegment event) {
    return new long[] {
      berth_kv_event.sequence(event),
      berth_kv_event.block(event),
      berth_kv_event.parent(event),
      berth_kv_event.lora(event),
      berth_kv_event.salt(event)
    };
  }

  /** The others: kind, life cycle, tokens, level, old level, priority, scope, partial. */
  public static int[] ints(MemorySegment event) {
    return new int[] {
      berth_kv_event.kind(event),
      berth_kv_event.life_cycle(event),
      berth_kv_event.tokens(event),
      berth_kv_event.level(event),
      berth_kv_event.old_level(event),
      berth_kv_event.priority(event),
      berth_kv_event.scope(event),
      berth_kv_event.partial(event)
    };
  }
}
