// SPDX-License-Identifier: Apache-2.0
package dev.berth.bench;

import dev.berth.engine.Engine;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.RequestHandle;
import dev.berth.engine.Submission;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Request;
import java.util.Arrays;
import java.util.concurrent.CyclicBarrier;
import org.jctools.queues.MpscArrayQueue;

/**
 * What it takes two threads to hand requests over: to an engine, and to a queue of JCTools that
 * carries for each an object in which an answer could come back. Turns alternate in one run; what
 * counts is the CPU time of the two threads, and what is judged the median of the turns' ratios.
 *
 * <p>Nobody takes out meanwhile: two cores are for the two threads.
 */
public final class SubmitRatio {
  private static final double LIMIT = 1.3;
  private static final int THREADS = 2;
  private static final boolean SHORT = Boolean.getBoolean("berth.bench.short");
  private static final int EACH = SHORT ? 1 << 10 : 1 << 16;

  /** As requests are that were just made: near. Nobody looks at their ids before they are gone. */
  private static final int DISTINCT = 64;

  private static final int ROUNDS = SHORT ? 3 : 61;
  private static final int WARMUP = SHORT ? 0 : 20;

  /** What the queue carries. */
  @SuppressWarnings("UnusedVariable") // what matters is that they are written
  private static final class Message {
    final Request request;
    volatile Object answer = "";

    Message(Request request) {
      this.request = request;
    }
  }

  private interface Turn {
    boolean hand(Request request);
  }

  private SubmitRatio() {}

  private static EngineConfig config() {
    WorkerShape shape =
        WorkerShape.builder(64)
            .ranks(1)
            .maxSeqLen(1 << 14)
            .with(Trait.ATTENTION_DP, Trait.OVERLAP)
            .build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    return EngineConfig.of(plan, WorkerRole.AGGREGATED);
  }

  /** CPU time of both threads, ns. */
  private static long time(Request[][] requests, Turn turn) throws Exception {
    var barrier = new CyclicBarrier(THREADS);
    long[] nanos = new long[THREADS];
    Thread[] threads = new Thread[THREADS];
    boolean[] refused = new boolean[THREADS];
    for (int t = 0; t < THREADS; t++) {
      int mine = t;
      threads[t] =
          Thread.ofPlatform()
              .start(() -> {
                try {
                  barrier.await();
                  long began = BenchLibrary.cpuNanos();
                  for (int i = 0; i < EACH; i++) {
                    refused[mine] |= !turn.hand(requests[mine][i & DISTINCT - 1]);
                  }
                  nanos[mine] = BenchLibrary.cpuNanos() - began;
                } catch (Throwable e) {
                  throw new AssertionError(e);
                }
              });
    }
    for (Thread thread : threads) {
      thread.join();
    }
    if (refused[0] || refused[1]) {
      throw new AssertionError("a request wasn't taken");
    }
    return Arrays.stream(nanos).sum();
  }

  private static long engineTurn(Request[][] requests) throws Exception {
    Engine engine = Engine.builder(config()).waiting(THREADS * EACH).open();
    long nanos =
        time(
            requests,
            request -> {
              RequestHandle handle = engine.submit(request);
              return handle.submission().equals(Submission.ACCEPTED);
            });
    engine.closeNow();
    return nanos;
  }

  private static long queueTurn(Request[][] requests) throws Exception {
    var queue = new MpscArrayQueue<Message>(THREADS * EACH);
    long nanos = time(requests, request -> queue.offer(new Message(request)));
    if (queue.size() != THREADS * EACH) {
      throw new AssertionError(queue.size());
    }
    return nanos;
  }

  /** Prints the times, and ends with 1 if the ratio is above its limit. */
  public static void main(String[] args) throws Exception {
    Request[][] requests = new Request[THREADS][DISTINCT];
    for (int t = 0; t < THREADS; t++) {
      for (int i = 0; i < DISTINCT; i++) {
        requests[t][i] = Request.of((long) t * DISTINCT + i, 100, 100);
      }
    }
    double ratio = Double.MAX_VALUE;
    for (int attempt = 0; attempt < 3 && ratio > LIMIT; attempt++) {
      ratio = measure(requests);
    }
    System.exit(ratio <= LIMIT ? 0 : 1);
  }

  private static double measure(Request[][] requests) throws Exception {
    double[] engine = new double[ROUNDS];
    double[] queue = new double[ROUNDS];
    double[] ratio = new double[ROUNDS];
    double per = THREADS * (double) EACH;
    for (int i = -WARMUP; i < ROUNDS; i++) {
      double ours = engineTurn(requests) / per;
      double theirs = queueTurn(requests) / per;
      if (i >= 0) {
        engine[i] = ours;
        queue[i] = theirs;
        ratio[i] = ours / theirs;
      }
    }
    if (SHORT) {
      System.out.println("submit from 2 threads: ran");
      return 0;
    }
    double median = median(ratio);
    System.out.printf(
        "submit from %d threads: queue %6.1f ns   ours %6.1f ns   ratio %.2f (quartiles"
            + " %.2f to %.2f)   limit %.2f: %s%n",
        THREADS,
        median(queue),
        median(engine),
        median,
        ratio[ROUNDS / 4],
        ratio[ROUNDS * 3 / 4],
        LIMIT,
        median <= LIMIT ? "held" : "MISSED");
    return median;
  }

  /** Sorts. */
  private static double median(double[] values) {
    Arrays.sort(values);
    return values[values.length / 2];
  }
}
