// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.capacity.CapacityRule;
import dev.berth.engine.SlotStore.Use;
import dev.berth.plan.KeyedBy;
import dev.berth.plan.PolicySet;
import dev.berth.plan.RegisteredPool;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.StartupValidator;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.route.RankCap;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What runners keep of sequences, in rows that the plan sizes (spec 01 §12.6). */
class SlotStoreTest {
  private static final long SEED = Long.getLong("berth.seed", 20261130);
  private static final long ROW_BYTES = 2 * Long.BYTES;

  private static EngineConfig config(Trait[] traits, int stages, int pages) {
    var shape =
        WorkerShape.builder(8)
            .ranks(2)
            .pipelineSize(stages)
            .maxSeqLen(64)
            .tokensPerBlock(4)
            .with(traits)
            .build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    EngineConfig config =
        EngineConfig.builder(plan, WorkerRole.AGGREGATED).kv(KvSetup.counted(pages)).build();
    return pages < 0
        ? config
        : config.withPolicies(PolicySet.BERTH_1, CapacityRule.MAX_UTILIZATION);
  }

  private static EngineConfig overlap() {
    return config(new Trait[] {Trait.ATTENTION_DP, Trait.OVERLAP}, 1, -1);
  }

  /**
   * A model whose next token depends on nothing but the row of its sequence: a number that goes on
   * from step to step.
   */
  private static final class Chain implements ModelRunner {
    final SlotStore store;
    final int[][] made;
    final Map<Integer, Long> inFlight = new HashMap<>(); // by row of the store: whose it is
    final Map<Integer, List<Integer>> bySlot = new HashMap<>(); // rows of a batch under way
    final Set<Integer> rows = new HashSet<>(); // of the request table
    int begun;
    boolean swaps;
    boolean swapped;

    Chain(RankSetup setup, Use use) {
      this.store = setup.store(use, ROW_BYTES);
      this.made = new int[setup.slots()][setup.positions()];
    }

    @Override
    public void launch(BatchView batch) {
      MemorySegment indices = store.indices(batch);
      assertThat(indices.byteSize()).isEqualTo((long) batch.size() * Integer.BYTES);
      var rows = new HashSet<Integer>();
      var held = new ArrayList<Integer>();
      for (int i = 0; i < batch.size(); i++) {
        int index = indices.getAtIndex(JAVA_INT, i);
        if (batch.kind(i) == Batch.Kind.DUMMY) {
          assertThat(index).isIn(-1, store.rows() - 1, store.registered().bound().getAsInt());
          continue;
        }
        assertThat(rows.add(index)).as("two sequences in row %d", index).isTrue();
        assertThat(index).isBetween(0, store.registered().bound().getAsInt() - 1);
        long admission = batch.table().admission(batch.row(i));
        Long other = inFlight.put(index, admission);
        assertThat(other == null || other == admission || store.begins(batch, i))
            .as("a row passes on only to who begins")
            .isTrue();
        this.rows.add(batch.row(i));
        begun += store.begins(batch, i) ? 1 : 0;
        held.add(index);
        made[batch.slot()][i] = next(batch, i, store.row(index));
      }
      bySlot.put(batch.slot(), held);
      if (swaps && !swapped && held.size() > 1) {
        swap(held.get(0), held.get(1));
        swapped = true;
      }
    }

    private void swap(int a, int b) {
      byte[] kept = store.row(a).toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
      store.row(a).copyFrom(store.row(b));
      store.row(b).copyFrom(MemorySegment.ofArray(kept));
    }

    private int next(BatchView batch, int position, MemorySegment row) {
      if (store.use().keyedBy() != KeyedBy.BATCH_POSITION && store.begins(batch, position)) {
        assertThat(row.getAtIndex(JAVA_LONG, 0)).as("it begins with zeros").isZero();
        assertThat(row.getAtIndex(JAVA_LONG, 1)).isZero();
        long state = batch.ids().getAtIndex(JAVA_LONG, position) + 1;
        for (int i = 0; i < batch.table().pausedTokens(batch.row(position)); i++) {
          state = step(state);
        }
        row.setAtIndex(JAVA_LONG, 0, state);
      }
      if (!batch.makesToken(position)) {
        return 0;
      }
      long state = step(row.getAtIndex(JAVA_LONG, 0));
      row.setAtIndex(JAVA_LONG, 0, state);
      row.setAtIndex(JAVA_LONG, 1, row.getAtIndex(JAVA_LONG, 1) + 1);
      return token(state);
    }

    @Override
    public void collect(BatchView batch, BatchResults results) {
      for (int i = 0; i < batch.size(); i++) {
        if (batch.makesToken(i)) {
          results.token(i, made[batch.slot()][i]);
        }
      }
    }

    static long step(long state) {
      return state * 6364136223846793005L + 1442695040888963407L;
    }

    static int token(long state) {
      return (int) (state >>> 40);
    }
  }

  private static List<Integer> alone(long id, int tokens) {
    var all = new ArrayList<Integer>();
    long state = id + 1;
    for (int i = 0; i < tokens; i++) {
      state = Chain.step(state);
      all.add(Chain.token(state));
    }
    return all;
  }

  /** Runs requests of all lengths; what each of them made. */
  private static Map<Long, List<Integer>> run(
      EngineConfig config, Use use, boolean swaps, List<Chain> chains) {
    RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(SEED);
    var outputs = new HashMap<Long, List<Integer>>();
    try (Engine engine =
        Engine.builder(config)
            .start(setup -> {
              var chain = new Chain(setup, use);
              chain.swaps = swaps && setup.rank() == 0;
              chains.add(chain);
              return chain;
            })) {
      var handles = new ArrayList<RequestHandle>();
      for (long id = 0; id < 150; id++) {
        Request request = Request.of(id, random.nextInt(1, 20), random.nextInt(1, 30));
        boolean crowds = config.cap() == RankCap.OFF;
        handles.add(
            engine.submit(
                crowds
                    ? request.withScheduling(SchedulingParams.target(0, Relax.RELAXED))
                    : request));
      }
      for (RequestHandle handle : handles) {
        assertThat(handle.result().toCompletableFuture().join().finished()).isTrue();
        outputs.put(handle.id(), EngineTest.read(handle.tokens()));
        assertThat(outputs.get(handle.id())).hasSize(handle.request().maxNewTokens());
      }
    }
    return outputs;
  }

  private static void areThoseOfEachAlone(Map<Long, List<Integer>> outputs) {
    outputs.forEach((id, tokens) -> assertThat(tokens).isEqualTo(alone(id, tokens.size())));
  }

  /** Full batches, retiring sequences and those that follow them, in all loops. */
  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "WORK")
  void aSequenceKeepsItsRowAndNobodyElseHasIt(Use use) {
    System.out.println("SlotStoreTest: -Dberth.seed=" + SEED);
    for (EngineConfig config :
        List.of(
            overlap(),
            config(new Trait[] {Trait.ATTENTION_DP}, 1, -1),
            config(new Trait[] {Trait.ATTENTION_DP, Trait.OVERLAP}, 2, -1))) {
      areThoseOfEachAlone(run(config, use, false, new ArrayList<>()));
    }
  }

  /** More sequences on a rank than seats: rows of the table go round, seats don't wait for that. */
  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "WORK")
  void whoLeftKeepsNobodyOut(Use use) {
    EngineConfig config =
        config(new Trait[] {Trait.ATTENTION_DP}, 1, -1).toBuilder().cap(RankCap.OFF).build();
    var chains = new ArrayList<Chain>();
    areThoseOfEachAlone(run(config, use, false, chains));
    assertThat(chains.getFirst().rows.size())
        .as("rows of the table that had a sequence")
        .isGreaterThan(config.plan().seats().count());
  }

  /** Who gives way loses its seat, and begins again in a row of zeros. */
  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "WORK")
  void whoGaveWayBeginsAgain(Use use) {
    var chains = new ArrayList<Chain>();
    EngineConfig few = config(new Trait[] {Trait.ATTENTION_DP, Trait.OVERLAP}, 1, 26);
    areThoseOfEachAlone(run(few, use, false, chains));
    assertThat(chains.stream().mapToInt(chain -> chain.begun).sum()).isGreaterThan(150);
  }

  /** A pool counts as consumed only if swapping two of its rows changes the tokens. */
  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "WORK")
  void rowsThatAreSwappedChangeTheTokens(Use use) {
    var chains = new ArrayList<Chain>();
    Map<Long, List<Integer>> outputs = run(overlap(), use, true, chains);
    assertThat(chains).anyMatch(chain -> chain.swapped);
    assertThat(outputs.entrySet())
        .anyMatch(e -> !e.getValue().equals(alone(e.getKey(), e.getValue().size())));
  }

  /** Spec 01 §12.6: R retiring and R new ones hold 2R different rows. */
  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "WORK")
  void retiringSequencesAndThoseThatFollowThemHoldRowsOfTheirOwn(Use use) {
    EngineConfig config = overlap();
    int batch = config.plan().batchPositions().count();
    var under = new HashMap<Integer, List<Integer>>();
    int[] most = new int[1];
    try (Engine engine = Engine.builder(config).open()) {
      RankSetup setup = engine.setup(0, 0);
      SlotStore store = setup.store(use, ROW_BYTES);
      for (int id = 0; id < 160; id++) {
        engine.submit(Request.of(id, 4, 1)); // all of a batch retire at once
      }
      for (StepPlan plan = engine.step(0); !plan.idle(); plan = engine.step(0)) {
        for (BatchView view : plan.launches()) {
          if (view.rank() == 0) {
            MemorySegment indices = store.indices(view);
            var held = new ArrayList<Integer>();
            for (int i = 0; i < view.size(); i++) {
              if (view.kind(i) != Batch.Kind.DUMMY) {
                held.add(indices.getAtIndex(JAVA_INT, i));
              }
            }
            under.put(view.slot(), held);
          }
        }
        var all = new ArrayList<Integer>();
        under.values().forEach(all::addAll);
        assertThat(all).doesNotHaveDuplicates();
        most[0] = Math.max(most[0], all.size());
        for (BatchView view : plan.dues()) {
          if (view.rank() == 0) {
            under.remove(view.slot());
          }
        }
        engine.commit(plan.result());
      }
      assertThat(most[0]).isEqualTo(2 * batch);
      assertThat(store.rows()).isGreaterThanOrEqualTo(2 * batch);
    }
  }

  /** Spec 01 §12.6, with R = 8 and 16 seats; work buffers stay 8. */
  @Test
  void rowsAreThePlansAndTheValidatorSaysSo() {
    EngineConfig config = overlap();
    try (Engine engine = Engine.builder(config).open()) {
      RankSetup setup = engine.setup(0, 0);
      var rows = new HashMap<Use, Integer>();
      var registered = new ArrayList<RegisteredPool>();
      for (Use use : Use.values()) {
        SlotStore store = setup.store(use, 1);
        rows.put(use, store.rows());
        registered.add(store.registered());
      }
      assertThat(rows)
          .containsEntry(Use.SAMPLER, 17)
          .containsEntry(Use.GUIDED_DECODER, 17)
          .containsEntry(Use.DRAFT_PROBABILITIES, 17)
          .containsEntry(Use.DRAFTER, 17)
          .containsEntry(Use.MTP, 17)
          .containsEntry(Use.SUFFIX_AUTOMATON, 16)
          .containsEntry(Use.EAGLE3, 65)
          .containsEntry(Use.TREE, 17)
          .containsEntry(Use.CROSS_LEASES, 17)
          .containsEntry(Use.DRAFT_LEASES, 17)
          .containsEntry(Use.WORK, 9);
      var verdict = StartupValidator.check(config.plan(), registered);
      assertThat(verdict.agrees()).isTrue();
      assertThat(verdict.checked()).hasSize(Use.values().length);
      SeatPlan other = config(new Trait[] {Trait.ATTENTION_DP}, 1, -1).plan();
      assertThat(StartupValidator.check(other, registered).disagreements())
          .as("stores of another plan")
          .hasSize(Use.values().length - 1);
    }
  }

  @Test
  void workRowsFollowThePositions() {
    try (Engine engine = Engine.builder(overlap()).open()) {
      SlotStore store = engine.setup(0, 0).store(Use.WORK, 8);
      for (int id = 0; id < 40; id++) {
        engine.submit(Request.of(id, 4, 3));
      }
      int seen = 0;
      for (StepPlan plan = engine.step(0); !plan.idle(); plan = engine.step(0)) {
        for (BatchView view : plan.launches()) {
          if (view.rank() == 0) {
            MemorySegment indices = store.indices(view);
            for (int i = 0; i < view.size(); i++) {
              boolean padding = view.kind(i) == Batch.Kind.DUMMY;
              assertThat(indices.getAtIndex(JAVA_INT, i)).isEqualTo(padding ? 8 : i);
              seen++;
            }
          }
        }
        engine.commit(plan.result());
      }
      assertThat(seen).isPositive();
    }
  }

  @Test
  void whatCannotBeIsRefused() {
    try (Engine engine = Engine.builder(overlap()).open()) {
      RankSetup setup = engine.setup(0, 0);
      for (long bytes : new long[] {0, -1, Long.MAX_VALUE, SlotStore.MOST_BYTES}) {
        refused(Code.CONFIGURATION, () -> setup.store(Use.SAMPLER, bytes));
      }
      SlotStore store = setup.store(Use.SAMPLER, 8);
      for (int row : new int[] {-1, 17, Integer.MAX_VALUE}) {
        refused(Code.ARGUMENT, () -> store.row(row));
      }
      engine.submit(Request.of(1, 4, 3));
      StepPlan plan = engine.step(0);
      while (plan.launches().isEmpty()) {
        engine.commit(plan.result());
        plan = engine.step(0);
      }
      for (BatchView view : plan.launches()) {
        if (view.rank() != 0) {
          refused(Code.ARGUMENT, () -> store.indices(view));
        }
        assertThatThrownBy(() -> store.indices(view).setAtIndex(JAVA_INT, 0, 1))
            .isInstanceOfAny(BerthException.class, IllegalArgumentException.class);
      }
    }
  }

  private static void refused(
      Code code, org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }
}
