// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Whatever threads do, memory goes once, and with nobody inside. */
class ExclusiveTest {
  /** Notes what happens to it. */
  private static final class Thing extends Exclusive {
    final AtomicInteger freed = new AtomicInteger();
    final AtomicInteger inside = new AtomicInteger();
    final AtomicBoolean broken = new AtomicBoolean();

    Thing() {
      super("thing");
    }

    /** A call: whether it was let in. */
    boolean call() {
      try {
        enter();
      } catch (BerthException e) {
        return false;
      }
      if (inside.incrementAndGet() != 1 || freed.get() != 0) {
        broken.set(true);
      }
      inside.decrementAndGet();
      leave();
      return true;
    }

    @Override
    void free() {
      if (inside.get() != 0) {
        broken.set(true);
      }
      freed.incrementAndGet();
    }
  }

  private static void refused(Thing thing, Code code, String message) {
    assertThatThrownBy(thing::enter)
        .hasMessage(message)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  @Test
  void aCallThatOverlapsAnotherIsRefused() {
    var thing = new Thing();
    thing.enter();
    refused(thing, Code.STATE, "this thing is in use by another thread");
    thing.leave();
    assertThat(thing.call()).isTrue();
  }

  @Test
  void closedTwiceItIsFreedOnce() {
    var thing = new Thing();
    thing.close();
    thing.close();
    assertThat(thing.freed).hasValue(1);
    refused(thing, Code.CLOSED, "this thing is closed");
  }

  @Test
  void whoeverIsInsideWhenItIsClosedFreesItOnTheWayOut() {
    var thing = new Thing();
    thing.enter();
    thing.close();
    assertThat(thing.freed).hasValue(0);
    refused(thing, Code.CLOSED, "this thing is closed");
    thing.leave();
    assertThat(thing.freed).hasValue(1);
  }

  @Test
  void threadsThatCallAndCloseFreeItOnceAndNeverUnderACall() throws InterruptedException {
    var random = new SplittableRandom(20261201);
    for (int round = 0; round < 300; round++) {
      var thing = new Thing();
      int closeAfter = random.nextInt(200);
      var threads = new Thread[3];
      for (int t = 0; t < threads.length; t++) {
        boolean closes = t == 0;
        threads[t] =
            Thread.ofPlatform()
                .start(() -> {
                  for (int i = 0; i < 400; i++) {
                    thing.call();
                    if (closes && i == closeAfter) {
                      thing.close();
                    }
                  }
                });
      }
      for (Thread thread : threads) {
        thread.join();
      }
      // A close that met somebody on the way out is made good by the next call.
      assertThat(thing.call()).isFalse();
      assertThat(thing.broken).isFalse();
      assertThat(thing.freed).hasValue(1);
    }
  }
}
