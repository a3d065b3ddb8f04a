// SPDX-License-Identifier: Apache-2.0
package dev.berth.route.kernel;

import java.lang.reflect.Method;
import java.util.Locale;
import java.util.Optional;

/**
 * Which loops run on vectors, and why not. Vector code is used where the machine and the JVM
 * compile it to vector instructions, from the number of ranks on at which it was measured to be
 * faster (docs/benchmarks.md), and only after {@link #preload}: before its compilation it is
 * hundreds of times slower than scalar code. What is chosen changes no result.
 */
public final class Kernels {
  /** System property: {@code auto} (the default), {@code on} for every size, {@code off}. */
  public static final String PROPERTY = "berth.vector";

  /** Ranks from which on scoring is faster on vectors. */
  static final int LEAST_FOR_SCORES = 8;

  /** Ranks from which on selection is faster on vectors. */
  static final int LEAST_FOR_SELECTION = 32;

  private static final String MODULE = "jdk.incubator.vector";
  private static final String PROVIDER = "dev.berth.route.kernel.VectorKernels";
  private static final int LEAST_BITS = 128;
  private static final int C2_LEVEL = 4;

  /** Calls after which the loops are compiled: several times the threshold of the last tier. */
  private static final int WARM_CALLS = 20_000;

  private static final int WARM_RANKS = 64;

  private static final Choice CHOICE = choose(Machine.here());

  private static volatile boolean warm;

  private Kernels() {}

  /**
   * What decides.
   *
   * @param property the value of {@link #PROPERTY}
   * @param modulePresent whether the incubating module is in the boot layer
   * @param vmName as {@code java.vm.name} has it
   * @param vmInfo as {@code java.vm.info} has it
   * @param jvmciCompiler whether another compiler took C2's place
   * @param topTier the highest tier that code is compiled at
   */
  record Machine(
      String property,
      boolean modulePresent,
      String vmName,
      String vmInfo,
      boolean jvmciCompiler,
      int topTier) {
    static Machine here() {
      return new Machine(
          System.getProperty(PROPERTY, "auto"),
          ModuleLayer.boot().findModule(MODULE).isPresent(),
          System.getProperty("java.vm.name", ""),
          System.getProperty("java.vm.info", ""),
          flag("UseJVMCICompiler").map(Boolean::parseBoolean).orElse(false),
          flag("TieredStopAtLevel").map(Integer::parseInt).orElse(C2_LEVEL));
    }

    /** A flag of the JVM, if it can be asked. */
    private static Optional<String> flag(String name) {
      try {
        Class<?> type = Class.forName("com.sun.management.HotSpotDiagnosticMXBean");
        Object bean =
            Class.forName("java.lang.management.ManagementFactory")
                .getMethod("getPlatformMXBean", Class.class)
                .invoke(null, type);
        Object option = type.getMethod("getVMOption", String.class).invoke(bean, name);
        Method value = Class.forName("com.sun.management.VMOption").getMethod("getValue");
        return Optional.of((String) value.invoke(option));
      } catch (ReflectiveOperationException | RuntimeException e) {
        return Optional.empty();
      }
    }

    /** Why vectors can't be used here, one sentence with what to do; empty if they can. */
    Optional<String> refusal() {
      boolean off = property.equals("off");
      if (off || !property.equals("on") && !property.equals("auto")) {
        return Optional.of(
            off
                ? "turned off by -D" + PROPERTY + "=off"
                : "-D%s must be auto, on or off, found '%s'".formatted(PROPERTY, property));
      }
      if (!modulePresent) {
        return Optional.of("start with --add-modules " + MODULE + " to use vectors");
      }
      if (!vmName.contains("Server VM")) {
        return Optional.of("'" + vmName + "' is not known to compile vectors; use HotSpot");
      }
      if (jvmciCompiler) {
        return Optional.of("only C2 is known to compile vectors; start with -XX:-UseJVMCICompiler");
      }
      String info = vmInfo.toLowerCase(Locale.ROOT);
      if (info.contains("interpreted") || info.contains("emulated-client") || topTier < C2_LEVEL) {
        return Optional.of("C2 is off (" + vmInfo + "); start without limits on compilation");
      }
      return Optional.empty();
    }
  }

  /** The vector code, if it is to be used, and a sentence about it. */
  record Choice(Optional<RankKernels> vectors, boolean everySize, String description) {}

  static Choice choose(Machine machine) {
    Optional<String> refusal = machine.refusal();
    if (refusal.isPresent()) {
      return new Choice(Optional.empty(), false, "scalar: " + refusal.get());
    }
    boolean forced = machine.property().equals("on");
    try {
      Class<?> provider = Class.forName(PROVIDER);
      RankKernels vectors = (RankKernels) provider.getDeclaredConstructor().newInstance();
      Method width = provider.getDeclaredMethod("bits");
      int bits = (int) width.invoke(null);
      if (bits < LEAST_BITS && !forced) {
        return new Choice(
            Optional.empty(),
            false,
            "scalar: vectors of %d bits are too narrow; -D%s=on forces them"
                .formatted(bits, PROPERTY));
      }
      return new Choice(Optional.of(vectors), forced, vectors.describe());
    } catch (ReflectiveOperationException | LinkageError e) {
      return new Choice(Optional.empty(), false, "scalar: vectors could not be loaded: " + e);
    }
  }

  /** The code for scoring that many ranks. */
  public static RankKernels forScores(int ranks) {
    return from(ranks, LEAST_FOR_SCORES);
  }

  /** The code for selecting from that many ranks. */
  public static RankKernels forSelection(int ranks) {
    return from(ranks, LEAST_FOR_SELECTION);
  }

  private static RankKernels from(int ranks, int least) {
    return warm && (ranks >= least || CHOICE.everySize)
        ? CHOICE.vectors.orElse(ScalarKernels.INSTANCE)
        : ScalarKernels.INSTANCE;
  }

  /** What is used, and if it is scalar code, why; whether or not it was preloaded. */
  public static String describe() {
    return CHOICE.description;
  }

  /**
   * Runs the vector code until it is compiled, then has it used. A call for servers, before
   * traffic; later ones do nothing. Takes some tens of milliseconds.
   */
  public static synchronized void preload() {
    if (!warm) {
      CHOICE.vectors.ifPresent(Kernels::exercise);
      warm = true;
    }
  }

  private static void exercise(RankKernels kernels) {
    int[] counts = new int[WARM_RANKS];
    long[] loads = new long[WARM_RANKS];
    double[] scores = new double[WARM_RANKS];
    double[] scratch = new double[WARM_RANKS];
    for (int rank = 0; rank < WARM_RANKS; rank++) {
      counts[rank] = rank * 37 % WARM_RANKS;
      loads[rank] = rank * 11L % WARM_RANKS;
      scores[rank] = loads[rank];
    }
    int found = 0;
    for (int call = 0; call < WARM_CALLS; call++) {
      int ranks = WARM_RANKS - (call & 3);
      found += kernels.least(counts, ranks);
      found += kernels.leastLoaded(loads, counts, counts, WARM_RANKS, call & 7, ranks);
      found += kernels.leastScore(counts, 0, scores, ranks, call + 1, 1, 1, scratch);
      found += kernels.mostMatched(counts, 0, scores, ranks);
    }
    counts[0] = found; // so that no call is dropped
  }
}
