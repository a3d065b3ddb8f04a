// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.internal.NativeKv;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The consumer's end of a cache's events: one consumer, on whichever thread, without a call into
 * native code. Replaying what is read rebuilds the index. If the consumer is so slow that the ring
 * fills, events are dropped, never the cache's time: {@link #gap()} says so, and a {@link
 * KvCache#snapshot()} taken by the cache's thread is where to go on from.
 */
public final class KvEvents {
  private final NativeKv kv;
  private long expected = 1;
  private boolean gap;

  KvEvents(NativeKv kv) {
    this.kv = kv;
  }

  /** The index at one moment: its pages, parents first, as of the event with that number. */
  public record Snapshot(long sequence, List<KvEvent> pages) {}

  /**
   * The next event, if there is one.
   *
   * @throws BerthException CLOSED
   */
  public Optional<KvEvent> poll() {
    try {
      long tail = kv.eventTail();
      if (tail == kv.eventHead()) {
        return Optional.empty();
      }
      KvEvent event = KvEvent.of(kv.event(tail), n -> kv.eventTokens(tail, n));
      kv.eventTail(tail + 1);
      if (event.sequence() < expected) {
        return poll();
      }
      gap |= event.sequence() != expected;
      expected = event.sequence() + 1;
      return Optional.of(event);
    } catch (IllegalStateException e) {
      throw new BerthException(Code.CLOSED, "this KV cache is closed", e);
    }
  }

  /** True from the first missing event until a snapshot takes its place. */
  public boolean gap() {
    try {
      if (kv.eventTail() == kv.eventHead() && kv.eventSequence() >= expected) {
        gap = true;
      }
      return gap;
    } catch (IllegalStateException e) {
      throw new BerthException(Code.CLOSED, "this KV cache is closed", e);
    }
  }

  /** Events dropped so far. */
  public long dropped() {
    return kv.eventsDropped();
  }

  /** Goes on after a snapshot: events that it contains are skipped. */
  public void continueAfter(Snapshot snapshot) {
    expected = snapshot.sequence() + 1;
    gap = false;
  }

  static Snapshot snapshot(NativeKv kv, int tokensPerBlock) {
    try (Arena arena = Arena.ofConfined()) {
      NativeKv.Snapshot raw = kv.snapshot(arena);
      List<KvEvent> pages = new ArrayList<>(raw.count());
      for (int i = 0; i < raw.count(); i++) {
        long at = (long) i * tokensPerBlock * Integer.BYTES;
        pages.add(
            KvEvent.of(
                raw.events().asSlice(i * NativeKv.EVENT_BYTES, NativeKv.EVENT_BYTES),
                n ->
                    raw.tokens()
                        .asSlice(at, (long) n * Integer.BYTES)
                        .toArray(java.lang.foreign.ValueLayout.JAVA_INT)));
      }
      return new Snapshot(raw.sequence(), List.copyOf(pages));
    }
  }
}
