// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.kv.KvCache;
import dev.berth.kv.KvEvent;
import dev.berth.kv.KvEvents;
import dev.berth.kv.KvScope;
import dev.berth.route.KvIndex;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * Brings the events of one {@link KvCache} to a {@link KvIndex} as those of a rank, and a snapshot
 * where events are missing. The pages of one life cycle are followed: a cache whose layers differ
 * in reach has several, and matches less than the index says of one of them. Not thread-safe;
 * belongs to the index's thread.
 */
public final class KvEventFeed {
  private final KvIndex index;
  private final int rank;
  private final KvEvents events;
  private final Supplier<KvEvents.Snapshot> snapshots;
  private final int lifeCycle;

  /**
   * A feed from the beginning of a cache's events.
   *
   * @param events of the cache, used by nobody else
   * @param snapshots takes a snapshot on the cache's thread ({@link KvCache#snapshot()}) and waits
   *     for it
   * @param tokensPerBlock of the cache
   * @param lifeCycle which of the cache's, 0 or more: that of full attention
   * @throws dev.berth.BerthException {@code CONFIGURATION} if the cache's blocks aren't the index's
   */
  public KvEventFeed(
      KvIndex index,
      int rank,
      KvEvents events,
      Supplier<KvEvents.Snapshot> snapshots,
      int tokensPerBlock,
      int lifeCycle) {
    index.register(rank, tokensPerBlock);
    this.index = index;
    this.rank = rank;
    this.events = events;
    this.snapshots = snapshots;
    this.lifeCycle = lifeCycle;
  }

  /**
   * Brings everything that has happened.
   *
   * @return how many events were read
   */
  public int pump() {
    int read = 0;
    for (Optional<KvEvent> event = events.poll(); event.isPresent(); event = events.poll()) {
      read++;
      if (bring(event.get()) == KvIndex.Event.RESYNC) {
        resync();
      }
    }
    if (events.gap()) {
      resync(); // what was dropped came last: no event will tell
    }
    return read;
  }

  private KvIndex.Event bring(KvEvent event) {
    boolean followed = event.lifeCycle() == lifeCycle;
    return switch (event.kind()) {
      case STORED ->
          followed
              ? index.stored(
                  rank,
                  event.sequence(),
                  event.block(),
                  event.parent(),
                  scope(event.scope()),
                  event.tokens())
              : index.passed(rank, event.sequence());
      case REMOVED ->
          followed
              ? index.removed(rank, event.sequence(), event.block())
              : index.passed(rank, event.sequence());
      case UPDATED -> index.passed(rank, event.sequence());
    };
  }

  private void resync() {
    KvEvents.Snapshot snapshot = snapshots.get();
    index.beginSnapshot(rank, snapshot.sequence());
    for (KvEvent page : snapshot.pages()) {
      if (page.lifeCycle() == lifeCycle) {
        index.restore(rank, page.block(), page.parent(), scope(page.scope()), page.tokens());
      }
    }
    events.continueAfter(snapshot);
  }

  /**
   * The index's number for a scope: adapter and salt mixed, 0 for neither. What differs in them
   * differs here but for one in 2^64.
   */
  public static long scope(KvScope scope) {
    long present = (scope.lora().isPresent() ? 1L : 0L) + (scope.salt().isPresent() ? 2L : 0L);
    return present == 0
        ? 0
        : mixed(mixed(mixed(present) + scope.lora().orElse(0)) + scope.salt().orElse(0));
  }

  private static long mixed(long value) {
    long mixed = (value ^ value >>> 32) * 0x9E3779B97F4A7C15L;
    mixed = (mixed ^ mixed >>> 29) * 0xBF58476D1CE4E5B9L;
    return mixed ^ mixed >>> 32;
  }
}
