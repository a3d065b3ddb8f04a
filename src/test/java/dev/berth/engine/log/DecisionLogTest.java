// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.BalanceGate;
import dev.berth.engine.Batch;
import dev.berth.engine.BatchWait;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EncoderWait;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillRules;
import dev.berth.engine.GroupTap;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.engine.RetiringMark;
import dev.berth.engine.WorkerRole;
import dev.berth.engine.log.Difference.Decision;
import dev.berth.id.BatchPosition;
import dev.berth.plan.Trait;
import dev.berth.plan.WhatIf;
import dev.berth.request.Request;
import dev.berth.request.WaitReason;
import dev.berth.route.AllocatedBytes;
import dev.berth.route.Seeds;
import dev.berth.test.TestConfig;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What a log holds, and what a run of it says. */
class DecisionLogTest {
  // ------------------------------------------------------------------------------ random groups

  @Test
  void aRunAgainIsTheSame() {
    again(600);
  }

  @Tag("deep")
  @Test
  void manyRunsAgainAreTheSame() {
    again(20_000);
  }

  private static void again(int runs) {
    long seed = Seeds.seed("DecisionLogTest");
    long steps = 0;
    for (int i = 0; i < runs; i++) {
      byte[] log = RandomRun.log(seed + i);
      LogReplay.Result result = LogFiles.replay(log);
      assertThat(result.difference()).as("-Dberth.seed=%d", seed + i).isEmpty();
      assertThat(result.damage()).as("-Dberth.seed=%d", seed + i).isEmpty();
      assertThat(result.ending()).isEqualTo(LogReplay.Ending.CLOSED);
      steps += result.steps();
    }
    System.out.println(runs + " runs, " + steps + " steps");
    assertThat(steps).isGreaterThan(runs * 10L);
  }

  /** The log isn't only equal to itself: after every step it says what the engines say. */
  @Test
  void theLogSaysWhatTheEnginesDecided() {
    long seed = Seeds.seed("DecisionLogTest");
    for (int i = 0; i < 400; i++) {
      var bytes = new ByteArrayOutputStream();
      var seen = new ArrayList<List<String>>();
      try (var writer = new LogWriter(Channels.newChannel(bytes), "")) {
        RandomRun.run(seed + i, new Both(writer, new Witness(seen)));
      }
      RecordReader records = LogFiles.records(bytes.toByteArray());
      var read = new ArrayList<List<String>>();
      while (!records.ended()) {
        if (records.next() instanceof LogRecord.Step) {
          read.add(Witness.of(records.state()));
        }
      }
      assertThat(read).as("-Dberth.seed=%d", seed + i).isEqualTo(seen);
    }
  }

  /** Asks the engines after every step. */
  private static final class Witness implements GroupTap {
    private final List<List<String>> seen;
    private LockstepGroup group = new LockstepGroup(TestConfig.oneGroup(1).build());

    Witness(List<List<String>> seen) {
      this.seen = seen;
    }

    @Override
    public void begin(LockstepGroup begun) {
      group.close();
      group = begun;
    }

    @Override
    public void stepped(boolean ran) {
      seen.add(ran ? engines() : List.of("idle"));
    }

    private List<String> engines() {
      var lines = new ArrayList<String>();
      for (int stage = 0; stage < group.config().stages(); stage++) {
        for (int rank = 0; rank < group.config().ranks(); rank++) {
          lines.add(describe(group.engine(rank, stage)));
        }
      }
      for (int rank = 0; rank < group.config().ranks(); rank++) {
        for (int i = 0; i < group.admission().assigned(rank); i++) {
          lines.add(group.admission().assignedId(rank, i) + " on rank " + rank);
        }
      }
      lines.add(
          "%b %b %b %b %d %d %d"
              .formatted(
                  group.admission().held(),
                  group.admission().gateOpen(),
                  group.admission().progress(),
                  group.launched(),
                  group.admission().expectedActive(),
                  group.admission().budget(),
                  group.admission().charged()));
      return lines;
    }

    private static String describe(RankEngine engine) {
      var text = new StringBuilder();
      Batch batch = engine.scheduled();
      for (int i = 0; i < batch.size(); i++) {
        if (batch.kind(i) != Batch.Kind.DUMMY) {
          text.append(batch.id(i))
              .append(batch.kind(i) == Batch.Kind.CONTEXT ? "c" : "g")
              .append(batch.tokens(i))
              .append(' ');
        }
      }
      text.append("%b %b %b ".formatted(engine.padded(), engine.launched(), engine.canQueue()));
      for (int i = 0; i < engine.ended(); i++) {
        text.append(
            "%d %s %d, ".formatted(engine.endedId(i), engine.endedKind(i), engine.endedTokens(i)));
      }
      for (int i = 0; i < engine.receives(); i++) {
        text.append(engine.table().id(engine.receiveRow(i))).append("r ");
      }
      for (WaitReason reason : WaitReason.values()) {
        text.append(engine.deferred(reason)).append(' ');
      }
      return text.append(engine.resident())
          .append(" " + engine.seatsUsed() + " " + engine.leasesUsed() + " " + engine.pagesUsed())
          .toString();
    }

    /** The same lines out of a log. */
    static List<String> of(GroupState state) {
      if ((state.flags & LogFormat.RAN) == 0) {
        return List.of("idle");
      }
      var lines = new ArrayList<String>();
      for (GroupState.Frame frame : state.frames) {
        var text = new StringBuilder();
        for (int i = 0; i < frame.batch.size; i++) {
          text.append(frame.batch.id[i])
              .append((frame.batch.value[i] & 1) == 1 ? "c" : "g")
              .append(frame.batch.value[i] >> 1)
              .append(' ');
        }
        text.append(
            "%b %b %b "
                .formatted(
                    (frame.bits & LogFormat.PADDED) != 0,
                    (frame.bits & LogFormat.FRAME_LAUNCHED) != 0,
                    (frame.bits & LogFormat.CAN_QUEUE) != 0));
        for (int i = 0; i < frame.ended.size; i++) {
          text.append(
              "%d %s %d, "
                  .formatted(
                      frame.ended.id[i],
                      GroupState.endKind(frame.ended.value[i]),
                      frame.ended.value[i] / 3));
        }
        for (int i = 0; i < frame.receives.size; i++) {
          text.append(frame.receives.id[i]).append("r ");
        }
        for (int n : frame.deferred) {
          text.append(n).append(' ');
        }
        lines.add(
            text.append(frame.resident)
                .append(" " + frame.seats + " " + frame.leases + " " + frame.pages)
                .toString());
      }
      for (int i = 0; i < state.assigned.size; i++) {
        lines.add(state.assigned.id[i] + " on rank " + state.assigned.value[i]);
      }
      lines.add(
          "%b %b %b %b %d %d %d"
              .formatted(
                  (state.flags & LogFormat.HELD) != 0,
                  (state.flags & LogFormat.GATE_OPEN) != 0,
                  (state.flags & LogFormat.PROGRESS) != 0,
                  (state.flags & LogFormat.LAUNCHED) != 0,
                  state.expected,
                  state.budget,
                  state.charged));
      return lines;
    }
  }

  /** What a listener doesn't pass on is missing from every log, and from nothing else. */
  @Test
  void aWriterPassesOnAllThatAGroupSays() {
    for (Class<?> tap : List.of(LogWriter.class, Recorder.class)) {
      for (Method said : GroupTap.class.getDeclaredMethods()) {
        assertThatCode(() -> tap.getDeclaredMethod(said.getName(), said.getParameterTypes()))
            .as("%s of a %s", said.getName(), tap.getSimpleName())
            .doesNotThrowAnyException();
      }
    }
  }

  /** Two listeners. */
  private record Both(GroupTap first, GroupTap second) implements GroupTap {
    private void each(Consumer<GroupTap> call) {
      call.accept(first);
      call.accept(second);
    }

    @Override
    public void begin(LockstepGroup group) {
      each(t -> t.begin(group));
    }

    @Override
    public void offered(Request request, Outcome outcome) {
      each(t -> t.offered(request, outcome));
    }

    @Override
    public void cancelled(long id, boolean waited) {
      each(t -> t.cancelled(id, waited));
    }

    @Override
    public void changed(RankEngine engine, Change change, int row, long requestId) {
      each(t -> t.changed(engine, change, row, requestId));
    }

    @Override
    public void stopped(RankEngine engine, int position) {
      each(t -> t.stopped(engine, position));
    }

    @Override
    public void lost(RankEngine engine, int position) {
      each(t -> t.lost(engine, position));
    }

    @Override
    public void faulted(int rank, Fault kind) {
      each(t -> t.faulted(rank, kind));
    }

    @Override
    public void held(RankEngine engine, Hold change, int row, long requestId) {
      each(t -> t.held(engine, change, row, requestId));
    }

    @Override
    public void withdrawn(int rank, long id) {
      each(t -> t.withdrawn(rank, id));
    }

    @Override
    public void limited(int admissionCap) {
      each(t -> t.limited(admissionCap));
    }

    @Override
    public void placement(int rank, Placement change) {
      each(t -> t.placement(rank, change));
    }

    @Override
    public void stepping() {
      each(GroupTap::stepping);
    }

    @Override
    public void calling() {
      each(GroupTap::calling);
    }

    @Override
    public void stepped(boolean ran) {
      each(t -> t.stepped(ran));
    }
  }

  // ------------------------------------------------------------------------------ what differs

  private static byte[] log(EngineConfig config, Consumer<LockstepGroup> run) {
    var bytes = new ByteArrayOutputStream();
    try (var group = new LockstepGroup(config);
        var writer = new LogWriter(Channels.newChannel(bytes), "a run")) {
      group.listen(writer);
      run.accept(group);
    }
    return bytes.toByteArray();
  }

  private static Difference first(byte[] log, EngineConfig instead) {
    return LogReplay.run(new ByteArrayInputStream(log), instead).difference().orElseThrow();
  }

  /** One request first, then more than the fleet holds, as in spec 01 §7.5. */
  private static void oneThenMany(LockstepGroup group) {
    group.offer(Request.of(0, 8, 1));
    group.step(LockstepGroup.NO_DEVICE);
    for (int id = 1; id < 40; id++) {
      group.offer(Request.of(id, 8, 1));
    }
    while (group.step(LockstepGroup.NO_DEVICE)) {
      assertThat(group.steps()).isLessThan(1000);
    }
  }

  private static TestConfig contexts() {
    return TestConfig.overlap(4, 2).role(WorkerRole.CONTEXT);
  }

  @Test
  void chargedRetireesAreNamedInTheFirstIterationThatHasOne() {
    byte[] log = log(contexts().build(), DecisionLogTest::oneThenMany);
    Difference found = first(log, contexts().whatIf(WhatIf.Switch.CHARGE_RETIRING).build());
    assertThat(found.iteration()).isEqualTo(1);
    assertThat(found.decision()).isEqualTo(Decision.BUDGET);
    assertThat(found.logged()).isEqualTo("0 charged, budget 8, target 2");
    assertThat(found.came()).isEqualTo("1 charged, budget 7, target 2");
  }

  @Test
  void aRetireeThatIsScheduledIsNamedWithRankAndRequest() {
    byte[] log = log(contexts().build(), DecisionLogTest::oneThenMany);
    Difference found = first(log, contexts().rangeEnd(20).build());
    assertThat(found.iteration()).isEqualTo(1);
    assertThat(found.decision()).isEqualTo(Decision.BATCH);
    assertThat(found.rank()).hasValue(0);
    assertThat(found.request()).hasValue(0);
    assertThat(found.logged()).isEqualTo("not scheduled");
    assertThat(found.came()).isEqualTo("generation of 1 tokens");
    assertThat(found.describe())
        .isEqualTo(
            "iteration 1, rank 0, request 0, batch: logged not scheduled, came generation of 1"
                + " tokens");
  }

  @Test
  void aRequestThatNoLongerFitsIsNamedAtItsOffer() {
    byte[] log =
        log(
            TestConfig.overlap(1, 2).pages(16).tokensPerBlock(4).build(),
            group -> {
              group.step(LockstepGroup.NO_DEVICE);
              assertThat(group.offer(Request.of(77, 30, 2))).isEqualTo(Outcome.QUEUED);
              group.step(LockstepGroup.NO_DEVICE);
            });
    Difference found = first(log, TestConfig.overlap(1, 2).pages(4).tokensPerBlock(4).build());
    assertThat(found.iteration()).isEqualTo(1);
    assertThat(found.decision()).isEqualTo(Decision.OFFER);
    assertThat(found.request()).hasValue(77);
    assertThat(found.came()).contains("PAGES", "8", "4");
  }

  @Test
  void anotherNumberOfRanksIsRefused() {
    byte[] log = log(contexts().build(), DecisionLogTest::oneThenMany);
    assertThatThrownBy(() -> first(log, TestConfig.overlap(3, 2).build()))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("4 ranks")
        .hasMessageContaining("of 3 and 1");
  }

  /** A step that throws is a decision too: the run again must throw the same. */
  @Test
  void aStepThatThrewThrowsAgain() {
    EngineConfig diverging =
        TestConfig.overlap(2, 2)
            .stages(2)
            .mark(RetiringMark.LAST_STAGE)
            .whatIf(WhatIf.Switch.HEADROOM_UNDER_PIPELINE)
            .build();
    byte[] log =
        log(
            diverging,
            group -> {
              for (int id = 0; id < 60; id++) {
                group.offer(Request.of(id, 4, 3));
              }
              assertThatThrownBy(
                      () -> {
                        while (group.step(LockstepGroup.NO_DEVICE)) {
                          assertThat(group.steps()).isLessThan(1000);
                        }
                      })
                  .isInstanceOfSatisfying(
                      BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.DIVERGED));
            });
    LogReplay.Result same = LogFiles.replay(log);
    assertThat(same.same()).isTrue();
    assertThat(same.ending()).isEqualTo(LogReplay.Ending.CLOSED);
    EngineConfig agreeing =
        TestConfig.overlap(2, 2).stages(2).whatIf(WhatIf.Switch.HEADROOM_UNDER_PIPELINE).build();
    Difference found = first(log, agreeing);
    assertThat(found.iteration()).isLessThan(same.steps());
  }

  @Test
  void whatTheDeviceThrewIsNotAskedOfTheRunAgain() {
    byte[] log =
        log(
            contexts().build(),
            group -> {
              group.offer(Request.of(0, 8, 1));
              var broken =
                  new LockstepGroup.Device() {
                    @Override
                    public void launch(RankEngine engine, Batch batch) {
                      throw new IllegalStateException("no device");
                    }
                  };
              assertThatThrownBy(() -> group.step(broken))
                  .isInstanceOf(IllegalStateException.class);
            });
    assertThat(LogFiles.replay(log).same()).isTrue();
  }

  // ------------------------------------------------------------------------------ the writer

  @Test
  void aLogThatIsntClosedIsRunAsFarAsItGoes() {
    var bytes = new ByteArrayOutputStream();
    try (var group = new LockstepGroup(contexts().build())) {
      var writer = new LogWriter(Channels.newChannel(bytes), "");
      group.listen(writer);
      oneThenMany(group);
      writer.flush();
      LogReplay.Result result = LogFiles.replay(bytes.toByteArray());
      assertThat(result.ending()).isEqualTo(LogReplay.Ending.OPEN);
      assertThat(result.steps()).isEqualTo(group.steps() + 1);
      assertThat(result.same()).isTrue();
      writer.close();
    }
    assertThat(LogFiles.replay(bytes.toByteArray()).ending()).isEqualTo(LogReplay.Ending.CLOSED);
  }

  @Test
  void aGroupIsListenedToFromItsBeginningByOne() {
    try (var group = new LockstepGroup(contexts().build())) {
      group.listen(GroupTap.NONE);
      assertThatThrownBy(() -> group.listen(GroupTap.NONE)).isInstanceOf(BerthException.class);
    }
    try (var group = new LockstepGroup(contexts().build())) {
      group.offer(Request.of(1, 8, 1));
      assertThatThrownBy(() -> group.listen(GroupTap.NONE)).isInstanceOf(BerthException.class);
    }
  }

  @Test
  void aChannelThatFailsStopsTheLogAndNotTheEngines() {
    var channel =
        new WritableByteChannel() {
          private int left = 100_000;

          @Override
          public int write(ByteBuffer source) throws IOException {
            if (left < source.remaining()) {
              throw new IOException("no space left");
            }
            left -= source.remaining();
            int taken = source.remaining();
            source.position(source.limit());
            return taken;
          }

          @Override
          public boolean isOpen() {
            return true;
          }

          @Override
          public void close() {}
        };
    try (var group = new LockstepGroup(TestConfig.overlap(4, 8).build())) {
      var writer = new LogWriter(channel, "");
      group.listen(writer);
      for (int id = 0; id < 50_000; id++) {
        group.offer(Request.of(id, 8, 2));
      }
      while (group.step(LockstepGroup.NO_DEVICE)) {
        assertThat(group.steps()).isLessThan(100_000);
      }
      assertThat(writer.failure()).isPresent();
      assertThat(writer.bytes()).isEqualTo(LogFormat.FILE_HEADER);
      assertThatThrownBy(writer::close)
          .isInstanceOf(UncheckedIOException.class)
          .hasMessageContaining("no space left");
      writer.close();
    }
  }

  /** A batch that stays as it is costs a few bytes an iteration; a request that changes a few. */
  @Test
  void onlyWhatChangesIsWritten() {
    var bytes = new ByteArrayOutputStream();
    try (var group = new LockstepGroup(TestConfig.overlap(8, 64).build());
        var writer = new LogWriter(Channels.newChannel(bytes), "")) {
      group.listen(writer);
      for (int id = 0; id < 8 * 64; id++) {
        group.offer(Request.of(id, 8, 1 << 20));
      }
      for (int i = 0; i < 100; i++) {
        group.step(LockstepGroup.NO_DEVICE);
      }
      writer.flush();
      long before = writer.bytes();
      for (int i = 0; i < 1000; i++) {
        group.step(LockstepGroup.NO_DEVICE);
      }
      writer.flush();
      assertThat((writer.bytes() - before) / 1000.0).isLessThan(13);
      before = writer.bytes();
      var stopOne =
          new LockstepGroup.Device() {
            @Override
            public void collect(RankEngine engine, Batch batch) {
              if (engine.rank() == 3) {
                batch.stop(new BatchPosition(17));
              }
            }
          };
      group.step(stopOne);
      for (int i = 0; i < 3; i++) {
        group.step(LockstepGroup.NO_DEVICE);
      }
      writer.flush();
      assertThat(writer.bytes() - before).isLessThan(4 * 13 + 12 + 60);
    }
  }

  @Test
  void writingAllocatesNothing() {
    var sink =
        new WritableByteChannel() {
          @Override
          public int write(ByteBuffer source) {
            int taken = source.remaining();
            source.position(source.limit());
            return taken;
          }

          @Override
          public boolean isOpen() {
            return true;
          }

          @Override
          public void close() {}
        };
    try (var group = new LockstepGroup(TestConfig.overlap(4, 32).build());
        var writer = new LogWriter(sink, "")) {
      group.listen(writer);
      for (int id = 0; id < 4 * 32; id++) {
        group.offer(Request.of(id, 8, 1 << 20));
      }
      for (int i = 0; i < 20_000; i++) {
        group.step(LockstepGroup.NO_DEVICE);
      }
      long bytes =
          AllocatedBytes.by(() -> {
            for (int i = 0; i < 1000; i++) {
              group.step(LockstepGroup.NO_DEVICE);
            }
          });
      assertThat(bytes).isLessThan(1000);
      assertThat(writer.bytes()).isPositive();
    }
  }

  // ------------------------------------------------------------------------------ settings

  @Test
  void everySettingComesBack() {
    long seed = Seeds.seed("DecisionLogTest");
    for (int i = 0; i < 500; i++) {
      EngineConfig config = RandomRun.run(seed + i, GroupTap.NONE);
      var text = ConfigText.write(config);
      EngineConfig read = ConfigText.read(text);
      assertThat(ConfigText.write(read)).isEqualTo(text);
      assertThat(read.plan().effective()).isEqualTo(config.plan().effective());
      assertThat(read.withPolicies(config.policies(), config.capacity()).gate())
          .isEqualTo(config.gate());
    }
    EngineConfig all =
        TestConfig.overlap(2, 4).build().toBuilder()
            .hold(new ContextHold.Balanced(BalanceGate.Rules.DEFAULT))
            .fill(new FillRules(FillRules.Ramp.CONSTANT, FillRules.FailFast.FILL_ONLY_VOTE, 7))
            .encoderWait(new EncoderWait(new BatchWait.Rules(3, 0.5), 100))
            .build();
    assertThat(ConfigText.read(ConfigText.write(all)).hold()).isEqualTo(all.hold());
    assertThat(ConfigText.read(ConfigText.write(all)).fill()).isEqualTo(all.fill());
    for (RecordComponent component : EngineConfig.class.getRecordComponents()) {
      // A policy of the caller's own has no name; an engine with one isn't logged.
      boolean named = component.getType() != Optional.class;
      assertThat(ConfigText.write(all).keySet())
          .as("the setting %s", component.getName())
          .matches(names ->
              named
                  == names.stream()
                      .anyMatch(name ->
                          name.equals(component.getName())
                              || name.startsWith(component.getName() + ".")));
    }
  }

  @Test
  void aSettingThatALogDoesntNameHasItsDefault() {
    var text = new LinkedHashMap<>(ConfigText.write(contexts().build()));
    text.remove("cap");
    text.remove("gate.kind");
    text.remove("gate.target");
    EngineConfig read = ConfigText.read(text);
    assertThat(read.cap()).isEqualTo(contexts().build().cap());
    assertThat(read.gate().active()).isFalse();
  }

  @Test
  void aSettingThatIsNoneIsRefusedByName() {
    var text = new LinkedHashMap<>(ConfigText.write(contexts().build()));
    text.put("plan.shape.moons", "3");
    assertThatThrownBy(() -> ConfigText.read(text)).hasMessageContaining("plan.shape.moons");
    text.remove("plan.shape.moons");
    text.put("ownPolicy", "mine");
    assertThatThrownBy(() -> ConfigText.read(text)).hasMessageContaining("ownPolicy");
    text.remove("ownPolicy");
    text.put("role", "JUGGLER");
    assertThatThrownBy(() -> ConfigText.read(text)).hasMessageContaining("JUGGLER");
    text.put("role", "CONTEXT");
    text.put("plan.shape.maxBatchSize", "0");
    assertThatThrownBy(() -> ConfigText.read(text)).hasMessageContaining("maxBatchSize");
    text.put("plan.shape.maxBatchSize", "2");
    text.put("plan.shape.traits", Trait.HYBRID.name());
    assertThatThrownBy(() -> ConfigText.read(text)).hasMessageContaining("hybrid");
  }

  /** A request's component that the codec doesn't know would be lost in the run again. */
  @Test
  void everyComponentOfARequestIsWritten() {
    assertThat(
            Arrays.stream(Request.class.getRecordComponents())
                .map(RecordComponent::getName)
                .filter(
                    name -> !name.equals("prompt"))) // read by paged caches, which aren't logged
        .as("RequestCodec writes these")
        .containsExactly(
            "id",
            "promptTokens",
            "maxNewTokens",
            "priority",
            "scheduling",
            "children",
            "tag",
            "terms",
            "route",
            "encoderTokens");
  }
}
