// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * Runs worlds, one seed each, until all are done, one violates an invariant, or somebody asks to
 * stop. The same seeds give the same worlds, whatever the number of threads.
 */
public final class Simulation {
  /** Most worlds of a run. */
  public static final long MOST_WORLDS = 1L << 40;

  /** Most threads of a run. */
  public static final int MOST_THREADS = 256;

  private static final int TOLD_LINES = 60;

  /** World sizes are kept up to here; larger ones count as this. */
  private static final int LARGEST = 1 << 12;

  private final long seed;
  private final long worlds;
  private final BrokenRule broken;
  private final Optional<BitSet> only;

  private Simulation(long seed, long worlds, BrokenRule broken, Optional<BitSet> only) {
    if (worlds < 1 || worlds > MOST_WORLDS) {
      throw new BerthException(Code.ARGUMENT, "%d worlds: 1 to %d".formatted(worlds, MOST_WORLDS));
    }
    this.seed = seed;
    this.worlds = worlds;
    this.broken = broken;
    this.only = only;
  }

  /**
   * The worlds of the seeds {@code seed}, {@code seed + 1}, …
   *
   * @param worlds how many, 1 to {@value #MOST_WORLDS}
   * @throws BerthException ARGUMENT for another number
   */
  public static Simulation of(long seed, long worlds) {
    return new Simulation(seed, worlds, BrokenRule.NONE, Optional.empty());
  }

  /** The same with a rule broken in every world where it can be. */
  public Simulation breaking(BrokenRule rule) {
    return new Simulation(seed, worlds, rule, only);
  }

  /**
   * The same with some events of each world only.
   *
   * @param events as {@link Failure#reproduction} names them: {@code 0-3,17}
   * @throws BerthException ARGUMENT if that isn't a list of numbers and ranges
   */
  public Simulation only(String events) {
    try {
      return new Simulation(seed, worlds, broken, Optional.of(Failure.numbers(events)));
    } catch (NumberFormatException e) {
      throw new BerthException(
          Code.ARGUMENT, "'%s' are no event numbers such as 0-3,17".formatted(events), e);
    }
  }

  /** What one thread adds up. */
  private static final class Share {
    final Coverage coverage = new Coverage();
    final long[] endings = new long[WorldResult.Ending.values().length];
    final long[] ranks = new long[LARGEST + 1];
    final long[] iterations = new long[LARGEST + 1];
    final long[] requests = new long[LARGEST + 1];
    long worlds;
    long rankIterations;

    void add(WorldPlan plan, WorldResult result) {
      worlds++;
      coverage.add(plan, result);
      endings[result.ending().ordinal()]++;
      ranks[plan.config().ranks()]++;
      iterations[(int) Math.min(LARGEST, result.iterations())]++;
      requests[Math.min(LARGEST, plan.requests())]++;
      rankIterations += result.rankIterations();
    }

    void merge(Share other) {
      worlds += other.worlds;
      coverage.merge(other.coverage);
      add(endings, other.endings);
      add(ranks, other.ranks);
      add(iterations, other.iterations);
      add(requests, other.requests);
      rankIterations += other.rankIterations;
    }

    private static void add(long[] to, long[] from) {
      for (int i = 0; i < to.length; i++) {
        to[i] += from[i];
      }
    }

    static int median(long[] counts) {
      long half = (Arrays.stream(counts).sum() + 1) / 2;
      int i = 0;
      for (long below = counts[0]; below < half; below += counts[i]) {
        i++;
      }
      return i;
    }
  }

  /** Runs on this thread. */
  public SimulationReport run() {
    return run(1, () -> false);
  }

  /**
   * Runs.
   *
   * @param threads 1 to {@value #MOST_THREADS}
   * @param interrupted asked between worlds
   * @throws BerthException ARGUMENT for another number of threads
   */
  public SimulationReport run(int threads, BooleanSupplier interrupted) {
    if (threads < 1 || threads > MOST_THREADS) {
      throw new BerthException(
          Code.ARGUMENT, "%d threads: 1 to %d".formatted(threads, MOST_THREADS));
    }
    var next = new AtomicLong();
    var firstBad = new AtomicLong(Long.MAX_VALUE);
    var shares = new ArrayList<Share>();
    var workers = new ArrayList<Thread>();
    var faults = new ArrayList<Throwable>();
    for (int i = 0; i < threads; i++) {
      var share = new Share();
      shares.add(share);
      workers.add(
          Thread.ofPlatform()
              .name("berth-world-" + i)
              .daemon()
              .uncaughtExceptionHandler((thread, fault) -> {
                synchronized (faults) {
                  faults.add(fault);
                }
              })
              .start(() -> work(share, next, firstBad, interrupted)));
    }
    workers.forEach(Simulation::await);
    if (!faults.isEmpty()) {
      throw new BerthException(Code.INTERNAL, "the simulator failed", faults.getFirst());
    }
    var all = new Share();
    shares.forEach(all::merge);
    return report(all, firstBad.get());
  }

  private static void await(Thread thread) {
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Takes worlds in order; those before the first bad one are finished in any case. */
  private void work(
      Share share, AtomicLong next, AtomicLong firstBad, BooleanSupplier interrupted) {
    for (long i = next.getAndIncrement();
        i < worlds && i < firstBad.get() && !interrupted.getAsBoolean();
        i = next.getAndIncrement()) {
      WorldPlan plan = plan(i);
      WorldResult result = World.run(plan, History.NONE);
      share.add(plan, result);
      if (result.violation().isPresent()) {
        firstBad.accumulateAndGet(i, Math::min);
      }
    }
  }

  private WorldPlan plan(long world) {
    WorldPlan drawn = WorldDraw.of(seed + world, broken);
    return only.map(drawn::only).orElse(drawn);
  }

  private SimulationReport report(Share all, long bad) {
    return new SimulationReport(
        seed,
        broken,
        all.worlds,
        all.rankIterations,
        Share.median(all.ranks),
        Share.median(all.iterations),
        Share.median(all.requests),
        all.endings[WorldResult.Ending.DONE.ordinal()],
        all.endings[WorldResult.Ending.STALLED_BY_NAME.ordinal()],
        all.endings[WorldResult.Ending.FILL_OUT_OF_REACH.ordinal()],
        all.coverage,
        bad == Long.MAX_VALUE ? Optional.empty() : Optional.of(failure(bad)));
  }

  /** Runs a bad world again, makes it smaller, and writes down what happens in it. */
  private Failure failure(long world) {
    WorldPlan plan = plan(world);
    Violation violation = World.run(plan, History.NONE).violation().orElseThrow();
    WorldPlan small = Shrinker.shrink(plan, violation.invariant());
    var history = new ArrayDeque<String>();
    Violation shrunk =
        World.run(
                small,
                (micros, node, what) -> {
                  history.add("%d µs, %s: %s".formatted(micros, node, what));
                  if (history.size() > TOLD_LINES) {
                    history.removeFirst();
                  }
                })
            .violation()
            .orElseThrow();
    return new Failure(
        plan.seed(),
        broken,
        plan.describe(),
        violation,
        shrunk,
        plan.requests(),
        small.eventNumbers().stream().boxed().toList(),
        small.describeEvents(),
        List.copyOf(history));
  }
}
