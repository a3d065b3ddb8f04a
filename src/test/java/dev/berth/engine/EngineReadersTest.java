// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static dev.berth.engine.EngineTest.config;
import static dev.berth.engine.EngineTest.ending;
import static dev.berth.engine.EngineTest.read;
import static dev.berth.engine.EngineTest.run;
import static dev.berth.engine.EngineTest.step;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.engine.SubmitOptions.SlowReader;
import dev.berth.plan.Trait;
import dev.berth.request.Request;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Those who read tokens: slow, absent, through a Flow, and throwing. */
class EngineReadersTest {
  private static final int LEAST = SubmitOptions.LEAST_BUFFER;
  private static final SubmitOptions PAUSES =
      SubmitOptions.DEFAULT.withBuffer(LEAST, new SlowReader.Pause(1000));
  private static final SubmitOptions PATIENT =
      SubmitOptions.DEFAULT.withBuffer(LEAST, new SlowReader.Pause(Long.MAX_VALUE));
  private static final SubmitOptions CANCELS =
      SubmitOptions.DEFAULT.withBuffer(LEAST, new SlowReader.Cancel());

  static Stream<Arguments> loops() {
    return Stream.of(
        Arguments.of(config(2, 2, Trait.OVERLAP)),
        Arguments.of(config(2, 2)),
        Arguments.of(EngineTest.pipeline(2, 2, 3)));
  }

  // ---- slow readers ----------------------------------------------------------------------------

  @Nested
  class ASlowReader {
    /** Spec 06 BC-81, with its numbers: one reader is stalled, the other request isn't. */
    @ParameterizedTest
    @MethodSource("dev.berth.engine.EngineReadersTest#loops")
    void holdsItsRequestAndNobodyElses(EngineConfig config) {
      try (Engine engine = Engine.builder(config).open()) {
        RequestHandle stalled = engine.submit(Request.of(1, 3, 50), PAUSES);
        RequestHandle healthy = engine.submit(Request.of(2, 3, 50), PAUSES);
        for (int i = 0; i < 400 && healthy.ended().isEmpty(); i++) {
          step(engine, 0);
          read(healthy.tokens());
        }
        assertThat(ending(healthy)).isEqualTo(Ending.FINISHED);
        assertThat(stalled.ended()).as("it waits").isEmpty();
        assertThat(engine.liveOn(0) + engine.liveOn(1)).isEqualTo(1);
        var all = new ArrayList<Integer>();
        for (int i = 0; i < 400 && stalled.ended().isEmpty(); i++) {
          all.addAll(read(stalled.tokens()));
          step(engine, 0);
        }
        all.addAll(read(stalled.tokens()));
        assertThat(ending(stalled)).isEqualTo(Ending.FINISHED);
        assertThat(all).isEqualTo(Collections.nCopies(50, 1));
      }
    }

    @Test
    void isWaitedForNoLongerThanAskedFor() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 50), PAUSES);
        for (int i = 0; i < 100; i++) {
          step(engine, i);
        }
        assertThat(handle.ended()).isEmpty();
        assertThat(engine.pauseMicros()).as("nobody spins for it").isPositive();
        step(engine, 5000);
        run(engine);
        assertThat(ending(handle)).isEqualTo(new Ending.Cancelled(Ending.By.SLOW_READER));
        assertThat(read(handle.tokens())).as("what there is can be read").hasSizeBetween(4, LEAST);
        assertThat(handle.tokens().poll()).isEqualTo(TokenStream.END);
      }
    }

    @Test
    void thatMayNotBeSlowLosesItsRequest() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 50), CANCELS);
        RequestHandle other = engine.submit(Request.of(2, 3, 50), CANCELS);
        for (int i = 0; i < 200; i++) {
          step(engine, 0);
          read(other.tokens());
        }
        assertThat(ending(handle)).isEqualTo(new Ending.Cancelled(Ending.By.SLOW_READER));
        assertThat(read(handle.tokens())).hasSize(LEAST);
        assertThat(ending(other)).isEqualTo(Ending.FINISHED);
      }
    }

    @Test
    void whoseBufferTakesTheWholeOutputIsNoSlowReader() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, LEAST), CANCELS);
        RequestHandle longer = engine.submit(Request.of(2, 3, 60));
        run(engine);
        assertThat(ending(handle)).isEqualTo(Ending.FINISHED);
        assertThat(read(handle.tokens())).hasSize(LEAST);
        assertThat(read(longer.tokens())).hasSize(60);
      }
    }

    /** A rank whose requests are all held must not stop the other ranks: it is padded. */
    @Test
    void onEverySeatOfARankStopsNoOtherRank() {
      try (Engine engine = Engine.builder(config(2, 2, Trait.OVERLAP)).open()) {
        List<RequestHandle> stalled =
            IntStream.range(0, 2).mapToObj(id -> engine.submit(onRank(0, id), PAUSES)).toList();
        for (int i = 0; i < 60; i++) {
          step(engine, 0);
        }
        RequestHandle other = engine.submit(onRank(1, 9), PAUSES);
        for (int i = 0; i < 300 && other.ended().isEmpty(); i++) {
          step(engine, 0);
          read(other.tokens());
        }
        assertThat(ending(other)).isEqualTo(Ending.FINISHED);
        assertThat(stalled).allSatisfy(handle -> assertThat(handle.ended()).isEmpty());
      }
    }

    private Request onRank(int rank, long id) {
      return Request.of(id, 3, 50)
          .withScheduling(
              dev.berth.request.SchedulingParams.target(rank, dev.berth.request.Relax.STRICT));
    }

    @Test
    void canBeCancelledWhileItIsWaitedFor() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 50), PAUSES);
        for (int i = 0; i < 50; i++) {
          step(engine, 0);
        }
        handle.cancel();
        run(engine);
        assertThat(ending(handle)).isEqualTo(new Ending.Cancelled(Ending.By.CALLER));
        assertThat(engine.live()).isZero();
      }
    }

    @Test
    void thatComesBackWakesAnEngineThatSleeps() throws InterruptedException {
      try (Engine engine = Engine.builder(config()).start(setup -> new EngineTest.Numbers())) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 50), PATIENT);
        for (int i = 0; i < 50; i++) {
          assertThat(handle.tokens().take()).isEqualTo(i);
        }
        assertThat(handle.tokens().take()).isEqualTo(TokenStream.END);
      }
    }

    @Test
    void mayNotAskForLessThanWhatIsOnItsWay() {
      assertThatThrownBy(() -> SubmitOptions.DEFAULT.withBuffer(7, new SlowReader.Cancel()))
          .isInstanceOf(BerthException.class);
      assertThatThrownBy(() -> new SlowReader.Pause(-1)).isInstanceOf(BerthException.class);
      assertThatThrownBy(() -> SubmitOptions.DEFAULT.withQueueMicros(-1))
          .isInstanceOf(BerthException.class);
      assertThatThrownBy(() -> SubmitOptions.DEFAULT.withTotalMicros(-1))
          .isInstanceOf(BerthException.class);
    }
  }

  // ---- Flow ------------------------------------------------------------------------------------

  /** Asks for so many at first, and writes down what it hears. */
  private static class Listener implements Flow.Subscriber<Integer> {
    final long first;
    final List<String> heard = Collections.synchronizedList(new ArrayList<>());
    final CompletableFuture<Void> over = new CompletableFuture<>();
    volatile Flow.Subscription subscription =
        new Flow.Subscription() {
          @Override
          public void request(long n) {}

          @Override
          public void cancel() {}
        };

    Listener(long first) {
      this.first = first;
    }

    @Override
    public void onSubscribe(Flow.Subscription to) {
      subscription = to;
      to.request(first);
    }

    @Override
    public void onNext(Integer token) {
      heard.add(token.toString());
    }

    @Override
    public void onError(Throwable error) {
      heard.add(
          error instanceof RequestEndedException ended
              ? ended.ending().toString()
              : error.getClass().getSimpleName());
      over.complete(null);
    }

    @Override
    public void onComplete() {
      heard.add("complete");
      over.complete(null);
    }
  }

  @Nested
  class ASubscriber {
    private static final Executor THREADS = Thread::startVirtualThread;

    private Engine numbers() {
      return Engine.builder(config()).start(setup -> new EngineTest.Numbers());
    }

    @Test
    void getsWhatItAsksFor() {
      try (Engine engine = numbers()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 5));
        var listener = new Listener(2);
        handle.tokens().publisher(THREADS).subscribe(listener);
        handle.result().toCompletableFuture().join();
        while (listener.heard.size() < 2) {
          Thread.onSpinWait();
        }
        assertThat(listener.heard).containsExactly("0", "1");
        listener.subscription.request(Long.MAX_VALUE);
        listener.subscription.request(Long.MAX_VALUE);
        listener.over.join();
        assertThat(listener.heard).containsExactly("0", "1", "2", "3", "4", "complete");
      }
    }

    @Test
    void isServedOnItsOwnThread() {
      try (Engine engine = numbers()) {
        var threads = Collections.synchronizedSet(new java.util.HashSet<String>());
        var listener =
            new Listener(Long.MAX_VALUE) {
              @Override
              public void onNext(Integer token) {
                threads.add(Thread.currentThread().getName());
              }
            };
        Executor mine = task -> Thread.ofPlatform().daemon().name("mine").start(task);
        engine.submit(Request.of(1, 3, 5)).tokens().publisher(mine).subscribe(listener);
        listener.over.join();
        assertThat(threads).containsExactly("mine");
      }
    }

    @Test
    void thatCancelsEndsItsRequest() {
      try (Engine engine = numbers()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 50), PATIENT);
        var listener = new Listener(0);
        listener.subscription.cancel();
        var cancels =
            new Listener(1) {
              @Override
              public void onNext(Integer token) {
                subscription.cancel();
              }
            };
        handle.tokens().publisher(THREADS).subscribe(cancels);
        assertThat(handle.result().toCompletableFuture().join().ending())
            .isEqualTo(new Ending.Cancelled(Ending.By.CALLER));
        assertThat(cancels.heard).isEmpty();
      }
    }

    @Test
    void thatThrowsEndsItsRequestAndNothingElse() {
      try (Engine engine = numbers()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 50), PATIENT);
        RequestHandle other = engine.submit(Request.of(2, 3, 5));
        handle
            .tokens()
            .publisher(THREADS)
            .subscribe(
                new Listener(5) {
                  @Override
                  public void onNext(Integer token) {
                    throw new IllegalStateException("a subscriber's bug");
                  }
                });
        assertThat(handle.result().toCompletableFuture().join().ending())
            .isEqualTo(new Ending.Cancelled(Ending.By.CALLER));
        assertThat(other.result().toCompletableFuture().join().finished()).isTrue();
      }
    }

    @Test
    void thatAsksForNothingIsTold() {
      try (Engine engine = numbers()) {
        RequestHandle handle = engine.submit(Request.of(1, 3, 50), PATIENT);
        var listener = new Listener(0);
        handle.tokens().publisher(THREADS).subscribe(listener);
        listener.over.join();
        assertThat(listener.heard).containsExactly("IllegalArgumentException");
        handle.result().toCompletableFuture().join();
      }
    }

    @Test
    void hearsOfAnEndThatIsNone() {
      try (Engine engine = Engine.builder(config()).open()) {
        RequestHandle refused = engine.submit(Request.of(1, 0, 5));
        var listener = new Listener(1);
        refused.tokens().publisher(THREADS).subscribe(listener);
        listener.over.join();
        assertThat(listener.heard).hasSize(1).first().asString().startsWith("Refused");
      }
    }

    @Test
    void isTheOnlyOne() {
      try (Engine engine = Engine.builder(config()).open()) {
        Flow.Publisher<Integer> publisher =
            engine.submit(Request.of(1, 3, 5)).tokens().publisher(task -> {});
        publisher.subscribe(new Listener(1));
        var second = new Listener(1);
        publisher.subscribe(second);
        assertThat(second.heard).containsExactly("IllegalStateException");
      }
    }
  }
}
