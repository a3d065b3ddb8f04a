// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/** A token stream as a publisher: one subscriber, served in one task of its executor. */
final class TokenPublisher implements Flow.Publisher<Integer> {
  private final TokenStream stream;
  private final Executor executor;
  private final AtomicBoolean taken = new AtomicBoolean();

  TokenPublisher(TokenStream stream, Executor executor) {
    this.stream = stream;
    this.executor = executor;
  }

  @Override
  public void subscribe(Flow.Subscriber<? super Integer> subscriber) {
    Objects.requireNonNull(subscriber);
    if (!taken.compareAndSet(false, true)) {
      refuse(subscriber, new IllegalStateException("a token stream has one subscriber"));
      return;
    }
    try {
      executor.execute(new Service(subscriber));
    } catch (RejectedExecutionException e) {
      refuse(subscriber, e);
    }
  }

  private static void refuse(Flow.Subscriber<? super Integer> subscriber, Throwable why) {
    subscriber.onSubscribe(
        new Flow.Subscription() {
          @Override
          public void request(long n) {}

          @Override
          public void cancel() {}
        });
    subscriber.onError(why);
  }

  private final class Service implements Flow.Subscription, Runnable {
    private final Flow.Subscriber<? super Integer> subscriber;
    private final AtomicLong demand = new AtomicLong();
    private volatile boolean cancelled;
    private volatile boolean misused;
    private volatile @Nullable Thread thread;

    Service(Flow.Subscriber<? super Integer> subscriber) {
      this.subscriber = subscriber;
    }

    @Override
    public void request(long n) {
      if (n <= 0) {
        misused = true;
      } else {
        demand.accumulateAndGet(n, (a, b) -> a + b < 0 ? Long.MAX_VALUE : a + b);
      }
      LockSupport.unpark(thread);
    }

    @Override
    public void cancel() {
      cancelled = true;
      stream.handle().cancel();
      LockSupport.unpark(thread);
    }

    @Override
    public void run() {
      thread = Thread.currentThread();
      try {
        subscriber.onSubscribe(this);
        serve();
      } catch (Throwable e) { // it broke its contract: to it this is a cancellation
        cancel();
      }
    }

    private void serve() {
      while (!cancelled) {
        if (misused) {
          cancel();
          subscriber.onError(new IllegalArgumentException("request(n) with n of 0 or less"));
        } else if (stream.exhausted()) {
          cancelled = true;
          end();
        } else if (demand.get() == 0) {
          LockSupport.park(this);
        } else {
          int token = stream.poll();
          if (token >= 0) {
            demand.decrementAndGet();
            subscriber.onNext(token);
          } else if (token == TokenStream.NONE) {
            stream.await();
          }
        }
      }
    }

    private void end() {
      Optional<Ending> how = stream.ending();
      if (how.isEmpty() || how.get() instanceof Ending.Finished) {
        subscriber.onComplete();
      } else {
        subscriber.onError(new RequestEndedException(stream.handle().id(), how.get()));
      }
    }
  }
}
