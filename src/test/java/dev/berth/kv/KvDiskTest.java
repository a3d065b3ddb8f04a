// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.kv.KvOutcome.Done;
import dev.berth.kv.KvOutcome.Missing;
import dev.berth.kv.KvOutcome.Pending;
import dev.berth.plan.TestSizes;
import dev.berth.route.Seeds;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KvDiskTest {
  private static final int BLOCK = 4;
  private static final KvLayout PLAIN =
      KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));

  @TempDir Path directory;

  private static KvConfig config() {
    return KvConfig.of(TestSizes.leases(4), 16, 64).withMemory(KvConfig.Memory.HOST);
  }

  private KvCache cache(KvConfig config, long device, long host, long disk) {
    var sizes = KvSizes.device(device).with(KvLevel.HOST, host).with(KvLevel.DISK, disk);
    return KvCache.create(PLAIN, config, sizes, new KvDisk(directory, 2, 32));
  }

  private static int[] tokens(int from, int n) {
    return IntStream.range(from, from + n).toArray();
  }

  /** What the page of a block holds: its tokens up to its end, folded. */
  private static long content(int[] tokens, int block) {
    long h = 7;
    for (int i = 0; i < (block + 1) * BLOCK; i++) {
      h = 31 * h + tokens[i] + 1;
    }
    return h;
  }

  private static Done done(KvOutcome outcome) {
    assertThat(outcome).isInstanceOf(Done.class);
    return (Done) outcome;
  }

  private static void compute(KvCache cache, long sequence, int[] tokens) {
    int known = cache.sequence(sequence).committed();
    done(cache.resize(sequence, tokens.length));
    cache.run(1000); // what is launched comes after the stream's steps
    int[] pages = cache.pages(sequence, 0, 0);
    for (int b = known / BLOCK; b < tokens.length / BLOCK; b++) {
      cache.page(KvLevel.DEVICE, 0, pages[b]).set(JAVA_LONG, 0, content(tokens, b));
    }
    cache.commit(sequence, Arrays.copyOfRange(tokens, known, tokens.length));
  }

  private static void verify(KvCache cache, long sequence, int[] tokens) {
    int[] pages = cache.pages(sequence, 0, 0);
    for (int b = 0; b < cache.sequence(sequence).committed() / BLOCK; b++) {
      assertThat(cache.page(KvLevel.DEVICE, 0, pages[b]).get(JAVA_LONG, 0))
          .isEqualTo(content(tokens, b));
    }
  }

  /** Computes a prompt and stores it; cheap blocks are dropped where others move down. */
  private static void store(KvCache cache, int[] tokens, int priority) {
    long s = done(cache.open(KvScope.NONE, tokens)).handle();
    done(cache.resume(s, 0));
    KvOps ops = cache.newOps(1);
    ops.retain(s, 0, -1, priority, -1);
    assertThat(cache.apply(ops)).isEqualTo(KvStatus.OK);
    compute(cache, s, tokens);
    cache.close(s);
  }

  /** Four blocks on the disk, written. */
  private static void sink(KvCache cache) {
    store(cache, tokens(0, 16), 35);
    store(cache, tokens(100, 16), 0);
    drain(cache);
    assertThat(cache.usage().pages(KvLevel.DISK, 0).cached()).isEqualTo(4);
  }

  private static void drain(KvCache cache) {
    while (cache.usage().underWay() != 0) {
      cache.run(1000);
      assertThat(cache.settle(1)).isEqualTo(1);
    }
  }

  private static void conserved(KvCache cache) {
    cache.check();
    for (KvUsage.Pages p : cache.usage().pages()) {
      assertThat(p.free() + p.held() + p.cached() + p.moving()).isEqualTo(p.total());
    }
  }

  private static void code(Code code, org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  // ------------------------------------------------------------------------------ up and down

  @Test
  void whatWentToTheDiskComesBackWithItsBytes() {
    try (var cache = cache(config(), 4, 0, 8)) {
      sink(cache);
      int[] prompt = tokens(0, 17);
      long s = done(cache.open(KvScope.NONE, prompt)).handle();
      assertThat(cache.resume(s, 0)).isEqualTo(new Pending(1));
      assertThat(cache.ticket(1)).isEqualTo(new KvTicket.UnderWay());
      conserved(cache);
      assertThat(cache.await(1)).isEqualTo(new KvTicket.Done(4));
      done(cache.resume(s, 0));
      verify(cache, s, prompt);
      assertThat(cache.usage().written()).isEqualTo(4);
      assertThat(cache.usage().read()).isEqualTo(4);
    }
  }

  @Test
  void nothingArrivesBeforeAPollSaysSo() throws InterruptedException {
    try (var cache = cache(config(), 4, 0, 8)) {
      sink(cache);
      long s = done(cache.open(KvScope.NONE, tokens(0, 17))).handle();
      cache.resume(s, 0);
      while (cache.settleable() < 4) {
        Thread.sleep(1);
      }
      assertThat(cache.resume(s, 0)).isEqualTo(new Pending(1));
      assertThat(cache.poll()).isEqualTo(4);
      assertThat(cache.settleable()).isZero();
      done(cache.resume(s, 0));
    }
  }

  @Test
  void aPrefetchSparesTheResumeItsWait() {
    try (var cache = cache(config(), 4, 0, 8)) {
      sink(cache);
      long s = done(cache.open(KvScope.NONE, tokens(0, 17))).handle();
      var pending = (Pending) cache.prefetch(s, KvLevel.DEVICE);
      assertThat(cache.await(pending.ticket())).isEqualTo(new KvTicket.Done(4));
      done(cache.prefetch(s, KvLevel.DEVICE));
      done(cache.resume(s, 0));
      code(Code.STATE, () -> cache.prefetch(s, KvLevel.DEVICE));
      code(Code.ARGUMENT, () -> cache.prefetch(s, KvLevel.DISK));
    }
  }

  @Test
  void inEmulationTransfersHappenWhereTheStreamRuns() {
    try (var cache = cache(config().withTiming(KvConfig.Timing.EMULATION, 2), 4, 0, 8)) {
      sink(cache);
      long s = done(cache.open(KvScope.NONE, tokens(0, 17))).handle();
      cache.resume(s, 0);
      code(Code.STATE, () -> cache.await(1));
      cache.run(1000);
      assertThat(cache.await(1)).isEqualTo(new KvTicket.Done(4));
    }
  }

  // ------------------------------------------------------------------------------ losses

  /** The cache's file has no name, but a descriptor; cut short it ends before what is read. */
  private static void cutFilesIn(Path directory) {
    try (var descriptors = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
      int cut = 0;
      for (Path descriptor : descriptors) {
        if (Files.isSymbolicLink(descriptor)
            && Files.readSymbolicLink(descriptor).startsWith(directory.toRealPath())) {
          FileChannel.open(descriptor, StandardOpenOption.WRITE).truncate(0).close();
          cut++;
        }
      }
      assertThat(cut).isEqualTo(1);
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  @Test
  void whatCannotBeReadIsMissingAndIsComputedAgain() {
    try (var cache = cache(config(), 8, 0, 8)) {
      int[] prompt = tokens(0, 33);
      store(cache, tokens(0, 32), 35);
      store(cache, tokens(100, 16), 0); // four of its eight blocks go down
      drain(cache);
      cutFilesIn(directory);
      long s = done(cache.open(KvScope.NONE, prompt)).handle();
      var pending = (Pending) cache.resume(s, 0);
      assertThat(cache.await(pending.ticket())).isEqualTo(new KvTicket.Failed(4, 4, 5));
      conserved(cache);
      assertThat(cache.resume(s, 0)).isEqualTo(new Missing(16));
      assertThat(cache.sequence(s).committed()).isEqualTo(16);
      done(cache.resume(s, 0));
      verify(cache, s, prompt);
      compute(cache, s, Arrays.copyOf(prompt, 32));
      verify(cache, s, prompt);
      assertThat(cache.probe(KvScope.NONE, prompt)).containsExactly(32);
      assertThat(cache.usage().failed()).isEqualTo(4);
      assertThat(cache.usage().lost()).isEqualTo(4);
    }
  }

  // ------------------------------------------------------------------------------ tickets

  @Test
  void aNumberThatWasNeverATicketAndOneOfLongAgoAreToldApart() {
    try (var cache = cache(config(), 4, 0, 8)) {
      for (long wrong : new long[] {0, -1, 1, Long.MAX_VALUE, Long.MIN_VALUE}) {
        code(Code.NOT_FOUND, () -> cache.ticket(wrong));
        code(Code.NOT_FOUND, () -> cache.await(wrong));
      }
      sink(cache);
      for (int i = 1; i <= 1100; i++) {
        long s = done(cache.open(KvScope.NONE, tokens(0, 17))).handle();
        assertThat(cache.await(((Pending) cache.resume(s, 0)).ticket()))
            .isEqualTo(new KvTicket.Done(4));
        cache.close(s);
        store(cache, tokens(100, 16), 0); // and down again
      }
      assertThat(cache.ticket(1100)).isEqualTo(new KvTicket.Done(4));
      assertThat(cache.ticket(77)).isEqualTo(new KvTicket.Done(4));
      code(Code.STALE, () -> cache.ticket(76));
      code(Code.STALE, () -> cache.await(1));
      code(Code.NOT_FOUND, () -> cache.ticket(1101));
    }
  }

  // ------------------------------------------------------------------------------ the file

  @Test
  void aDiskLevelThatCannotBeIsRefusedWithTheReason() throws IOException {
    var sizes = KvSizes.device(4).with(KvLevel.DISK, 8);
    Path nowhere = directory.resolve("nowhere");
    assertThatThrownBy(() -> KvCache.create(PLAIN, config(), sizes, KvDisk.in(nowhere)))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
        .hasMessageContaining("no file can be made in " + nowhere)
        .hasMessageContaining("errno 2");
    Path file = Files.createFile(directory.resolve("file"));
    assertThatThrownBy(() -> KvCache.create(PLAIN, config(), sizes, KvDisk.in(file)))
        .hasMessageContaining("errno 20");
    Files.delete(file);
    var large = KvLayout.plan(BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 1L << 40, KvReach.FULL)));
    var many = KvSizes.device(1).with(KvLevel.DISK, 1 << 20);
    assertThatThrownBy(() -> KvCache.create(large, config(), many, KvDisk.in(directory)))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
        .hasMessageContaining("no room in " + directory + " for its 1152921504606846976 bytes");
    code(Code.CONFIGURATION, () -> KvCache.create(PLAIN, config(), sizes));
    for (KvDisk wrong :
        List.of(
            new KvDisk(directory, 0, 32),
            new KvDisk(directory, 65, 32),
            new KvDisk(directory, 1, 1),
            new KvDisk(directory, 1, 65537),
            new KvDisk(Path.of(""), 1, 32))) {
      code(Code.ARGUMENT, () -> KvCache.create(PLAIN, config(), sizes, wrong));
    }
    // Pages that are only counted need no place.
    KvCache.create(PLAIN, config().withMemory(KvConfig.Memory.NONE), sizes).close();
    assertThat(directory).isEmptyDirectory();
  }

  @Test
  void aClosedCacheHasNoTicketsAndNoFile() {
    var cache = cache(config(), 4, 0, 8);
    sink(cache);
    long s = done(cache.open(KvScope.NONE, tokens(0, 17))).handle();
    cache.resume(s, 0);
    assertThat(directory).isEmptyDirectory();
    cache.close();
    code(Code.CLOSED, () -> cache.ticket(1));
    code(Code.CLOSED, () -> cache.await(1));
    code(Code.CLOSED, cache::poll);
    code(Code.CLOSED, cache::settleable);
    code(Code.CLOSED, () -> cache.prefetch(s, KvLevel.HOST));
  }

  @Test
  void aSettleOfLessThanNothingIsRefused() {
    try (var cache = cache(config(), 4, 0, 8)) {
      code(Code.ARGUMENT, () -> cache.settle(-1));
      assertThat(cache.settle(5)).isZero();
    }
  }

  // ------------------------------------------------------------------------------ histories

  private static final class Sequence {
    final int[] tokens;
    final long handle;
    boolean active;

    Sequence(int[] tokens, long handle) {
      this.tokens = tokens;
      this.handle = handle;
    }
  }

  @Test
  void inRandomHistoriesEveryPageHoldsWhatItsTokensSayAndNoneIsLost() {
    long seed = Seeds.seed("KvDiskTest");
    int waits = 0;
    for (int history = 0; history < 30; history++) {
      waits += history(Seeds.generator(seed + history));
    }
    assertThat(waits).isPositive();
  }

  /** How often a sequence had to wait for the disk. */
  private int history(RandomGenerator random) {
    int device = 18 + random.nextInt(8);
    var timing = random.nextBoolean() ? KvConfig.Timing.EMULATION : KvConfig.Timing.SYNCHRONOUS;
    List<int[]> prompts = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      int shared = random.nextInt(3) * BLOCK;
      int[] prompt = tokens(i * 1000, 9 + random.nextInt(40));
      System.arraycopy(tokens(-100, shared), 0, prompt, 0, shared);
      prompts.add(prompt);
    }
    int waits = 0;
    List<Sequence> live = new ArrayList<>();
    try (var cache = cache(config().withTiming(timing, 2), device, random.nextInt(5), 60)) {
      for (int step = 0; step < 400; step++) {
        int what = random.nextInt(12);
        if (live.isEmpty() || what < 3 && live.size() < 4) {
          int[] prompt = prompts.get(random.nextInt(prompts.size()));
          live.add(new Sequence(prompt, done(cache.open(KvScope.NONE, prompt)).handle()));
        } else if (what < 8) {
          Sequence s = live.get(random.nextInt(live.size()));
          waits += advance(cache, random, s, live.indexOf(s)) ? 1 : 0;
        } else if (what < 10) {
          cache.run(random.nextInt(20));
          cache.settle(random.nextInt(4));
        } else {
          cache.close(live.remove(random.nextInt(live.size())).handle);
          live.forEach(s -> suspend(cache, s)); // rows move up in the list
        }
        conserved(cache);
      }
      live.forEach(s -> cache.close(s.handle));
      cache.reset();
      drain(cache);
      conserved(cache);
      for (KvUsage.Pages p : cache.usage().pages()) {
        assertThat(p.free()).isEqualTo(p.total());
      }
    }
    return waits;
  }

  private static void suspend(KvCache cache, Sequence s) {
    cache.suspend(s.handle);
    s.active = false;
  }

  /** Goes on with a sequence; whether it has to wait. */
  private static boolean advance(KvCache cache, RandomGenerator random, Sequence s, int row) {
    if (s.active) {
      cache.run(1000);
      verify(cache, s.handle, s.tokens);
      if (random.nextBoolean()) {
        suspend(cache, s);
      }
      return false;
    }
    KvOutcome outcome =
        random.nextInt(4) == 0
            ? cache.prefetch(s.handle, random.nextBoolean() ? KvLevel.DEVICE : KvLevel.HOST)
            : cache.resume(s.handle, row);
    switch (outcome) {
      case Pending pending -> {
        assertThat(cache.ticket(pending.ticket())).isEqualTo(new KvTicket.UnderWay());
        return true;
      }
      case KvOutcome.PagesShort shortage -> assertThat(shortage.pages()).isPositive();
      case Done ignored when cache.sequence(s.handle).active() -> {
        s.active = true;
        cache.run(1000);
        verify(cache, s.handle, s.tokens);
        int whole = s.tokens.length / BLOCK * BLOCK;
        if (cache.sequence(s.handle).committed() < whole
            && cache.resize(s.handle, whole) instanceof Done) {
          compute(cache, s.handle, Arrays.copyOf(s.tokens, whole));
        }
      }
      case Done ignored -> {}
      default -> throw new AssertionError(outcome);
    }
    return false;
  }
}
