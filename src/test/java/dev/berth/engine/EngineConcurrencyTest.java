// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.engine.SubmitOptions.SlowReader;
import dev.berth.plan.Trait;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.route.Seeds;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Many threads at once: whatever the order in which they come, each request ends once, and nothing
 * is left. Which order they come in is the machine's; what must hold doesn't depend on it.
 */
class EngineConcurrencyTest {
  private static final int THREADS = 4;
  private static final int EACH = 60;

  /** What one thread submitted, and how often each was said to have ended. */
  private record Sent(RequestHandle handle, AtomicInteger ends) {}

  /** Breaks, ends and fails by chance; says what is held when it is closed. */
  private static final class Chance implements ModelRunner {
    private final RandomGenerator random;
    private final Runnable atEnd;

    Chance(long seed, Runnable atEnd) {
      this.random = generator(seed);
      this.atEnd = atEnd;
    }

    @Override
    public void launch(BatchView batch) {
      if (random.nextInt(50) == 0) {
        throw new IllegalStateException("by chance");
      }
    }

    @Override
    public void collect(BatchView batch, BatchResults results) {
      if (random.nextInt(50) == 0) {
        throw new IllegalStateException("by chance");
      }
      for (int i = 0; i < batch.size(); i++) {
        if (batch.makesToken(i)) {
          results.token(i, random.nextInt(100));
          if (random.nextInt(20) == 0) {
            results.end(i);
          } else if (random.nextInt(100) == 0) {
            results.fail(i);
          }
        }
      }
    }

    @Override
    public void close() {
      atEnd.run();
    }
  }

  private static RandomGenerator generator(long seed) {
    return RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
  }

  /** How a run ends. */
  private enum End {
    CLOSE,
    CLOSE_NOW,
    DRAIN
  }

  private static void runOnce(long seed, End end) throws InterruptedException {
    var probe = new Probe();
    var held = new AtomicLong(-1);
    RandomGenerator random = generator(seed);
    EngineConfig config =
        random.nextBoolean()
            ? EngineTest.config(1 + random.nextInt(4), 2, Trait.OVERLAP)
            : EngineTest.pipeline(2, 2, 2);
    // Stages hear the same: none of them leaves anything to chance.
    Engine engine =
        Engine.builder(config)
            .waiting(32)
            .tap(probe)
            .start(setup ->
                config.stages() == 1
                    ? new Chance(seed + setup.rank(), () -> held.set(probe.held()))
                    : new EngineTest.Numbers());
    var sent = new ConcurrentLinkedQueue<Sent>();
    var failure = new AtomicReference<Throwable>();
    var middle = new CountDownLatch(THREADS);
    var threads = new ArrayList<Thread>();
    for (int t = 0; t < THREADS; t++) {
      long mine = seed * 31 + t;
      int number = t;
      threads.add(
          Thread.ofVirtual()
              .start(() -> {
                try {
                  submit(engine, number, generator(mine), sent, middle);
                } catch (Throwable e) {
                  failure.set(e);
                  middle.countDown();
                }
              }));
    }
    middle.await();
    switch (end) {
      case CLOSE -> engine.close();
      case CLOSE_NOW -> engine.closeNow();
      case DRAIN -> engine.drain().toCompletableFuture().join();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    engine.close();
    assertThat(failure.get()).isNull();
    assertThat(engine.failure()).isEmpty();
    assertThat(sent).hasSize(THREADS * EACH);
    for (Sent one : sent) {
      RequestResult result = one.handle.result().toCompletableFuture().join();
      assertThat(one.handle.ended()).contains(result);
      for (int child = 0; child <= one.handle.request().children(); child++) {
        assertThat(one.handle.tokens(child).ending()).isPresent();
      }
    }
    for (Sent one : sent) {
      while (one.ends.get() == 0) {
        Thread.onSpinWait(); // the callback is on its way
      }
      assertThat(one.ends).as("ended once").hasValue(1);
    }
    if (config.stages() == 1 && end != End.CLOSE_NOW) {
      assertThat(held).as("seats, leases, pages and requests at the end").hasValue(0);
    }
  }

  private static void submit(
      Engine engine,
      int thread,
      RandomGenerator random,
      ConcurrentLinkedQueue<Sent> sent,
      CountDownLatch middle) {
    var mine = new ArrayList<RequestHandle>();
    for (int i = 0; i < EACH; i++) {
      if (i == EACH / 2) {
        middle.countDown();
      }
      long id = random.nextInt(8) == 0 ? 1 : 1000L * thread + i;
      var request =
          new Request(
              id,
              1 + random.nextInt(10),
              1 + random.nextInt(30),
              Request.DEFAULT_PRIORITY,
              SchedulingParams.NONE,
              random.nextInt(10) == 0 ? random.nextInt(3) : 0,
              i);
      RequestHandle handle = engine.submit(request, options(random));
      var one = new Sent(handle, new AtomicInteger());
      handle.result().thenRun(one.ends::incrementAndGet);
      sent.add(one);
      mine.add(handle);
      if (random.nextInt(3) == 0) {
        mine.get(random.nextInt(mine.size())).cancel();
      }
      if (random.nextInt(4) == 0) {
        EngineTest.read(mine.get(random.nextInt(mine.size())).tokens());
      }
    }
  }

  private static SubmitOptions options(RandomGenerator random) {
    return switch (random.nextInt(5)) {
      case 0 -> SubmitOptions.DEFAULT.withBuffer(8, new SlowReader.Pause(100));
      case 1 -> SubmitOptions.DEFAULT.withBuffer(8, new SlowReader.Cancel());
      case 2 -> SubmitOptions.DEFAULT.withTotalMicros(random.nextInt(2000));
      case 3 -> SubmitOptions.DEFAULT.withQueueMicros(random.nextInt(500));
      default -> SubmitOptions.DEFAULT;
    };
  }

  private static void runs(int n) throws InterruptedException {
    long seed = Seeds.seed("EngineConcurrencyTest");
    for (int i = 0; i < n; i++) {
      runOnce(seed + i, End.values()[i % 3]);
    }
  }

  @Test
  void everyRequestEndsOnceWhoeverComesFirst() throws InterruptedException {
    runs(90);
  }

  @Tag("deep")
  @Test
  void everyRequestEndsOnceManyTimes() throws InterruptedException {
    runs(5000);
  }

  /** The same in one thread, where everything can be looked at after every step. */
  @Test
  void nothingIsLeftBehindWhateverIsCancelledWhen() {
    long seed = Seeds.seed("EngineConcurrencyTest");
    for (int i = 0; i < 200; i++) {
      RandomGenerator random = generator(seed + i);
      EngineConfig config = EngineTest.config(1 + random.nextInt(3), 2, Trait.OVERLAP);
      var probe = new Probe();
      try (Engine engine = Engine.builder(config).tap(probe).open()) {
        var live = new ArrayList<RequestHandle>();
        for (int n = 0; n < 60; n++) {
          live.add(
              engine.submit(
                  new Request(
                      random.nextInt(40),
                      1 + random.nextInt(10),
                      1 + random.nextInt(30),
                      Request.DEFAULT_PRIORITY,
                      SchedulingParams.NONE,
                      random.nextInt(6) == 0 ? random.nextInt(4) : 0,
                      n),
                  options(random)));
          if (random.nextInt(3) == 0) {
            live.get(random.nextInt(live.size())).cancel();
          }
          EngineTest.step(engine, n * 10L);
        }
        live.forEach(RequestHandle::cancel);
        EngineTest.run(engine);
        assertThat(live).allSatisfy(h -> assertThat(h.ended()).as("seed %d", seed).isPresent());
        assertThat(probe.held()).as("-Dberth.seed=%d", seed + i).isZero();
      }
    }
  }

  /** Seats, leases and pages of all ranks. */
  private static final class Probe implements GroupTap {
    private final List<RankEngine> engines = new ArrayList<>();

    @Override
    public void begin(LockstepGroup group) {
      for (int rank = 0; rank < group.config().ranks(); rank++) {
        engines.add(group.engine(rank));
      }
    }

    long held() {
      return engines.stream()
          .mapToLong(e -> e.seatsUsed() + e.leasesUsed() + e.pagesUsed() + e.live())
          .sum();
    }
  }

  /** A submitter that comes while the engine closes is told, whenever that is. */
  @Test
  void whoComesWhileItClosesIsToldToo() throws InterruptedException {
    for (int i = 0; i < 300; i++) {
      Engine engine = Engine.builder(EngineTest.config(1, 1)).open();
      var handles = new ConcurrentLinkedQueue<RequestHandle>();
      var ready = new CountDownLatch(2);
      var threads = new ArrayList<Thread>();
      for (int t = 0; t < 2; t++) {
        int base = 100 * t;
        threads.add(
            Thread.ofPlatform()
                .start(() -> {
                  ready.countDown();
                  for (int id = 0; id < 20; id++) {
                    handles.add(engine.submit(Request.of(base + id, 1, 1)));
                  }
                }));
      }
      ready.await();
      engine.closeNow();
      for (Thread thread : threads) {
        thread.join();
      }
      assertThat(handles).hasSize(40).allSatisfy(h -> assertThat(h.ended()).isPresent());
    }
  }

  /** Submitters that never agree on an order get every place there is and no more. */
  @Test
  void theQueueTakesExactlyAsManyAsItMay() throws InterruptedException {
    for (int i = 0; i < 100; i++) {
      try (Engine engine = Engine.builder(EngineTest.config(1, 1)).waiting(50).open()) {
        var accepted = new AtomicInteger();
        var threads = new ArrayList<Thread>();
        for (int t = 0; t < THREADS; t++) {
          int base = 1000 * t;
          threads.add(
              Thread.ofPlatform()
                  .start(() -> {
                    for (int id = 0; id < 30; id++) {
                      Submission said = engine.submit(Request.of(base + id, 1, 1)).submission();
                      accepted.addAndGet(said instanceof Submission.Accepted ? 1 : 0);
                    }
                  }));
        }
        for (Thread thread : threads) {
          thread.join();
        }
        assertThat(accepted).hasValue(50);
        EngineTest.run(engine);
      }
    }
  }
}
